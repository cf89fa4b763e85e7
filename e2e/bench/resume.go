package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"addon-operator/e2e/operator"
	"addon-operator/store"
	"addon-operator/workflow/inspect/inspecttest"
)

const (
	// resumeTasks is the approximate number of tasks that wait in queues when the operator is first killed.
	resumeTasks = 100_000
	// resumeKills is the number of times the operator is killed.
	resumeKills = 11
	// resumeHooks is the number of hooks in each module. They watch the same objects, and their events wait in one
	// queue. Because events of different hooks are not batched, the queue stays long.
	resumeHooks = 2
	// fillWithin is the maximum time for filling the queues.
	fillWithin = 10 * time.Minute
	// quietStarts is the number of measured starts of an operator that has nothing to do.
	quietStarts = 11
)

// ifChanged is an environment variable of the operator. With it, an operator whose modules and values are unchanged
// resumes its pending work at startup, and does not converge.
const ifChanged = "ADDON_OPERATOR_STARTUP=if-changed"

// resumeHook is a hook that watches ConfigMaps, records its start time, and runs for 0.3 s. While the file RECORD.hold
// exists, the hook waits.
const resumeHook = `#!/bin/bash
now=$EPOCHREALTIME
if [[ $1 == --config ]]; then
  echo '{"configVersion":"v1","kubernetes":[{"name":"seen","apiVersion":"v1","kind":"ConfigMap","queue":"/%[1]s","labelSelector":{"matchLabels":{"for":"all"}},"namespace":{"nameSelector":{"matchNames":["%[2]s"]}},"jqFilter":".metadata.name","keepFullObjectsInMemory":false,"executeHookOnSynchronization":false}]}'
  exit
fi
echo "$now []" >>"$RECORD"
while [[ -e $RECORD.hold ]]; do sleep 0.2; done
sleep 0.3
`

