package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newTimeline returns the command "timeline".
func newTimeline() *cobra.Command {
	var from sourceFlags
	t := table[inspect.Timeline]{from: &from, text: inspect.TimelineText}
	var scope timelineFlags
	var follow follow
	cmd := &cobra.Command{
		Use: "timeline [SUBJECT]", Short: "Show what happened, in order: runs, attempts, and commands of people",
		Long: "Show what happened, in order, over all runs: the beginnings and ends of runs with their causes, attempts with their errors\n" +
			"and results, commands of people with their reasons, starts and stops of the operator. The newest entry is last.\n\n" +
			subjectsOfHistory,
		Args: args(cobra.MaximumNArgs(1)), ValidArgsFunction: from.complete(listModules),
	}
	t.declare(cmd)
	from.declare(cmd)
	scope.declare(cmd, debugapi.ShownEntries, "maximum number of entries to show")
	follow.declare(cmd, "continue to print new entries until Ctrl-C")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		query, err := scope.query(argv)
		if err != nil {
			return err
		}
		if follow.on {
			return follow.show(cmd, &t, "/workflow/timeline/follow", query, inspect.FollowedRow)
		}
		return t.show(cmd, "/workflow/timeline", query)
	}
	return cmd
}

// sinceTime parses text as a time, or as a duration before now.
func sinceTime(text string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(text); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, fmt.Errorf("--since is %q: it must be a duration such as 2h or a time such as %s", text, now.UTC().Format(time.RFC3339))
	}
	return at, nil
}
