package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"addon-operator/internal/crd"
	"addon-operator/internal/helm"
	"addon-operator/internal/kube"
	"addon-operator/internal/lease"
	"addon-operator/internal/operation"
	"addon-operator/steps"
	"addon-operator/steps/objects"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

const (
	namespace  = "addon-operator"
	configName = "addon-operator"
)

var errKilled = errors.New("the process is killed")

// A process is one simulated process of the operator. It uses the real packages, and connects them as the program does,
// but has no HTTP servers, webhooks or addons, and does not look for changed files.
type process struct {
	*simulation
	dead   atomic.Bool
	killed chan struct{} // closed by kill
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // result of the method run; set before ended is closed

	db         *store.DB
	written    time.Time // time of the last write of an earlier process to the store
	lease      *lease.Lease
	leads      atomic.Bool // whether this process has acquired the Lease
	client     *kube.Client
	engine     *workflow.Engine
	lifecycle  *steps.Lifecycle
	kinds      *kube.Kinds
	kube       *triggers.Kube
	schedule   *triggers.Schedule
	rateLimits *triggers.RateLimits
	absent     *triggers.Absent
	config     *triggers.ConfigMap

	newContainer bool
	booted       time.Time
}

// boot starts a process of the operator. newContainer says whether it seems to run in a new container.
func (w *simulation) boot(newContainer bool) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{simulation: w, killed: make(chan struct{}), cancel: cancel, ended: make(chan struct{}), newContainer: newContainer, booted: time.Now()}
	w.process = p
	w.disk.Entering = func() { p.pass("update " + caller()) }
	w.disk.Before = func(int) error { return p.commit() }
	w.disk.After = func(n int) error { return p.committed(n) }
	go func() {
		defer close(p.ended)
		p.err = p.run(ctx)
	}()
}

// kill ends the process at once: from then on, its actions have no effect.
func (p *process) kill() {
	if p.dead.CompareAndSwap(false, true) {
		close(p.killed)
		p.cancel()
	}
	p.scheduler.release(p)
	<-p.ended
}

func (p *process) pass(name string) (paused bool) { return p.scheduler.pass(p, name) }

func (p *process) below(n int) int { return p.scheduler.below(n) }

func (p *process) now() time.Time { return time.Now().UTC() }

func (p *process) note(format string, args ...any) { p.simulation.note("operator", format, args...) }

// run runs the operator until ctx ends, a trigger fails, or the store has failed.
func (p *process) run(ctx context.Context) (err error) {
	if err := p.open(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.db.Close()) }()
	if err := p.seekLease(); err != nil {
		return err
	}
	if err := p.assemble(); err != nil {
		return err
	}
	set, err := p.lifecycle.State.Scan()
	if err != nil {
		return err
	}
	code, err := p.lifecycle.State.Modules.Code(set, "1")
	if err != nil {
		return err
	}
	dropped, release, err := p.lead(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // the process was stopped while it waited for the Lease
		}
		return err
	}
	now := triggers.Circumstances{Code: code, Version: "1", NewContainer: p.newContainer, Dropped: dropped}
	p.engine.NewContainer = p.newContainer
	ended := make(chan struct{})
	undo := context.AfterFunc(ctx, func() { defer close(ended); p.engine.Stop() }) // Stop also ends a Start that waits for free disk space
	err = p.engine.Start(func(tx *store.Tx) ([]workflow.Event, error) { return triggers.Begin(tx, p.startup, now) })
	if !undo() {
		<-ended
	}
	if err != nil {
		release()
		return err
	}
	p.note("started: epoch %d", p.db.Epoch())
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, watching := errgroup.WithContext(watching)
	p.watch(watching, group)
	select {
	case <-ctx.Done():
	case <-watching.Done():
	case <-p.db.Done():
	}
	p.engine.Stop()
	stop()
	err = group.Wait()
	release()
	return err
}

// restConfig returns a client config that sends the requests of the process to the simulated API server.
func (p *process) restConfig() *rest.Config {
	return &rest.Config{Host: "http://simulated", QPS: -1, Transport: &transport{network: p.network, process: p}}
}

// open opens the store. While the simulated disk is full, open tries again every 10 s.
func (p *process) open(ctx context.Context) (err error) {
	p.written = p.lastWrite
	for {
		p.db, err = store.OpenMemory(p.disk, store.Options{})
		if !errors.Is(err, store.ErrFull) {
			return err
		}
		if err := p.until(ctx, 10*time.Second); err != nil {
			return err
		}
	}
}

