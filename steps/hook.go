package steps

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/report"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// snapshotTimeout is the time that one attempt waits for the snapshots of its hook.
const snapshotTimeout = 10 * time.Second

// Do runs the hook of t.
func (s *hookStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	in, err := s.read(t)
	if errors.Is(err, hook.ErrGone) {
		return workflow.Outcome{Dropped: "not run: " + err.Error()}, nil
	}
	if err != nil {
		return workflow.Outcome{}, err
	}
	if s.shows() && len(in.Hook.Config.Kubernetes) > 0 {
		if err := s.await(ctx, t); err != nil {
			return workflow.Outcome{}, err
		}
	}
	if s.node.Has(lifecycle.Objects) && in.Hook.Silent(t.Subject.Binding) {
		return workflow.Outcome{Detail: "what exists is known; executeHookOnSynchronization is false"}, nil
	}
	out := hookio.NewOutput(t.Subject.Module)
	run, err := s.run(t, in, &out)
	if errors.Is(err, hook.ErrGone) {
		return workflow.Outcome{Dropped: "not run: " + err.Error()}, nil
	}
	if err != nil {
		return workflow.Outcome{}, err
	}
	if s.precedesHelm(t) {
		run.Started = func() { s.charts.RenderAhead(ctx, t.Subject.Module) } // not before: it would slow the start
	}
	ended := s.reports.WatchSlow(t, in.Hook.Longest)
	result, err := s.runner.Run(ctx, run)
	ended()
	out.Took = result.Usage.Took
	var o workflow.Outcome
	if err == nil {
		o, err = out.Outcome(in, result)
	}
	s.reports.Ran(t, s.event(), result.Usage, err)
	return o, err
}

// shows reports whether the node's hooks receive objects.
func (s *hookStep) shows() bool {
	return s.node.Has(lifecycle.Objects) || s.node.Has(lifecycle.SnapshotsAll) || s.node.Has(lifecycle.SnapshotsIncluded)
}

// precedesHelm reports whether t is the last hook before the release check of a module run.
func (s *hookStep) precedesHelm(t workflow.Task) bool {
	return s.node.ID == lifecycle.ModuleBeforeHelm && t.FanOut != nil && t.FanOut.Next == t.FanOut.Len-1
}

func (s *hookStep) await(ctx context.Context, t workflow.Task) error {
	ctx, cancel := context.WithTimeout(ctx, snapshotTimeout)
	defer cancel()
	return s.bindings.Ready(ctx, t.Subject.Module, t.Subject.Hook)
}

func (s *hookStep) read(t workflow.Task) (in hookio.Input, err error) {
	err = s.db.View(func(tx *store.Tx) error {
		found, err := s.exchange.Find(tx, t.Subject)
		if err != nil {
			return err
		}
		if err := s.modules.Usable(t.Subject.Module); err != nil {
			return err
		}
		if in, err = s.exchange.Read(tx, found, t.Subject, s.node.Has(lifecycle.EnabledAll)); err != nil {
			return err
		}
		in.At = tx.Now()
		return nil
	})
	return in, err
}

// run returns the input of the hook.
func (s *hookStep) run(t workflow.Task, in hookio.Input, out *hookio.Output) (run hook.Run, err error) {
	elements, err := s.elements(t, in.Hook.Config, out)
	if err != nil {
		return run, err
	}
	run = hook.Run{
		File: in.Hook.File, Module: t.Subject.Module, Task: t.ID.String(), Attempt: t.Try,
		Previous: hook.Previous(t.Previous), Output: s.reports.Output(t, s.event()), Timeout: in.Hook.Timeout(t),
		TraceParent: s.traceParent(t),
	}
	if run.Context, err = hook.Encode(hook.Compact(elements)); err != nil {
		return run, err
	}
	return run, s.exchange.Fill(&run, in, true)
}

// Items lists the node's hooks, or their kubernetes bindings.
func (s *hookStep) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	hooks, err := bindings.LoadHooks(tx, t.Subject.Module)
	if err != nil {
		return nil, nil, err
	}
	if s.node.Has(lifecycle.Objects) {
		items, err := s.bindings.Attach(tx, t.Subject.Module, hooks)
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
	if s.node.ID != lifecycle.ModuleAfterHelm && s.node.ID != lifecycle.GlobalAfterAll {
		return items, nil, nil
	}
	before, err := s.values.Fingerprint(tx, sections.Of(t.Subject.Module))
	return items, json.RawMessage(strconv.Quote(before)), err
}

// Apply saves the output of the hook and returns what it changed.
func (s *hookStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	out, err := hookio.Decode(t.Subject.Module, o.Data)
	if err != nil {
		return nil, err
	}
	if s.node.Has(lifecycle.Objects) {
		if err := s.bindings.Synchronized(tx, t, out.Observed); err != nil {
			return nil, err
		}
	}
	if err := report.NoteDuration(tx, t, out.Took); err != nil {
		return nil, err
	}
	if err := s.exchange.Record(tx, out, t.Subject); err != nil {
		return nil, err
	}
	if o.Allowed != "" {
		return nil, nil
	}
	module, global, err := s.exchange.Save(tx, out, t.Subject)
	if err != nil {
		return nil, err
	}
	var facts []graph.Fact
	if module {
		facts = append(facts, lifecycle.ModuleChanged)
	}
	if global {
		facts = append(facts, lifecycle.GlobalChanged)
	}
	dropped, err := s.renewed(tx, t)
	if err != nil || !s.node.Batch {
		return nil, err
	}
	for _, fact := range dropped {
		if !slices.Contains(facts, fact) {
			facts = append(facts, fact)
		}
	}
	return facts, nil
}

// Effect executes one effect of a hook, by its kind.
func (s *hookStep) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	return s.exchange.Effect(ctx, t, e)
}

// event returns the type of binding for which the step runs its hooks.
func (s *hookStep) event() string {
	switch {
	case s.binding != "":
		return s.binding
	case s.node.Has(lifecycle.Objects), s.node.Has(lifecycle.EventObject):
		return "kubernetes"
	default:
		return "schedule"
	}
}
