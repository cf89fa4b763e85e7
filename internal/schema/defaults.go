package schema

import "k8s.io/kube-openapi/pkg/validation/spec"

// Default returns a copy of a section with the schema's defaults for missing keys, also in nested
// maps and in elements of lists. Default adds a missing map only if the schema has a default for
// the map itself. To this map, it also adds the defaults of the map's keys. A key whose value is
// null is not missing.
func (s *Schema) Default(section any) any {
	section = clone(section)
	if s != nil {
		fill(section, &s.root)
	}
	return section
}

// fill adds the defaults of schema s to v. It modifies the maps in v.
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

// copied returns a copy that shares no map and no list with v. Each leaf, which is a value that is
// neither a map nor a list, is replaced by the result of the function "of" for this leaf.
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
