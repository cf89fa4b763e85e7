package hookio

import (
	"encoding/json"
	"fmt"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// An Input is the state in the store before a run of a hook.
type Input struct {
	// Hook is the hook, as it lies on disk now.
	Hook bindings.Hook
	// At is when the input was read; zero for a run that is not a task.
	At time.Time

	subject graph.Subject
	layers  values.Layers
	bases   map[string]string // checksums of the values, by the sections that the hook may change
	enabled []string          // nil if the hook does not receive them
	metrics func(text []byte) (hookmetrics.Operations, error)
	secret  []byte // of redacted values
}

// Find returns the hook of s, as it lies on disk now. The error is [hook.ErrGone] if it no longer exists.
func (x *Exchange) Find(tx *store.Tx, s graph.Subject) (bindings.Hook, error) {
	found, known, err := bindings.LoadHook(tx, s.Module, s.Hook)
	if err != nil {
		return found, err
	}
	if !known {
		return found, fmt.Errorf("hook %s %w", s, hook.ErrGone)
	}
	found.File, err = x.Modules.Locate(s.Module, found.File)
	return found, err
}

// Read returns the input of the hook of s, which [Exchange.Find] has found. With enabled, the hook
// receives the names of the enabled modules.
func (x *Exchange) Read(tx *store.Tx, found bindings.Hook, s graph.Subject, enabled bool) (Input, error) {
	in := Input{Hook: found, subject: s, metrics: x.Metrics.Parser(s.Module, s.Hook)}
	if enabled {
		l, err := store.LoadStartup(tx)
		if err != nil {
			return in, err
		}
		in.enabled = append([]string{}, l.Enabled...)
	}
	return in, in.readLayers(tx, x.Values, sections.Of(s.Module))
}

// Fill sets the values and the values of the ConfigMap in run. With ownCode, a hook does not see the
// values that only its earlier code has written.
func (x *Exchange) Fill(run *hook.Run, in Input, ownCode bool) (err error) {
	shown, section := in.layers, sections.Of(in.subject.Module)
	if ownCode && len(in.Hook.Awaits) > 0 {
		shown = sections.AsSeenBy(shown, sections.Author(in.subject.Module, in.subject.Hook))
	}
	if run.ConfigValues, err = json.Marshal(shown.HookConfigValues(section)); err != nil {
		return err
	}
	merged, skipped := shown.HookValues(section, in.enabled)
	x.Values.WarnSkipped(skipped)
	run.Values, err = json.Marshal(merged)
	return err
}

// readLayers reads the bases, and then the layers of a section and of the global one, so that the
// layers are not older than the bases.
func (in *Input) readLayers(tx *store.Tx, v *desired.Values, section string) (err error) {
	in.secret = store.RedactionSecret(tx)
	in.bases = map[string]string{}
	for _, key := range []string{section, values.Global} {
		if in.bases[key], err = v.Base(tx, key); err != nil {
			return err
		}
	}
	in.layers, err = v.LayersOf(tx, section)
	return err
}
