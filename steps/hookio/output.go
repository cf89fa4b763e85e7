package hookio

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/desired"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/objects"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

// An Output is the output of one run of a hook. The data of the outcome is the Output as JSON.
type Output struct {
	// Section is the key of the section that the hook may change.
	Section string `json:"section"`
	sections.Patch
	// Code is the code of the hook that has run. It is zero in an output that an earlier version of the operator stored.
	Code Code `json:"code,omitzero"`
	// Global is the patch of global values that a hook of a module has written; nil if it has written none.
	Global  *sections.Patch        `json:"global,omitempty"`
	Flags   map[string]*bool       `json:"flags,omitempty"`
	Config  *sections.ConfigWrite  `json:"config,omitempty"`
	Metrics hookmetrics.Operations `json:"metrics,omitempty"`
	// Observed has the versions of the objects that a Synchronization delivered to the hook: by the ID of the
	// binding, then by namespace and name. In a stored output, it is nil if it was too large for the store.
	Observed map[string]map[string]bindings.Version `json:"given,omitempty"`
	// Took is the duration of the hook's run.
	Took time.Duration `json:"took,omitempty"`
}

// NewOutput returns an empty output of a hook of module. For a global hook, module is empty.
func NewOutput(module string) Output { return Output{Section: sections.Of(module)} }

// Decode decodes the output of a hook of module from the data of an outcome. If data is empty, it returns an empty
// output.
func Decode(module string, data []byte) (out Output, err error) {
	if len(data) > 0 {
		err = json.Unmarshal(data, &out)
	}
	out.Section = sections.Of(module)
	return out, err
}

// Outcome parses and checks the output files in result, and returns the outcome of the run. The argument in is the
// input of the run. Outcome returns an error if one of the files is invalid.
func (out Output) Outcome(in Input, result hook.Result) (workflow.Outcome, error) {
	configPatch, err := readPatch(result.ConfigPatch, out.Section, values.SplitConfig)
	if err != nil {
		return workflow.Outcome{}, hook.FileError("$CONFIG_VALUES_JSON_PATCH_PATH", result.ConfigPatch, err)
	}
	out.Code = in.code
	if out, err = out.withValues(in, result.ValuesPatch); err != nil {
		return workflow.Outcome{}, hook.FileError("$VALUES_JSON_PATCH_PATH", result.ValuesPatch, err)
	}
	if out.Metrics, err = in.metrics(result.Metrics); err != nil {
		return workflow.Outcome{}, hook.FileError("$METRICS_PATH", result.Metrics, err)
	}
	operations, err := objects.Parse(result.Operations)
	if err != nil {
		return workflow.Outcome{}, hook.FileError("$KUBERNETES_PATCH_PATH", result.Operations, err)
	}
	o := workflow.Outcome{}
	if out.Config, err = sections.PlanConfigWrite(in.layers.Config, out.Section, configPatch.Own, configPatch.Flags); err != nil {
		return o, fmt.Errorf("$CONFIG_VALUES_JSON_PATCH_PATH: %w", err)
	}
	if o.Effects, err = operations.Effects(in.At, out.Config == nil); err != nil {
		return o, err
	}
	if out.Config != nil {
		if len(out.Config.Ops) > 0 {
			err = in.layers.CheckConfig(out.Section, out.Config.Now[out.Section])
		}
		if err != nil {
			return o, fmt.Errorf("$CONFIG_VALUES_JSON_PATCH_PATH: %w", err)
		}
		effect, err := desired.EffectOf(*out.Config)
		if err != nil {
			return o, err
		}
		o.Effects = append(o.Effects, effect)
	}
	if o.Changes, err = out.valueChanges(in); err != nil {
		return o, err
	}
	o.Detail = out.summary(len(operations))
	return out.addTo(o)
}

// addTo returns o with the output as its data. If o would be too large for the store, the data does not have Observed.
// Without Observed, no waiting events are withdrawn, so the hook also gets the events of objects that the
// Synchronization delivered. If o is too large even without Observed, addTo returns an error.
func (out Output) addTo(o workflow.Outcome) (workflow.Outcome, error) {
	var err error
	if o.Data, err = json.Marshal(out); err != nil {
		return o, err
	}
	if out.Observed != nil && bounded(o) != nil {
		out.Observed = nil
		return out.addTo(o)
	}
	return o, bounded(o)
}

