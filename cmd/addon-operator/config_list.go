package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newConfigList returns the command "config list".
func newConfigList(from *sourceFlags) *cobra.Command {
	t := table[[]debugapi.ParamLine]{from: from, text: func(lines *[]debugapi.ParamLine, layout inspect.Layout) string {
		return debugapi.ParamsText(*lines, layout)
	}}
	cmd := &cobra.Command{Use: "list", Short: "Show the settings that can be changed while the operator runs", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.show(cmd, "/config/list", nil) }
	return cmd
}
