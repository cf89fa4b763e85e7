package main

import "github.com/spf13/cobra"

// newGlobalConfig returns the verb that shows the global config.
func newGlobalConfig(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "config", "Show what the ConfigMap says, in the global section")
}
