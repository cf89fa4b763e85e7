package main

import (
	"net/url"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi/addons"
)

// newAddonsWhy returns the command "addons why".
func newAddonsWhy(from *sourceFlags) *cobra.Command {
	t := table[addons.Why]{from: from, text: addons.WhyText}
	cmd := &cobra.Command{
		Use: "why CONFIGURATION", Short: "Explain why an addons configuration is not ready, and what to do",
		Long: "Explain why an addons configuration is not ready, and what to do. For an AddonsConfiguration, write NAMESPACE/NAME.",
		Args: args(cobra.ExactArgs(1)),
	}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return t.show(cmd, "/addons/why", url.Values{"name": {argv[0]}})
	}
	return cmd
}
