package main

import "github.com/spf13/cobra"

// newModulePatches returns the command "module patches".
func newModulePatches(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "patches", "Show the values patches of hooks for a module", false)
}
