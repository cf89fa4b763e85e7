// Package addons is the graph of addons configurations: what happens to an AddonsConfiguration or a
// ClusterAddonsConfiguration when it is added, changed, deleted or due for another attempt. The package
// is one file of data. Package steps/addons implements the steps, and package workflow executes them.
package addons

import "addon-operator/workflow/graph"

// Nodes. The names are on disk and never change.
const (
	ConfigurationChanged graph.NodeID = "configuration-changed"
	FetchRepositories    graph.NodeID = "fetch-repositories"
	LintAddons           graph.NodeID = "lint-addons"
	FindDuplicates       graph.NodeID = "find-duplicates"
	FindConflicts        graph.NodeID = "find-conflicts"
	RegisterAddons       graph.NodeID = "register-addons"
	ConfigurationStatus  graph.NodeID = "configuration-status"
	UnregisterAddons     graph.NodeID = "unregister-addons"
	ReprocessFailed      graph.NodeID = "reprocess-failed"
	RemoveFinalizer      graph.NodeID = "remove-finalizer"
)

// Triggers.
const (
	OnConfiguration graph.Trigger = "configuration changed"
	OnDue           graph.Trigger = "configuration due"
)

// Facts that steps report and edges depend on.
const (
	Wanted   graph.Fact = "to be processed"
	Deleted  graph.Fact = "deleted"
	IDsFreed graph.Fact = "addons unregistered"
	Newer    graph.Fact = "changed meanwhile"
	// AllFetched is a fact of its own, because it would not be enough to check that Newer is absent. If a person skips
	// the step, the step reports no facts, although the results of repositories can be missing. In this case, the
	// addons must not be registered.
	AllFetched graph.Fact = "repositories fetched"
)

// Contenders are the configurations that may now register an ID, or a name with a version, that
// another configuration has given up.
const Contenders graph.FanOut = "failed configurations of the scope"

// Inputs of steps.
const (
	LiveConfiguration graph.Input = "live configuration"
	SecretValues      graph.Input = "secret values"
	FetchedAddons     graph.Input = "fetched addons"
	Registry          graph.Input = "registry"
	Verdict           graph.Input = "verdict"
)

// Outputs of steps.
const (
	Finalizer        graph.Output = "finalizer"
	Status           graph.Output = "status"
	Fetched          graph.Output = "fetched addons"
	Problems         graph.Output = "problems"
	Registration     graph.Output = "registration"
	ReprocessRequest graph.Output = "reprocess request"
)

// The headings under which nodes are drawn.
const (
	update   = "update and relist"
	add      = "add"
	deletion = "delete"
)

