package main

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// newTaskCancel returns the verb that ends a running task.
func newTaskCancel(from *sourceFlags) *cobra.Command {
	var reason string
	var skip bool
	cmd := &cobra.Command{
		Use: "cancel TASK [--skip] [--reason TEXT]", Short: "End a task that is running; of a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listTasks(isRunning)),
		Long: "End a task that is running: the process group of its hook gets SIGTERM, and SIGKILL 5 s later. " +
			"The attempt counts as a failure and is retried; with --skip the task ends as if it had succeeded and found nothing. " +
			"The reason and your name are kept in history. " + namingTasks,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is kept in history")
	cmd.Flags().BoolVar(&skip, "skip", false, "do not retry the task; needs --reason")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if skip && strings.TrimSpace(reason) == "" {
			return &codedError{exitUsage, errors.New("a skip needs a reason, which is kept in history: add --reason TEXT")}
		}
		form := url.Values{"reason": {reason}, "by": {me()}, "skip": {strconv.FormatBool(skip)}}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			return s.post(ctx, "/task/"+url.PathEscape(given[0])+"/cancel", form, cmd.OutOrStdout())
		})
	}
	return cmd
}
