package main

import (
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newLogs returns the command "logs".
func newLogs() *cobra.Command {
	var from sourceFlags
	t := table[inspect.Timeline]{from: &from, text: inspect.LogsText}
	var scope timelineFlags
	var follow follow
	var attempt uint
	cmd := &cobra.Command{
		Use: "logs [SUBJECT]", Short: "Show what hooks printed in their attempts, also of a stopped operator",
		Long: "Show stdout and stderr of hooks and enabled scripts for each ended attempt. Of long output, the first and the last lines are\n" +
			"shown. The newest attempt is last. Texts that look like secrets are masked, unless --show-secrets is given.\n\n" + subjectsOfHistory,
		Args: args(cobra.MaximumNArgs(1)), ValidArgsFunction: from.complete(listModules),
	}
	t.declare(cmd)
	from.declare(cmd)
	scope.declare(cmd, debugapi.ShownLogs, "maximum number of attempts to show")
	follow.declare(cmd, "continue to print attempts as they end, until Ctrl-C")
	cmd.Flags().UintVar(&attempt, "attempt", 0, "show only this attempt of each step, counted from 1")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		query, err := scope.query(argv)
		if err != nil {
			return err
		}
		if attempt > 0 {
			query.Set("attempt", strconv.FormatUint(uint64(attempt), 10))
		}
		if follow.on {
			return follow.show(cmd, &t, "/workflow/logs/follow", query, inspect.FollowedLog)
		}
		return t.show(cmd, "/workflow/logs", query)
	}
	return cmd
}

// timelineFlags are the flags that select a part of the timeline.
type timelineFlags struct {
	limit uint
	since string
}

func (f *timelineFlags) declare(cmd *cobra.Command, limit uint, about string) {
	cmd.Flags().UintVarP(&f.limit, "limit", "n", limit, about)
	cmd.Flags().StringVar(&f.since, "since", "", "show only what happened since this time, such as 2006-01-02T15:04:05Z, or within this duration before now, such as 2h")
}

// query returns the query parameters of the request for the timeline. argv has the subject, or is
// empty.
func (f *timelineFlags) query(argv []string) (url.Values, error) {
	query := url.Values{"limit": {strconv.FormatUint(uint64(f.limit), 10)}}
	if len(argv) > 0 {
		query.Set("subject", argv[0])
	}
	if f.since == "" {
		return query, nil
	}
	at, err := sinceTime(f.since, time.Now())
	if err != nil {
		return nil, &codedError{exitUsage, err}
	}
	query.Set("since", at.Format(time.RFC3339))
	return query, nil
}

// subjectsOfHistory documents the argument SUBJECT of timeline and logs.
const subjectsOfHistory = "SUBJECT is the name of a module, a hook as MODULE/HOOK, the name of a global hook, of a queue or of an addons configuration,\n" +
	"the ID of a task, or the number of a run."
