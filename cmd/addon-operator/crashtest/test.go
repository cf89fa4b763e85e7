package crashtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Options configure a test.
type Options struct {
	// Dir contains the directories modules and global-hooks, or one of them.
	Dir string
	// ControlPlane is the path of a program that serves a Kubernetes API and accepts the flags of e2e/controlplane. One
	// process of this program is started for each round.
	ControlPlane string
	// Kubeconfig and Context name a cluster to use instead of ControlPlane. After each round, the test
	// deletes the objects that appeared in this cluster during the round, except objects that the
	// control plane writes or that a controller owns.
	Kubeconfig, Context string
	// Namespace is the operator's namespace. The test creates it.
	Namespace string
	// ConfigMap is the name of the operator's ConfigMap.
	ConfigMap string
	// Objects are the paths of YAML files whose objects are created before the operator starts.
	// Events are the paths of YAML files whose objects are applied after the first converge.
	Objects, Events []string
	// Steps and Modules select the targets by node and module; all if empty. Rounds is the maximum number of rounds with a
	// kill, 0 for no limit.
	Steps, Modules []string
	Rounds         int
	// Parallel is the number of concurrent rounds. Parallel must be 1 if Kubeconfig is set.
	Parallel int
	// Quiet is the time without work after which a round has ended. Settle is the maximum wait for late changes if the
	// state differs from the state of the undisturbed runs. Timeout limits a round.
	Quiet, Settle, Timeout time.Duration
	// WorkDir is the directory for the files of the rounds. The files of rounds with findings are
	// kept.
	WorkDir string
	// Progress is called when a phase starts, and after each round. Progress may be called
	// concurrently.
	Progress func(line string)

	modules, globalHooks string
	objects, events      []*unstructured.Unstructured
	planes               planes
}

// A Finding is a target for which the result of the round differs from the result of the undisturbed runs.
type Finding struct {
	// Doer names the hook, chart or module that runs in the step of the target, or the step if it belongs to no module.
	Doer   string `json:"of"`
	Target Target `json:"target"`
	// Moment describes the target as text.
	Moment      string       `json:"moment"`
	Failures    []Failure    `json:"failures,omitempty"`
	Differences []Difference `json:"differences,omitempty"`
	// Unfinished is the reason why the operator did not finish its work. Unfinished is empty if the operator finished. It
	// is also empty if a step failed so often that the round was stopped: Failures has this step.
	Unfinished string `json:"unfinished,omitempty"`
	// Files is the directory with the log and the store of the round.
	Files string `json:"files"`
}

// A Report is the result of a test.
type Report struct {
	// Targets is the number of targets of the first undisturbed run. Rounds is the number of chosen
	// targets. Each of them has one round, which kills the operator unless the target is in NotReached.
	Targets int `json:"targets"`
	Rounds  int `json:"rounds"`
	// NotReached are the targets that their rounds did not reach. Such a round did other work than the
	// first undisturbed run.
	NotReached []string  `json:"notReached,omitempty"`
	Findings   []Finding `json:"findings"`
	// Ignored are the fields and objects that differ between the two undisturbed runs. The comparison
	// of rounds ignores these fields and objects.
	Ignored []string `json:"ignored,omitempty"`
	Seconds float64  `json:"seconds"`
}

// An UndisturbedError is the failure of an undisturbed run. The files of the run are kept.
type UndisturbedError struct {
	err error
	log string
}

func (e *UndisturbedError) Error() string {
	return fmt.Sprintf("the modules do not converge without a crash: %v\nthe log is %s", e.err, e.log)
}

// Unwrap returns the reason.
func (e *UndisturbedError) Unwrap() error { return e.err }

// reference is the result of the undisturbed runs, with which the rounds are compared.
type reference struct {
	state   state
	noise   noise
	known   map[step]bool
	targets []Target
}

// Run tests the modules. Run returns an error if the modules cannot be tested, for example because
// an undisturbed run fails.
func Run(ctx context.Context, o Options) (*Report, error) {
	began := time.Now()
	if err := o.prepare(ctx); err != nil {
		return nil, err
	}
	ref, err := o.undisturbed(ctx)
	if err != nil {
		return nil, err
	}
	report := &Report{Targets: len(ref.targets), Ignored: ref.noise.texts(), Findings: []Finding{}}
	targets := selection{o.Steps, o.Modules, o.Rounds}.choose(ref.targets)
	if len(targets) == 0 {
		return nil, errors.New("no step was selected: check the names in --steps and --module")
	}
	if err := o.rounds(ctx, ref, targets, report); err != nil {
		return nil, err
	}
	report.Rounds, report.Seconds = len(targets), time.Since(began).Seconds()
	return report, nil
}

// prepare validates the options and completes them.
func (o *Options) prepare(ctx context.Context) (err error) {
	if o.WorkDir, err = filepath.Abs(o.WorkDir); err != nil {
		return err
	}
	const longest = 107 // maximum number of bytes in the path of a socket
	if longer := len(filepath.Join(o.WorkDir, "undisturbed-1", "debug.socket")) - longest; longer > 0 {
		return fmt.Errorf("--work-dir %s is %d bytes too long for the path of a socket in it: name a shorter one", o.WorkDir, longer)
	}
	if err := o.findDirs(); err != nil {
		return err
	}
	if o.objects, err = readObjects(o.Objects); err != nil {
		return fmt.Errorf("--objects: %w", err)
	}
	if o.events, err = readObjects(o.Events); err != nil {
		return fmt.Errorf("--events: %w", err)
	}
	if err := os.MkdirAll(o.WorkDir, 0o700); err != nil {
		return fmt.Errorf("--work-dir: %w", err)
	}
	o.planes = localPlanes{o.ControlPlane}
	if o.Kubeconfig != "" {
		o.planes, err = newGivenCluster(ctx, o.Kubeconfig, o.Context, o.Namespace, filepath.Join(o.WorkDir, "kubeconfig"))
	}
	return err
}

