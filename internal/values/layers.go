package values

import (
	"time"

	"addon-operator/internal/schema"
)

// Layers has the sources from which the values of the global section and of modules are merged. The layers, from the
// lowest to the highest, are the values files, the defaults of the schema for the ConfigMap, the ConfigMap, the
// defaults of the schema for values, and the patches of hooks.
type Layers struct {
	// Static has the merged sections of the values files.
	Static Values
	// Files has the sections from which Static was merged, by key, from low to high precedence. Only Explain needs
	// them.
	Files map[string][]Part
	// Config is the content of the ConfigMap.
	Config Config
	// ConfigAt has the time of the last change of each section of Config, by key, if this time is known. Only Explain
	// needs it.
	ConfigAt map[string]time.Time
	// Saved has the saved operations of hooks, by the key of the section.
	Saved map[string][]Saved
	// Schemas has the schemas of sections, by key. A section without schemas may have any values.
	Schemas map[string]*schema.Set
}

// Section returns the merged values of the section with this key. If no layer has values, it returns an empty map.
// skipped are the saved operations that could not be applied.
func (l Layers) Section(key string) (section any, skipped []Skipped) {
	merged, skipped := Replay(l.unpatched(key), l.Saved[key])
	return orEmpty(merged[key]), skipped
}

// NoOp returns the paths of the saved operations "remove" of a section that have no effect, because neither the lower
// layers nor the earlier operations set a value at the path.
func (l Layers) NoOp(key string) []string { return NoOp(l.unpatched(key), l.Saved[key]) }

// unpatched returns a document with only the section with this key, merged from all layers except the patches of
// hooks.
func (l Layers) unpatched(key string) Values {
	merged := l.configured(key)
	merged[key] = withDefaults(l.schemas(key).Values, merged[key])
	return merged
}

// configured returns a document with only the section with this key, merged from the values files, the defaults of the
// schema for the ConfigMap, and the ConfigMap.
func (l Layers) configured(key string) Values {
	low := Values{key: withDefaults(l.schemas(key).Config, orEmpty(l.Static[key]))}
	config, said := l.Config.Sections[key]
	if !said {
		return low
	}
	return Merge(low, Values{key: config})
}

// schemas returns the schemas of the section with this key, or an empty set if it has none.
func (l Layers) schemas(key string) *schema.Set {
	if set := l.Schemas[key]; set != nil {
		return set
	}
	return &schema.Set{}
}

// withDefaults returns section with the defaults of schema s. If s is nil, it returns section unchanged.
func withDefaults(s *schema.Schema, section any) any {
	if s == nil {
		return section
	}
	return s.Default(section)
}

// HookConfigValues returns the document that hooks find at CONFIG_VALUES_PATH. It has the global section and the
// section with this key, both as in the ConfigMap. For a global hook, key is Global, and the document has only the
// global section. A section that the ConfigMap does not mention is null. A section for which the ConfigMap has only a
// flag is empty.
func (l Layers) HookConfigValues(key string) Values {
	global, _ := l.Config.Section(Global)
	own, _ := l.Config.Section(key)
	return Merge(Values{Global: global}, Values{key: own})
}

// HookValues returns the document that hooks find at VALUES_PATH: the merged global section and, unless key is
// Global, the merged section of the module. If enabled is not nil, it is added as global.enabledModules. HookValues
// also returns the saved operations that could not be applied.
func (l Layers) HookValues(key string, enabled []string) (Values, []Skipped) {
	global, skipped := l.Section(Global)
	if section, isMap := asMap(global); isMap && enabled != nil {
		names := make([]any, len(enabled))
		for i, name := range enabled {
			names[i] = name
		}
		section["enabledModules"] = names
	}
	document := Values{Global: global}
	if key != Global {
		own, more := l.Section(key)
		document[key] = own
		skipped = append(skipped, more...)
	}
	return document, skipped
}

// HelmValues returns the document of HookValues in the form in which Helm reads a values file: every number is a
// float64. Templates print and compare float64 numbers differently from integers. So existing charts render with the
// same results as in flant/addon-operator.
func (l Layers) HelmValues(key string, enabled []string) (map[string]any, []Skipped) {
	document, skipped := l.HookValues(key, enabled)
	for section, under := range document {
		document[section] = floats(under)
	}
	return document, skipped
}

// floats converts whole numbers in v to float64. It modifies the maps and lists in v.
func floats(v any) any {
	switch v := v.(type) {
	case int64:
		return float64(v)
	case map[string]any:
		for key, under := range v {
			v[key] = floats(under)
		}
	case []any:
		for i, element := range v {
			v[i] = floats(element)
		}
	}
	return v
}
