package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/internal/operation"
	"addon-operator/internal/series"
	"addon-operator/internal/values"
)

// The outputs of a hook. The operator parses the output files to these types.
type (
	// Op is an operation of a patch of values.
	Op = values.Op
	// Operation is an operation on an object.
	Operation = operation.Operation
	// Metric is an operation on metrics. The first {PREFIX} is removed from its name.
	Metric = series.Op
	// Verdict is the response to an admission request.
	Verdict = hook.Verdict
)

// Result is the result of a run.
type Result struct {
	t *Test
	// Err is nil if the run succeeded. If the hook failed or its output is invalid, the output had no effect. If an
	// operation on an object failed, the other operations were executed, but the patches were not applied. If the hook
	// rejected a conversion, Err has its message, and the other output took effect.
	Err error
	// Ran is false if there was no reason to run the hook.
	Ran bool
	// Context is the binding context of the run.
	Context json.RawMessage
	// Stdout and Stderr are the output that the hook printed.
	Stdout, Stderr string

	ValuesPatch, ConfigPatch []Op
	Operations               []Operation
	Metrics                  []Metric
	// Verdict is set only by a successful [Test.Admit]. Converted is set only by [Test.Convert], if the hook converted
	// the objects.
	Verdict   *Verdict
	Converted []json.RawMessage
}

// Must returns r. If the hook did not run, or its run failed, Must ends the test with a failure.
func (r *Result) Must() *Result {
	r.t.t.Helper()
	switch {
	case r.Err != nil:
		r.t.t.Fatalf("%v\nthe hook received: %s", r.Err, r.Context)
	case !r.Ran:
		r.t.t.Fatal("the hook had no reason to run")
	}
	return r
}

// Ordered runs the hook for an ordered binding, such as beforeHelm.
func (t *Test) Ordered(binding string) *Result {
	t.t.Helper()
	if _, has := t.config.Order(binding); !has {
		t.t.Fatalf("the hook has no binding %s, %s", binding, bindings(slices.Sorted(maps.Keys(t.config.Ordered))))
	}
	e := hook.Element{Binding: binding, Legacy: t.config.Legacy()}
	if binding != hook.OnStartup && !e.Legacy {
		e.Snapshots = t.snapshots(t.config.SnapshotNames())
	}
	return t.run(e)
}

// Synchronize runs the hook for the Synchronization of a kubernetes binding. The hook does not run if the binding
// sets executeHookOnSynchronization to false, or if the configuration has no configVersion. In all cases, pending
// events of the binding, and of bindings with the same group and queue, are dropped, because the Synchronization
// includes them.
func (t *Test) Synchronize(binding string) *Result {
	t.t.Helper()
	i := t.kubernetes(binding)
	b := t.config.Kubernetes[i]
	t.cluster.pending = slices.DeleteFunc(t.cluster.pending, func(e event) bool {
		other := t.config.Kubernetes[e.binding]
		return e.binding == i || b.Group != "" && other.Group == b.Group && other.Queue == b.Queue
	})
	if !b.ExecuteOnSynchronization || b.Legacy {
		return &Result{t: t}
	}
	return t.run(hook.Element{
		Binding: b.Name, Type: hook.TypeSynchronization, Group: b.Group,
		Objects: t.cluster.snapshots[i].items(), Snapshots: t.snapshots(b.IncludeSnapshotsFrom),
	})
}

// Tick runs the hook for the schedule with this name.
func (t *Test) Tick(binding string) *Result {
	t.t.Helper()
	var names []string
	for _, b := range t.config.Schedule {
		if b.Name == binding {
			return t.run(hook.Element{
				Binding: b.Name, Type: hook.TypeSchedule, Group: b.Group, Legacy: b.Legacy,
				Snapshots: t.snapshots(b.IncludeSnapshotsFrom),
			})
		}
		names = append(names, b.Name)
	}
	t.t.Fatalf("the hook has no schedule %s, %s", binding, bindings(names))
	return nil
}

// Events runs the hook once for all pending changes of objects. A hook whose configuration has no configVersion runs
// only for the first pending change. If there are no pending changes, the hook does not run, and the field Ran of the
// result is false.
func (t *Test) Events() *Result {
	t.t.Helper()
	events := t.cluster.pending
	if t.config.Legacy() && len(events) > 1 {
		events = events[:1]
	}
	t.cluster.pending = slices.Clone(t.cluster.pending[len(events):])
	elements := make([]hook.Element, len(events))
	for i, e := range events {
		b := t.config.Kubernetes[e.binding]
		elements[i] = hook.Element{
			Binding: b.Name, Type: hook.TypeEvent, Group: b.Group, WatchEvent: e.kind, Item: e.item, Named: e.named,
			Snapshots: t.snapshots(b.IncludeSnapshotsFrom), Legacy: b.Legacy,
		}
	}
	if len(elements) == 0 {
		return &Result{t: t}
	}
	return t.run(hook.Compact(elements)...)
}

// kubernetes returns the index of the kubernetes binding with this name.
func (t *Test) kubernetes(name string) int {
	t.t.Helper()
	i, has := t.config.KubernetesNamed(name)
	if !has {
		t.t.Fatalf("the hook has no kubernetes binding %s, %s", name, bindings(t.config.SnapshotNames()))
	}
	return i
}

