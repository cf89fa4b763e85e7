// Package lifecycle declares the lifecycle of the addon operator as a graph: its sixteen steps with
// their inputs and outputs, and the edges between them with their facts. The package is one file of
// data. Package steps implements the steps, and package workflow executes the graph.
package lifecycle

import "addon-operator/workflow/graph"

// Nodes, with the names of the lifecycle's steps. The names are on disk and never change.
const (
	GlobalOnStartup       graph.NodeID = "global-onstartup"
	GlobalSynchronization graph.NodeID = "global-kubernetes-synchronization"
	GlobalBeforeAll       graph.NodeID = "global-beforeall"
	DiscoverModules       graph.NodeID = "discover-modules"
	EnsureCRDs            graph.NodeID = "ensure-crds"
	ModuleRun             graph.NodeID = "module-run"
	ModuleOnStartup       graph.NodeID = "module-onstartup"
	ModuleSynchronization graph.NodeID = "module-kubernetes-synchronization"
	ModuleBeforeHelm      graph.NodeID = "module-beforehelm"
	ReleaseCheck          graph.NodeID = "release-check"
	ReleaseUpgrade        graph.NodeID = "release-upgrade"
	ModuleAfterHelm       graph.NodeID = "module-afterhelm"
	ModuleDelete          graph.NodeID = "module-delete"
	ModuleRetire          graph.NodeID = "module-retire"
	ModuleBeforeDelete    graph.NodeID = "module-beforedeletehelm"
	ReleaseDelete         graph.NodeID = "release-delete"
	ModuleAfterDelete     graph.NodeID = "module-afterdeletehelm"
	ModulePurge           graph.NodeID = "module-purge"
	GlobalAfterAll        graph.NodeID = "global-afterall"
	GlobalKubernetesEvent graph.NodeID = "global-kubernetes-event"
	ModuleKubernetesEvent graph.NodeID = "module-kubernetes-event"
	GlobalScheduleEvent   graph.NodeID = "global-schedule-event"
	ModuleScheduleEvent   graph.NodeID = "module-schedule-event"
	GlobalValuesChanged   graph.NodeID = "global-values-changed"
	ModuleValuesChanged   graph.NodeID = "module-values-changed"
	HelmResourcesAbsent   graph.NodeID = "helm-resources-absent"
	ConfigMapChanged      graph.NodeID = "configmap-changed"
)

// Triggers.
const (
	OnStart           graph.Trigger = "operator start"
	OnGlobalKubeEvent graph.Trigger = "kubernetes event for a global hook"
	OnModuleKubeEvent graph.Trigger = "kubernetes event for a module hook"
	OnGlobalSchedule  graph.Trigger = "schedule of a global hook"
	OnModuleSchedule  graph.Trigger = "schedule of a module hook"
	OnResourcesAbsent graph.Trigger = "helm resources absent"
	OnConfigMap       graph.Trigger = "ConfigMap changed"
	OnModuleMended    graph.Trigger = "module mended"
	OnAddonsChanged   graph.Trigger = "addons changed"
	OnReloadRequest   graph.Trigger = "reload requested"
	OnRunRequest      graph.Trigger = "module run requested"
)

// Facts that steps report and edges depend on.
const (
	JustEnabled    graph.Fact = "just enabled"
	AlreadyStarted graph.Fact = "already started"
	HalfDeleted    graph.Fact = "delete unfinished"
	Outdated       graph.Fact = "release outdated"
	Unwanted       graph.Fact = "not wanted"
	LeftOver       graph.Fact = "releases left over"
	Restored       graph.Fact = "directory restored"
	GlobalChanged  graph.Fact = "global changed"
	ModuleChanged  graph.Fact = "module changed"
	FlagsChanged   graph.Fact = "flags changed"
)

// Fan-outs of nodes and edges.
const (
	ByOrder  graph.FanOut = "hooks in their order"
	Bindings graph.FanOut = "kubernetes bindings by hook name"
	Defining graph.FanOut = "modules with CRDs to install"
	Enabled  graph.FanOut = "modules to enable"
	Disabled graph.FanOut = "modules to delete"
	Unknown  graph.FanOut = "modules to purge"
	Running  graph.FanOut = "running tasks of the module"
	Changed  graph.FanOut = "modules whose section changed"

	ChangedUnstarted graph.FanOut = "modules not started whose section changed"
	SwitchedOff      graph.FanOut = "modules switched off"
)

