package hookio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/objects"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Options are the clients and settings for the output of hooks.
type Options struct {
	// Objects carries out the operations on objects that hooks request.
	Objects *objects.Executor
	// MetricsPrefix replaces {PREFIX} in the metric names that hooks write.
	MetricsPrefix string
	// If UngroupedExpire is true, a run of a hook that writes metrics without a group replaces all metrics without a
	// group that the hook has written before.
	UngroupedExpire bool
}

// Observer is notified of dropped metric operations.
type Observer = hookmetrics.Observer

// Dropped describes the dropped metric operations of one run of a hook.
type Dropped = hookmetrics.Dropped

// An Exchange passes state from the store to hooks, and the output of hooks back to the store. The whole output of a
// run is checked before any part of it has an effect.
type Exchange struct {
	modules *desired.Modules
	values  *desired.Values
	config  *desired.ConfigMap
	metrics *hookmetrics.Recorder
	objects *objects.Executor
}

// New returns an exchange for the global hooks and the hooks of modules. It reads and saves values and the content of
// the ConfigMap. Dropped metric operations are reported to log and observer.
func New(
	o Options, modules *desired.Modules, values *desired.Values, config *desired.ConfigMap, log zerolog.Logger, observer Observer,
) *Exchange {
	metrics := &hookmetrics.Recorder{Log: log, Observer: observer, Prefix: o.MetricsPrefix, UngroupedExpire: o.UngroupedExpire}
	return &Exchange{modules: modules, values: values, config: config, metrics: metrics, objects: o.Objects}
}

// Find returns the hook of s with its current path. If the hook no longer exists, the error wraps [hook.ErrGone].
func (x *Exchange) Find(tx *store.Tx, s graph.Subject) (bindings.Hook, error) {
	found, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	if err != nil {
		return found, err
	}
	if !known {
		return found, fmt.Errorf("hook %s %w", s, hook.ErrGone)
	}
	found.File, err = x.modules.Locate(s.Module, found.File)
	return found, err
}

// Read returns the input of the hook of s. [Exchange.Find] must have found the hook. If the argument enabled is true,
// the hook receives the names of the enabled modules.
func (x *Exchange) Read(tx *store.Tx, found bindings.Hook, s graph.Subject, enabled bool) (Input, error) {
	in := Input{Hook: found, subject: s, metrics: x.metrics.Parser(s.Module, s.Hook)}
	if enabled {
		l, err := store.LoadStartup(tx)
		if err != nil {
			return in, err
		}
		in.enabled = append([]string{}, l.Enabled...)
	}
	var err error
	if in.code, err = recordedCode(tx, s); err != nil {
		return in, err
	}
	return in, in.readLayers(tx, x.values, sections.Of(s.Module))
}

// Fill sets Values and ConfigValues of run. If ownCode is true, the hook does not receive the values that only its
// earlier code has written.
func (x *Exchange) Fill(run *hook.Run, in Input, ownCode bool) (err error) {
	shown, section := in.layers, sections.Of(in.subject.Module)
	if ownCode && len(in.Hook.Awaits) > 0 {
		shown = sections.AsSeenBy(shown, sections.Author(in.subject.Module, in.subject.Hook))
	}
	if run.ConfigValues, err = json.Marshal(shown.HookConfigValues(section)); err != nil {
		return err
	}
	merged, skipped := shown.HookValues(section, in.enabled)
	x.values.WarnSkipped(skipped)
	run.Values, err = json.Marshal(merged)
	return err
}

// Saved describes what [Exchange.Save] has saved.
type Saved struct {
	// Module says whether the values of the hook's module, or its section of the ConfigMap, have changed. It is always
	// false for a global hook. Global says whether global values, the global section of the ConfigMap, or flags have
	// changed.
	Module, Global bool
	// Earlier is true if the hook was removed, or its code or configuration has changed, since the run.
	Earlier bool
	// Remark is a text for the history about the values patches and flags of such a run, or "".
	Remark string
}

