package main

import "github.com/spf13/cobra"

// newModuleSnapshots returns the command "module snapshots".
func newModuleSnapshots(from *sourceFlags) *cobra.Command {
	return newModuleShow(from, "snapshots", "Show the snapshots of the hooks of a module", false)
}
