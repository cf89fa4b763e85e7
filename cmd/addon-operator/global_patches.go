package main

import "github.com/spf13/cobra"

// newGlobalPatches returns the verb that shows the global patches.
func newGlobalPatches(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "patches", "Show what hooks patched in values, in the global section")
}
