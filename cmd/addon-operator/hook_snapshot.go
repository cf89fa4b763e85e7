package main

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// newHookSnapshot returns the command "hook snapshot".
func newHookSnapshot(from *sourceFlags) *cobra.Command {
	var o output
	cmd := &cobra.Command{
		Use: "snapshot HOOK [BINDING]", Aliases: []string{"snapshots"},
		Short: "Show the snapshots of a hook's kubernetes bindings, or of one of them; needs a running operator",
		Long: "Show the snapshots of a hook's kubernetes bindings, or of one of them. HOOK is MODULE/HOOK as inspect shows it, the name of a " +
			"global hook, or a name such as hooks/x.sh, which can select hooks of several modules.",
		Args: args(cobra.RangeArgs(1, 2)), ValidArgsFunction: from.complete(listHooks),
	}
	o.declare(cmd, "yaml", "json", "text")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		query := url.Values{}
		if len(argv) > 1 {
			query.Set("binding", argv[1])
		}
		return show(cmd, from, &o, "/hook/"+strings.Trim(argv[0], "/")+"/snapshots", query)
	}
	return cmd
}
