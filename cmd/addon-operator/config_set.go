package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// newConfigSet returns the command config set.
func newConfigSet(from *sourceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "set NAME VALUE [DURATION]", Short: "Change a setting shown by config list, for a duration or until the operator stops",
		Args:              args(cobra.RangeArgs(2, 3)),
		ValidArgsFunction: from.complete(listParams),
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		form := url.Values{"name": {given[0]}, "value": {given[1]}, "reason": {*reason}}
		if len(given) > 2 {
			form.Set("duration", given[2])
		}
		return request(cmd, from, "/config/set", form)
	}
	return cmd
}
