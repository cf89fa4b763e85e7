package main

import "github.com/spf13/cobra"

// newConfigList returns the verb that shows what can be set while the operator
// runs.
func newConfigList(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: "list", Short: "Show what can be set while the operator runs", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "yaml", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return show(cmd, from, &o, "/config/list", nil) }
	return cmd
}
