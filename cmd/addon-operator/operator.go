package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/crd"
	"addon-operator/internal/helm"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/internal/operation"
	"addon-operator/internal/webhook"
	"addon-operator/sdk/shell"
	"addon-operator/steps"
	"addon-operator/steps/addons"
	"addon-operator/steps/objects"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

// stopWithin bounds the end of the operator after it was told to stop. Hooks are
// killed after 20 s; the rest is for what follows.
const stopWithin = 25 * time.Second

// drainWithin is when reviews are cut off that are still under way.
const drainWithin = 20 * time.Second

// ballast is the size of the file that gives way when the disk is full.
const ballast = 4 << 20

// An operator is a running operator: the parts that serve and triggers share.
type operator struct {
	settings settings.Settings
	log      zerolog.Logger
	began    time.Time
	db       *store.DB
	runner   *hook.Runner
	client   *kube.Client
	kinds    *kube.Kinds
	helm     *helm.Client
	steps    *steps.Lifecycle
	engine   *workflow.Engine
	metrics  *metrics.Set
	changes  debugapi.ChangeFeed
	slow     debugapi.SlowRuns
	notices  *notices
	recheck  wakeup // for survey
	refilter wakeup // for keepFailingFilters
	mended   wakeup // for runMended
	// addonsChanged is woken when the registered addons may have changed.
	addonsChanged wakeup
	// shortages is woken when a shortage of the store's disk has begun or ended.
	shortages wakeup
	params    *debugapi.Params

	lifecycleObserver *lifecycleObserver
	clusterObserver   *clusterObserver

	leadership  leadership
	leaseConfig *rest.Config

	registered registeredWebhooks
	// written is when the store was written last before this process opened it.
	written time.Time

	// cluster is the id of the cluster, empty while it is not known.
	cluster string
	status  status
	// logConfigEvents has each change of the ConfigMap logged as it is seen.
	logConfigEvents atomic.Bool
	// kept is set once the operator must leave its parts to the end of the process.
	kept bool

	kube      *triggers.Kube
	schedule  *triggers.Schedule
	absent    *triggers.Absent
	configMap *triggers.ConfigMap
	asks      *webhook.Endpoint
	webhook   *triggers.Webhook

	addonsRuntime *addons.Runtime
	addons        *triggers.Addons // nil if addons configurations are not processed
}

// Run runs the operator until ctx is done, and then lets what runs come to its
// end for a while. It fails when the operator cannot start, or when its store
// can no longer be written.
func Run(ctx context.Context, s settings.Settings, w io.Writer) error {
	defer limitHeap()()
	notices, err := newLog(s, w)
	if err != nil {
		return err
	}
	buffer := newLogBuffer(w, func(lines int) {
		notices.Warn().Int("lines", lines).Msg("log lines dropped: nothing read the log for a while")
	})
	defer buffer.close()
	log, err := newLog(s, buffer)
	if err != nil {
		return err
	}
	captureLogs(log)
	for _, warning := range s.Warnings {
		log.Warn().Msg(warning)
	}
	o := &operator{
		settings: s, log: log, began: time.Now(),
		recheck: newWakeup(), refilter: newWakeup(), mended: newWakeup(), addonsChanged: newWakeup(), shortages: newWakeup(),
	}
	if o.params, err = debugapi.NewParams(s, log, o.logConfigEvents.Store); err != nil {
		return err
	}
	if err := s.CheckDirs(); err != nil {
		return err
	}
	if err := o.connect(); err != nil {
		return err
	}
	o.notices = newNotices(o.client, &o.settings, o.log)
	if err := o.open(ctx); err != nil {
		return err
	}
	defer o.close()
	o.status.db, o.status.leadership = o.db, &o.leadership
	o.metrics = metrics.New(s.MetricsPrefix, o.debugAPI().State)
	o.lifecycleObserver = newLifecycleObserver(o)
	o.clusterObserver = &clusterObserver{log: o.log, metrics: o.metrics, db: o.db}
	o.metrics.WatchClients(time.Now) // before the Lease is requested in the background
	for _, damaged := range o.db.MovedAtOpen() {
		o.lifecycleObserver.recordDamaged(damaged)
	}
	acquiring, stop := context.WithCancel(ctx)
	defer stop()
	if err := o.campaign(acquiring); err != nil {
		return err
	}
	if err := o.assemble(); err != nil {
		return err
	}
	return o.run(ctx)
}