// Graph is the graph of addons configurations. Each configuration has a queue of its own. All tasks of
// a run use the same slot, so the task of a change that arrives during the run starts after the run.
var Graph = &graph.Graph{
	Name: "addons",
	Doc:  "What happens to an addons configuration when it is added, changed, deleted or tried again.",
	Nodes: []graph.Node{
		{
			Number: "U1", ID: ConfigurationChanged, Group: update, Scope: graph.ScopeConfiguration, Unique: true,
			Inputs: []graph.Input{LiveConfiguration, Registry}, Outputs: []graph.Output{Finalizer, Status},
			Doc: "read the configuration, decide whether to process it, add the finalizer, and clear or restore the status",
		},
		{
			Number: "A1", ID: FetchRepositories, Group: add, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{LiveConfiguration, SecretValues}, Outputs: []graph.Output{Fetched, Problems},
			Doc: "fetch the index of each repository and all addons in it",
		},
		{
			Number: "A2", ID: LintAddons, Group: add, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{FetchedAddons}, Outputs: []graph.Output{Problems},
			Doc: "check the fetched addons",
		},
		{
			Number: "A3", ID: FindDuplicates, Group: add, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{FetchedAddons}, Outputs: []graph.Output{Problems},
			Doc: "find addons of the configuration with the same ID, or with the same name and version",
		},
		{
			Number: "A4", ID: FindConflicts, Group: add, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{FetchedAddons, Registry}, Outputs: []graph.Output{Problems},
			Doc: "find conflicts with addons that other configurations have registered, and with modules of the image",
		},
		{
			Number: "A5", ID: RegisterAddons, Group: add, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{FetchedAddons, Registry}, Outputs: []graph.Output{Registration, Problems},
			Doc: "replace the registered addons of the configuration by the new ones, or by none if there is a problem",
		},
		{
			Number: "A6", ID: ConfigurationStatus, Group: add, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{LiveConfiguration, Verdict}, Outputs: []graph.Output{Status},
			Doc: "write the status of the processed generation",
		},
		{
			Number: "D1", ID: UnregisterAddons, Group: deletion, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{Registry}, Outputs: []graph.Output{Registration},
			Doc: "unregister the addons of the configuration",
		},
		{
			Number: "D2", ID: ReprocessFailed, Group: deletion, Scope: graph.ScopeConfiguration, ForEach: Contenders,
			Inputs: []graph.Input{LiveConfiguration}, Outputs: []graph.Output{ReprocessRequest},
			Doc: "increment reprocessRequest of a failed configuration, because the conflicting addon may be gone",
		},
		{
			Number: "D3", ID: RemoveFinalizer, Group: deletion, Scope: graph.ScopeConfiguration,
			Inputs: []graph.Input{LiveConfiguration}, Outputs: []graph.Output{Finalizer},
			Doc: "remove the finalizer, so that the API server deletes the configuration",
		},
	},
	Edges: []graph.Edge{
		{On: OnConfiguration, To: ConfigurationChanged, Place: graph.Tail},
		{On: OnDue, To: ConfigurationChanged, Place: graph.Tail},

		// A configuration that was deleted and created again has another UID. If the UID differs,
		// ConfigurationChanged unregisters the addons of the deleted configuration, and may report
		// IDsFreed.
		{From: ConfigurationChanged, To: ReprocessFailed, When: IDsFreed},
		{From: ConfigurationChanged, To: FetchRepositories, When: Wanted},
		{From: ConfigurationChanged, To: UnregisterAddons, When: Deleted},

		{From: FetchRepositories, To: ConfigurationChanged, When: Newer},
		{From: FetchRepositories, To: LintAddons, When: AllFetched},
		{From: LintAddons, To: FindDuplicates},
		{From: FindDuplicates, To: FindConflicts},
		{From: FindConflicts, To: RegisterAddons},
		{From: RegisterAddons, To: ConfigurationStatus},
		{From: RegisterAddons, To: ReprocessFailed, When: IDsFreed},
		{From: ConfigurationStatus, To: ConfigurationChanged, When: Newer},

		{From: UnregisterAddons, To: ReprocessFailed, When: IDsFreed},
		{From: UnregisterAddons, To: RemoveFinalizer},
	},
	Triggers: map[graph.Trigger]string{
		OnConfiguration: "a configuration was added, changed or deleted, its status or finalizer must be repaired, its processing has not ended, or the modules of the image changed",
		OnDue:           "it is time to process a failed or skipped configuration again, or to restore its status or finalizer",
	},
	Facts: map[graph.Fact]string{
		Wanted:   "the configuration or its conflicts with modules of the image changed, its processing has not ended, or its retry is due",
		Deleted:  "the configuration is being deleted, or is gone",
		IDsFreed: "the configuration has given up the ID, or the name and version, of a registered addon",
		Newer:    "the configuration was changed or deleted while it was processed",

		AllFetched: "each repository of the configuration has been fetched or has failed",
	},
	FanOuts: map[graph.FanOut]string{
		Contenders: "the other failed configurations of the scope; a scope has all ClusterAddonsConfigurations, or the AddonsConfigurations of one namespace",
	},
	Inputs: map[graph.Input]string{
		LiveConfiguration: "the configuration as the API server has it now",
		SecretValues:      "the values for placeholders in URLs, from the Secrets that the repositories name",
		FetchedAddons:     "the addons that were fetched, in the order of repositories, names and the index",
		Registry:          "the registered addons of the scope",
		Verdict:           "the problems of each repository and addon, and whether the addons are registered",
	},
	Outputs: map[graph.Output]string{
		Finalizer:        "addons.kyma-project.io in metadata.finalizers of the configuration",
		Status:           "the status of the configuration",
		Fetched:          "addons and charts; identical content is stored once",
		Problems:         "the reason and the message of each repository and addon that failed",
		Registration:     "the registered addons of the configuration",
		ReprocessRequest: "spec.reprocessRequest of the configuration, incremented",
	},
}