// Inputs of steps.
const (
	EventObject         graph.Input = "event object"
	Objects             graph.Input = "objects"
	SnapshotsAll        graph.Input = "snapshots all"
	SnapshotsIncluded   graph.Input = "snapshots included"
	ConfigGlobal        graph.Input = "config global"
	ConfigModule        graph.Input = "config module"
	ValuesGlobal        graph.Input = "values global"
	ValuesModule        graph.Input = "values module"
	EnabledBefore       graph.Input = "enabledModules before"
	EnabledAll          graph.Input = "enabledModules all"
	RenderedManifest    graph.Input = "rendered manifest"
	ConfigMapContent    graph.Input = "ConfigMap content"
	HelmReleases        graph.Input = "helm releases"
	ModuleDirectories   graph.Input = "module directories"
	MergedEnabledStates graph.Input = "merged enabled states"
	CRDFiles            graph.Input = "CRD files"
)

// Outputs of steps.
const (
	ConfigPatch      graph.Output = "config patch"
	ValuesPatch      graph.Output = "values patch"
	EnabledOverrides graph.Output = "enabled overrides"
	HookMetrics      graph.Output = "hook metrics"
	ObjectChanges    graph.Output = "object operations"
	ModuleStatus     graph.Output = "module status"
	ModuleLists      graph.Output = "module lists"
	HelmRelease      graph.Output = "helm release"
	Definitions      graph.Output = "CRDs"
	AppliedConfig    graph.Output = "applied config"
)

// The headings under which nodes are drawn.
const (
	startup   = "startup"
	reload    = "reload all modules"
	run       = "module run"
	deletion  = "module delete"
	reactions = "reaction to events"
)

var (
	globalHook = []graph.Input{ConfigGlobal, ValuesGlobal}
	moduleHook = []graph.Input{ConfigGlobal, ConfigModule, ValuesGlobal, ValuesModule, EnabledAll}
	globalSays = []graph.Output{ConfigPatch, ValuesPatch, EnabledOverrides, HookMetrics, ObjectChanges}
	moduleSays = []graph.Output{ConfigPatch, ValuesPatch, HookMetrics, ObjectChanges}
)

// with returns one list: the inputs in the argument more, and after them the inputs in the argument kind, which all
// steps of a kind have.
func with(kind []graph.Input, more ...graph.Input) []graph.Input { return append(more, kind...) }

