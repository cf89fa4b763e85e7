package main

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// newHookRun returns the command "hook run".
func newHookRun(from *sourceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "run HOOK [BINDING]", Short: "Run a hook now, as at a tick of its schedule; needs a running operator",
		Args: args(cobra.RangeArgs(1, 2)), ValidArgsFunction: from.complete(listScheduledHooks),
		Long: "Run a hook now, as at a tick of its schedule, for example to make up for a missed tick. HOOK is MODULE/HOOK, or the name of " +
			"a global hook. BINDING is the name of the schedule binding; it is needed if the hook has several. The tick is put at the end of " +
			"the queue of the binding, unless a tick of the same binding waits there. The request is stored, so a restart of the operator " +
			"does not lose it. The schedule itself does not change.",
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		form := url.Values{"hook": {strings.Trim(argv[0], "/")}, "reason": {*reason}}
		if len(argv) > 1 {
			form.Set("binding", argv[1])
		}
		return request(cmd, from, "/hook/run", form)
	}
	return cmd
}
