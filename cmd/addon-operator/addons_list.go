package main

import (
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi/addons"
)

// newAddonsList returns the command "addons list".
func newAddonsList(from *sourceFlags) *cobra.Command {
	t := table[addons.List]{from: from, text: addons.ListText}
	cmd := &cobra.Command{Use: "list", Short: "Show the addons configurations and the registered addons", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return t.show(cmd, "/addons/list", nil) }
	return cmd
}
