package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	// hookTime is the approximate duration of each hook. It is the duration of a typical shell hook, which calls jq a
	// few times.
	hookTime = 25 * time.Millisecond

	// moduleHookRuns is the number of runs of the hook module.sh in a converge: onStartup,
	// beforeHelm, afterHelm.
	moduleHookRuns = 3

	// hooksInEach is the number of hooks of a module: module.sh and watch.sh. Each start runs each
	// of them with --config.
	hooksInEach = 2
)

// measureConverge compares the duration of converges with the total duration of their hooks, for
// modules whose hooks take most of the time.
func measureConverge(ctx context.Context, rounds int, progress *log.Logger) (_ []figure, err error) {
	w, end, err := openEnvironment(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	work, err := countWithin(ctx, hookTime)
	if err != nil {
		return nil, err
	}
	var figures []figure
	for _, n := range []int{modules, manyModules} {
		more, err := w.measureBusy(ctx, n, work, rounds, progress)
		if err != nil {
			return nil, err
		}
		figures = append(figures, more...)
	}
	return figures, nil
}

// measureBusy measures several rounds of converges with n modules. The argument work is the number to which each hook
// counts, to use CPU time.
func (w *environment) measureBusy(ctx context.Context, n, work, rounds int, progress *log.Logger) ([]figure, error) {
	var alone, empty, restart []float64
	for round := range rounds {
		progress.Printf("converge of %d modules with busy hooks, round %d of %d", n, round+1, rounds)
		took, err := w.busyRound(ctx, fmt.Sprintf("converge-%d-%d", n, round), n, work)
		if err != nil {
			return nil, err
		}
		alone = append(alone, took.hooks.Seconds())
		empty, restart = append(empty, took.empty), append(restart, took.restart)
	}
	note := fmt.Sprintf("%d runs of hooks and %d with --config, one after another without the operator; median of %d rounds",
		n*(moduleHookRuns+1), n*hooksInEach, rounds)
	of := fmt.Sprintf(" of %d modules", n)
	return []figure{
		{Name: "hooks alone" + of, Unit: "s", Measured: median(alone), Note: note},
		{Name: "converge from empty" + of + ", of the time of their hooks", Unit: "times", Measured: median(empty), AtMost: 1.5, Note: "process start to the end of the converge"},
		{Name: "restart with nothing to do" + of + ", of the time of their hooks", Unit: "times", Measured: median(restart), AtMost: 1.2, Note: "process start to the end of the converge"},
	}, nil
}

// busyTimes are the results of one round: the duration of the hooks alone, and the durations of converges as
// multiples of that duration.
type busyTimes struct {
	hooks          time.Duration
	empty, restart float64
}

// countWithin returns the number to which bash on this machine can count in a loop in the given duration.
func countWithin(ctx context.Context, within time.Duration) (int, error) {
	const count, runs = 50_000, 5
	var took []float64
	for range runs {
		began := time.Now()
		if err := exec.CommandContext(ctx, "bash", "-c", fmt.Sprintf("for ((i = 0; i < %d; i++)); do :; done", count)).Run(); err != nil {
			return 0, fmt.Errorf("count in bash: %w", err)
		}
		took = append(took, time.Since(began).Seconds())
	}
	return int(count * within.Seconds() / median(took)), nil
}

// busyRound measures, in a new namespace, the first converge of n modules, and the converge after a restart. The
// argument work is the number to which each hook counts, to use CPU time. Before and after each converge, busyRound
// also runs the hooks without the operator, because the speed of a machine changes from one second to the next.
func (w *environment) busyRound(ctx context.Context, namespace string, n, work int) (took busyTimes, err error) {
	env, err := w.newEnvironment(ctx, namespace, n, work)
	if err != nil {
		return took, err
	}
	if took.hooks, err = hooksAlone(ctx, env.Dir, n); err != nil {
		return took, err
	}
	before := took.hooks
	for _, multiple := range []*float64{&took.empty, &took.restart} {
		p, converged, err := converge(ctx, env, n, filepath.Join(env.Dir, "record"))
		if err != nil {
			return took, err
		}
		if err := p.Stop(); err != nil {
			return took, err
		}
		after, err := hooksAlone(ctx, env.Dir, n)
		if err != nil {
			return took, err
		}
		*multiple = 2 * converged.Seconds() / (before + after).Seconds()
		before = after
	}
	return took, nil
}

// hooksAlone runs the hooks as often as a start with n modules does, one run after another, without the
// operator. It returns the total duration.
func hooksAlone(ctx context.Context, dir string, n int) (time.Duration, error) {
	binding := filepath.Join(dir, "binding-context.json")
	if err := write(binding, "[]\n"); err != nil {
		return 0, err
	}
	began := time.Now()
	for i := range n {
		for hook, runs := range map[string]int{"module.sh": moduleHookRuns, "watch.sh": 1} {
			for try := range runs + 1 {
				run := exec.CommandContext(ctx, filepath.Join(moduleDir(dir, i), "hooks", hook))
				if try == runs {
					run.Args = append(run.Args, "--config")
				}
				run.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+binding, "VALUES_JSON_PATCH_PATH="+os.DevNull, "RECORD="+os.DevNull)
				if output, err := run.CombinedOutput(); err != nil {
					return 0, fmt.Errorf("run %s: %w: %s", run.Path, err, output)
				}
			}
		}
	}
	return time.Since(began), nil
}
