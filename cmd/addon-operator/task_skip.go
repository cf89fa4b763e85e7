package main

import (
	"context"
	"errors"
	"net/url"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"
)

// namingTasks documents the argument TASK of the task commands.
const namingTasks = "TASK is an id as inspect and queue list show it, MODULE, MODULE/HOOK, or the name of a global hook or " +
	"of an addons configuration. If several tasks match a name, the failing one is selected, or else the running, the interrupted, the " +
	"quarantined or the waiting one. If several tasks in this state match, the command changes nothing and lists them."

// newTaskSkip returns the command "task skip".
func newTaskSkip(from *sourceFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "skip TASK --reason TEXT", Short: "Skip the failed or current step of a task, and continue its run; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listAll(listTasks(nil), listQuarantined)),
		Long: "Skip the failed step of a task, or its current step if none has failed. " +
			"The step ends as if it had succeeded without any result, and its work is not done. " +
			"If the step runs several hooks, only the failed or the current hook is skipped. " +
			"The run of the task continues with its other steps. A held or deferred task that has not failed ends instead. " +
			"The reason and your name are stored in the history. " + namingTasks,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored in the history")
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		if strings.TrimSpace(reason) == "" {
			return &codedError{exitUsage, errors.New("a skip needs a reason, which is stored in the history: add --reason TEXT")}
		}
		form := url.Values{"reason": {reason}, "by": {me()}}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			return s.post(ctx, "/task/"+url.PathEscape(argv[0])+"/skip", form, cmd.OutOrStdout())
		})
	}
	return cmd
}

// me returns the name of the user who runs the command.
func me() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
