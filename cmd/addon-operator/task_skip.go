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

// namingTasks explains the argument TASK of the task verbs.
const namingTasks = "TASK is an id as inspect and queue list show it, MODULE, MODULE/HOOK or the name of a global hook. " +
	"Of several tasks of a module or hook, the failing one is meant, then the running, the quarantined and the waiting one."

// newTaskSkip returns the verb that passes over a task.
func newTaskSkip(from *sourceFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "skip TASK --reason TEXT", Short: "End a task as if it had found nothing; of a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listAll(listTasks(nil), listQuarantined)),
		Long: "End a task as if it had succeeded and found nothing: what it would have done is not done. " +
			"The reason and your name are kept in history. " + namingTasks,
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why; it is kept in history")
	cmd.RunE = func(cmd *cobra.Command, given []string) error {
		if strings.TrimSpace(reason) == "" {
			return &codedError{exitUsage, errors.New("a skip needs a reason, which is kept in history: add --reason TEXT")}
		}
		form := url.Values{"reason": {reason}, "by": {me()}}
		return from.with(cmd, func(ctx context.Context, s *source) error {
			return s.post(ctx, "/task/"+url.PathEscape(given[0])+"/skip", form, cmd.OutOrStdout())
		})
	}
	return cmd
}

// me returns the name of the user.
func me() string {
	if name := os.Getenv("USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return ""
}
