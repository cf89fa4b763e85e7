package steps

import (
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/objects"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A hookStep runs one hook: with what its node is given, for what its node may
// hand back.
type hookStep struct {
	node *graph.Node
	// binding is the ordered binding whose hooks the node is repeated over; empty
	// where the task names the binding.
	binding string

	db       *store.DB
	modules  *Modules
	values   *Values
	config   *ConfigMap
	hooks    *Hooks
	bindings *Bindings
	outputs  *hookOutputs
	metrics  *hookmetrics.Recorder
	objects  *objects.Executor
	releases *Releases
	reports  *runReports
}
