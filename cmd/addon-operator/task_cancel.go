package main

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
)

// newTaskCancel returns the command "task cancel".
func newTaskCancel(from *sourceFlags) *cobra.Command {
	var reason string
	var skip bool
	cmd := &cobra.Command{
		Use: "cancel TASK [--skip] [--reason TEXT]", Short: "Cancel a running task; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listTasks(isRunning)),
		Long: "Cancel a running task: the process group of its hook gets SIGTERM, and SIGKILL 5 s later. " +
			"The attempt has failed and is retried. With --skip, the step ends as if it had succeeded without any result, " +
			"and the run of the task continues. If the step runs several hooks, only the current hook ends. " +
			"The reason and your name are stored in the history. " + namingTasks,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored in the history")
	cmd.Flags().BoolVar(&skip, "skip", false, "do not retry the step; needs --reason")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if skip && strings.TrimSpace(reason) == "" {
			return &codedError{exitUsage, errors.New("a skip needs a reason, which is stored in the history: add --reason TEXT")}
		}
		form := url.Values{"reason": {reason}, "by": {me()}, "skip": {strconv.FormatBool(skip)}}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			return s.post(ctx, "/task/"+url.PathEscape(argv[0])+"/cancel", form, cmd.OutOrStdout())
		})
	}
	return cmd
}
