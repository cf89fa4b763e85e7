package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// newModuleRun returns the command "module run".
func newModuleRun(from *sourceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run MODULE", Short: "Run an enabled module now, before all waiting tasks; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listModules),
		Long: "Run an enabled module now: its beforeHelm hooks, its release, its afterHelm hooks. If the module has not started yet, " +
			"its onStartup hooks and Synchronization run first. The run goes to the front of queue main, even before a failing task. The " +
			"request is stored, so a restart of the operator does not lose it.",
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return request(cmd, from, "/module/"+url.PathEscape(argv[0])+"/run", url.Values{"reason": {*reason}})
	}
	return cmd
}
