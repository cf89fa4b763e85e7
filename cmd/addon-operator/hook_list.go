package main

import "github.com/spf13/cobra"

// newHookList returns the verb that shows all hooks.
func newHookList(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{Use: "list", Short: "Show the hooks of all modules and the global ones, with their bindings", Args: args(cobra.NoArgs)}
	o.declare(cmd, "text", "yaml", "json")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return show(cmd, from, &o, "/hook/list", nil) }
	return cmd
}
