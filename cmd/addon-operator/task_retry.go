package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// newTaskRetry returns the verb that has a task tried again at once.
func newTaskRetry(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "retry TASK", Short: "Retry a failed task at once; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listTasks(hasFailed)),
		Long:              "Retry a failed task at once. " + namingTasks,
		RunE: func(cmd *cobra.Command, given []string) error {
			return from.with(cmd, func(ctx context.Context, s *source) error {
				return s.post(ctx, "/task/"+url.PathEscape(given[0])+"/retry", nil, cmd.OutOrStdout())
			})
		},
	}
}
