package main

import "github.com/spf13/cobra"

// newModuleValues returns the verb that shows a module's values.
func newModuleValues(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "values", "Show the values hooks and Helm are given, for one module", true)
}