// valueChanges returns the changes that the hook has made to the values that it received; nil if it has changed
// nothing.
func (out Output) valueChanges(in Input) (*store.ValueChanges, error) {
	changes := sections.NewChanges(in.secret)
	if out.Changed {
		if err := changes.Add(out.Section, out.Before, out.After); err != nil {
			return nil, err
		}
	}
	if out.Global != nil && out.Global.Changed {
		if err := changes.Add(values.Global, out.Global.Before, out.Global.After); err != nil {
			return nil, err
		}
	}
	if out.Config != nil && len(out.Config.Ops) > 0 {
		config := in.layers.Config
		config.Sections = maps.Clone(config.Sections)
		if config.Sections == nil {
			config.Sections = values.Values{}
		}
		config.Sections[out.Section] = out.Config.Now[out.Section]
		if err := changes.AddConfig(in.layers, out.Section, config); err != nil {
			return nil, err
		}
	}
	return changes.Recorded(), nil
}

// summary lists the paths and flags that the output changes or sets. It omits the values, which can be secrets.
// The argument operations is the number of operations on objects.
func (out Output) summary(operations int) string {
	var changes []string
	add := func(what string, paths []string, how string) {
		const most = 3
		if more := len(paths) - most; more > 0 {
			paths = append(slices.Clone(paths[:most]), fmt.Sprintf("%d more", more))
		}
		if len(paths) > 0 {
			changes = append(changes, what+" "+strings.Join(paths, ", ")+" "+how)
		}
	}
	if out.Changed {
		add("values", pathsOf(out.Values), "changed")
	}
	if out.Global != nil && out.Global.Changed {
		add("values", pathsOf(out.Global.Values), "changed")
	}
	if out.Config != nil {
		add("ConfigMap values", append(pathsOf(out.Config.Ops), slices.Sorted(maps.Keys(out.Config.Flags))...), "set")
	}
	add("enabled overrides", slices.Sorted(maps.Keys(out.Flags)), "set")
	switch operations {
	case 0:
	case 1:
		changes = append(changes, "1 object operation")
	default:
		changes = append(changes, fmt.Sprintf("%d object operations", operations))
	}
	return strings.Join(changes, "; ")
}

func pathsOf(ops []values.Op) (paths []string) {
	for _, op := range ops {
		paths = append(paths, op.Path)
	}
	return paths
}

// mostOutput is the maximum size in bytes of the stored output of one run. The limit of a transaction of the store is
// a little higher.
const mostOutput = 15 << 20

// bounded returns an error if the outcome is too large for the store.
func bounded(o workflow.Outcome) error {
	size := len(o.Data)
	for _, e := range o.Effects {
		size += len(e.Data) + perEffect
	}
	if size <= mostOutput {
		return nil
	}
	return fmt.Errorf("the output of the hook, with %d effects, needs %.1f MiB in the store, more than the limit of %d MiB; write less in one run",
		len(o.Effects), float64(size)/(1<<20), mostOutput>>20)
}

// perEffect is the number of bytes that an effect needs in a journal in addition to its data.
const perEffect = 48

// readPatch parses a patch file that a hook has written. The argument own is the key of the hook's own section.
func readPatch(text []byte, own string, split func([]values.Op, string) (values.Patch, error)) (values.Patch, error) {
	ops, err := values.ParsePatch(text)
	if err != nil {
		return values.Patch{}, err
	}
	return split(ops, own)
}

// withValues parses text, which is a values patch, and returns out with this patch. It returns an error if the patch
// cannot be applied to the values that the hook received.
func (out Output) withValues(in Input, text []byte) (Output, error) {
	patch, err := readPatch(text, out.Section, values.Split)
	if err != nil {
		return out, err
	}
	out.Flags = patch.Flags
	if len(patch.Own) > 0 {
		if out.Patch, err = sections.NewPatch(in.layers, in.bases[out.Section], out.Section, patch.Own); err != nil {
			return out, err
		}
	}
	if len(patch.Global) > 0 {
		global, err := sections.NewPatch(in.layers, in.bases[values.Global], values.Global, patch.Global)
		if err != nil {
			return out, err
		}
		out.Global = &global
	}
	return out, nil
}
