package main

import "github.com/spf13/cobra"

// newGlobalSnapshots returns the command "global snapshots".
func newGlobalSnapshots(from *sourceFlags) *cobra.Command {
	return newGlobalShow(from, "snapshots", "Show the snapshots of the global hooks")
}
