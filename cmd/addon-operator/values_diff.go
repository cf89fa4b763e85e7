package main

import (
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"addon-operator/workflow/inspect"
)

// newValuesDiff returns the command "values diff".
func newValuesDiff(from *sourceFlags) *cobra.Command {
	t := table[inspect.ValueDiff]{from: from, text: inspect.ValueDiffText}
	cmd := &cobra.Command{
		Use: "diff MODULE [RUN [RUN]]", Short: "Show how the values of a module differ between two runs, and what changed them",
		Long: "Show how the values of a module differ between the ends of two runs, and which hook or ConfigMap changed each of them last.\n" +
			"MODULE is the name of a module, or global. If the second run is omitted, the values are compared with the present ones. Without\n" +
			"runs, the command shows the changes of the newest run that changed values. Secrets are shown as hashes. Changes of files in the\n" +
			"image are not shown.",
		Args: args(cobra.RangeArgs(1, 3)), ValidArgsFunction: from.complete(listModules),
	}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		query := url.Values{}
		for i, name := range []string{"from", "to"} {
			if len(argv) <= i+1 {
				break
			}
			if n, err := strconv.ParseUint(argv[i+1], 10, 64); err != nil || n == 0 {
				return &codedError{exitUsage, fmt.Errorf("%q is not the number of a run; addon-operator workflow list shows the numbers", argv[i+1])}
			}
			query.Set(name, argv[i+1])
		}
		return t.show(cmd, sectionRoute(argv[0], "changes"), query)
	}
	return cmd
}
