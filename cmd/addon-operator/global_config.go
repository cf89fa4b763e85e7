package main

import "github.com/spf13/cobra"

// newGlobalConfig returns the command "global config".
func newGlobalConfig(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "config", "Show the global section of the ConfigMap")
}
