package main

import "github.com/spf13/cobra"

// newModuleList returns the verb that shows all modules.
func newModuleList(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: "list", Short: "Show the modules, whether they are enabled, and who says so", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "yaml", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return show(cmd, from, &o, "/module/list", nil) }
	return cmd
}
