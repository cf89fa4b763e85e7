package main

import "github.com/spf13/cobra"

// newModuleSnapshots returns the verb that shows a module's snapshots.
func newModuleSnapshots(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "snapshots", "Show the snapshots of the hooks of a module", false)
}
