package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
)

// convergeWithin is the maximum wait for a converge.
const convergeWithin = 3 * time.Minute

// sharedMemory is the directory in which Linux has a file system in memory. The operator's temporary files are put
// there, because the operator's pod in deploy/ also has /tmp in memory.
const sharedMemory = "/dev/shm"

// An environment has the cluster, the program and the directories of the measurements.
type environment struct {
	dir      string
	memory   string // directory in memory for temporary files; dir if there is none
	program  string
	cluster  *cluster.Cluster
	client   kubernetes.Interface
	progress *log.Logger
}

// openEnvironment builds the operator and starts a control plane. The caller must call the returned function, which
// stops the control plane and removes all files.
func openEnvironment(progress *log.Logger) (_ *environment, _ func() error, err error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, nil, err
	}
	w := &environment{dir: dir, memory: dir, progress: progress}
	if memory, err := os.MkdirTemp(sharedMemory, "bench-"); err == nil {
		w.memory = memory
	}
	end := func() error {
		var stopped error
		if w.cluster != nil {
			stopped = w.cluster.Stop()
		}
		return errors.Join(stopped, os.RemoveAll(dir), os.RemoveAll(w.memory))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, end())
		}
	}()
	progress.Print("build the operator")
	if w.program, err = operator.Build(filepath.Join(dir, "bin")); err != nil {
		return nil, nil, err
	}
	progress.Print("start a control plane")
	if w.cluster, err = cluster.New(filepath.Join(dir, "cluster")); err != nil {
		return nil, nil, err
	}
	w.client, err = kubernetes.NewForConfig(w.cluster.Config())
	return w, end, err
}

// measureOperator measures the first converge of modules, and the converge after a restart of the operator. Each round
// is in its own namespace. In the last round, measureOperator also measures events.
func measureOperator(ctx context.Context, rounds int, progress *log.Logger) (_ []figure, err error) {
	w, end, err := openEnvironment(progress)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var empty, restart []float64
	var rest []figure
	for round := range rounds {
		last := round == rounds-1
		progress.Printf("round %d of %d", round+1, rounds)
		took, more, err := w.round(ctx, fmt.Sprintf("bench-%d", round), last)
		if err != nil {
			return nil, err
		}
		empty, restart, rest = append(empty, took.empty.Seconds()), append(restart, took.restart.Seconds()), more
	}
	note := fmt.Sprintf("%d modules; median of %d", modules, rounds)
	return append([]figure{
		{Name: "converge from empty", Unit: "s", Measured: median(empty), AtMost: 6, Note: note},
		{Name: "restart with nothing to do", Unit: "s", Measured: median(restart), AtMost: 3, Note: note},
	}, rest...), nil
}

// durations are the durations of the first converge in a namespace, and of the converge after a restart.
type durations struct{ empty, restart time.Duration }

// round measures the first converge in a new namespace, and then the converge after a restart. If the argument events
// is true, it measures the delivery of events in between.
func (w *environment) round(ctx context.Context, namespace string, events bool) (took durations, more []figure, err error) {
	env, err := w.newEnvironment(ctx, namespace, modules, 0)
	if err != nil {
		return took, nil, err
	}
	record := filepath.Join(env.Dir, "record")
	p, empty, err := converge(ctx, env, modules, record)
	if err != nil {
		return took, nil, err
	}
	defer p.Kill()
	if events {
		if more, err = w.events(ctx, p, namespace, record); err != nil {
			return took, nil, err
		}
	}
	peak, err := p.PeakMemory()
	if err = errors.Join(err, p.Stop()); err != nil {
		return took, nil, err
	}
	p, restart, err := converge(ctx, env, modules, record)
	if err != nil {
		return took, nil, err
	}
	defer p.Kill()
	again, err := p.PeakMemory()
	more = append(more,
		figure{Name: "peak memory", Unit: "MB", Measured: float64(peak) / 1e6, AtMost: 90, Note: "VmHWM; converge from empty and all events"},
		figure{Name: "peak memory after restart", Unit: "MB", Measured: float64(again) / 1e6, AtMost: 90, Note: "VmHWM"})
	return durations{empty, restart}, more, errors.Join(err, p.Stop())
}

// newEnvironment creates a namespace with a ConfigMap, and the files of n modules. The argument work is the number to
// which each run of a hook counts, to use CPU time.
func (w *environment) newEnvironment(ctx context.Context, namespace string, n, work int) (operator.Environment, error) {
	env, err := w.newBareEnvironment(ctx, namespace)
	if err != nil {
		return env, err
	}
	return env, generate(env.Dir, namespace, n, work)
}

// newBareEnvironment creates a namespace with a ConfigMap, and empty directories for modules and
// global hooks.
func (w *environment) newBareEnvironment(ctx context.Context, namespace string) (operator.Environment, error) {
	env := operator.Environment{
		Program: w.program, Dir: filepath.Join(w.dir, namespace), Kubeconfig: w.cluster.Kubeconfig(), Namespace: namespace,
		TempDir: filepath.Join(w.memory, namespace, "tmp"),
	}
	env.ModulesDir, env.GlobalHooksDir = filepath.Join(env.Dir, "modules"), filepath.Join(env.Dir, "global-hooks")
	if err := errors.Join(os.MkdirAll(env.ModulesDir, 0o700), os.MkdirAll(env.GlobalHooksDir, 0o700)); err != nil {
		return env, err
	}
	_, err := w.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, metav1.CreateOptions{})
	if err != nil {
		return env, err
	}
	_, err = w.client.CoreV1().ConfigMaps(namespace).Create(ctx,
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}}, metav1.CreateOptions{})
	return env, err
}

// readyEvery is the pause between two requests for readiness. It is long, because each request takes CPU time from the
// running hooks. The long pause does not make the result less exact: the end of the converge is read from the
// operator's log.
const readyEvery = 50 * time.Millisecond

// converge starts the operator with n modules, and returns the time until the end of its first converge.
func converge(ctx context.Context, env operator.Environment, n int, record string) (*operator.Process, time.Duration, error) {
	p, err := env.Start("RECORD=" + record)
	if err != nil {
		return nil, 0, err
	}
	p.Every = readyEvery
	ctx, cancel := context.WithTimeout(ctx, convergeWithin)
	defer cancel()
	if err := p.Ready(ctx); err != nil {
		p.Kill()
		return nil, 0, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	var ended time.Time
	if err := p.Until(ctx, "the converge to end in the log", func() bool {
		ended = convergedAfter(p.Started, env.Log())
		return !ended.IsZero()
	}); err != nil {
		p.Kill()
		return nil, 0, err
	}
	took := ended.Sub(p.Started)
	// If a hook received no Synchronization, the converge was incomplete, and its duration must not be used.
	if err := synchronized(record, n, p.Started); err != nil {
		p.Kill()
		return nil, 0, fmt.Errorf("%w\n%s", err, env.EndOfLog())
	}
	return p, took, nil
}

// convergedAfter returns the time at which the first converge after start ended, according to the log of the operator.
// convergedAfter returns the zero time if no converge has ended.
func convergedAfter(start time.Time, log string) time.Time {
	for line := range strings.Lines(log) {
		var event struct {
			Msg  string    `json:"msg"`
			Time time.Time `json:"time"`
		}
		if json.Unmarshal([]byte(line), &event) == nil && event.Msg == "converged" && event.Time.After(start) {
			return event.Time
		}
	}
	return time.Time{}
}
