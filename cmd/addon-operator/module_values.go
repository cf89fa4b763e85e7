package main

import "github.com/spf13/cobra"

// newModuleValues returns the command "module values".
func newModuleValues(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "values", "Show the merged values of a module, as hooks and charts get them", true)
}