// connect makes the clients. It sends nothing: an API server that is away is
// waited for by the steps that need it.
func (o *operator) connect() error {
	s := &o.settings
	config, namespace, err := kube.Connect(kube.Options{
		Kubeconfig: s.Kubeconfig, Context: s.KubeContext, Server: s.KubeServer, QPS: float32(s.KubeQPS), Burst: s.KubeBurst,
	})
	if err != nil {
		return err
	}
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	if s.Namespace == "" {
		return settings.Invalid("the namespace of releases is not known: set ADDON_OPERATOR_NAMESPACE or --namespace")
	}
	if s.DebugKubernetes {
		config.Wrap(requestLog(o.log))
	}
	o.leaseConfig = rest.CopyConfig(config)
	config.Wrap(o.leadership.guard)
	if o.client, err = kube.NewClient(config); err != nil {
		return err
	}
	labels, err := s.Labels()
	if err != nil {
		return err
	}
	log := o.log.With().Str("source", "helm").Logger()
	o.helm, err = helm.New(helm.Options{
		Config: config, Namespace: s.Namespace, Driver: s.HelmDriver, HistoryMax: s.HelmHistoryMax, Timeout: s.HelmTimeout,
		ExtraLabels: labels, Log: func(format string, args ...any) { log.Debug().Msgf(format, args...) },
	})
	return err
}

// open opens the store of the cluster and ends what an earlier process has left
// running.
func (o *operator) open(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Dir(o.settings.Store), 0o700); err != nil {
		return fmt.Errorf("directory of the store: %w; make it writable, or name another with --store", err)
	}
	if err := o.openStore(ctx); err != nil {
		return err
	}
	err := o.settle(ctx)
	if err == nil {
		o.runner, err = hook.NewRunner(hook.Options{
			TempDir: o.settings.TempDir, ToolsDir: o.settings.ToolsDir, Framework: shell.Framework, StoreID: o.db.ID(),
			Clock: time.Now, KeepTemp: o.settings.KeepTemp, JoinJSON: o.settings.LogJoinJSON, Timeout: o.settings.HookTimeout,
		})
	}
	if err != nil {
		return errors.Join(err, o.db.Close())
	}
	return nil
}

func (o *operator) openStore(ctx context.Context) (err error) {
	o.written = lastWrite(o.settings.Store)
	if o.db, err = o.openWithRoom(ctx); err != nil {
		return err
	}
	if c := o.db.Compaction(); c != nil && c.Err != nil {
		o.log.Warn().Err(c.Err).Int64("bytes", c.Before).Msg("store not compacted although most of it is free; the next start tries again")
	} else if c != nil {
		o.log.Info().Int64("before", c.Before).Int64("after", c.After).Msg("store compacted")
	}
	for _, key := range o.db.Damaged() {
		o.log.Error().Str("record", key.String()).Msg("record damaged: its checksum does not match; the rest of the store is used")
	}
	killed, err := hook.KillLeftovers(o.db.ID())
	if len(killed) > 0 {
		o.log.Warn().Ints("pids", killed).Msg("killed hooks that an earlier process left running")
	}
	if err != nil {
		return errors.Join(fmt.Errorf("hooks of an earlier process: %w", err), o.db.Close())
	}
	return nil
}

func (o *operator) close() {
	if o.kept {
		return
	}
	o.runner.Close()
	if err := o.db.Close(); err != nil {
		o.log.Error().Err(err).Msg("the store did not close well")
	}
}

// assemble joins the steps with the engine and the triggers with both.
func (o *operator) assemble() (err error) {
	s := o.settings
	observer := o.clusterObserver.own()
	o.kinds = kube.NewKinds(o.client, observer)
	executor, err := operation.NewExecutor(o.client, o.kinds, operation.Options{
		QPS: float32(s.ObjectQPS), Burst: s.ObjectBurst, Timeout: s.ObjectTimeout,
	})
	if err != nil {
		return err
	}
	o.steps = steps.New(o.stepOptions(executor))
	addonsGraph, err := o.addonsGraph()
	if err != nil {
		return err
	}
	if o.engine, err = workflow.New(o.db, o.changes.Observe(o.engineObserver()), o.steps.Binding(), addonsGraph); err != nil {
		return err
	}
	o.addons = o.watchAddons()
	o.engine.ContinueOnFailure = s.OnModuleFailure == settings.ContinueOnFailure
	watches := o.clusterObserver.hooks()
	watches.FailuresChanged = func(kube.View) { o.refilter.raise() }
	o.kube = triggers.NewKube(o.db, o.engine.Raise, o.client, o.kinds, watches, o.log)
	o.schedule = triggers.NewSchedule(o.db, o.engine.Raise, triggers.Missed(s.ScheduleMissed), o.log)
	o.absent = triggers.NewAbsent(o.db, o.engine.Raise, o.kinds, selector(o.helm.Labels()), observer)
	o.absent.Delivered = o.clusterObserver.objectsAbsent
	o.configMap = triggers.NewConfigMap(o.db, o.engine.Raise, o.configObject(), o.engine.Retry)
	o.configMap.Seen = o.configSeen
	o.configMap.Raised = o.cancelSwitchedOff
	o.asks = o.webhooks()
	o.webhook = triggers.NewWebhook(o.db, o.asks.Serve)
	o.steps.Connect(o.engine, o.kube)
	return nil
}