// measureResume measures the time after a kill until an operator resumes waiting tasks. It also measures the time
// until an operator that has nothing to do is ready.
func measureResume(ctx context.Context, _ int, progress *log.Logger) (_ []figure, err error) {
	w, end, err := openEnvironment(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	quiet, err := w.quiet(ctx)
	if err != nil {
		return nil, err
	}
	resumed, err := w.resumed(ctx)
	return append(quiet, resumed...), err
}

// quiet measures the starts of an operator that has many modules and nothing to do.
func (w *environment) quiet(ctx context.Context) (_ []figure, err error) {
	w.progress.Printf("%d starts of %d modules with nothing to do", quietStarts, manyModules)
	env, err := w.newEnvironment(ctx, "quiet", manyModules, 0)
	if err != nil {
		return nil, err
	}
	p, _, err := converge(ctx, env, manyModules, filepath.Join(env.Dir, "record"))
	if err != nil {
		return nil, err
	}
	var took []float64
	var quietSince time.Time // the first measured start
	for range quietStarts {
		if err := p.Stop(); err != nil {
			return nil, err
		}
		if p, err = env.Start("RECORD="+filepath.Join(env.Dir, "record"), ifChanged); err != nil {
			return nil, err
		}
		p.Every = time.Millisecond
		if err := p.Ready(ctx); err != nil {
			p.Kill()
			return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
		}
		took = append(took, milliseconds(time.Since(p.Started)))
		if quietSince.IsZero() {
			quietSince = p.Started
		}
	}
	if err := p.Stop(); err != nil {
		return nil, err
	}
	if err := ranNothing(env.Store(), quietSince); err != nil {
		return nil, err
	}
	return []figure{{
		Name: "start with nothing to do and --startup=if-changed, p50", Unit: "ms", Measured: median(took), AtMost: 300,
		Note: fmt.Sprintf("%d modules; process start until /readyz is 200; no hook ran; %d starts", manyModules, quietStarts),
	}}, nil
}

// ranNothing returns an error if the history has a hook run that ended later than since. path is the store of the
// stopped operator.
func ranNothing(path string, since time.Time) error {
	db, err := store.OpenReadOnly(path, store.Options{Clock: time.Now})
	if err != nil {
		return err
	}
	return errors.Join(db.View(func(tx *store.Tx) error {
		for run, err := range store.RunsBackwards(tx) {
			if err != nil {
				return err
			}
			for r, err := range store.RecordsOf(tx, run.ID) {
				if err != nil {
					return err
				}
				if r.Subject.Hook != "" && r.Ended.After(since) {
					return fmt.Errorf("hook %s of module %s ran at a start with nothing to do", r.Subject.Hook, r.Subject.Module)
				}
			}
		}
		return nil
	}), db.Close())
}

// resumed measures the time from a kill to the start of the first hook in the next process, while many tasks wait.
func (w *environment) resumed(ctx context.Context) (_ []figure, err error) {
	env, record, err := w.backlog(ctx)
	if err != nil {
		return nil, err
	}
	p, err := env.Start("RECORD="+record, ifChanged)
	if err != nil {
		return nil, err
	}
	defer func() { p.Kill() }()
	if err := w.fillQueues(ctx, p, env.Namespace); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	if err := os.Remove(record + ".hold"); err != nil {
		return nil, err
	}
	var took []float64
	for i := range resumeKills {
		w.progress.Printf("kill %d of %d", i+1, resumeKills)
		// Wait until the operator process p has started four hook runs for each module on average, so that few tasks
		// are interrupted twice.
		if _, err := startedSince(ctx, p, record, p.Started, 4*modules); err != nil {
			return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
		}
		killed := time.Now()
		p.Kill()
		dead := time.Now()
		if p, err = env.Start("RECORD="+record, ifChanged); err != nil {
			return nil, err
		}
		first, err := startedSince(ctx, p, record, dead, 1)
		if err != nil {
			return nil, fmt.Errorf("%w\n%s", err, env.EndOfLog())
		}
		took = append(took, milliseconds(first.Sub(killed)))
	}
	slices.Sort(took)
	waiting, err := waiting(ctx, p)
	if err != nil {
		return nil, err
	}
	p.Kill()
	info, err := os.Stat(env.Store())
	if err != nil {
		return nil, err
	}
	return []figure{{
		Name: "kill to the start of the first resumed hook, p50", Unit: "ms", Measured: percentile(took, 50), AtMost: 100,
		Note: fmt.Sprintf("%d tasks waited after the last of %d kills; %d attempts of history; store of %d MB; slowest %s ms",
			waiting, resumeKills, inspecttest.Large.Attempts, info.Size()/1e6, round(percentile(took, 100))),
	}}, nil
}

// backlog returns an environment with a long history in the store, and with modules whose hooks wait while the file
// RECORD.hold exists.
func (w *environment) backlog(ctx context.Context) (env operator.Environment, record string, err error) {
	w.progress.Printf("history of %d attempts", inspecttest.Large.Attempts)
	if env, err = w.newBareEnvironment(ctx, "resume"); err != nil {
		return env, "", err
	}
	flags := []byte("global: {}\n")
	for i := range modules {
		name := moduleName(i)
		flags = fmt.Appendf(flags, "%sEnabled: true\n", name)
		files := map[string]string{
			"Chart.yaml":  "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n",
			"values.yaml": name + ": {}\n",
		}
		for hook := range resumeHooks {
			files[fmt.Sprintf("hooks/watch-%d.sh", hook)] = fmt.Sprintf(resumeHook, name, env.Namespace)
		}
		for path, content := range files {
			if err := write(filepath.Join(moduleDir(env.Dir, i), path), content); err != nil {
				return env, "", err
			}
		}
	}
	record = filepath.Join(env.Dir, "record")
	if err := errors.Join(write(filepath.Join(env.ModulesDir, "values.yaml"), string(flags)), write(record, ""), write(record+".hold", "")); err != nil {
		return env, "", err
	}
	db, err := store.Open(env.Store(), store.Options{Clock: time.Now})
	if err != nil {
		return env, "", err
	}
	return env, record, errors.Join(inspecttest.FillHistory(db, inspecttest.Large), db.Close())
}

// fillQueues creates objects, and waits until nearly all tasks for their events wait in queues.
func (w *environment) fillQueues(ctx context.Context, p *operator.Process, namespace string) error {
	ctx, cancel := context.WithTimeout(ctx, fillWithin)
	defer cancel()
	p.Every = readyEvery
	if err := p.Ready(ctx); err != nil {
		return err
	}
	const objects = resumeTasks / (modules * resumeHooks)
	w.progress.Printf("%d objects, which %d hooks watch", objects, modules*resumeHooks)
	group, grouped := errgroup.WithContext(ctx)
	group.SetLimit(hands)
	for i := range objects {
		group.Go(func() error { return w.makeFor(grouped, namespace, fmt.Sprintf("event-%05d", i), "all") })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	w.progress.Printf("wait for %d tasks", resumeTasks)
	p.Every = time.Second // each request takes CPU time from the operator
	var wrong error
	err := p.Until(ctx, fmt.Sprintf("%d tasks to wait", resumeTasks), func() bool {
		var n int
		n, wrong = waiting(ctx, p)
		return wrong != nil || n >= resumeTasks-modules*resumeHooks
	})
	return errors.Join(wrong, err)
}

// waiting returns the number of tasks in the queues of p, from its metrics.
func waiting(ctx context.Context, p *operator.Process) (n int, err error) {
	body, err := get(ctx, p.URL()+"/metrics")
	if err != nil {
		return 0, err
	}
	defer body.Close()
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "addon_operator_tasks_queue_length{") {
			continue
		}
		fields := strings.Fields(lines.Text())
		length, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			return 0, err
		}
		n += int(length)
	}
	return n, lines.Err()
}

// startedSince waits until n hook runs have started later than since. It returns the start time of the earliest of
// them.
func startedSince(ctx context.Context, p *operator.Process, record string, since time.Time, n int) (first time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var wrong error
	err = p.Until(ctx, fmt.Sprintf("%d hooks to start", n), func() bool {
		var runs []hookRun
		if runs, wrong = readRecord(record); wrong != nil {
			return true
		}
		started := 0
		for _, run := range runs {
			if run.at.After(since) {
				if started++; started == 1 || run.at.Before(first) {
					first = run.at
				}
			}
		}
		return started >= n
	})
	return first, errors.Join(wrong, err)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
