package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// newConfigSet returns the command "config set".
func newConfigSet(from *sourceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME VALUE [DURATION]", Short: "Change a setting shown by config list, for a duration or until the operator stops",
		Long: "Change a setting shown by config list, for a duration or until the operator stops. Without DURATION, the log level debug " +
			"lasts 30m, unless it is the level at the start.",
		Args:              args(cobra.RangeArgs(2, 3)),
		ValidArgsFunction: from.complete(listParams),
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		form := url.Values{"name": {argv[0]}, "value": {argv[1]}, "reason": {*reason}}
		if len(argv) > 2 {
			form.Set("duration", argv[2])
		}
		return request(cmd, from, "/config/set", form)
	}
	return cmd
}
