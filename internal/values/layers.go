package values

import (
	"time"

	"addon-operator/internal/schema"
)

// Layers has the sources of the values of the global section and of modules, from low to high:
// files, defaults for the ConfigMap, the ConfigMap, defaults for values, and patches of hooks.
type Layers struct {
	// Static has the merged sections of the values files.
	Static Values
	// Files has the sections from which Static was merged, by key, from low to high. Only Explain
	// reads it.
	Files map[string][]Part
	// Config is the content of the ConfigMap.
	Config Config
	// ConfigAt is when each section of Config changed last, as far as that is known. Only Explain reads it.
	ConfigAt map[string]time.Time
	// Saved has the saved operations of hooks, by the key of the section.
	Saved map[string][]Saved
	// Schemas holds the schemas of sections, by key. A section without may be
	// anything.
	Schemas map[string]*schema.Set
}

// Section returns the merged values of the section with this key, an empty map
// when no layer has any, and the saved operations that did not fit any more.
func (l Layers) Section(key string) (section any, skipped []Skipped) {
	merged, skipped := Replay(l.unpatched(key), l.Saved[key])
	return orEmpty(merged[key]), skipped
}

// NoOp returns the paths of the saved operations that remove what no layer below
// has, and no operation before.
func (l Layers) NoOp(key string) []string { return NoOp(l.unpatched(key), l.Saved[key]) }

// unpatched returns a document of the section without the patches of hooks.
func (l Layers) unpatched(key string) Values {
	merged := l.configured(key)
	merged[key] = withDefaults(l.schemas(key).Values, merged[key])
	return merged
}

// configured returns a document of the section from the files and the ConfigMap, with the defaults
// between them.
func (l Layers) configured(key string) Values {
	low := Values{key: withDefaults(l.schemas(key).Config, orEmpty(l.Static[key]))}
	config, said := l.Config.Sections[key]
	if !said {
		return low
	}
	return Merge(low, Values{key: config})
}

// schemas returns the schemas of a section, an empty set for none.
func (l Layers) schemas(key string) *schema.Set {
	if set := l.Schemas[key]; set != nil {
		return set
	}
	return &schema.Set{}
}

// withDefaults returns a section with the defaults of a schema, if there is one.
func withDefaults(s *schema.Schema, section any) any {
	if s == nil {
		return section
	}
	return s.Default(section)
}

// HookConfigValues returns the document that hooks find at CONFIG_VALUES_PATH: only the content of
// the ConfigMap. For a global hook, with the key Global, it has only the global section. A section
// that the ConfigMap does not mention is null. A section for which it has only a flag is empty.
func (l Layers) HookConfigValues(key string) Values {
	global, _ := l.Config.Section(Global)
	own, _ := l.Config.Section(key)
	return Merge(Values{Global: global}, Values{key: own})
}

// HookValues returns the document that hooks find at VALUES_PATH: the merged global section and,
// unless key is Global, the merged section of the module. If enabled is not nil, the document has
// it as global.enabledModules. With it come the saved operations that did not fit any more.
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

// HelmValues returns the document of HookValues in the form in which Helm reads a values file:
// every number is a float64. Templates print and compare float64 numbers differently from integers,
// so existing charts render as before.
func (l Layers) HelmValues(key string, enabled []string) (map[string]any, []Skipped) {
	document, skipped := l.HookValues(key, enabled)
	for section, under := range document {
		document[section] = floats(under)
	}
	return document, skipped
}

// floats turns whole numbers into float64, in place.
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
