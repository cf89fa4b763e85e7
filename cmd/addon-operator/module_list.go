package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newModuleList returns the command "module list".
func newModuleList(from *sourceFlags) *cobra.Command {
	t := table[debugapi.ModuleList]{from: from, text: func(list *debugapi.ModuleList, layout inspect.Layout) string { return list.Text(layout) }}
	cmd := &cobra.Command{Use: "list", Short: "Show the modules, their states, and what enables or disables them", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.show(cmd, "/module/list", nil) }
	return cmd
}