// assemble creates the parts of the operator and connects them. It starts nothing.
func (p *process) assemble() (err error) {
	config := p.restConfig()
	config.Wrap(lease.Guard(func() error { return p.lease.Check() }))
	if p.client, err = kube.NewClient(config); err != nil {
		return err
	}
	charts, err := helm.New(helm.Options{Config: config, Namespace: namespace, HistoryMax: 3})
	if err != nil {
		return err
	}
	log := zerolog.Nop()
	if os.Getenv("SIMULATE_LOG") != "" {
		log = zerolog.New(os.Stderr)
	}
	observer := kube.Observer{}
	p.kinds = kube.NewKinds(p.client, observer)
	executor, err := operation.NewExecutor(p.client, p.kinds, operation.Options{})
	if err != nil {
		return err
	}
	object := p.client.ConfigMap(namespace, configName)
	options := steps.Options{Changes: changes{p}}
	options.State = scan.Options{
		DB: p.db, Log: log, ConfigMap: object, ModulesDirs: []string{filepath.Join(p.dir, "modules")},
		GlobalHooksDir: filepath.Join(p.dir, "global-hooks"), UnnumberedOrder: 1,
	}
	options.Hooks.Runner, options.Hooks.Objects = &runner{p.hooks, p}, objects.New(p.db, executor)
	options.Releases.Helm = charts
	options.Discovery.Helm, options.Discovery.Kube, options.Discovery.Namespace = charts, p.client, namespace
	options.Discovery.CRDs.Installer, options.Discovery.ParallelModules = crd.NewInstaller(p.client, charts.Labels()), p.parallel
	p.lifecycle = steps.New(options)
	if p.engine, err = workflow.New(p.db, p.observer(), p.lifecycle.Implementation()); err != nil {
		return err
	}
	p.engine.ContinueOnFailure = p.continues
	p.kube = triggers.NewKube(p.db, p.engine, p.client, p.kinds, observer, log)
	p.schedule = triggers.NewSchedule(p.db, p.engine, triggers.Once, log)
	p.rateLimits = triggers.NewRateLimits(p.db, p.engine)
	p.absent = triggers.NewAbsent(p.db, p.engine, p.kinds, "heritage=addon-operator", observer)
	p.config = triggers.NewConfigMap(p.db, p.engine, object, func(id store.ID) error { return p.engine.Retry(id, "", "") })
	p.lifecycle.Hooks.Connect(p.kube)
	return nil
}

func (p *process) observer() workflow.Observer {
	return workflow.Observer{
		Recorded: func(r store.Record) {
			p.checks.recorded(r)
			p.config.Recorded(r)
		},
		Raised: p.checks.raised,
		Broken: func(queue string, err error) {
			if !p.dead.Load() && p.db.Err() == nil {
				p.violated("the engine is broken at queue %q: %v", queue, err)
			}
		},
	}
}

// watch starts the triggers, and the deletion of old history, in goroutines of group.
func (p *process) watch(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { p.kinds.Run(ctx); return nil })
	group.Go(func() error { return p.kube.Run(ctx) })
	group.Go(func() error { return p.schedule.Run(ctx) })
	group.Go(func() error { p.rateLimits.Run(ctx); return nil })
	group.Go(func() error { return p.absent.Run(ctx) })
	group.Go(func() error { return p.config.Run(ctx, kube.Observer{}) })
	group.Go(func() error { return p.trim(ctx) })
}

// trim deletes old history every hour.
func (p *process) trim(ctx context.Context) error {
	for p.until(ctx, time.Hour) == nil {
		for more := true; more && ctx.Err() == nil; {
			if err := p.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
				_, more, err = store.TrimHistory(tx, tx.Now().Add(-historyAge), 0, 2000)
				return err
			}); err != nil {
				more = false
			}
		}
	}
	return nil
}

// historyAge is the age at which the history of runs is deleted.
const historyAge = 12 * time.Hour

// changes implements steps.Changes.
type changes struct{ p *process }

func (c changes) ModuleDisabledByConfig(string) {}
func (c changes) Converged()                    { c.p.note("converged") }
func (c changes) ProblemsChanged()              {}
func (c changes) AddonModulesChanged()          {}

// commit is called before each commit to the store. If it returns an error, the commit fails, because the disk is full
// or the process is killed.
func (p *process) commit() error {
	if p.dead.Load() {
		return errKilled
	}
	paused := p.pass("commit")
	if p.dead.Load() {
		return errKilled
	}
	if !paused {
		p.judge("a commit")
	}
	if p.full {
		return fmt.Errorf("no space left on device: %w", store.ErrFull)
	}
	return p.crash(false)
}

// committed is called after the n-th commit to the store.
func (p *process) committed(n int) error {
	if err := p.crash(true); err != nil {
		return err
	}
	p.lastWrite = p.now()
	p.checks.committed(p, n)
	return nil
}

// crash counts down to the commit at which a crash is planned, and ends the process at this commit. It is called before
// each commit, with after set to false, and after each commit, with after set to true.
func (p *process) crash(after bool) error {
	if p.crashIn == 0 || after != p.crashAfter {
		return nil
	}
	if p.crashIn--; p.crashIn > 0 {
		return nil
	}
	return p.die()
}

// die is called by a goroutine of the process to end the process, as kill does. It does not wait for the end.
func (p *process) die() error {
	p.simulation.crashing = true
	if p.dead.CompareAndSwap(false, true) {
		close(p.killed)
		p.cancel()
	}
	return errKilled
}
