package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// newAddonsGet returns the command "addons get".
func newAddonsGet(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show a registered addon with its plans",
		Long: "Show a registered addon with its plans. For an addon of a namespace, write NAMESPACE/ID.",
		Args: args(cobra.ExactArgs(1)),
	}
	o.declare(cmd, "yaml", "json")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return show(cmd, from, &o, "/addons/get", url.Values{"name": {argv[0]}})
	}
	return cmd
}
