package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
)

// newQueueMain returns the command "queue main".
func newQueueMain(from *sourceFlags) *cobra.Command {
	t, each := newQueueTable((*debugapi.QueueDump).Text, from)
	var again repeat
	cmd := &cobra.Command{Use: "main", Short: "Show the tasks of the main queue", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	each.declare(cmd)
	again.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return again.show(cmd, from, &t.output, func() ([]byte, error) { return t.fetch(cmd, "/queue/main", nil) })
	}
	return cmd
}
