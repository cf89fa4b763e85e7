package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/operator"
)

const (
	objectCount = 10_000 // objects that exist before the operator starts
	watchers    = 20     // bindings that watch all of these objects
	flood       = 5_000  // objects that are created while their hook is busy
	floods      = 16     // goroutines that create objects
)

// watchingHook is a hook that records the start times of its runs.
const watchingHook = `#!/bin/bash
now=$EPOCHREALTIME
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetes":[{"name":"watches","apiVersion":"v1","kind":"ConfigMap","queue":"/%[1]s","namespace":{"nameSelector":{"matchNames":["%[2]s"]}},"jqFilter":"%[3]s","keepFullObjectsInMemory":false}]}'
  exit
fi
echo "$now" >>"$RECORD"
`

// floodHook is a hook that records the name of each object it receives in an event. The first run that receives events
// waits until the file RECORD.go exists.
const floodHook = `#!/bin/bash
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetes":[{"name":"flood","apiVersion":"v1","kind":"ConfigMap","queue":"flood","namespace":{"nameSelector":{"matchNames":["%[1]s"]}},"labelSelector":{"matchLabels":{"flood":"yes"}},"jqFilter":".metadata.name","keepFullObjectsInMemory":false}]}'
  exit
fi
grep -q '"type":"Event"' "$BINDING_CONTEXT_PATH" || exit 0
until [[ -e $RECORD.go ]]; do sleep 0.05; done
grep -o '"filterResult":"[^"]*"' "$BINDING_CONTEXT_PATH" >>"$RECORD"
echo "run $EPOCHREALTIME" >>"$RECORD"
`

