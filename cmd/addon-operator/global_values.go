package main

import "github.com/spf13/cobra"

// newGlobalValues returns the command "global values".
func newGlobalValues(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "values", "Show the merged global values, as hooks and charts get them")
}
