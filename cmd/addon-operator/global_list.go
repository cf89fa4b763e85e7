package main

import "github.com/spf13/cobra"

// newGlobalList returns the command "global list".
func newGlobalList(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: "list", Short: "Show the global hooks", Args: args(cobra.NoArgs)}
	o.declare(cmd, "yaml", "json", "text")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return show(cmd, from, &o, "/global/list", nil) }
	return cmd
}
