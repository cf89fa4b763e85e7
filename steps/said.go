package steps

import (
	"encoding/json"
	"errors"
	"fmt"

	"addon-operator/internal/hook"
	"addon-operator/internal/operation"
	"addon-operator/internal/series"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// said is what a run of a hook leads to: the data of its outcome.
type said struct {
	// Section is the key of the section that the hook may change.
	Section string           `json:"section"`
	Values  []values.Op      `json:"values,omitempty"`
	Flags   map[string]*bool `json:"flags,omitempty"`
	Config  *configWrite     `json:"config,omitempty"`
	Metrics []series.Op      `json:"metrics,omitempty"`
	// Base says on what Values were found to fit, Changed whether they changed that,
	// and Vain where with them there is nothing to remove.
	Base    string   `json:"base,omitempty"`
	Changed bool     `json:"changed,omitempty"`
	Vain    []string `json:"vain,omitempty"`
	// Given are the objects a Synchronization was told of, by the id of the binding
	// that sees them, then by namespace and name.
	Given map[string]map[string]given `json:"given,omitempty"`
}

// given is the version of an object that a hook was told of.
type given struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// outcome reads what the hook has written.
func (out said) outcome(in hookInput, result hook.Result) (workflow.Outcome, error) {
	configOps, flags, err := readPatch(result.ConfigPatch, out.Section)
	if err != nil {
		return workflow.Outcome{}, fmt.Errorf("$CONFIG_VALUES_JSON_PATCH_PATH: %w", err)
	}
	if len(flags) > 0 && out.Section != values.Global {
		return workflow.Outcome{}, errors.New("$CONFIG_VALUES_JSON_PATCH_PATH: a module hook cannot set flags")
	}
	if out.Values, out.Flags, err = readPatch(result.ValuesPatch, out.Section); err != nil {
		return workflow.Outcome{}, fmt.Errorf("$VALUES_JSON_PATCH_PATH: %w", err)
	}
	if len(out.Values) > 0 {
		f, err := fitting(in.layers, out.Section, out.Values, "")
		if err == nil {
			out.Changed, err = values.Changed(f.before, f.after)
		}
		if err != nil {
			return workflow.Outcome{}, fmt.Errorf("$VALUES_JSON_PATCH_PATH: %w", err)
		}
		out.Base, out.Vain = in.base, f.vain
	}
	if out.Metrics, err = in.metrics(result.Metrics); err != nil {
		return workflow.Outcome{}, fmt.Errorf("$METRICS_PATH: %w", err)
	}
	operations, err := operation.Parse(result.Operations)
	if err != nil {
		return workflow.Outcome{}, fmt.Errorf("$KUBERNETES_PATCH_PATH: %w", err)
	}
	o := workflow.Outcome{}
	if out.Config, err = planConfig(in.layers.Config, out.Section, configOps, flags); err != nil {
		return o, fmt.Errorf("$CONFIG_VALUES_JSON_PATCH_PATH: %w", err)
	}
	if o.Effects, err = objectEffects(operations, in.at, out.Config == nil); err != nil {
		return o, err
	}
	if out.Config != nil {
		if err := in.layers.CheckConfig(out.Section, out.Config.Now[out.Section]); err != nil {
			return o, fmt.Errorf("$CONFIG_VALUES_JSON_PATCH_PATH: %w", err)
		}
		effect, err := out.Config.effect()
		if err != nil {
			return o, err
		}
		o.Effects = append(o.Effects, effect)
	}
	if o.Data, err = json.Marshal(out); err != nil {
		return o, err
	}
	return o, bounded(o)
}

// mostSaid is how many bytes a run of a hook can lead to as they are written down.
// The store takes a little more at once.
const mostSaid = 15 << 20

// bounded returns an error where what is to be written down comes to too much.
func bounded(o workflow.Outcome) error {
	size := len(o.Data)
	for _, e := range o.Effects {
		size += len(e.Data) + perEffect
	}
	if size <= mostSaid {
		return nil
	}
	return fmt.Errorf("what the hook has written to its output files, %d effects among it, comes to %.1f MiB when it is written down, "+
		"%d MiB is the most: write less in one run", len(o.Effects), float64(size)/(1<<20), mostSaid>>20)
}

// perEffect is what an effect takes in a journal beside its data.
const perEffect = 48

func readPatch(text []byte, own string) ([]values.Op, map[string]*bool, error) {
	ops, err := values.ParsePatch(text)
	if err != nil {
		return nil, nil, err
	}
	return values.Split(ops, own)
}

// Apply keeps what the hook wants kept and says what that changed.
func (s *hookStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	var out said
	if len(o.Data) > 0 {
		if err := json.Unmarshal(o.Data, &out); err != nil {
			return nil, err
		}
	}
	out.Section = sectionOf(t.Subject.Module)
	if s.node.Has(lifecycle.Objects) {
		if err := s.site.synchronized(tx, t, out.Given); err != nil {
			return nil, err
		}
	}
	if err := s.site.count(tx, t.Subject.Module, t.Subject.Hook, out.Metrics); err != nil {
		return nil, err
	}
	if o.Allowed != "" || len(out.Values) == 0 && len(out.Flags) == 0 && out.Config == nil {
		return nil, nil
	}
	changed, err := s.site.keep(tx, out, nameOf(t.Subject.Module, t.Subject.Hook))
	if err != nil || !changed || !s.node.Ranges {
		return nil, err
	}
	if out.Section == values.Global {
		return []graph.Fact{lifecycle.GlobalChanged}, nil
	}
	return []graph.Fact{lifecycle.ModuleChanged}, nil
}

// nameOf is how the store calls a hook as the author of what it said.
func nameOf(module, hook string) string { return graph.Subject{Module: module, Hook: hook}.String() }