// engineObserver returns the observer of the engine, followed by the triggers that react to ended tasks.
func (o *operator) engineObserver() workflow.Observer {
	observer := o.lifecycleObserver.engine()
	observe := observer.Recorded
	observer.Recorded = func(r store.Record) {
		observe(r)
		stepChanges{o}.recorded(r)
	}
	return observer
}

// configSeen logs content of the ConfigMap where that was asked for. Its values
// can be secrets; the names of its keys are not.
func (o *operator) configSeen(c kube.Content) {
	if o.logConfigEvents.Load() {
		o.log.Info().Bool("exists", c.Exists).Str("resourceVersion", c.ResourceVersion).
			Strs("keys", slices.Sorted(maps.Keys(c.Data))).Msg(o.configObject().String() + " seen")
	}
}

// addonModulesDir returns the directory of the modules that are made from addons.
func addonModulesDir(store string) string { return filepath.Join(filepath.Dir(store), "addon-modules") }

// configObject returns the operator's ConfigMap.
func (o *operator) configObject() *kube.ConfigMap {
	return o.client.ConfigMap(o.settings.Namespace, o.settings.ConfigMap)
}

// stepOptions returns the clients and settings of the steps.
func (o *operator) stepOptions(executor *operation.Executor) steps.Options {
	s := o.settings
	return steps.Options{
		DB: o.db, Log: o.log, Hooks: o.runner, Helm: o.helm, Kube: o.client, Objects: objects.New(o.db, executor, stepChanges{o}),
		CRDs: crd.NewInstaller(o.client, o.helm.Labels()), Config: o.configObject(),

		ModulesDirs: strings.Split(s.ModulesDirs, ":"), AddonModulesDir: addonModulesDir(s.Store),
		AllAddonsAsModules: s.AddonsModules, GlobalHooksDir: s.GlobalHooksDir, Namespace: s.Namespace, Pod: s.OwnPod(),
		UnnumberedOrder: s.UnnumberedOrder, ParallelModules: s.ParallelModules, StrictValues: s.StrictValues, CRDFilters: s.CRDPrefixes(),
		IgnoreRelease: s.HelmIgnoreRelease, AllowPurge: s.AllowPurge,
		MetricsPrefix: s.MetricsPrefix, UngroupedExpire: s.UngroupedMetrics == settings.ExpireMetrics,

		Observer: o.lifecycleObserver, Changes: stepChanges{o},
	}
}

func selector(labels map[string]string) string {
	var terms []string
	for key, value := range labels {
		terms = append(terms, key+"="+value)
	}
	return strings.Join(terms, ",")
}

