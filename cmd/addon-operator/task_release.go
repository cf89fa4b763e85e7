package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// newTaskRelease returns the verb that releases a task from quarantine.
func newTaskRelease(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "release TASK", Short: "Release a task from quarantine and run it again; of a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listQuarantined),
		Long: "Release a task from quarantine, where it is because the operator died each time the task ran. " +
			"Its run starts over at the tail of its queue; task skip ends it instead. " + namingTasks,
		RunE: func(cmd *cobra.Command, given []string) error {
			return from.with(cmd, func(ctx context.Context, s *source) error {
				return s.post(ctx, "/task/"+url.PathEscape(given[0])+"/release", nil, cmd.OutOrStdout())
			})
		},
	}
}
