package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// newHookSnapshot returns the verb that shows what a hook's bindings see.
func newHookSnapshot(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "snapshot HOOK", Aliases: []string{"snapshots"},
		Short: "Show what the kubernetes bindings of a hook see, such as hooks/x.sh; of a running operator", Args: args(cobra.ExactArgs(1)),
	}
	o.declare(cmd, "yaml", "json", "text")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		return show(cmd, from, &o, "/hook/"+strings.Trim(given[0], "/")+"/snapshots", nil)
	}
	return cmd
}
