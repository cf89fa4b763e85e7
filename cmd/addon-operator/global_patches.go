package main

import "github.com/spf13/cobra"

// newGlobalPatches returns the command "global patches".
func newGlobalPatches(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "patches", "Show the values patches of hooks for the global section")
}
