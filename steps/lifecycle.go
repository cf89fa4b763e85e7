package steps

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/crd"
	"addon-operator/internal/helm"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/module"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/bindings"
	"addon-operator/steps/charts"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookio"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/hookrun"
	"addon-operator/steps/hooks"
	"addon-operator/steps/objects"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/releases"
	"addon-operator/steps/report"
	"addon-operator/steps/review"
	"addon-operator/steps/sections"
	"addon-operator/steps/stale"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Options are the clients and settings of the steps.
type Options struct {
	DB     *store.DB
	Log    zerolog.Logger
	Hooks  hooks.Runner
	Helm   *helm.Client
	CRDs   *crd.Installer
	Kube   *kube.Client
	Config *kube.ConfigMap
	// Objects carries out the object operations of hooks.
	Objects *objects.Executor
	// Observer logs and counts; nil is silence.
	Observer Observer
	// Changes is notified of commits that others react to; nil is silence.
	Changes Changes
	// TraceParent returns the span of an attempt for the environment of its hook, in the form of the
	// header traceparent of W3C Trace Context; nil means that nothing is traced.
	TraceParent func(t workflow.Task) string

	ModulesDirs     []string
	AddonModulesDir string // of modules made from addons; "" for none
	// AllAddonsAsModules makes the addons of every ClusterAddonsConfiguration usable as modules,
	// not only of those marked so.
	AllAddonsAsModules bool
	GlobalHooksDir     string
	UnnumberedOrder    int
	// StrictValues makes a missing values.yaml an error.
	StrictValues bool
	// ParallelModules is the number of modules of equal order that run at once.
	ParallelModules int
	// CRDFilters are prefixes of names of files in crds that are ignored.
	CRDFilters []string
	Namespace  string
	// IgnoreRelease is a release that is never purged: the operator's own.
	IgnoreRelease string
	// Pod is the operator's own pod, if it runs in one. The release of the pod is never purged either.
	Pod string
	// AllowPurge is the number of releases that may be purged at once without the safety check;
	// 0 means no more than half of all releases.
	AllowPurge int
	// MetricsPrefix replaces {PREFIX} in the names of metrics of hooks.
	MetricsPrefix string
	// UngroupedExpire makes metrics without a group expire at each run of their hook that writes any.
	UngroupedExpire bool
}

// A Lifecycle implements the nodes of the lifecycle graph. Each step uses only the parts that it needs.
// What the parts share is in the store, except the last scan of the directories, which is part of
// Modules, and manifests that are rendered ahead, which are part of Charts.
type Lifecycle struct {
	Modules   *desired.Modules
	Addons    *modules.Provided
	Values    *desired.Values
	ConfigMap *desired.ConfigMap
	Charts    *charts.Charts
	Webhooks  *review.Webhooks
	Stale     *stale.Bindings
	Survey    *Survey

	options     Options
	db          *store.DB
	log         *oncelog.Logger
	applied     *sections.Applied
	hooks       *hooks.Configs
	metrics     *hookmetrics.Recorder
	reports     *report.Runs
	releases    *releases.Releases
	bindings    *bindings.Attached
	directories *directories
	exchange    *hookio.Exchange
}

