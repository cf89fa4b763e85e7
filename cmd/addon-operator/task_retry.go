package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// newTaskRetry returns the command "task retry".
func newTaskRetry(from *sourceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "retry TASK", Short: "Retry a failed task at once; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listTasks(hasFailed)),
		Long:              "Retry a failed task at once. A deferred task also runs at once, regardless of its rate limit. " + namingTasks,
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return request(cmd, from, "/task/"+url.PathEscape(argv[0])+"/retry", url.Values{"reason": {*reason}})
	}
	return cmd
}