// findDirs finds the directories of the modules and of the global hooks. If one of the two
// directories is missing, findDirs uses an empty directory instead.
func (o *Options) findDirs() error {
	dirs := map[string]*string{"modules": &o.modules, "global-hooks": &o.globalHooks}
	found := 0
	for name, dir := range dirs {
		*dir = filepath.Join(o.Dir, name)
		info, err := os.Stat(*dir)
		switch {
		case err == nil && info.IsDir():
			found++
			*dir, err = filepath.Abs(*dir)
		case err == nil:
			err = fmt.Errorf("%s is not a directory", *dir)
		case errors.Is(err, fs.ErrNotExist):
			*dir = filepath.Join(o.WorkDir, "no-"+name)
			err = os.MkdirAll(*dir, 0o700)
		}
		if err != nil {
			return err
		}
	}
	if found == 0 {
		return fmt.Errorf("%s has neither modules nor global-hooks: name the directory that has them", o.Dir)
	}
	return nil
}

// undisturbed runs the operator twice without a kill.
func (o *Options) undisturbed(ctx context.Context) (reference, error) {
	ref := reference{known: map[step]bool{}}
	var states [2]state
	for i := range states {
		o.Progress(fmt.Sprintf("undisturbed run %d of 2", i+1))
		r, s, err := o.undisturbedRun(ctx, filepath.Join(o.WorkDir, fmt.Sprintf("undisturbed-%d", i+1)))
		if err != nil {
			return ref, err
		}
		states[i] = s
		for at := range r.failures {
			ref.known[at] = true
		}
		if i == 0 {
			ref.targets = r.recorder.targets
		}
	}
	ref.state, ref.noise = states[0], findNoise(states[0], states[1])
	return ref, nil
}

// notStarted returns the error of a round whose environment could not be started because of err. The argument limited
// is the context of the round.
func (o *Options) notStarted(limited context.Context, err error) error {
	if errors.Is(limited.Err(), context.DeadlineExceeded) {
		return fmt.Errorf("start the operator and its cluster: not done after %s: %w; allow more time with --timeout", o.Timeout, err)
	}
	return fmt.Errorf("start the operator and its cluster: %w", err)
}

func (o *Options) undisturbedRun(ctx context.Context, dir string) (r *round, s state, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	r, release, err := o.open(ctx, dir, nil, nil)
	if err != nil {
		return nil, nil, o.notStarted(ctx, err)
	}
	defer func() { err = errors.Join(err, release()) }()
	if err := r.settle(ctx); err != nil {
		for _, f := range r.newFailures() {
			err = fmt.Errorf("%w\n%s (step %s) failed %d times: %s", err, f.Doer, f.Node, f.Attempts, f.Error)
		}
		return nil, nil, &UndisturbedError{err, r.environment.log()}
	}
	s, err = r.state(ctx)
	return r, s, err
}

// rounds tests all targets and adds the results to the report.
func (o *Options) rounds(ctx context.Context, ref reference, targets []Target, report *Report) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next, results := make(chan int), sync.Mutex{}
	findings := make([]*Finding, len(targets))
	var workers sync.WaitGroup
	for range max(1, o.Parallel) {
		workers.Go(func() {
			for i := range next {
				finding, reached, err := o.round(ctx, ref, i, targets[i])
				if err != nil {
					cancel(err)
					return
				}
				results.Lock()
				findings[i] = finding
				if !reached {
					report.NotReached = append(report.NotReached, targets[i].String())
				}
				results.Unlock()
				o.Progress(fmt.Sprintf("round %d of %d: kill %s: %s", i+1, len(targets), targets[i], result(finding, reached)))
			}
		})
	}
feed:
	for i := range targets {
		select {
		case next <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(next)
	workers.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	for _, f := range findings {
		if f != nil {
			report.Findings = append(report.Findings, *f)
		}
	}
	slices.Sort(report.NotReached)
	return nil
}

func result(f *Finding, reached bool) string {
	switch {
	case !reached:
		return "not reached"
	case f == nil:
		return "ok"
	case len(f.Failures) > 0:
		return "a step fails"
	case f.Unfinished != "":
		return "unfinished"
	default:
		return fmt.Sprintf("%d differences", len(f.Differences))
	}
}

// round kills the operator at a target, and compares the result with the reference. The finding f is nil if the round
// has the result of the undisturbed runs, or did not reach the target.
func (o *Options) round(ctx context.Context, ref reference, i int, target Target) (f *Finding, reached bool, err error) {
	dir := filepath.Join(o.WorkDir, fmt.Sprintf("round-%d", i+1))
	limited, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	r, release, err := o.open(limited, dir, &target, ref.known)
	if err != nil {
		return nil, false, cmp.Or(context.Cause(ctx), o.notStarted(limited, err))
	}
	f = &Finding{Doer: doer(target.Node, target.Subject), Target: target, Moment: target.String(), Files: dir}
	failed := r.settle(limited)
	if failed == nil && r.killed {
		f.Differences, failed = r.compare(limited, ref.state, ref.noise)
	}
	if failed != nil && !errors.Is(failed, errFailing) {
		f.Unfinished = failed.Error()
	}
	f.Failures = r.newFailures()
	if err := release(); err != nil {
		return nil, false, err
	}
	if ctx.Err() != nil {
		return nil, false, context.Cause(ctx)
	}
	if !r.killed || len(f.Failures) == 0 && len(f.Differences) == 0 && f.Unfinished == "" {
		return nil, r.killed, os.RemoveAll(dir)
	}
	return f, true, nil
}
