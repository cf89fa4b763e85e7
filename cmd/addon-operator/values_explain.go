package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"addon-operator/internal/values"
	"addon-operator/workflow/inspect"
)

// newValuesExplain returns the command "values explain".
func newValuesExplain(from *sourceFlags) *cobra.Command {
	var key, path string
	t := table[[]values.LayerValue]{from: from, text: func(printed *[]values.LayerValue, layout inspect.Layout) string {
		if path != "" {
			*printed = values.Below(*printed, key, path)
		}
		return explained(*printed, layout, path != "")
	}}
	cmd := &cobra.Command{
		Use: "explain MODULE [PATH]", Short: "Show which file, default, ConfigMap or hook each value of a module comes from",
		Long: "Show which file, default, ConfigMap or hook each value of a module comes from. MODULE is the name of a module, or global.\n\n" +
			"With PATH, which is a JSON pointer such as /web/image/tag or names such as image.tag, show only values at and below it, and also\n" +
			"what they override. -o wide shows what is overridden for all values.",
		Args: args(cobra.RangeArgs(1, 2)), ValidArgsFunction: from.complete(listModules),
	}
	t.declare(cmd)
	cmd.RunE = func(cmd *cobra.Command, argv []string) error {
		key = values.Camel(argv[0])
		if len(argv) > 1 {
			path = argv[1]
		}
		return t.show(cmd, sectionRoute(argv[0], "origins"), nil)
	}
	return cmd
}

// explained returns a table of effective values with their origins. If the argument all is true or
// the layout is wide, the table also has the values that the effective values override.
func explained(printed []values.LayerValue, layout inspect.Layout, all bool) string {
	rows := [][]string{{"PATH", "VALUE", "SINCE", "FROM"}}
	for i := range printed {
		s := &printed[i]
		path := s.Path
		switch {
		case !s.Overridden:
		case all || layout.Wide:
			path = "  overrides"
		default:
			continue
		}
		since, source := "-", s.Source()
		if !s.At.IsZero() {
			since = layout.Clock(s.At)
		}
		if s.Outdated {
			source += " (its earlier code)"
		}
		rows = append(rows, []string{path, excerpt(s.Text(), layout), since, source})
	}
	if len(rows) == 1 {
		return "no values\n"
	}
	return layout.Table(rows)
}

// excerpt returns the start of a long value, or the whole value if layout forbids truncation.
func excerpt(text string, layout inspect.Layout) string {
	const most = 32
	if runes := []rune(text); len(runes) > most && !layout.Wide && !layout.Whole {
		return fmt.Sprintf("%s… (%d more)", strings.TrimSpace(string(runes[:most])), len(runes)-most)
	}
	return text
}
