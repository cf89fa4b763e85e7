package values

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Layer is one of the sources from which values are merged.
type Layer string

// These are the layers, from low to high. DefaultLayer is used twice: the defaults from config-values.yaml are below
// the ConfigMap, and the defaults from the schema values.yaml are between the ConfigMap and hooks.
const (
	FileLayer      Layer = "file"
	DefaultLayer   Layer = "default"
	ConfigMapLayer Layer = "ConfigMap"
	HookLayer      Layer = "hook"
)

// A Part is one section in one values file.
type Part struct {
	Path    string // path of the values file
	Section any
}

// LayerValue is a value that one layer sets at one path. A value is a scalar, a list or an empty map.
type LayerValue struct {
	// Path is the JSON pointer (RFC 6901) of the value. The path begins with the key of the section.
	Path  string `json:"path"`
	Value any    `json:"value,omitempty"`
	// Removed is true if the layer removes the value, or replaces a map that contains the value.
	Removed bool `json:"removed,omitempty"`
	// Overridden is true if a higher layer also sets or removes the value.
	Overridden bool  `json:"overridden,omitempty"`
	Layer      Layer `json:"layer"`
	// By is the path of the values file, the path of the schema file with the default, or the name of the hook. By is
	// empty for the ConfigMap, and for a values file if [Layers.Files] is not set.
	By string `json:"by,omitempty"`
	// Origin is set for a value of a hook. For the ConfigMap, only At is set, to the time of the last change of the
	// section, if this time is known.
	Origin
}

// Explain returns the values that each layer sets in a section, sorted by path. The values of one path are sorted from
// the highest layer to the lowest. So the first one is in force, unless it is Removed. If several patches of hooks set
// a value, only the last one is returned.
func (l Layers) Explain(key string) []LayerValue {
	e := &explanation{key: key, section: map[string]any{}, said: map[string][]LayerValue{}}
	for _, part := range l.files(key) {
		e.merge(part.Section, LayerValue{Layer: FileLayer, By: part.Path})
	}
	schemas := l.schemas(key)
	e.next(withDefaults(schemas.Config, e.section), nil, LayerValue{Layer: DefaultLayer, By: schemas.Config.File()})
	if config, said := l.Config.Sections[key]; said {
		e.merge(config, LayerValue{Layer: ConfigMapLayer, Origin: Origin{At: l.ConfigAt[key]}})
	}
	e.next(withDefaults(schemas.Values, e.section), nil, LayerValue{Layer: DefaultLayer, By: schemas.Values.File()})
	e.patch(l.Saved[key])
	return e.all()
}

// Since returns the time of the last change at each path of a section: of the value in force, or of its removal. Paths
// for which no time is known are left out.
func (l Layers) Since(key string) map[string]time.Time {
	since := map[string]time.Time{}
	for _, said := range l.Explain(key) {
		if !said.Overridden && !said.At.IsZero() {
			since[said.Path] = said.At
		}
	}
	return since
}

// files returns the sections with this key in values files, from low to high precedence.
func (l Layers) files(key string) []Part {
	if parts := l.Files[key]; parts != nil {
		return parts
	}
	if section, found := l.Static[key]; found {
		return []Part{{Section: section}}
	}
	return nil
}

// An explanation applies the layers of a section one after another, and records the values that each layer sets.
type explanation struct {
	key     string
	section any                     // the result of the layers that have been applied
	said    map[string][]LayerValue // recorded values by path; of one path, the value of the lowest layer is first
}

// merge merges layer, which is the section in a values file or the ConfigMap, over e.section. It records the values
// that layer sets.
func (e *explanation) merge(layer any, by LayerValue) {
	merged := Merge(Values{e.key: e.section}, Values{e.key: layer})
	own := leaves(e.pointer(), layer)
	e.next(merged[e.key], func(path string) (LayerValue, bool) { _, says := own[path]; return by, says }, by)
}

// next records the changes from e.section to section, which is the result of the next layer. If the layer
// sets path explicitly, says(path) returns the origin of the value and true; this value is recorded even if it is
// unchanged. The argument by is the origin of all other changed values.
func (e *explanation) next(section any, says func(path string) (LayerValue, bool), by LayerValue) {
	before, after := leaves(e.pointer(), e.section), leaves(e.pointer(), section)
	for path, value := range after {
		said, explicit := by, false
		if says != nil {
			if one, is := says(path); is {
				said, explicit = one, true
			}
		}
		old, stood := before[path]
		if changed, err := Changed(old, value); explicit || !stood || changed || err != nil {
			said.Path, said.Value = path, value
			e.said[path] = append(e.said[path], said)
		}
	}
	for path := range before {
		if _, stays := after[path]; stays {
			continue
		}
		if has(section, segments(path)[1:]) {
			delete(e.said, path) // the value was an empty map, to which the layer adds keys
			continue
		}
		said := by
		if says != nil {
			if one, is := says(path); is {
				said = one
			}
		}
		said.Path, said.Removed = path, true
		e.said[path] = append(e.said[path], said)
	}
	e.section = section
}

