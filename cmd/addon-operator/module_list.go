package main

import (
	"github.com/spf13/cobra"

	"addon-operator/workflow/inspect"
)

// newModuleList returns the verb that shows all modules.
func newModuleList(from *sourceFlags) *cobra.Command {
	t := table[moduleList]{from: from, text: func(list *moduleList, look inspect.Look) string { return list.text(look) }}
	cmd := &cobra.Command{Use: "list", Short: "Show the modules, whether they are enabled, and who says so", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.show(cmd, "/module/list", nil) }
	return cmd
}
