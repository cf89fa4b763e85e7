package main

import "github.com/spf13/cobra"

// newModuleMonitor returns the command "module resource-monitor".
func newModuleMonitor(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "resource-monitor", Short: "Show the objects of each module's release that are restored if they are deleted", Args: args(cobra.NoArgs),
	}
	o.declare(cmd, "yaml", "json", "text")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return show(cmd, from, &o, "/module/resource-monitor", nil)
	}
	return cmd
}