// patch applies the saved operations of hooks to e.section, and records their values.
func (e *explanation) patch(saved []Saved) {
	merged, skipped := Replay(Values{e.key: e.section}, saved)
	at := map[string]Saved{}    // by path
	below := map[string]Saved{} // by path, the last operation on a part of the value at this path
	for _, s := range saved {
		if slices.ContainsFunc(skipped, func(other Skipped) bool { return other.same(s) }) {
			continue
		}
		at[s.Path] = s
		for path := parent(s.Path); path != ""; path = parent(path) {
			below[path] = s
		}
	}
	e.next(orEmpty(merged[e.key]), func(path string) (LayerValue, bool) {
		by, isBelow := below[path] // isBelow is true if an operation changes only a part of the value at path
		for p := path; !isBelow && p != ""; p = parent(p) {
			if s, is := at[p]; is {
				return valueOf(s), true
			}
		}
		return valueOf(by), isBelow
	}, LayerValue{Layer: HookLayer})
}

func valueOf(s Saved) LayerValue { return LayerValue{Layer: HookLayer, By: s.Hook, Origin: s.Origin} }

// all returns all recorded values, sorted by path. For each path, the value of the highest layer is first.
func (e *explanation) all() []LayerValue {
	var out []LayerValue
	for _, path := range slices.Sorted(maps.Keys(e.said)) {
		for i, said := range slices.Backward(e.said[path]) {
			said.Overridden = i < len(e.said[path])-1
			out = append(out, said)
		}
	}
	return out
}

// pointer returns the JSON pointer of the explained section.
func (e *explanation) pointer() string { return "/" + escape.Replace(e.key) }

// escape escapes a name for a JSON pointer.
var escape = strings.NewReplacer("~", "~0", "/", "~1")

// parent returns path without its last name. The parent of a section is "".
func parent(path string) string { return path[:max(0, strings.LastIndexByte(path, '/'))] }

// leaves returns the scalars, lists and empty maps in v by path. path is the path of v itself.
func leaves(path string, v any) map[string]any {
	out := map[string]any{}
	var visit func(path string, v any)
	visit = func(path string, v any) {
		m, isMap := asMap(v)
		if !isMap || len(m) == 0 {
			out[path] = v
			return
		}
		for key, under := range m {
			visit(path+"/"+escape.Replace(key), under)
		}
	}
	visit(path, v)
	return out
}

// has reports whether v has a value at the path with these names.
func has(v any, names []string) bool {
	for _, name := range names {
		m, isMap := asMap(v)
		under, found := m[name]
		if !isMap || !found {
			return false
		}
		v = under
	}
	return true
}

// Below filters the argument said: it returns the values at path and below it. The argument path is a JSON pointer, or
// names separated by dots, as in Helm. The first name of path may be omitted if it is key, the key of the section.
func Below(said []LayerValue, key, path string) []LayerValue {
	if !strings.HasPrefix(path, "/") {
		path = "/" + strings.ReplaceAll(escape.Replace(path), ".", "/")
	}
	path = strings.TrimSuffix(path, "/")
	below := func(path string) (found []LayerValue) {
		for _, s := range said {
			if s.Path == path || strings.HasPrefix(s.Path, path+"/") {
				found = append(found, s)
			}
		}
		return found
	}
	if found := below(path); found != nil {
		return found
	}
	return below("/" + escape.Replace(key) + path)
}

// Source returns a text for people that says in which layer the value was set, and by what.
func (s *LayerValue) Source() string {
	switch s.Layer {
	case FileLayer:
		return cmp.Or(s.By, "values.yaml")
	case DefaultLayer:
		return "default in " + s.By
	case HookLayer:
		return "hook " + s.By
	default:
		return string(s.Layer)
	}
}

// Text returns the value as JSON for people, or "(removed)" if the layer removes it.
func (s *LayerValue) Text() string {
	if s.Removed {
		return "(removed)"
	}
	text, err := Canonical(s.Value)
	if err != nil {
		return strconv.Quote(err.Error())
	}
	return string(text)
}
