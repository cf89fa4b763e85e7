package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log"
	"maps"
	"os/exec"
	"slices"
	"strconv"
	"strings"
)

// engineRounds is the number of iterations in each benchmark.
const engineRounds = 11

// engineFigures are the figures of [measureEngine]. The value of each is one metric that a Go benchmark reports.
var engineFigures = []struct {
	bench, metric string
	figure        figure
}{
	{"SyncsOfAChain", "fdatasync/task", figure{Name: "fdatasync, chain", Unit: "a task", AtMost: 2.1, Note: "without outside effects"}},
	{"EngineAgainstItsWrites/1", "tasks/s", figure{Name: "engine, chain", Unit: "tasks/s"}},
	{"EngineAgainstItsWrites/1", "raw/s", figure{Name: "its writes alone, chain", Unit: "tasks/s", Note: "group-committed bbolt, no engine"}},
	{"EngineAgainstItsWrites/1", "ratio", figure{Name: "engine to raw, chain", Unit: "of raw"}},
	{"EngineAgainstItsWrites/64", "tasks/s", figure{Name: "engine, 64 queues", Unit: "tasks/s"}},
	{"EngineAgainstItsWrites/64", "raw/s", figure{Name: "its writes alone, 64 queues", Unit: "tasks/s", Note: "group-committed bbolt, no engine"}},
	{"EngineAgainstItsWrites/64", "ratio", figure{Name: "engine to raw, 64 queues", Unit: "of raw", AtLeast: 0.6}},
	{"MuchPending/100000_tasks", "slower", figure{Name: "transition slower, 100,000 tasks waiting", Unit: "of its time", AtMost: 0.2}},
	{"MuchPending/1000_members", "slower", figure{Name: "transition slower, 1,000 modules listed", Unit: "of its time", AtMost: 0.2}},
	{"MuchHeld", "ms/transition", figure{Name: "transition, 8 MiB of events held", Unit: "ms", AtMost: 1, Note: "of 500 hooks, without the disk"}},
	{"FirstEventInALongQueue", "ms/event", figure{Name: "first event of a binding, 50,000 events waiting", Unit: "ms", AtMost: 10, Note: "of other bindings in its queue"}},
	{"SynchronizationInALongQueue", "ms/Synchronization", figure{
		Name: "Synchronization, 100,000 events waiting", Unit: "ms", AtMost: 10, Note: "of other hooks in its queue; the time of the one writer without the disk",
	}},
	{"AttachManyModules", "s/attach", figure{
		Name: "attach 500 modules, 10,000 events in main", Unit: "s", AtMost: 2, Note: "one hook each; the Synchronizations without the hooks' own time",
	}},
	{"CommitAfterAFlood", "KiB/commit", figure{Name: "commit of one record after a flood", Unit: "KiB", AtMost: 32, Note: "written; 45 MB of the store are free"}},
	{"ReadBindings", "ms/attach", figure{Name: "attach a module, 2,000 bindings attached", Unit: "ms", AtMost: 5, Note: "until watches, crons and webhooks follow it"}},
}

// measureEngine runs the Go benchmarks that engineFigures names, and returns the figures with the measured values.
func measureEngine(ctx context.Context, _ int, progress *log.Logger) ([]figure, error) {
	progress.Print("benchmarks of the engine")
	names := map[string]bool{}
	for _, f := range engineFigures {
		name, _, _ := strings.Cut(f.bench, "/")
		names[name] = true
	}
	only := "^Benchmark(" + strings.Join(slices.Sorted(maps.Keys(names)), "|") + ")$"
	run := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench="+only, fmt.Sprintf("-benchtime=%dx", engineRounds),
		"addon-operator/workflow", "addon-operator/steps", "addon-operator/triggers", "addon-operator/store")
	run.Stderr = progress.Writer()
	output, err := run.Output()
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, output)
	}
	metrics := readMetrics(output)
	var figures []figure
	for _, f := range engineFigures {
		value, ok := metrics[f.bench][f.metric]
		if !ok {
			return nil, fmt.Errorf("benchmark %s reported no %s:\n%s", f.bench, f.metric, output)
		}
		f.figure.Measured = value
		figures = append(figures, f.figure)
	}
	return figures, nil
}

// readMetrics parses the benchmark output of go test. The first key of the result is the name of the benchmark,
// without the prefix "Benchmark" and the number of CPUs. The second key is the unit of the value.
func readMetrics(output []byte) map[string]map[string]float64 {
	metrics := map[string]map[string]float64{}
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := strings.TrimPrefix(fields[0], "Benchmark")
		if i := strings.LastIndex(name, "-"); i > 0 {
			name = name[:i]
		}
		metrics[name] = map[string]float64{}
		for i := 2; i+1 < len(fields); i += 2 {
			if value, err := strconv.ParseFloat(fields[i], 64); err == nil {
				metrics[name][fields[i+1]] = value
			}
		}
	}
	return metrics
}
