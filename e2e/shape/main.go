// Command shape measures how easy the source is to understand. It prints one row for each measure, with the value, the
// goal, and the part of the source with the worst value or the numbers from which the value is computed.
//
//	go run ./e2e/shape [--json] [--details] [DIR]
//
// It reads the packages of the Go module in DIR. The default is the working directory. It does not analyze test files,
// but counts their lines. The terms are:
//
//   - An arrow leads from a file to another file of the same package, if the first
//     one uses a function, method, type, variable or constant of the second one.
//   - The files of a package should have an order in which each file uses only files below it. An arrow runs backwards
//     if it leads to a file above. shape searches for the order with the fewest backward arrows, and counts these
//     arrows. The number is zero exactly if the arrows have no cycle.
//   - The path from one function to another is the set of all functions that the first one reaches, and that reach the
//     other one, in the call graph of the program. The call graph is computed from the source, so it also has calls
//     that never happen when the program runs. A function that is used as a value is treated as called at the place
//     where it is written.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
)

// A row is one measure with its value.
type row struct {
	Name  string  `json:"name"`
	Unit  string  `json:"unit,omitempty"`
	Value float64 `json:"value"`
	// AtMost and AtLeast are the goal. If both are zero, the row has no goal.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Where is the place in the source with the worst value, or the numbers from which the value is computed.
	Where string `json:"where,omitempty"`
	// Details are the places in the source to improve first. Counts are sorted, greatest first.
	Details []string `json:"details,omitempty"`
}

// goal returns the goal as text, such as "≤ 25", or "" if the row has no goal.
func (r row) goal() string {
	switch {
	case r.AtMost > 0:
		return "≤ " + number(r.AtMost) + r.Unit
	case r.AtLeast > 0:
		return "≥ " + number(r.AtLeast) + r.Unit
	default:
		return ""
	}
}

// reached returns "yes" or "no", or "" if the row has no goal.
func (r row) reached() string {
	switch {
	case r.goal() == "":
		return ""
	case r.AtMost > 0 && r.Value > r.AtMost, r.AtLeast > 0 && r.Value < r.AtLeast:
		return "no"
	default:
		return "yes"
	}
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// clusterEvent and helmUpgrade are the first and the last function of the path that [tree.path] measures. If a
// function is renamed, change its name here, too.
const (
	clusterEvent = "(*internal/kube.watch).applyFrames"
	helmUpgrade  = "(*internal/helm.Client).Upgrade"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("shape: ")
	if err := run(os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("shape", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print JSON")
	details := flags.Bool("details", false, "print the places to look at first below each row")
	if err := flags.Parse(args); err != nil {
		return err
	}
	dir := "."
	switch flags.NArg() {
	case 0:
	case 1:
		dir = flags.Arg(0)
	default:
		return errors.New("more than one directory given; name one")
	}
	t, err := load(dir)
	if err != nil {
		return err
	}
	rows, err := measure(t)
	if err != nil {
		return err
	}
	if *asJSON {
		enc := json.NewEncoder(out)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	}
	return write(out, rows, *details)
}

// measure returns all rows.
func measure(t *tree) ([]row, error) {
	path, err := t.path(clusterEvent, helmUpgrade)
	if err != nil {
		return nil, err
	}
	c, err := t.lines()
	if err != nil {
		return nil, err
	}
	return []row{
		t.methods(),
		t.fanOut(),
		t.backwardArrows("workflow", "steps", "store"),
		t.complexity(),
		testRatio(c),
		codeLines(c),
		path,
	}, nil
}

// write prints rows as a table. If details is true, it prints the details of each row below the row.
func write(out io.Writer, rows []row, details bool) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	lines := []string{"MEASURE\tVALUE\tGOAL\tREACHED\tWHERE\n"}
	for _, r := range rows {
		lines = append(lines, strings.Join([]string{r.Name, number(r.Value) + r.Unit, r.goal(), r.reached(), r.Where}, "\t")+"\n")
	}
	if _, err := io.WriteString(w, strings.Join(lines, "")); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if !details {
		return nil
	}
	for _, r := range rows {
		if len(r.Details) == 0 {
			continue
		}
		if _, err := fmt.Fprintf(out, "\n%s\n  %s\n", r.Name, strings.Join(r.Details, "\n  ")); err != nil {
			return err
		}
	}
	return nil
}