// Save writes the output of the hook of s to the store, except its metrics. If the hook was removed after the start of
// the run, Save saves only the content of the ConfigMap that the hook has written, because nothing would delete the
// values patches and flags later. If the code or the configuration of the hook has changed, Save marks the values
// patches and flags as outdated. If [IsInvalid] returns true for the error, the output is invalid; otherwise the store
// has caused the error.
func (x *Exchange) Save(tx *store.Tx, out Output, s graph.Subject) (saved Saved, err error) {
	now, err := recordedCode(tx, s)
	if err != nil {
		return Saved{}, err
	}
	saved.Earlier = out.Code != Code{} && out.Code.isEarlier(now)
	patched := out.Global != nil || len(out.Values)+len(out.Flags) > 0
	if saved.Earlier && patched && now == (Code{}) {
		saved.Remark = "values patches and flags not saved: the hook has been removed since this run"
		out.Patch, out.Global, out.Flags, patched = sections.Patch{}, nil, nil, false
	}
	if saved.Module, saved.Global, err = x.save(tx, out, sections.Author(s.Module, s.Hook)); err != nil {
		return Saved{}, err
	}
	if saved.Earlier && patched {
		saved.Remark = "values patches and flags saved as those of earlier code: the code of the hook has changed since this run"
		err = out.outdate(tx, s)
	}
	return saved, err
}

// save stores the output of a run. The argument by is the name of the hook. The results module and global are the
// fields Module and Global of [Saved].
func (x *Exchange) save(tx *store.Tx, out Output, by string) (module, global bool, err error) {
	own, err := x.saveOwn(tx, out, by)
	if err != nil || out.Section == values.Global {
		return false, own, err
	}
	if out.Global != nil {
		global, err = x.values.SavePatch(tx, values.Global, *out.Global, by)
	}
	return own, global, err
}

// IsInvalid reports whether err says that values have changed since the hook read them, and that its patch is not valid
// for the changed values.
func IsInvalid(err error) bool {
	_, invalid := errors.AsType[*desired.PatchError](err)
	return invalid
}

// LacksDirectory reports whether err, a result of [Exchange.Find], means that the directory of the hook's module is
// missing, but that the module may still exist.
func LacksDirectory(err error) bool { return errors.Is(err, desired.ErrNoDirectory) }

// Record saves the metrics from the output of the hook of s.
func (x *Exchange) Record(tx *store.Tx, out Output, s graph.Subject) error {
	return x.metrics.Record(tx, s.Module, s.Hook, out.Metrics)
}

// Effect carries out one effect of a hook: a write to the ConfigMap, or an operation on an object.
func (x *Exchange) Effect(ctx context.Context, t workflow.Task, e workflow.Effect) error {
	do, known := map[string]func(context.Context, workflow.Task, json.RawMessage) error{
		desired.ConfigEffect: x.config.Do,
		objects.EffectKind:   x.objects.Do,
	}[e.Kind]
	if !known {
		return workflow.Refused(fmt.Errorf("no effect is called %q", e.Kind))
	}
	return do(ctx, t, e.Data)
}

// DoNow carries out the effects of a hook run without a task, for a review request; see [objects.Executor.DoNow].
func (x *Exchange) DoNow(ctx context.Context, module string, effects []workflow.Effect) error {
	return x.objects.DoNow(ctx, module, effects)
}

// saveOwn writes the part of the output that concerns the hook's own section and flags to the store. It reports
// whether it has changed the values of the section, its content in the ConfigMap, or a flag.
func (x *Exchange) saveOwn(tx *store.Tx, out Output, by string) (changed bool, err error) {
	if len(out.Values) > 0 {
		if changed, err = x.values.SavePatch(tx, out.Section, out.Patch, by); err != nil {
			return false, err
		}
	}
	if len(out.Flags) > 0 {
		other, err := x.values.SaveFlags(tx, out.Flags, by)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	if out.Config != nil {
		other, err := x.config.SaveWritten(tx, *out.Config)
		if err != nil {
			return false, err
		}
		changed = changed || other
	}
	return changed, nil
}
