package main

import "github.com/spf13/cobra"

// newModuleSnapshots returns the verb that shows a module's snapshots.
func newModuleSnapshots(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "snapshots", "Show the objects hooks are shown, for one module", false)
}
