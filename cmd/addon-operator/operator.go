package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"addon-operator/cmd/addon-operator/crashtest"
	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/cmd/addon-operator/traces"
	"addon-operator/cmd/addon-operator/webhooks"
	"addon-operator/internal/crd"
	"addon-operator/internal/helm"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/lease"
	"addon-operator/internal/metrics"
	"addon-operator/internal/module"
	"addon-operator/internal/operation"
	"addon-operator/sdk/shell"
	"addon-operator/steps"
	"addon-operator/steps/addons"
	"addon-operator/steps/objects"
	"addon-operator/store"
	"addon-operator/triggers"
	configurations "addon-operator/triggers/addons"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
)

// stopWithin is the maximum time in which the engine, the servers and the triggers end in a shutdown. Hooks are killed
// after 20 s. The remaining time is for commits and webhooks. Afterwards, the Lease is released and the store is
// closed.
const stopWithin = 25 * time.Second

// drainWithin is the maximum time from the beginning of a shutdown to the abort of the review requests that
// are still unfinished. If a component has failed, they are aborted at once.
const drainWithin = 20 * time.Second

// An operator has the components of a running operator that the servers and triggers share.
type operator struct {
	settings settings.Settings
	log      zerolog.Logger
	began    time.Time
	file     *storeFile
	db       *store.DB // the open store of the field file
	runner   *hook.Runner
	client   *kube.Client
	kinds    *kube.Kinds
	helm     *helm.Client
	steps    *steps.Lifecycle
	engine   *workflow.Engine
	metrics  *metrics.Set
	changes  debugapi.ChangeFeed
	slow     debugapi.SlowRuns
	scans    inspect.ScanCache
	notices  *notices
	params   *debugapi.Params
	surveys  *surveys

	lifecycleObserver *lifecycleObserver
	clusterObserver   *clusterObserver
	traces            *traces.Observer // nil if nothing is traced

	leadership *leadership
	clock      serverClock

	status status
	// logConfigEvents makes the operator log each change of the ConfigMap.
	logConfigEvents atomic.Bool
	// kept is set if components of the operator still run when Run returns. They may still use the
	// store, so it is not closed.
	kept bool
	// control is nil unless the command "test" has started this process.
	control *crashtest.Control

	kube       *triggers.Kube
	schedule   *triggers.Schedule
	rateLimits *triggers.RateLimits
	absent     *triggers.Absent
	configMap  *triggers.ConfigMap
	canceler   moduleCanceler
	webhooks   *webhooks.Webhooks
	webhook    *triggers.Webhook

	addonsRuntime *addons.Runtime
	addons        *configurations.Trigger // nil if addons configurations are not processed
}

// Run runs the operator until ctx ends, and then gives running tasks some time to end. Run returns an error if the
// operator cannot start, if its store cannot be written any more, if a component such as a server or a trigger fails,
// or if the operator does not stop within stopWithin.
func Run(ctx context.Context, s settings.Settings, w io.Writer) error { return run(ctx, s, w, nil) }

