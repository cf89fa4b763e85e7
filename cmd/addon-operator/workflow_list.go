package main

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newWorkflowList returns the command workflow list.
func newWorkflowList(from *sourceFlags) *cobra.Command {
	t := table[[]inspect.Summary]{from: from, text: runListText}
	var limit uint
	cmd := &cobra.Command{Use: "list", Short: "Show the newest runs", Args: args(cobra.NoArgs)}
	t.declare(cmd)
	cmd.Flags().UintVarP(&limit, "limit", "n", debugapi.ShownRuns, "maximum number of runs to show")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return t.show(cmd, "/workflow/list", url.Values{"limit": {strconv.FormatUint(uint64(limit), 10)}})
	}
	return cmd
}

func runListText(runs *[]inspect.Summary, look inspect.Look) string {
	return inspect.ListText(*runs, look)
}
