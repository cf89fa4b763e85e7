package hookrun

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// snapshotTimeout is the maximum time that one attempt waits for the snapshots of its hook.
const snapshotTimeout = 10 * time.Second

// Do runs the hook of the task t, and returns its checked output as the outcome. If the hook no longer exists, the
// task is dropped.
func (s *Step) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	in, err := s.read(t)
	if err != nil {
		return s.notRun(t, err)
	}
	if s.shows(t, in) {
		if err := s.await(ctx, t); err != nil {
			return s.notRun(t, err)
		}
	}
	if s.synchronizes() && in.Hook.Silent(t.Subject.Binding) {
		return workflow.Outcome{Detail: "hook not run, because executeHookOnSynchronization is false"}, nil
	}
	out := hookio.NewOutput(t.Subject.Module)
	run, err := s.run(t, in, &out)
	if err != nil {
		return s.notRun(t, err)
	}
	if s.precedesHelm(t) {
		// A call before the hook has started would delay the hook.
		run.Started = func() { s.hooks.charts.RenderAhead(ctx, t.Subject.Module) }
	}
	ended := s.hooks.reports.WatchSlow(t, in.Hook.Longest)
	result, err := s.hooks.runner.Run(ctx, run)
	ended()
	out.Took = result.Usage.Took
	var o workflow.Outcome
	if err == nil {
		o, err = out.Outcome(in.Input, result)
	}
	s.hooks.reports.Ran(t, s.event(), result.Usage, err)
	if _, notStarted := errors.AsType[*hook.StartError](err); notStarted {
		return s.notRun(t, err)
	}
	return o, err
}

// notRun returns the result of an attempt that has not started the hook of t because of err. The task is dropped if the
// hook no longer exists, or if the directory of its module is missing and t delays the scan of the directories; see
// delaysScan. Otherwise, the attempt is retried even if the binding allows failures, because the hook has not received
// its events.
func (s *Step) notRun(t workflow.Task, err error) (workflow.Outcome, error) {
	if errors.Is(err, hook.ErrGone) || hookio.LacksDirectory(err) && s.delaysScan(t, err) {
		return workflow.Outcome{Dropped: "not run: " + err.Error()}, nil
	}
	return workflow.Outcome{}, workflow.NotStarted(err)
}

// delaysScan reports whether t has failed with err before, and the next converge, which scans the directories of
// modules, may wait until t ends. Then t cannot wait for the scan. A converge does not wait for events and schedule
// ticks in other queues than main.
func (s *Step) delaysScan(t workflow.Task, err error) bool {
	return t.Failed != nil && t.Failed.Error == err.Error() && (t.Queue == workflow.Main || !s.node.Batch)
}

// shows reports whether the binding context of t contains snapshots, or objects from snapshots. The objects of most
// events do not count, because they are stored in the tasks.
func (s *Step) shows(t workflow.Task, in input) bool {
	switch {
	case len(in.Hook.Config.Kubernetes) == 0:
		return false
	case s.node.Has(lifecycle.Objects), s.node.Has(lifecycle.SnapshotsAll):
		return true
	case s.node.Has(lifecycle.SnapshotsIncluded):
		return slices.ContainsFunc(t.Batch, s.reader(t, in).NeedsSnapshots)
	default:
		return false
	}
}

// precedesHelm reports whether t runs the last hook before the release check of a module run.
func (s *Step) precedesHelm(t workflow.Task) bool {
	return s.node.ID == lifecycle.ModuleBeforeHelm && t.FanOut != nil && t.FanOut.Next == t.FanOut.Len-1
}

func (s *Step) await(ctx context.Context, t workflow.Task) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	return s.hooks.Bindings.Ready(ctx, t.Subject.Module, t.Subject.Hook)
}

// run returns the complete input for one run of the hook: the binding context, the values and the environment.
func (s *Step) run(t workflow.Task, in input, out *hookio.Output) (run hook.Run, err error) {
	elements, err := s.elements(t, in, out)
	if err != nil {
		return run, err
	}
	run = hook.Run{
		File: in.Hook.File, Module: t.Subject.Module, Task: t.ID.String(), Attempt: t.Try,
		Previous: hook.Previous(t.Previous), Output: s.hooks.reports.Output(t, s.event()), Timeouts: in.Hook.Timeouts(t),
		TraceParent: s.hooks.traceParent(t),
	}
	if run.Context, err = hook.Encode(hook.Compact(elements)); err != nil {
		return run, err
	}
	return run, s.hooks.Exchange.Fill(&run, in.Input, true)
}

// Items lists the hooks that the node runs, in order. For a node that runs Synchronizations, it attaches the bindings
// of the hooks and lists the bindings to synchronize.
func (s *Step) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	hooks, err := bindings.LoadHooks(tx, t.Subject.Module)
	if err != nil {
		return nil, nil, err
	}
	if s.synchronizes() {
		items, err := bindings.Attach(tx, t.Subject.Module, hooks)
		return items, nil, err
	}
	hooks = slices.DeleteFunc(hooks, func(h bindings.Hook) bool { _, has := h.Config.Order(s.binding); return !has })
	slices.SortStableFunc(hooks, func(a, b bindings.Hook) int {
		first, _ := a.Config.Order(s.binding)
		second, _ := b.Config.Order(s.binding)
		return first - second
	})
	items := make([]graph.Item, len(hooks))
	for i, h := range hooks {
		items[i].Subject = graph.Subject{Module: t.Subject.Module, Hook: h.File.Name}
	}
	return items, nil, nil
}

// Apply saves the output of the hook. For events and schedule ticks, it returns facts that say what the output, or the
// deletion of values patches and flags of earlier code, has changed. If the attempt failed and the binding allows
// failures, there is no output.
func (s *Step) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	out, err := hookio.Decode(t.Subject.Module, o.Data)
	if err != nil {
		return nil, err
	}
	if s.synchronizes() {
		covered, err := bindings.Synchronized(tx, t.Subject, out.Observed)
		if err != nil {
			return nil, err
		}
		if covered != nil {
			t.Withdraw(*covered)
		}
	}
	if err := report.NoteDuration(tx, t, out.Took); err != nil {
		return nil, err
	}
	if err := s.hooks.Exchange.Record(tx, out, t.Subject); err != nil {
		return nil, err
	}
	if o.Allowed != "" {
		return nil, nil
	}
	saved, err := s.hooks.Exchange.Save(tx, out, t.Subject)
	if err != nil {
		return nil, err
	}
	if saved.Remark != "" {
		t.Remark(saved.Remark)
	}
	facts := changes(saved.Module, saved.Global)
	var dropped []graph.Fact
	if !saved.Earlier {
		if dropped, err = s.renewed(tx, t); err != nil {
			return nil, err
		}
	}
	if !s.node.Batch {
		// Only tasks for events and ticks return these facts. In a converge or a module run, the last node compares
		// the values with the values before its hooks.
		return nil, nil
	}
	for _, fact := range dropped {
		if !slices.Contains(facts, fact) {
			facts = append(facts, fact)
		}
	}
	return facts, nil
}

// Effect carries out one effect of a hook.
func (s *Step) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	return s.hooks.Exchange.Effect(ctx, t, e)
}

// event returns the type of binding for which the step runs hooks, for logs and metrics.
func (s *Step) event() string {
	switch {
	case s.binding != "":
		return s.binding
	case s.synchronizes(), s.node.Has(lifecycle.EventObject):
		return "kubernetes"
	default:
		return "schedule"
	}
}