// New returns the steps of the lifecycle. Call [Lifecycle.Connect] before the first step runs.
func New(o Options) *Lifecycle {
	if o.Observer == nil {
		o.Observer = silent{}
	}
	if o.Changes == nil {
		o.Changes = silent{}
	}
	if o.TraceParent == nil {
		o.TraceParent = func(workflow.Task) string { return "" }
	}
	l := &Lifecycle{options: o, db: o.DB, log: oncelog.New(o.Log), applied: &sections.Applied{}}
	l.Addons = modules.NewProvided(o.DB, l.log, l.applied, o.AddonModulesDir, o.ModulesDirs, o.AllAddonsAsModules)
	l.Modules = desired.NewModules(o.DB, l.log, desired.ModulesOptions{
		Dirs: o.ModulesDirs, AddonDir: o.AddonModulesDir, GlobalHooks: o.GlobalHooksDir,
		UnnumberedOrder: o.UnnumberedOrder, StrictValues: o.StrictValues,
	})
	l.directories = &directories{db: o.DB, modules: l.Modules, addons: l.Addons}
	l.Values = desired.NewValues(o.DB, l.log, l.Modules, l.applied)
	l.ConfigMap = desired.NewConfigMap(o.DB, l.log, o.Config, l.Modules, o.Changes)
	l.hooks = hooks.New(o.DB, l.log, o.Hooks, l.Modules)
	l.metrics = &hookmetrics.Recorder{Log: o.Log, Observer: o.Observer, Prefix: o.MetricsPrefix, UngroupedExpire: o.UngroupedExpire}
	l.reports = &report.Runs{Log: l.log, Observer: o.Observer}
	l.bindings = bindings.New(o.Changes)
	l.Charts = charts.New(o.DB, l.log, o.Helm, l.Modules, l.Values, o.Observer)
	l.releases = releases.New(o.DB, l.log, o.Helm, l.Charts, o.Observer, o.Changes)
	l.exchange = &hookio.Exchange{Modules: l.Modules, Values: l.Values, Config: l.ConfigMap, Metrics: l.metrics, Objects: o.Objects}
	l.Webhooks = &review.Webhooks{
		DB: o.DB, Log: l.log, Runner: o.Hooks, Bindings: l.bindings, Exchange: l.exchange, Observer: o.Observer,
	}
	l.Stale = stale.New(o.DB, l.log, l.Modules, l.hooks, o.Changes)
	l.Survey = &Survey{
		db: o.DB, log: l.log, modules: l.Modules, addons: l.Addons, values: l.Values, config: l.ConfigMap, hooks: l.hooks,
		applied: l.applied, changes: o.Changes,
	}
	return l
}

// Connect sets the queues of the engine that runs the steps, and the snapshots of the bindings that they
// attach. Both are created after the steps.
func (l *Lifecycle) Connect(queues bindings.Queues, snapshots bindings.Snapshots) {
	l.bindings.Connect(queues, snapshots)
}

// Scan reads the directories of modules. After an error, the modules of the previous scan stay in
// use.
func (l *Lifecycle) Scan() (module.Set, error) { return l.directories.scan() }

// SwitchedOff returns the modules that content switches off and the content in force does not. For
// invalid content it returns none.
func (l *Lifecycle) SwitchedOff(content kube.Content) (names []string, err error) {
	read := readConfig{ResourceVersion: content.ResourceVersion}
	if read.Config, err = values.ParseConfig(content.Data); err != nil || content.ResourceVersion == "" {
		return nil, nil // step 16 reports the error
	}
	var c configChange
	if err := l.db.View(func(tx *store.Tx) error {
		c, err = readChange(tx, read)
		return err
	}); err != nil {
		return nil, err
	}
	if c.record.At.IsZero() || l.Modules.Usable("") != nil || l.ConfigMap.Refusal(c.before, read.Config, c.startup.Enabled) != nil {
		return nil, nil
	}
	disk := l.Modules.Disk()
	for _, m := range disk.Modules {
		if c.switchesOff(disk, m.Name) {
			names = append(names, m.Name)
		}
	}
	return names, nil
}

