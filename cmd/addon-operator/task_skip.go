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

// newTaskSkip returns the verb that passes over a task.
func newTaskSkip(from *sourceFlags) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "skip ID --reason TEXT", Short: "End a task as if it had found nothing; of a running operator", Args: args(cobra.ExactArgs(1)),
		Long: "End a task as if it had succeeded and found nothing: what it would have done is not done. " +
			"The reason and your name are kept in history.",
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
