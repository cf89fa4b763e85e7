// Command bench measures the operator against its targets. It starts control planes, generates modules, and makes
// the operator converge, restart and react to events. It also measures the engine alone, and the answers to people's
// requests. A *figure* is one line of the output: the measured quantity, the target, and the result.
//
//	go run ./e2e/bench [--json] [--rounds n] [--only part] [--soak-tasks n]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"text/tabwriter"
)

// A figure is one measured value.
type figure struct {
	Name string `json:"name"`
	Unit string `json:"unit"`
	// Measured is the measured value, in the unit Unit.
	Measured float64 `json:"measured"`
	// AtMost is the maximum that the target allows, and AtLeast the minimum. If both are zero, the figure has no
	// target.
	AtMost  float64 `json:"atMost,omitempty"`
	AtLeast float64 `json:"atLeast,omitempty"`
	// Note contains further information.
	Note string `json:"note,omitempty"`
}

// target returns the target as text, or "" if the figure has no target.
func (f figure) target() string {
	switch {
	case f.AtMost > 0:
		return fmt.Sprintf("≤ %g %s", f.AtMost, f.Unit)
	case f.AtLeast > 0:
		return fmt.Sprintf("≥ %g %s", f.AtLeast, f.Unit)
	default:
		return ""
	}
}

// verdict returns "reached" or "missed", or "" if the figure has no target.
func (f figure) verdict() string {
	switch {
	case f.AtMost == 0 && f.AtLeast == 0:
		return ""
	case f.AtMost > 0 && f.Measured > f.AtMost, f.AtLeast > 0 && f.Measured < f.AtLeast:
		return "missed"
	default:
		return "reached"
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, log.New(os.Stderr, "", 0))
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer, progress *log.Logger) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	asJSON := flags.Bool("json", false, "print the figures as JSON")
	rounds := flags.Int("rounds", 3, "number of rounds of the parts operator, converge and answers (answers has at least 3); the figures are medians")
	only := flags.String("only", "", "measure only this `part`: operator, converge, resume, addons, watches, admission, engine, soak or answers")
	soakTasks := flags.Int("soak-tasks", 120_000, "number of tasks of the soak; the default simulates 14 days of an operator, and make soak processes more tasks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *soakTasks < fewestSoakTasks {
		return fmt.Errorf("--soak-tasks must be %d or more (got %d)", fewestSoakTasks, *soakTasks)
	}
	soak := func(ctx context.Context, _ int, progress *log.Logger) ([]figure, error) {
		return measureSoak(ctx, *soakTasks, progress)
	}
	if *rounds < 1 {
		return errors.New("--rounds must be 1 or more")
	}
	load := loadAverage()
	if load > 0 {
		progress.Printf("load of this machine before: %.2f on %d CPUs", load, runtime.NumCPU())
	}
	var figures []figure
	for _, part := range []struct {
		name    string
		measure func(context.Context, int, *log.Logger) ([]figure, error)
	}{{"operator", measureOperator}, {"converge", measureConverge}, {"resume", measureResume}, {"addons", measureAddons}, {"watches", measureWatches}, {"admission", measureAdmission}, {"engine", measureEngine}, {"soak", soak}, {"answers", measureAnswers}} {
		if *only != "" && *only != part.name {
			continue
		}
		more, err := part.measure(ctx, *rounds, progress)
		if err != nil {
			return errors.Join(fmt.Errorf("measure the %s: %w", part.name, err), printFigures(out, *asJSON, load, figures))
		}
		figures = append(figures, more...)
	}
	if len(figures) == 0 {
		return fmt.Errorf("--only %s: there is no such part; see --help", *only)
	}
	return printFigures(out, *asJSON, load, figures)
}

// printFigures prints figures as a table or as JSON. load is the load of the machine before the measurement.
func printFigures(out io.Writer, asJSON bool, load float64, figures []figure) error {
	if asJSON {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(map[string]any{"cpus": runtime.NumCPU(), "loadBefore": load, "figures": figures})
	}
	return printTable(out, figures)
}

func printTable(out io.Writer, figures []figure) error {
	table := []byte("FIGURE\tMEASURED\tTARGET\t\tNOTE\n")
	for _, f := range figures {
		table = fmt.Appendf(table, "%s\t%s %s\t%s\t%s\t%s\n", f.Name, round(f.Measured), f.Unit, f.target(), f.verdict(), f.Note)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if _, err := w.Write(table); err != nil {
		return err
	}
	return w.Flush()
}

// round formats v without decimals if v is at least 100, and with at most two decimals otherwise.
func round(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}

// loadAverage returns the load average of the last minute, or 0 if it is unknown.
func loadAverage() (load float64) {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	_, _ = fmt.Sscan(string(text), &load) // 0 if it is not a number
	return load
}
