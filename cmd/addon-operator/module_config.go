package main

import "github.com/spf13/cobra"

// newModuleConfig returns the command "module config".
func newModuleConfig(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "config", "Show the section of a module in the ConfigMap", true)
}