// run implements [Run]. control is nil unless the command "test" has started this process.
func run(ctx context.Context, s settings.Settings, w io.Writer, control *crashtest.Control) error {
	defer limitHeap()()
	notices, err := newLog(s, w)
	if err != nil {
		return err
	}
	buffer := newLogBuffer(w, func(lines int) {
		notices.Warn().Int("lines", lines).Msg("log lines dropped, because the output of the operator was not read")
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
	o := &operator{settings: s, log: log, began: time.Now(), control: control}
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
	if err := o.file.open(ctx); err != nil {
		return err
	}
	o.db = o.file.db
	defer o.close()
	o.status.db, o.status.leadership = o.db, o.leadership
	if o.traces, err = traces.New(ctx, &o.settings, o.db.ID(), version, o.log); err != nil {
		return err
	}
	// debugAPI is called at each scrape, and not here, because the engine does not exist yet.
	o.metrics = metrics.New(s.MetricsPrefix, func() (metrics.State, error) { return o.debugAPI().State() })
	o.metrics.Exemplars = o.traces != nil
	o.lifecycleObserver = newLifecycleObserver(o)
	o.clusterObserver = &clusterObserver{log: o.log, metrics: o.metrics, labels: newBindingLabels(o.db)}
	// WatchClients must be called before o.leadership sends requests in the background, because client-go reads its
	// observer without a lock. The request for the ID of the cluster, which o.file.open has sent, is not observed.
	o.metrics.WatchClients(time.Now)
	for _, damaged := range o.db.MovedAtOpen() {
		o.lifecycleObserver.recordDamaged(damaged)
	}
	if err := o.leadership.acquire(ctx); err != nil {
		return err
	}
	if err := o.prepareHooks(); err != nil { // in parallel with the first request for the Lease
		return err
	}
	if err := o.assemble(); err != nil {
		return err
	}
	return o.run(ctx)
}

// connect creates the clients. connect sends no request, because the API server may not be reachable
// yet. The steps that need the API server wait for it.
func (o *operator) connect() error {
	s := &o.settings
	config, err := connect(s)
	if err != nil {
		return err
	}
	if s.DebugKubernetes {
		config.Wrap(requestLog(o.log))
	}
	o.file = &storeFile{path: s.Store, log: o.log, committed: o.committed, shortages: newWakeup()}
	o.leadership = &leadership{settings: s, log: o.log, config: rest.CopyConfig(config), file: o.file}
	config.Wrap(lease.Guard(o.leadership.check))
	o.clock.now = time.Now
	config.Wrap(o.clock.guard)
	if o.client, err = kube.NewClient(config); err != nil {
		return err
	}
	o.file.client = o.client
	options, err := helmOptions(s)
	if err != nil {
		return err
	}
	log := o.log.With().Str("source", "helm").Logger()
	options.Config, options.Log = config, func(format string, args ...any) { log.Debug().Msgf(format, args...) }
	o.helm, err = helm.New(options)
	return err
}

// helmOptions returns the settings of the Helm client, without the connection to the cluster.
func helmOptions(s *settings.Settings) (helm.Options, error) {
	labels, err := s.Labels()
	return helm.Options{
		Namespace: s.Namespace, Driver: s.HelmDriver, HistoryMax: s.HelmHistoryMax, Timeout: s.HelmTimeout, ExtraLabels: labels,
	}, err
}

// connection returns the settings of the connection to the cluster.
func connection(s *settings.Settings) kube.Options {
	return kube.Options{
		Kubeconfig: s.Kubeconfig, Context: s.KubeContext, Server: s.KubeServer, QPS: float32(s.KubeQPS), Burst: s.KubeBurst,
	}
}

// connect returns the configuration of the connection to the cluster. If s.Namespace is empty,
// connect sets it to the namespace of the kubeconfig file or the pod.
func connect(s *settings.Settings) (*rest.Config, error) {
	config, namespace, err := kube.Connect(connection(s))
	if err != nil {
		return nil, err
	}
	if s.Namespace == "" {
		s.Namespace = namespace
	}
	if s.Namespace == "" {
		return nil, settings.Invalid("the namespace of releases is not known: set ADDON_OPERATOR_NAMESPACE or --namespace")
	}
	return config, nil
}

// prepareHooks kills the hooks of earlier processes, and creates the runner of hooks.
func (o *operator) prepareHooks() (err error) {
	if err := o.file.killLeftovers(); err != nil {
		return err
	}
	o.runner, err = hook.NewRunner(hook.Options{
		TempDir: o.settings.TempDir, ToolsDir: o.settings.ToolsDir, Framework: shell.Framework, StoreID: o.db.ID(),
		Clock: time.Now, KeepTemp: o.settings.KeepTemp, JoinJSON: o.settings.LogJoinJSON, Timeout: o.settings.HookTimeout,
	})
	return err
}

// close releases the Lease and closes the store, unless components of the operator still run.
func (o *operator) close() {
	if o.kept {
		return
	}
	o.leadership.release()
	if o.runner != nil {
		o.runner.Close()
	}
	if err := o.db.Close(); err != nil {
		o.log.Error().Err(err).Msg("cannot close the store")
	}
}

// assemble creates the steps, the engine and the triggers, and connects them with each other.
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
	if o.engine, err = workflow.New(o.db, o.changes.Observe(o.traces.Observe(o.engineObserver())), o.steps.Implementation(), addonsGraph); err != nil {
		return err
	}
	o.addons = o.watchAddons()
	o.engine.Checkpoint = checkpoint(o.control)
	o.engine.ContinueOnFailure = s.OnModuleFailure == settings.ContinueOnFailure
	watches := o.clusterObserver.hooks()
	watches.FailuresChanged = func(kube.View) { o.surveys.filters.raise() }
	o.kube = triggers.NewKube(o.db, o.engine, o.client, o.kinds, watches, o.log)
	o.kube.Damaged = o.lifecycleObserver.recordDamaged
	o.schedule = triggers.NewSchedule(o.db, o.engine, triggers.Missed(s.ScheduleMissed), o.log)
	o.rateLimits = triggers.NewRateLimits(o.db, o.engine)
	o.absent = triggers.NewAbsent(o.db, o.engine, o.kinds, selector(o.helm.Labels()), observer)
	o.absent.Delivered = o.clusterObserver.objectsAbsent
	o.configMap = triggers.NewConfigMap(o.db, o.engine, o.configObject(), func(id store.ID) error { return o.engine.Retry(id, "", "") })
	o.configMap.Seen = o.configSeen
	o.canceler = moduleCanceler{o.log, o.engine, o.steps}
	o.configMap.Raised = o.canceler.configRaised
	o.webhooks = newWebhooks(o)
	o.webhook = triggers.NewWebhook(o.db, o.webhooks.Endpoint.Serve)
	o.surveys = newSurveys(surveys{
		log: o.log, db: o.db, engine: o.engine, steps: o.steps, kube: o.kube, addons: o.addons,
		dirs: append(strings.Split(s.ModulesDirs, ":"), s.GlobalHooksDir),
	})
	o.steps.Hooks.Connect(o.kube)
	return nil
}

// engineObserver returns the observer of the engine. The returned observer passes each history record first to the
// lifecycle observer, and then to the components that react to records, such as the trigger of the ConfigMap.
func (o *operator) engineObserver() workflow.Observer {
	observer := o.lifecycleObserver.engine()
	observe := observer.Recorded
	observer.Recorded = func(r store.Record) {
		observe(r)
		stepChanges{o}.recorded(r)
		if o.control != nil {
			o.control.Recorded(r)
		}
	}
	return observer
}

// configSeen logs a change of the ConfigMap if the setting log.configmap.events is true. configSeen
// logs the names of the keys only, because the values can contain secrets.
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
	options := stepSettings(&o.settings)
	options.State.DB, options.State.Log, options.State.ConfigMap = o.db, o.log, o.configObject()
	options.Hooks.Runner, options.Hooks.TraceParent = o.runner, o.traces.TraceParent()
	options.Hooks.Objects = objects.New(o.db, executor)
	options.Hooks.Objects.Write = o.traces.Write()
	options.Releases.Helm = o.helm
	options.Discovery.Helm, options.Discovery.Kube = o.helm, o.client
	options.Discovery.Pod, options.Discovery.InPod = ownPod(&o.settings)
	options.Discovery.CRDs.Installer = crd.NewInstaller(o.client, o.helm.Labels())
	options.Observer, options.Changes = o.lifecycleObserver, stepChanges{o}
	return options
}