// run starts the engine and the triggers and waits for their end.
func (o *operator) run(ctx context.Context) error {
	code, err := o.scan()
	if err != nil {
		return err
	}
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	group, watching := errgroup.WithContext(watching)
	serving, err := o.serve(watching, group)
	if err != nil {
		return err
	}
	group.Go(func() error { o.logShortages(watching); return nil })
	either, ended := context.WithCancel(watching)
	defer ended()
	defer context.AfterFunc(ctx, ended)()
	dropped, release, err := o.lead(either)
	if err != nil {
		stop()
		serving()
		if failed := group.Wait(); failed != nil || ctx.Err() != nil {
			return failed // a standby was told to stop, or could not serve
		}
		return err
	}
	if o.leadership.waited {
		code, err = o.scan() // the directories may have changed meanwhile
	}
	if err == nil {
		err = o.begin(ctx, code, dropped)
	}
	if err != nil {
		serving()
		release()
		return err
	}
	o.status.begun.Store(true)
	o.log.Info().Str("version", version).Str("store", o.settings.Store).Uint64("epoch", o.db.Epoch()).
		Str("namespace", o.settings.Namespace).Int("modules", len(o.steps.Modules.Disk().Modules)).Msg("operator started")
	o.watch(watching, group)
	select {
	case <-ctx.Done():
		o.log.Info().Msg("operator stops: nothing new is begun, what runs may end")
	case <-watching.Done():
	case <-o.db.Done():
		if errors.Is(o.db.Err(), store.ErrFenced) {
			o.killHooks()
		}
	}
	draining, drained := context.WithTimeout(watching, drainWithin)
	defer drained()
	withdrawn := make(chan struct{})
	go func() {
		defer close(withdrawn)
		if ctx.Err() != nil && watching.Err() == nil {
			o.withdrawAtShutdown(draining)
		}
	}()
	end := make(chan error, 1)
	go func() {
		o.engine.Stop() // until it has, hooks that end may ask the API server, which asks hooks
		<-withdrawn
		o.asks.Stop(draining)
		stop()
		serving()
		err := group.Wait()
		release()
		end <- err
	}()
	select {
	case err := <-end:
		o.log.Info().Msg("operator stopped")
		return errors.Join(err, o.db.Err())
	case <-time.After(stopWithin):
		o.kept = true
		return fmt.Errorf("the operator did not come to its end within %s: what still runs was interrupted and runs again at the next start", stopWithin)
	}
}

// begin starts the engine. On a full disk it waits for room until ctx ends. The file that marks the container is
// written last: until then, the next process treats pending work like that of another container.
func (o *operator) begin(ctx context.Context, code, dropped string) (err error) {
	how := triggers.Startup(o.settings.Startup)
	if how == triggers.Clean {
		if err := triggers.Forget(ctx, o.db); err != nil {
			return err
		}
	}
	mark := containerFile(o.settings.TempDir, o.db.ID())
	if o.engine.NewContainer, err = mark.inNewContainer(); err != nil {
		return err
	}
	now := triggers.Circumstances{Code: code, Dropped: dropped, NewContainer: o.engine.NewContainer}
	defer context.AfterFunc(ctx, o.engine.Stop)()
	if err := o.engine.Start(func(tx *store.Tx) ([]workflow.Event, error) { return triggers.Begin(tx, how, now) }); err != nil {
		return err
	}
	return mark.write()
}

// scan reads the directories of modules and returns the digest of the code.
func (o *operator) scan() (code string, err error) {
	set, err := o.steps.Modules.Scan()
	if err != nil {
		return "", fmt.Errorf("modules (--modules-dir=%s): %w", o.settings.ModulesDirs, err)
	}
	s := o.settings
	return o.steps.Modules.Code(set, version, s.ModulesDirs, s.Namespace, s.ConfigMap, s.ExtraLabels, s.CRDFilters, strconv.FormatBool(s.StrictValues))
}

// watch begins in group what raises events and what looks after the operator
// beside its tasks. All of it ends with ctx, or with the first that fails.
func (o *operator) watch(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { o.kinds.Run(ctx); return nil })
	group.Go(func() error { return o.kube.Run(ctx) })
	group.Go(func() error { return o.schedule.Run(ctx) })
	group.Go(func() error { return o.absent.Run(ctx) })
	group.Go(func() error {
		if err := o.steps.Webhooks.WithdrawStale(ctx); err != nil {
			return err
		}
		return o.webhook.Run(ctx)
	})
	group.Go(func() error { o.asks.Run(ctx); return nil })
	group.Go(func() error { return o.configMap.Run(ctx, o.clusterObserver.own()) })
	if o.addons != nil {
		group.Go(func() error { return o.addons.Run(ctx) })
	}
	group.Go(func() error { return o.awaitCluster(ctx) })
	group.Go(func() error { o.notices.run(ctx); return nil })
	group.Go(func() error { newMaintenance(o.db, &o.settings, o.log).run(ctx); return nil })
	group.Go(func() error { o.survey(ctx); return nil })
	group.Go(func() error { o.runMended(ctx); return nil })
	group.Go(func() error { o.runAddonsChanged(ctx); return nil })
	group.Go(func() error { return o.watchDirectories(ctx) })
	group.Go(func() error { o.keepFailingFilters(ctx); return nil })
}