// Binding returns the lifecycle graph joined with the steps of its nodes.
func (l *Lifecycle) Binding() workflow.Binding {
	afterHelm := &afterHelmStep{
		Step: l.hookStep(lifecycle.ModuleAfterHelm, hook.AfterHelm), survey: l.Survey, changes: l.options.Changes, observer: l.options.Observer,
	}
	return workflow.Binding{Graph: lifecycle.Graph, Steps: map[graph.NodeID]workflow.Step{
		lifecycle.GlobalOnStartup:       l.startupStep(),
		lifecycle.GlobalSynchronization: l.hookStep(lifecycle.GlobalSynchronization, ""),
		lifecycle.GlobalBeforeAll:       l.hookStep(lifecycle.GlobalBeforeAll, hook.BeforeAll),
		lifecycle.DiscoverModules:       l.discoverStep(),
		lifecycle.EnsureCRDs: &ensureCRDsStep{
			log: l.log, modules: l.Modules, helm: l.options.Helm, installer: l.options.CRDs, filters: l.options.CRDFilters,
		},
		lifecycle.ModuleRun:             l.moduleRunStep(),
		lifecycle.ModuleOnStartup:       l.hookStep(lifecycle.ModuleOnStartup, hook.OnStartup),
		lifecycle.ModuleSynchronization: l.hookStep(lifecycle.ModuleSynchronization, ""),
		lifecycle.ModuleBeforeHelm:      l.hookStep(lifecycle.ModuleBeforeHelm, hook.BeforeHelm),
		lifecycle.ReleaseCheck:          l.releases.CheckStep(),
		lifecycle.ReleaseUpgrade:        l.releases.UpgradeStep(),
		lifecycle.ModuleAfterHelm:       afterHelm,
		lifecycle.ModuleDelete:          l.moduleDeleteStep(),
		lifecycle.ModuleBeforeDelete:    &beforeDeleteStep{l.hookStep(lifecycle.ModuleBeforeDelete, hook.BeforeDeleteHelm)},
		lifecycle.ReleaseDelete:         l.releases.DeleteStep(),
		lifecycle.ModuleAfterDelete:     l.afterDeleteStep(),
		lifecycle.ModulePurge:           &modulePurgeStep{bindings: l.bindings, releases: l.releases},
		lifecycle.GlobalAfterAll:        &afterAllStep{l.hookStep(lifecycle.GlobalAfterAll, hook.AfterAll), l.options.Changes},
		lifecycle.GlobalKubernetesEvent: l.hookStep(lifecycle.GlobalKubernetesEvent, ""),
		lifecycle.ModuleKubernetesEvent: l.hookStep(lifecycle.ModuleKubernetesEvent, ""),
		lifecycle.GlobalScheduleEvent:   l.hookStep(lifecycle.GlobalScheduleEvent, ""),
		lifecycle.ModuleScheduleEvent:   l.hookStep(lifecycle.ModuleScheduleEvent, ""),
		lifecycle.ConfigMapChanged:      &configMapStep{directories: l.directories, db: l.db, config: l.ConfigMap, modules: l.Modules, charts: l.Charts, observer: l.options.Observer},
	}}
}

func (l *Lifecycle) hookStep(id graph.NodeID, binding string) *hookrun.Step {
	return hookrun.New(id, binding, hookrun.Components{
		DB: l.db, Runner: l.options.Hooks, Modules: l.Modules, Values: l.Values, Bindings: l.bindings, Exchange: l.exchange,
		Charts: l.Charts, Reports: l.reports, TraceParent: l.options.TraceParent,
	})
}

func (l *Lifecycle) startupStep() *startupStep {
	return &startupStep{
		Step: l.hookStep(lifecycle.GlobalOnStartup, hook.OnStartup), modules: l.Modules, values: l.Values,
		directories: l.directories, hooks: l.hooks,
	}
}

func (l *Lifecycle) moduleRunStep() *moduleRunStep {
	return &moduleRunStep{directories: l.directories, db: l.db, modules: l.Modules, values: l.Values, hooks: l.hooks, survey: l.Survey}
}

func (l *Lifecycle) moduleDeleteStep() *moduleDeleteStep {
	return &moduleDeleteStep{
		directories: l.directories, modules: l.Modules, values: l.Values, hooks: l.hooks, bindings: l.bindings, releases: l.releases, changes: l.options.Changes,
	}
}

func (l *Lifecycle) afterDeleteStep() *afterDeleteStep {
	return &afterDeleteStep{
		Step: l.hookStep(lifecycle.ModuleAfterDelete, hook.AfterDeleteHelm), db: l.db, values: l.Values, bindings: l.bindings,
		changes: l.options.Changes,
	}
}

func (l *Lifecycle) discoverStep() *discoverStep {
	o := l.options
	return &discoverStep{
		directories: l.directories, db: l.db, log: l.log, client: o.Kube, modules: l.Modules, values: l.Values, config: l.ConfigMap, hooks: l.hooks, runner: l.options.Hooks,
		bindings: l.bindings, helm: o.Helm, stale: l.Stale, survey: l.Survey, reports: l.reports,
		observer: o.Observer, changes: o.Changes,
		namespace: o.Namespace, pod: o.Pod, ignoreRelease: o.IgnoreRelease, allowPurge: o.AllowPurge, parallelModules: o.ParallelModules,
	}
}
