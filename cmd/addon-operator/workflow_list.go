package main

import (
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// newWorkflowList returns the command "workflow list".
func newWorkflowList(from *sourceFlags) *cobra.Command {
	runs := table[[]inspect.Summary]{from: from, text: runListText}
	var limit uint
	var all bool
	cmd := &cobra.Command{
		Use: "list", Short: "Show the newest runs",
		Long: "Show the newest runs. More than three runs of one binding are combined into one line if all runs between them are runs of\n" +
			"bindings. The line shows the number of runs, the times of the first and the last run, the number of failed attempts, and\n" +
			"the ID of the newest run. Runs that need attention have lines of their own. --all, -o json and -o yaml show each run.",
		Args: args(cobra.NoArgs),
	}
	runs.declare(cmd)
	cmd.Flags().UintVarP(&limit, "limit", "n", debugapi.ShownRuns, "maximum number of lines to show, or of runs with --all, -o json or -o yaml")
	cmd.Flags().BoolVarP(&all, "all", "a", false, "show each run of a binding on a separate line")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		query := url.Values{"limit": {strconv.FormatUint(uint64(limit), 10)}}
		if all || !runs.output.isText() {
			return runs.show(cmd, "/workflow/list", query)
		}
		query.Set("grouped", "true")
		groups := table[[]inspect.RunGroup]{from: from, output: runs.output, paint: runs.paint, text: runGroupsText}
		return groups.show(cmd, "/workflow/list", query)
	}
	return cmd
}

func runListText(runs *[]inspect.Summary, layout inspect.Layout) string {
	return inspect.ListText(*runs, layout)
}

func runGroupsText(groups *[]inspect.RunGroup, layout inspect.Layout) string {
	return inspect.GroupsText(*groups, layout)
}
