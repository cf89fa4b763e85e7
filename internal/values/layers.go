package values

import (
	"time"

	"addon-operator/internal/schema"
)

// Layers are all that the values of the global section and of modules are made
// of, from low to high: files, defaults for the ConfigMap, the ConfigMap, defaults
// for values, and what hooks patched.
type Layers struct {
	// Static holds the sections of the values files, already merged.
	Static Values
	// Files holds, by key, what Static was merged from, from low to high. Only Explain reads it.
	Files map[string][]Part
	// Config is what the ConfigMap says.
	Config Config
	// ConfigAt is when each section of Config changed last, as far as that is known. Only Explain reads it.
	ConfigAt map[string]time.Time
	// Saved holds the operations kept from hooks, by the key of the section.
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

// unpatched returns a document of the section without what hooks patched.
func (l Layers) unpatched(key string) Values {
	merged := l.configured(key)
	merged[key] = withDefaults(l.schemas(key).Values, merged[key])
	return merged
}

// configured returns a document of the section as files and ConfigMap have it,
// with the defaults that stand between them.
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

// HookConfigValues returns the document hooks find at CONFIG_VALUES_PATH: what the
// ConfigMap says and nothing else. For a global hook, key being Global, it has the
// global section only. A section the ConfigMap does not mention is null, one that
// it only switches on or off is empty.
func (l Layers) HookConfigValues(key string) Values {
	global, _ := l.Config.Section(Global)
	own, _ := l.Config.Section(key)
	return Merge(Values{Global: global}, Values{key: own})
}

// HookValues returns the document hooks find at VALUES_PATH: the merged global
// section, and that of the module unless key is Global. A list of enabled modules
// that is not nil stands in it as global.enabledModules. With it come the saved
// operations that did not fit any more.
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

// HelmValues returns the document of HookValues as Helm has it after reading a
// values file: every number is a float64. Templates print and compare those
// differently from whole numbers, so this keeps what existing charts render.
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
