package hookrun

import (
	"context"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/hooks"
	"addon-operator/steps/report"
	"addon-operator/steps/scan"
	"addon-operator/workflow"
)

// Options are the clients and settings for runs of hooks.
type Options struct {
	hookio.Options

	// Runner runs the programs of hooks.
	Runner hooks.Runner
	// TraceParent identifies the span of an attempt, for the environment of its hook. It returns a text in the format
	// of the header traceparent of W3C Trace Context. A nil TraceParent means that attempts are not traced.
	TraceParent func(t workflow.Task) string
}

// An Observer is notified of runs of hooks, to log and count them. An Observer does not influence the steps.
type Observer interface {
	report.Observer
	hookio.Observer
}

// Silent is an [Observer] that does nothing.
type Silent struct{ report.Silent }

// MetricsDropped does nothing.
func (Silent) MetricsDropped(hookio.Dropped) {}

// Charts are the charts of modules.
type Charts interface {
	// RenderAhead renders the chart of module in the background, for the release check that follows the last
	// beforeHelm hook.
	RenderAhead(ctx context.Context, module string)
}

// Hooks manages the global hooks and the hooks of modules: their configurations, bindings, inputs and outputs.
type Hooks struct {
	Configs  *hooks.Configs
	Bindings *bindings.Attached
	Exchange *hookio.Exchange

	state       *scan.State
	reports     *report.Runs
	runner      hooks.Runner
	charts      Charts
	traceParent func(t workflow.Task) string
}

// New returns the hooks of the modules of state. Call [Hooks.Connect] before the first step runs. Each run is
// reported to observer.
func New(o Options, state *scan.State, charts Charts, observer Observer) *Hooks {
	h := &Hooks{
		Configs:  hooks.New(state.DB, state.Log, o.Runner, state.Modules),
		Bindings: new(bindings.Attached),
		Exchange: hookio.New(o.Options, state.Modules, state.Values, state.ConfigMap, state.Log.Logger, observer),
		reports:  &report.Runs{Log: state.Log, Observer: observer},
		state:    state, runner: o.Runner, charts: charts, traceParent: o.TraceParent,
	}
	if h.traceParent == nil {
		h.traceParent = func(workflow.Task) string { return "" }
	}
	return h
}

// Connect sets the snapshots of bindings. They are not an argument of New, because they are created later than the
// steps.
func (h *Hooks) Connect(snapshots bindings.Snapshots) { h.Bindings.Connect(snapshots) }

// RunScript runs the enabled script of a module for the task t. It logs the lines that the script prints. A run that
// takes long is reported as slow, because the converge waits for it.
func (h *Hooks) RunScript(ctx context.Context, t workflow.Task, run hook.EnabledRun) (enabled bool, reason string, err error) {
	run.Output = h.reports.Output(t, "enabled")
	defer h.reports.WatchSlow(t, 0)()
	return h.runner.Enabled(ctx, run)
}
