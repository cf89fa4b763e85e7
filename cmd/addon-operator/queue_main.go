package main

import "github.com/spf13/cobra"

// newQueueMain returns the verb that shows the main queue.
func newQueueMain(from *sourceFlags) *cobra.Command {
	var o output
	var again repeat
	cmd := &cobra.Command{Use: "main", Short: "Show what waits and runs in the main queue", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "yaml", "json")
	again.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return again.do(cmd, func() error { return show(cmd, from, &o, "/queue/main", nil) })
	}
	return cmd
}
