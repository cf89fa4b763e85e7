package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newHookList returns the command "hook list".
func newHookList(from *sourceFlags) *cobra.Command {
	t := table[[]debugapi.HookLine]{from: from, text: func(hooks *[]debugapi.HookLine, layout inspect.Layout) string {
		return debugapi.HooksText(*hooks, layout)
	}}
	cmd := &cobra.Command{Use: "list", Short: "Show the hooks of all modules and the global ones, with their bindings and next ticks", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.show(cmd, "/hook/list", nil) }
	return cmd
}
