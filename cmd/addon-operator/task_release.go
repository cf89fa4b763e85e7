package main

import (
	"net/url"

	"github.com/spf13/cobra"
)

// newTaskRelease returns the command "task release".
func newTaskRelease(from *sourceFlags) *cobra.Command {
	cmd := &cobra.Command{
		Use: "release TASK", Short: "Release a task from quarantine and run it again; needs a running operator", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: from.complete(listQuarantined),
		Long: "Release a task from quarantine. A task is in quarantine if the operator crashed several times while the task ran. " +
			"The run of the task starts again at the tail of its queue. To end the task instead, use task skip. " + namingTasks,
	}
	reason := reasonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		return request(cmd, from, "/task/"+url.PathEscape(argv[0])+"/release", url.Values{"reason": {*reason}})
	}
	return cmd
}