// snapshots returns the snapshots of the bindings with these names. If names is nil and the hook has kubernetes
// bindings, it returns nil.
func (t *Test) snapshots(names []string) map[string][]hook.Item {
	if names == nil && len(t.config.Kubernetes) > 0 {
		return nil
	}
	all := map[string][]hook.Item{}
	for _, name := range names {
		if i, has := t.config.KubernetesNamed(name); has {
			all[name] = t.cluster.snapshots[i].items()
		}
	}
	return all
}

// run runs the hook with a binding context of these elements, and applies the output of the hook to the test.
func (t *Test) run(elements ...hook.Element) *Result {
	t.t.Helper()
	r, files := t.execute(elements)
	if r.Err == nil {
		r.Err = t.applyOutput(t.t.Context(), r, files)
	}
	return r
}

// execute runs the hook and returns the contents of its output files, by their environment variables.
func (t *Test) execute(elements []hook.Element) (*Result, map[string][]byte) {
	t.t.Helper()
	r := &Result{t: t, Ran: true}
	encoded, err := hook.Encode(elements)
	if err != nil {
		t.t.Fatal(err)
	}
	files := map[string][]byte{"BINDING_CONTEXT_PATH": encoded}
	for variable, document := range map[string]map[string]any{"VALUES_PATH": t.Values(), "CONFIG_VALUES_PATH": t.ConfigValues()} {
		if files[variable], err = json.Marshal(document); err != nil {
			t.t.Fatal(err)
		}
	}
	o, err := runFiles(t.t.Context(), t.subject, files)
	r.Context, r.Stdout, r.Stderr, r.Err = encoded, o.stdout, o.stderr, err
	return r, o.files
}

// applyOutput validates all output of a hook. The elements of the argument found are errors that the caller has found
// in the output; nil elements are ignored. If the whole output is valid, applyOutput executes the operations on
// objects. If all operations succeed, it applies the patches of the ConfigMap and of the values. The operator does
// this in the same order.
func (t *Test) applyOutput(ctx context.Context, r *Result, files map[string][]byte, found ...error) error {
	errs := slices.DeleteFunc(found, func(err error) bool { return err == nil })
	parsed := func(variable string, err error) {
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", variable, err))
		}
	}
	var err error
	r.ValuesPatch, err = values.ParsePatch(files["VALUES_JSON_PATCH_PATH"])
	parsed("VALUES_JSON_PATCH_PATH", err)
	r.ConfigPatch, err = values.ParsePatch(files["CONFIG_VALUES_JSON_PATCH_PATH"])
	parsed("CONFIG_VALUES_JSON_PATCH_PATH", err)
	r.Operations, err = operation.Parse(files["KUBERNETES_PATCH_PATH"])
	parsed("KUBERNETES_PATCH_PATH", err)
	r.Metrics, err = series.Parse(files["METRICS_PATH"], "")
	parsed("METRICS_PATH", err)
	applyConfig, err := t.checkConfig(r.ConfigPatch)
	parsed("CONFIG_VALUES_JSON_PATCH_PATH", err)
	applyValues, err := t.checkValues(r.ValuesPatch)
	parsed("VALUES_JSON_PATCH_PATH", err)
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := t.cluster.do(ctx, r.Operations); err != nil {
		return err
	}
	applyConfig()
	applyValues()
	return nil
}

// checkValues validates the values patch of a run, and returns a function that applies the patch.
func (t *Test) checkValues(ops []Op) (apply func(), err error) {
	patch, err := values.Split(ops, t.section)
	if err != nil {
		return nil, err
	}
	if _, err := values.Apply(t.Values(), slices.Concat(patch.Own, patch.Global)); err != nil {
		return nil, err
	}
	return func() {
		t.layers.Saved[t.section] = values.MergePatches(t.layers.Saved[t.section], patch.Own, "hook")
		t.layers.Saved[values.Global] = values.MergePatches(t.layers.Saved[values.Global], patch.Global, "hook")
		t.flags = values.MergeEnabledOverrides(t.flags, patch.Flags, "hook", time.Time{})
	}, nil
}

// checkConfig validates the patch of the ConfigMap of a run, and returns a function that applies the patch.
func (t *Test) checkConfig(ops []Op) (apply func(), err error) {
	patch, err := values.SplitConfig(ops, t.section)
	if err != nil {
		return nil, err
	}
	after, err := values.Apply(t.ConfigValues(), patch.Own)
	if err != nil {
		return nil, err
	}
	return func() {
		if len(patch.Own) > 0 {
			t.layers.Config.Sections = values.Merge(t.layers.Config.Sections)
			t.layers.Config.Sections[t.section] = after[t.section]
		}
		for flag, value := range patch.Flags {
			t.setFlag(flag, value)
		}
	}, nil
}

// setFlag sets a flag of the ConfigMap. If value is nil, it removes the flag.
func (t *Test) setFlag(flag string, value *bool) {
	flags := maps.Clone(t.layers.Config.Flags)
	if flags == nil {
		flags = map[string]bool{}
	}
	delete(flags, flag)
	if value != nil {
		flags[flag] = *value
	}
	t.layers.Config.Flags = flags
}