// ownPod returns the name of the operator's own pod, and whether the operator certainly runs in a pod of the cluster.
// If inPod is false, the name can be the host name of a machine outside of the cluster.
func ownPod(s *settings.Settings) (name string, inPod bool) {
	return s.OwnPod(), s.Pod != "" || connection(s).InCluster()
}

// stepSettings returns the settings of the steps, without clients.
func stepSettings(s *settings.Settings) (options steps.Options) {
	state, discovery := &options.State, &options.Discovery
	state.ModulesDirs, state.GlobalHooksDir = strings.Split(s.ModulesDirs, ":"), s.GlobalHooksDir
	state.AddonModulesDir, state.AllAddonsAsModules = addonModulesDir(s.Store), s.AddonsModules
	state.UnnumberedOrder, state.StrictValues = s.UnnumberedOrder, s.StrictValues
	options.Hooks.MetricsPrefix, options.Hooks.UngroupedExpire = s.MetricsPrefix, s.UngroupedMetrics == settings.ExpireMetrics
	discovery.Namespace, discovery.IgnoreRelease, discovery.AllowPurge = s.Namespace, s.HelmIgnoreRelease, s.AllowPurge
	discovery.Pod, discovery.InPod = s.Pod, s.Pod != ""
	discovery.PodNamespace = cmp.Or(connection(s).PodNamespace(), s.Namespace)
	discovery.ParallelModules, discovery.CRDs.Filters = s.ParallelModules, s.CRDPrefixes()
	return options
}

