package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newQueueMain returns the verb that shows the main queue.
func newQueueMain(from *sourceFlags) *cobra.Command {
	t := table[debugapi.QueueDump]{from: from, text: func(queue *debugapi.QueueDump, look inspect.Look) string { return queue.Text(look) }}
	var again repeat
	cmd := &cobra.Command{Use: "main", Short: "Show the tasks of the main queue", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	again.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return again.show(cmd, from, &t.output, func() ([]byte, error) { return t.fetch(cmd, "/queue/main", nil) })
	}
	return cmd
}