// measureWatches measures an operator with many bindings that watch many objects, and the delivery of many events to one
// busy hook.
func measureWatches(ctx context.Context, _ int, progress *log.Logger) (figures []figure, err error) {
	w, end, err := openEnvironment(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	const namespace = "watches"
	env, err := w.newBareEnvironment(ctx, namespace)
	if err != nil {
		return nil, err
	}
	progress.Printf("make %d ConfigMaps", objectCount)
	if err := w.makeMany(ctx, namespace, "watches", objectCount, nil); err != nil {
		return nil, err
	}
	for _, variant := range []struct {
		name, note string
		filter     func(i int) string
		most       float64
	}{
		{"", "all with one jqFilter", func(int) string { return ".data.text" }, 120},
		{", a filter each", "each with a jqFilter of its own", func(i int) string { return fmt.Sprintf(".data.text + \\\"%d\\\"", i) }, 0},
	} {
		more, err := w.watchMany(ctx, env, variant.filter)
		if err != nil {
			return nil, err
		}
		about := fmt.Sprintf("%d ConfigMaps watched by %d bindings, %s", objectCount, watchers, variant.note)
		figures = append(figures,
			figure{Name: "watches" + variant.name + ": peak memory", Unit: "MB", Measured: more.peak, AtMost: variant.most, Note: "VmHWM; " + about},
			figure{Name: "watches" + variant.name + ": start to first Synchronization", Unit: "s", Measured: more.first, AtMost: 3, Note: "from the operator's start"},
			figure{Name: "watches" + variant.name + ": start to last Synchronization", Unit: "s", Measured: more.last, Note: fmt.Sprintf("%d runs, each with %d objects", watchers, objectCount)},
			figure{Name: "watches" + variant.name + ": watches of it", Unit: "watches", Measured: more.watches, AtMost: 1, Note: "by the API server's count"})
	}
	drained, err := w.flood(ctx)
	return append(figures, drained...), err
}

// watchCost is the measured cost of watching the objects: memory in MB, times of Synchronizations in seconds, and the
// number of watches.
type watchCost struct{ peak, first, last, watches float64 }

// watchMany starts an operator with a new store and with modules that watch the objects, and stops it when all their
// hooks have run.
func (w *environment) watchMany(ctx context.Context, env operator.Environment, filter func(int) string) (c watchCost, err error) {
	w.progress.Printf("watch them by %d bindings", watchers)
	flags := []byte("{}\n")
	for i := range watchers {
		name := moduleName(i)
		flags = fmt.Appendf(flags, "%sEnabled: true\n", name)
		text := fmt.Sprintf(watchingHook, name, env.Namespace, filter(i))
		if err := write(filepath.Join(env.ModulesDir, fmt.Sprintf("%03d-%s", i, name), "hooks", "watch.sh"), text); err != nil {
			return c, err
		}
	}
	if err := write(filepath.Join(env.ModulesDir, "values.yaml"), string(bytes.TrimPrefix(flags, []byte("{}\n")))); err != nil {
		return c, err
	}
	for _, name := range []string{env.Store(), filepath.Join(env.Dir, "record")} {
		if err := os.RemoveAll(name); err != nil {
			return c, err
		}
	}
	before, err := w.watches(ctx)
	if err != nil {
		return c, err
	}
	record := filepath.Join(env.Dir, "record")
	p, err := env.Start("RECORD=" + record)
	if err != nil {
		return c, err
	}
	defer p.Kill()
	within, cancel := context.WithTimeout(ctx, convergeWithin)
	defer cancel()
	if err := p.Ready(within); err != nil {
		return c, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	var times []time.Time
	if err := p.Until(within, "the Synchronization of all hooks", func() bool {
		times, err = readTimes(record)
		return err != nil || len(times) >= watchers
	}); err != nil {
		return c, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	if err != nil {
		return c, err
	}
	now, err := w.watches(ctx)
	if err != nil {
		return c, err
	}
	peak, err := p.PeakMemory()
	if err != nil {
		return c, err
	}
	c = watchCost{
		peak: float64(peak) / 1e6, first: times[0].Sub(p.Started).Seconds(), last: times[len(times)-1].Sub(p.Started).Seconds(),
		watches: now - before - 1, // one watch is for the operator's own ConfigMap
	}
	return c, p.Stop()
}

// flood creates many objects while the hook that watches them is busy. It measures the time from the end of the busy
// run until all objects are delivered.
func (w *environment) flood(ctx context.Context) ([]figure, error) {
	const namespace = "flood"
	env, err := w.newBareEnvironment(ctx, namespace)
	if err != nil {
		return nil, err
	}
	record := filepath.Join(env.Dir, "record")
	err = errors.Join(
		write(filepath.Join(env.ModulesDir, "001-flooded", "hooks", "flood.sh"), fmt.Sprintf(floodHook, namespace)),
		write(filepath.Join(env.ModulesDir, "values.yaml"), "floodedEnabled: true\n"), write(record, ""))
	if err != nil {
		return nil, err
	}
	p, err := env.Start("RECORD=" + record)
	if err != nil {
		return nil, err
	}
	defer p.Kill()
	within, cancel := context.WithTimeout(ctx, convergeWithin)
	defer cancel()
	if err := p.Ready(within); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	w.progress.Printf("make %d ConfigMaps that a busy hook watches", flood)
	began := time.Now()
	if err := w.makeMany(ctx, namespace, "flood", flood, map[string]string{"flood": "yes"}); err != nil {
		return nil, err
	}
	making := time.Since(began)
	free := time.Now()
	if err := write(record+".go", ""); err != nil {
		return nil, err
	}
	delivered, runs := 0, 0
	if err := p.Until(within, "the delivery of all objects", func() bool {
		delivered, runs, err = readFlood(record)
		return err != nil || delivered >= flood
	}); err != nil {
		return nil, fmt.Errorf("%d of %d objects were delivered: %w\n%s", delivered, flood, err, env.EndOfLog())
	}
	drained := time.Since(free)
	peak, wrong := p.PeakMemory()
	if err := errors.Join(err, wrong, p.Stop()); err != nil {
		return nil, err
	}
	note := fmt.Sprintf("%d events for one hook, made within %.1f s while it was busy; %d runs", flood, making.Seconds(), runs)
	return []figure{
		{Name: "flood: from the end of the busy run to the last event", Unit: "s", Measured: drained.Seconds(), AtMost: 10, Note: note},
		{Name: "flood: events lost", Unit: "events", Measured: float64(flood - delivered), Note: "of those made, by the hook's own record"},
		{Name: "flood: peak memory", Unit: "MB", Measured: float64(peak) / 1e6, AtMost: 120, Note: "VmHWM"},
	}, nil
}

// makeMany creates n ConfigMaps.
func (w *environment) makeMany(ctx context.Context, namespace, prefix string, n int, labels map[string]string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(floods)
	for i := range n {
		group.Go(func() error {
			_, err := w.client.CoreV1().ConfigMaps(namespace).Create(ctx, &corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%05d", prefix, i), Labels: labels},
				Data:       map[string]string{"text": strings.Repeat("some text ", 20), "more": strings.Repeat("x", 300)},
			}, metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
}

// watches returns the number of open watches of ConfigMaps, from the metrics of the API server. It counts only watches
// of one namespace or one object.
func (w *environment) watches(ctx context.Context) (float64, error) {
	page, err := w.client.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return 0, err
	}
	open := 0.0
	for line := range bytes.Lines(page) {
		text := string(line)
		if strings.HasPrefix(text, "apiserver_longrunning_requests{") && strings.Contains(text, `resource="configmaps"`) &&
			(strings.Contains(text, `scope="namespace"`) || strings.Contains(text, `scope="resource"`)) && strings.Contains(text, `verb="WATCH"`) {
			var value float64
			if _, err := fmt.Sscan(text[strings.LastIndex(text, " "):], &value); err != nil {
				return 0, fmt.Errorf("line %q: %w", text, err)
			}
			open += value
		}
	}
	return open, nil
}

// readTimes returns the times in the file record, which has one time on each line, oldest first. If the file does not
// exist, readTimes returns nil.
func readTimes(record string) ([]time.Time, error) {
	content, err := os.ReadFile(record)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var times []time.Time
	for line := range bytes.Lines(content) {
		var seconds, micros int64
		if _, err := fmt.Sscanf(string(line), "%d.%d\n", &seconds, &micros); err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		times = append(times, time.Unix(seconds, micros*1000))
	}
	return times, err
}

// readFlood returns the number of different objects that floodHook has recorded, and the number of runs in which the
// hook received events.
func readFlood(record string) (delivered, runs int, err error) {
	content, err := os.ReadFile(record)
	names := map[string]bool{}
	for line := range bytes.Lines(content) {
		switch {
		case bytes.HasPrefix(line, []byte("run ")):
			runs++
		case bytes.HasSuffix(line, []byte("\"\n")):
			names[string(line)] = true
		}
	}
	return len(names), runs, err
}
