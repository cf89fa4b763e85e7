package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
)

// newQueueShow returns the command "queue show".
func newQueueShow(from *sourceFlags) *cobra.Command {
	t, each := newQueueTable((*debugapi.QueueDump).Text, from)
	var again repeat
	cmd := &cobra.Command{
		Use: "show QUEUE", Short: "Show the tasks of one queue", Args: args(cobra.ExactArgs(1)), ValidArgsFunction: from.complete(listQueues),
	}
	t.declare(cmd)
	each.declare(cmd)
	again.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		query := url.Values{"queue": argv}
		return again.show(cmd, from, &t.output, func() ([]byte, error) { return t.fetch(cmd, "/queue/show", query) })
	}
	return cmd
}