// Graph is the lifecycle. Unless an edge has a Place, its task uses the slot of the finished task, so that a reload
// runs to its end before the tasks behind it start.
var Graph = &graph.Graph{
	Name: "lifecycle",
	Doc:  "The lifecycle of modules, steps 1 to 16.",
	Nodes: []graph.Node{
		{
			Number: "1", ID: GlobalOnStartup, Group: startup, ForEach: ByOrder,
			Inputs: globalHook, Outputs: globalSays,
			Doc: "run global hooks with an onStartup binding",
		},
		{
			Number: "2", ID: GlobalSynchronization, Group: startup, ForEach: Bindings,
			Inputs: with(globalHook, Objects, SnapshotsIncluded), Outputs: globalSays,
			Doc: "run global hooks with kubernetes bindings on the objects that exist",
		},
		{
			Number: "3", ID: GlobalBeforeAll, Group: reload, ForEach: ByOrder, Unique: true,
			Inputs: with(globalHook, SnapshotsAll), Outputs: globalSays,
			Doc: "run global hooks with a beforeAll binding",
		},
		{
			Number: "4", ID: DiscoverModules, Group: reload, FixedDelay: true,
			Inputs:  []graph.Input{ModuleDirectories, MergedEnabledStates, HelmReleases, ConfigGlobal, ConfigModule, ValuesGlobal, ValuesModule, EnabledBefore},
			Outputs: []graph.Output{ModuleStatus, ModuleLists},
			Doc:     "merge the enabled flags, run the enabled scripts, and decide which modules to run, delete and purge",
		},
		{
			Number: "4a", ID: EnsureCRDs, Group: reload, Scope: graph.ScopeModule,
			Inputs: []graph.Input{CRDFiles}, Outputs: []graph.Output{Definitions},
			Doc: "create or update the CRDs of a module, and wait until they are served",
		},
		{
			Number: "5", ID: ModuleRun, Group: run, Scope: graph.ScopeModule, Unique: true, RetryQueue: true,
			Doc: "check whether the module was just enabled, has started already, or has an unfinished deletion",
		},
		{
			Number: "5a", ID: ModuleOnStartup, Group: run, Scope: graph.ScopeModule, ForEach: ByOrder, RetryFrom: ModuleRun,
			Inputs: moduleHook, Outputs: moduleSays,
			Doc: "run module hooks with an onStartup binding",
		},
		{
			Number: "5b", ID: ModuleSynchronization, Group: run, Scope: graph.ScopeModule, ForEach: Bindings,
			Inputs: with(moduleHook, Objects, SnapshotsIncluded), Outputs: moduleSays,
			Doc: "run module hooks with kubernetes bindings on the objects that exist",
		},
		{
			Number: "5c", ID: ModuleBeforeHelm, Group: run, Scope: graph.ScopeModule, ForEach: ByOrder, RetryFrom: ModuleRun,
			Inputs: with(moduleHook, SnapshotsAll), Outputs: moduleSays,
			Doc: "run module hooks with a beforeHelm binding",
		},
		{
			Number: "5d", ID: ReleaseCheck, Group: run, Scope: graph.ScopeModule, RetryFrom: ModuleRun,
			Inputs: []graph.Input{ValuesGlobal, ValuesModule, EnabledAll, HelmReleases},
			Doc:    "compare the rendered manifest with the last release, and check that the resources of the release exist",
		},
		{
			Number: "5e", ID: ReleaseUpgrade, Group: run, Scope: graph.ScopeModule, RetryFrom: ModuleRun,
			Inputs: []graph.Input{ValuesGlobal, ValuesModule, EnabledAll, RenderedManifest}, Outputs: []graph.Output{HelmRelease},
			Doc: "helm upgrade --install",
		},
		{
			Number: "5f", ID: ModuleAfterHelm, Group: run, Scope: graph.ScopeModule, ForEach: ByOrder, RetryFrom: ModuleRun,
			Inputs: with(moduleHook, SnapshotsAll), Outputs: moduleSays,
			Doc: "run module hooks with an afterHelm binding",
		},
		{
			Number: "6", ID: ModuleDelete, Group: deletion, Scope: graph.ScopeModule,
			Doc: "check whether the module must still be deleted, and detach its bindings",
		},
		{
			Number: "6a", ID: ModuleRetire, Group: deletion, Scope: graph.ScopeModule, ForEach: Running, JoinsRunning: true,
			Doc: "wait for hooks of the module that are still running",
		},
		{
			Number: "6b", ID: ModuleBeforeDelete, Group: deletion, Scope: graph.ScopeModule, ForEach: ByOrder, RetryFrom: ModuleDelete,
			Inputs: with(moduleHook, SnapshotsAll), Outputs: moduleSays,
			Doc: "run module hooks with a beforeDeleteHelm binding, if the module has a release",
		},
		{
			Number: "6c", ID: ReleaseDelete, Group: deletion, Scope: graph.ScopeModule, RetryFrom: ModuleDelete,
			Outputs: []graph.Output{HelmRelease},
			Doc:     "uninstall the Helm release of the module",
		},
		{
			Number: "6d", ID: ModuleAfterDelete, Group: deletion, Scope: graph.ScopeModule, ForEach: ByOrder, Uninterruptible: true,
			Inputs: with(moduleHook, SnapshotsAll), Outputs: moduleSays,
			Doc: "run module hooks with an afterDeleteHelm binding",
		},
		{
			Number: "7", ID: ModulePurge, Group: reload, Scope: graph.ScopeModule,
			Outputs: []graph.Output{HelmRelease},
			Doc:     "uninstall a Helm release that has no module directory; if this fails, the next converge tries again",
		},
		{
			Number: "8", ID: GlobalAfterAll, Group: reload, ForEach: ByOrder,
			Inputs: with(globalHook, SnapshotsAll), Outputs: globalSays,
			Doc: "run global hooks with an afterAll binding",
		},
		{
			Number: "9", ID: GlobalKubernetesEvent, Group: reactions, Scope: graph.ScopeBinding, Batch: true,
			Inputs: with(globalHook, EventObject, SnapshotsIncluded), Outputs: globalSays,
			Doc: "run a global hook on kubernetes events",
		},
		{
			Number: "10", ID: ModuleKubernetesEvent, Group: reactions, Scope: graph.ScopeBinding, Batch: true,
			Inputs: with(moduleHook, EventObject, SnapshotsIncluded), Outputs: moduleSays,
			Doc: "run a module hook on kubernetes events",
		},
		{
			Number: "11", ID: GlobalScheduleEvent, Group: reactions, Scope: graph.ScopeBinding, Batch: true, Unique: true,
			Inputs: with(globalHook, SnapshotsIncluded), Outputs: globalSays,
			Doc: "run a global hook on schedule",
		},
		{
			Number: "12", ID: ModuleScheduleEvent, Group: reactions, Scope: graph.ScopeBinding, Batch: true, Unique: true,
			Inputs: with(moduleHook, SnapshotsIncluded), Outputs: moduleSays,
			Doc: "run a module hook on schedule",
		},
		{Number: "13", ID: GlobalValuesChanged, Group: reactions, Junction: true, Doc: "global values changed"},
		{Number: "14", ID: ModuleValuesChanged, Group: reactions, Scope: graph.ScopeModule, Junction: true, Doc: "module values changed"},
		{Number: "15", ID: HelmResourcesAbsent, Group: reactions, Scope: graph.ScopeModule, Junction: true, Doc: "a release lost resources"},
		{
			Number: "16", ID: ConfigMapChanged, Group: reactions, Unique: true, WakesFailed: true,
			Inputs:  []graph.Input{ConfigMapContent, ConfigGlobal, ConfigModule, ValuesGlobal, ValuesModule, EnabledBefore},
			Outputs: []graph.Output{AppliedConfig},
			Doc:     "apply the sections of the ConfigMap and find those that changed; while a failing task delays the main queue, run the enabled scripts of changed modules",
		},
	},
	Edges: []graph.Edge{
		{On: OnStart, To: GlobalOnStartup, Place: graph.Front},
		{From: GlobalOnStartup, To: GlobalSynchronization},
		{From: GlobalSynchronization, To: GlobalBeforeAll},

		{From: GlobalBeforeAll, To: DiscoverModules},
		{From: DiscoverModules, To: EnsureCRDs, ForEach: Defining},
		{From: DiscoverModules, To: ModuleRun, ForEach: Enabled},
		{From: DiscoverModules, To: ModuleDelete, ForEach: Disabled},
		{From: DiscoverModules, To: ModulePurge, ForEach: Unknown},
		{From: DiscoverModules, To: GlobalAfterAll},
		{From: DiscoverModules, To: GlobalBeforeAll, When: LeftOver, Place: graph.Tail},
		{From: ModulePurge, To: GlobalBeforeAll, When: Restored, Place: graph.Tail},
		{From: GlobalAfterAll, To: GlobalBeforeAll, When: GlobalChanged, Place: graph.Tail, Loop: true},

		{From: ModuleRun, To: ModuleAfterDelete, When: HalfDeleted},
		{From: ModuleRun, To: ModuleRun, When: HalfDeleted},
		{From: ModuleRun, To: ModuleOnStartup, When: JustEnabled},
		{From: ModuleRun, To: ModuleBeforeHelm, When: AlreadyStarted},
		{From: ModuleOnStartup, To: ModuleSynchronization},
		{From: ModuleSynchronization, To: ModuleBeforeHelm},
		{From: ModuleBeforeHelm, To: ReleaseCheck},
		{From: ReleaseCheck, To: ReleaseUpgrade, When: Outdated},
		{From: ReleaseCheck, To: ModuleAfterHelm, Unless: Outdated},
		{From: ReleaseUpgrade, To: ModuleAfterHelm},
		{From: ModuleAfterHelm, To: ModuleRun, When: ModuleChanged, Loop: true},

		{From: ModuleDelete, To: ModuleRetire, When: Unwanted, CancelsPending: true},
		{From: ModuleRetire, To: ModuleBeforeDelete},
		{From: ModuleBeforeDelete, To: ReleaseDelete},
		{From: ReleaseDelete, To: ModuleAfterDelete},

		{On: OnGlobalKubeEvent, To: GlobalKubernetesEvent, Place: graph.BindingQueue},
		{On: OnModuleKubeEvent, To: ModuleKubernetesEvent, Place: graph.BindingQueue},
		{On: OnGlobalSchedule, To: GlobalScheduleEvent, Place: graph.BindingQueue},
		{On: OnModuleSchedule, To: ModuleScheduleEvent, Place: graph.BindingQueue},
		{On: OnResourcesAbsent, To: HelmResourcesAbsent},
		{On: OnConfigMap, To: ConfigMapChanged, Place: graph.Front},
		{On: OnModuleMended, To: GlobalBeforeAll, Place: graph.Tail},
		{On: OnAddonsChanged, To: GlobalBeforeAll, Place: graph.Tail},
		{On: OnReloadRequest, To: GlobalBeforeAll, Place: graph.Rewind},
		{On: OnRunRequest, To: ModuleRun, Place: graph.Front},

		{From: GlobalKubernetesEvent, To: GlobalValuesChanged, When: GlobalChanged},
		{From: ModuleKubernetesEvent, To: GlobalValuesChanged, When: GlobalChanged},
		{From: ModuleKubernetesEvent, To: ModuleValuesChanged, When: ModuleChanged},
		{From: GlobalScheduleEvent, To: GlobalValuesChanged, When: GlobalChanged},
		{From: ModuleScheduleEvent, To: GlobalValuesChanged, When: GlobalChanged},
		{From: ModuleScheduleEvent, To: ModuleValuesChanged, When: ModuleChanged},

		{From: GlobalValuesChanged, To: GlobalBeforeAll, Place: graph.Tail},
		{From: ModuleValuesChanged, To: ModuleRun, Place: graph.Tail},
		{From: HelmResourcesAbsent, To: ModuleRun, Place: graph.Tail},
		// Step 16 is put at the front of the queue. The deletions of modules, and the runs of started modules, use the
		// slot of step 16, so that a change by a person does not wait behind a failing module.
		{From: ConfigMapChanged, To: GlobalBeforeAll, When: GlobalChanged, Place: graph.Rewind},
		{From: ConfigMapChanged, To: GlobalBeforeAll, When: FlagsChanged, Place: graph.Rewind},
		{From: ConfigMapChanged, To: ModuleDelete, ForEach: SwitchedOff},
		{From: ConfigMapChanged, To: ModuleRun, Unless: GlobalChanged, ForEach: Changed},
		{From: ConfigMapChanged, To: ModuleRun, Unless: GlobalChanged, ForEach: ChangedUnstarted, Place: graph.Tail},
	},
	Triggers: map[graph.Trigger]string{
		OnStart:           "the operator process begins a start run (--startup says when), which replaces an unfinished start or reload",
		OnGlobalKubeEvent: "an object watched by a kubernetes binding of a global hook has changed",
		OnModuleKubeEvent: "an object watched by a kubernetes binding of a module hook has changed",
		OnGlobalSchedule:  "a schedule of a global hook is due, or a person requested a run of the hook, for example with addon-operator hook run",
		OnModuleSchedule:  "a schedule of a module hook is due, or a person requested a run of the hook, for example with addon-operator hook run",
		OnResourcesAbsent: "a resource of an installed release was deleted from the cluster, and not by a hook of its module",
		OnConfigMap:       "the operator's ConfigMap differs from the last applied version, or the operator has started",
		OnModuleMended:    "a module that could not be loaded can be loaded again",
		OnAddonsChanged:   "the modules, or their versions, that registered addons provide have changed",
		OnReloadRequest:   "a person requested a reload, for example with addon-operator reload",
		OnRunRequest:      "a person requested a run of the module, for example with addon-operator module run",
	},
	Facts: map[graph.Fact]string{
		JustEnabled:    "the module is enabled and has not started yet in the current start, or it has hooks and its code has changed",
		AlreadyStarted: "the module is enabled and can be loaded, its CRDs are installed, and neither just enabled nor delete unfinished applies",
		HalfDeleted:    "the module is enabled again after its release was deleted and before its afterDeleteHelm hooks ran",
		Outdated:       "no release is deployed, the rendered manifest differs from that of the release, or a resource is absent that no hook of the module has deleted",
		Unwanted:       "the module is not enabled, and its state or release must be deleted",
		LeftOver:       "the first converge with a new store has kept releases that must now be deleted or purged",
		Restored:       "the directory of a module to purge exists again, or a directory of modules has become empty, so the release was not purged",
		GlobalChanged:  "global values, global config or an enabled override have changed; step 16 also reports this fact when it applies the ConfigMap for the first time, and for a changed section of a module that could not be loaded",
		FlagsChanged:   "an *Enabled flag of the ConfigMap changed, or the section of a module whose enabled script must decide again, and global changed is not reported",
		ModuleChanged:  "values or config of the module have changed",
	},
	FanOuts: map[graph.FanOut]string{
		ByOrder:  "the hooks with the step's binding, by the number of the binding (such as beforeHelm: 10), then by name",
		Bindings: "the kubernetes bindings that must run Synchronization in the current start, by hook name, then in the order of the hook's configuration; bindings of a hook with the same group and queue are one item",
		Defining: "the enabled modules whose CRDs have not been installed since the current start, or have changed",
		Enabled:  "the enabled modules that can be loaded, in module order",
		Disabled: "the disabled modules with a release or state to delete, in reverse order",
		Unknown:  "the releases without a module directory",
		Running:  "the tasks of the module that run in other queues",
		Changed:  "the started modules whose section of the ConfigMap changed; with the fact flags changed, the reload runs them instead, unless a failing task delays the main queue; in this case, the enabled script of such a module must enable the module within a minute",

		ChangedUnstarted: "the enabled modules that have not started yet and whose section of the ConfigMap changed; with the fact flags changed, the reload runs them instead, unless a failing task delays the main queue; in this case, the enabled script of such a module must enable the module within a minute",
		SwitchedOff:      "only while a failing task delays the main queue: the installed modules that the ConfigMap has just disabled",
	},
	Inputs: map[graph.Input]string{
		EventObject:         "binding context: the object of each event and its filterResult",
		Objects:             "binding context: all objects that the binding watches",
		SnapshotsAll:        "binding context: snapshots of all kubernetes bindings of the hook",
		SnapshotsIncluded:   "binding context: the snapshots that the binding includes with includeSnapshotsFrom or group",
		ConfigGlobal:        "$CONFIG_VALUES_PATH: section global of the ConfigMap",
		ConfigModule:        "$CONFIG_VALUES_PATH: the module's section of the ConfigMap",
		ValuesGlobal:        "$VALUES_PATH, or .Values in a chart: global values, merged",
		ValuesModule:        "$VALUES_PATH, or .Values in a chart: module values, merged",
		EnabledBefore:       "$VALUES_PATH: global.enabledModules, the enabled modules that precede this module in module order",
		EnabledAll:          "$VALUES_PATH, or .Values in a chart: global.enabledModules, all enabled modules",
		RenderedManifest:    "the rendered manifest of the chart, and its checksum",
		ConfigMapContent:    "the ConfigMap as it is now",
		HelmReleases:        "the releases in the operator's namespace",
		ModuleDirectories:   "the modules on disk",
		MergedEnabledStates: "the enabled flags of files, hooks and ConfigMap, merged",
		CRDFiles:            "the definitions in the directory crds of the module",
	},
	Outputs: map[graph.Output]string{
		ConfigPatch:      "$CONFIG_VALUES_JSON_PATCH_PATH: applied to the ConfigMap directly after the hook",
		ValuesPatch:      "$VALUES_JSON_PATCH_PATH: stored, and applied to the values from then on",
		HookMetrics:      "$METRICS_PATH: stored, and served at /metrics/hooks from then on",
		ObjectChanges:    "$KUBERNETES_PATCH_PATH: objects created, changed and deleted directly after the hook, in order",
		EnabledOverrides: "*Enabled operations of a global hook's values patch, which enable or disable modules",
		ModuleStatus:     "$MODULE_ENABLED_RESULT and $MODULE_ENABLED_REASON of the enabled script",
		ModuleLists:      "the modules to run, to delete and to purge",
		HelmRelease:      "a release installed, upgraded or deleted",
		Definitions:      "CustomResourceDefinitions created or updated, never deleted",
		AppliedConfig:    "the sections and flags that apply from then on",
	},
}