func selector(labels map[string]string) string {
	var terms []string
	for key, value := range labels {
		terms = append(terms, key+"="+value)
	}
	return strings.Join(terms, ",")
}

// run becomes the leader, starts the engine and the triggers, and waits for their end.
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
	group.Go(func() error { o.file.logShortages(watching, o.notices); return nil })
	either, ended := context.WithCancel(watching)
	defer ended()
	defer context.AfterFunc(ctx, ended)()
	dropped, err := o.leadership.becomeLeader(either)
	if err != nil {
		stop()
		serving()
		if failed := group.Wait(); failed != nil || ctx.Err() != nil {
			return failed // the operator was stopped while it was a standby, or its server failed
		}
		return err
	}
	if o.leadership.waited {
		code, err = o.scan() // because the directories may have changed while the process waited for the Lease
	}
	if err == nil {
		err = o.file.checkCluster(ctx)
	}
	if err == nil {
		err = o.begin(ctx, code, dropped)
	}
	if err != nil {
		serving()
		return err
	}
	o.status.begun.Store(true)
	if o.control != nil {
		o.control.Begun()
	}
	o.log.Info().Str("version", version).Str("store", o.settings.Store).Uint64("epoch", o.db.Epoch()).
		Str("namespace", o.settings.Namespace).Int("modules", len(o.steps.State.Modules.Disk().Modules)).Msg("operator started")
	o.watch(watching, group)
	return o.awaitEnd(ctx, watching, func() error {
		stop()
		serving()
		return group.Wait()
	})
}

// awaitEnd waits until ctx ends, a component fails, or the store accepts no more transactions, and then calls end. If
// the store is fenced, also during the shutdown, awaitEnd kills the running hooks.
func (o *operator) awaitEnd(ctx, watching context.Context, stopped func() error) error {
	defer o.leadership.killHooksIfFenced(o.engine)()
	select {
	case <-ctx.Done():
		o.log.Info().Msg("operator is stopping: no new task starts, and running tasks have time to end")
	case <-watching.Done():
	case <-o.db.Done():
	}
	return o.end(watching, ctx.Err() != nil, stopped)
}

