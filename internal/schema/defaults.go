package schema

import "k8s.io/kube-openapi/pkg/validation/spec"

// Default returns a section with the schema's defaults for keys that are missing:
// in it, in the maps it holds, and in the elements of its lists. A map that is
// missing itself is made only where it has a default of its own, and is then
// filled in too. An explicit null is not missing. The result shares nothing with
// the section.
func (s *Schema) Default(section any) any {
	section = clone(section)
	if s != nil {
		fill(section, &s.root)
	}
	return section
}

// fill puts the defaults of s into v, in place.
func fill(v any, s *spec.Schema) {
	switch v := v.(type) {
	case map[string]any:
		for name, property := range s.Properties {
			if _, found := v[name]; !found && property.Default != nil {
				v[name] = clone(property.Default)
			}
			if under, found := v[name]; found {
				fill(under, &property)
			}
		}
	case []any:
		if s.Items == nil || s.Items.Schema == nil {
			return
		}
		for _, element := range v {
			fill(element, s.Items.Schema)
		}
	}
}

// clone returns a copy that shares no map and no list with v.
func clone(v any) any { return copied(v, func(leaf any) any { return leaf }) }

// copied returns a copy that shares no map and no list with v, and has what of makes
// of everything else.
func copied(v any, of func(leaf any) any) any {
	switch v := v.(type) {
	case map[string]any:
		m := make(map[string]any, len(v))
		for key, under := range v {
			m[key] = copied(under, of)
		}
		return m
	case []any:
		list := make([]any, len(v))
		for i, element := range v {
			list[i] = copied(element, of)
		}
		return list
	default:
		return of(v)
	}
}
