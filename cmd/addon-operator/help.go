package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/workflow/inspect"
)

// defaultHelpWidth is the width of help in columns if the width of the terminal is unknown.
const defaultHelpWidth = 80

// showHelp prints the help of cmd. showHelp wraps the description between words, except indented
// lines.
func showHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	layout := new(paint).layout(w, nil)
	if layout.Width <= 0 || layout.Width == inspect.Unlimited {
		layout.Width = defaultHelpWidth
	}
	layout.Whole = true
	for line := range strings.Lines(strings.TrimSpace(cmp.Or(cmd.Long, cmd.Short)) + "\n") {
		if line = strings.TrimSuffix(line, "\n"); line == "" || strings.HasPrefix(line, " ") {
			_, _ = fmt.Fprintln(w, line)
			continue
		}
		_, _ = fmt.Fprint(w, layout.Item("", line, ""))
	}
	_, _ = fmt.Fprint(w, "\n"+cmd.UsageString())
}
