package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"
)

// newTaskRelease returns the verb that lets go what was set aside.
func newTaskRelease(from *sourceFlags) *cobra.Command {
	return &cobra.Command{
		Use: "release TASK", Short: "Run again what was set aside because it killed the operator; of a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listQuarantined),
		Long: "Run again what was set aside because the operator died whenever it ran. " +
			"The run it was part of begins anew at the tail of its queue; task skip forgets it instead. " + namingTasks,
		RunE: func(cmd *cobra.Command, given []string) error {
			return from.with(cmd, func(ctx context.Context, s *source) error {
				return s.post(ctx, "/task/"+url.PathEscape(given[0])+"/release", nil, cmd.OutOrStdout())
			})
		},
	}
}