// end stops the engine and the webhooks, and then calls the function stopped, which must stop all
// other components. end returns after stopWithin even if a component still runs. The argument asked
// must be true if a signal requested the stop.
func (o *operator) end(watching context.Context, asked bool, stopped func() error) error {
	draining, drained := context.WithTimeout(watching, drainWithin)
	defer drained()
	withdrawn := make(chan struct{})
	go func() {
		defer close(withdrawn)
		if asked && watching.Err() == nil {
			o.webhooks.WithdrawAtShutdown(draining)
		}
	}()
	end := make(chan error, 1)
	go func() {
		o.engine.Stop() // stopped before the webhooks, because hooks may send requests for which the API server calls the webhooks
		flushed := o.traces.Flush(watching, o.log)
		<-withdrawn
		o.webhooks.Endpoint.Stop(draining)
		err := stopped()
		<-flushed
		end <- err
	}()
	select {
	case err := <-end:
		o.log.Info().Msg("operator stopped")
		return errors.Join(err, o.db.Err())
	case <-time.After(stopWithin):
		o.kept = true
		return fmt.Errorf("the operator did not stop within %s: running tasks were interrupted and run again after the next start", stopWithin)
	}
}

// begin starts the engine. If the disk is full, begin waits for free space until ctx ends. In a new
// container, begin writes the identity of the container last. If this process ends before that, or if
// the write fails, the next process treats the pending work as work of another container.
func (o *operator) begin(ctx context.Context, code, dropped string) (err error) {
	how := triggers.StartMode(o.settings.Startup)
	if how == triggers.Clean {
		if err := triggers.Forget(ctx, o.db); err != nil {
			return err
		}
	}
	mark := containerFile(o.settings.TempDir, o.db.ID())
	if o.engine.NewContainer, err = mark.inNewContainer(); err != nil {
		return err
	}
	now := triggers.Circumstances{Code: code, Version: version, Pod: o.settings.OwnPod(), Dropped: dropped, NewContainer: o.engine.NewContainer}
	if how == triggers.IfChanged {
		now.ChartFiles = module.ChartFiles(o.steps.State.Modules.Disk().Modules)
	}
	defer context.AfterFunc(ctx, o.engine.Stop)()
	if err := o.engine.Start(func(tx *store.Tx) ([]workflow.Event, error) { return triggers.Begin(tx, how, now) }); err != nil {
		return err
	}
	if !o.engine.NewContainer {
		return nil // the previous process has written the identity
	}
	if err := mark.write(); err != nil {
		o.log.Warn().Err(err).Msg("the next process treats the pending work as that of another container")
	}
	return nil
}

// scan reads the directories of modules and of global hooks. scan returns a checksum of their code, of the version of
// the operator and of some settings.
func (o *operator) scan() (code string, err error) {
	set, err := o.steps.State.Scan()
	if err != nil {
		return "", fmt.Errorf("modules (--modules-dir=%s): %w", o.settings.ModulesDirs, err)
	}
	s := o.settings
	return o.steps.State.Modules.Code(set, version, s.ModulesDirs, s.Namespace, s.ConfigMap, s.ExtraLabels, s.CRDFilters, strconv.FormatBool(s.StrictValues))
}

// watch starts the triggers and the background work of the operator as goroutines of the group.
// They end when ctx ends, or after the first failure.
func (o *operator) watch(ctx context.Context, group *errgroup.Group) {
	group.Go(func() error { o.kinds.Run(ctx); return nil })
	group.Go(func() error { return o.kube.Run(ctx) })
	group.Go(func() error { return o.schedule.Run(ctx) })
	group.Go(func() error { o.rateLimits.Run(ctx); return nil })
	group.Go(func() error { return o.absent.Run(ctx) })
	group.Go(func() error {
		if err := o.steps.Discovery.Stale.WithdrawStale(ctx); err != nil {
			return err
		}
		return o.webhook.Run(ctx)
	})
	group.Go(func() error { o.webhooks.Endpoint.Run(ctx); return nil })
	group.Go(func() error { return o.configMap.Run(ctx, o.clusterObserver.own()) })
	if o.addons != nil {
		group.Go(func() error { return o.addons.Run(ctx) })
	}
	group.Go(func() error { return o.file.awaitCluster(ctx) })
	group.Go(func() error { o.notices.run(ctx); return nil })
	group.Go(func() error { newMaintenance(o.db, &o.settings, o.log).run(ctx); return nil })
	o.surveys.run(ctx, group)
}
