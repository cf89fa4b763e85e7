package main

import "github.com/spf13/cobra"

// newGlobalValues returns the verb that shows the global values.
func newGlobalValues(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "values", "Show the values hooks and Helm are given, in the global section")
}
