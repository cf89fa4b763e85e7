package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The keys of a schema that are not part of OpenAPI. The document VALUES of flant/addon-operator
// describes them.
const (
	keyExtend          = "x-extend"
	keyRequiredForHelm = "x-required-for-helm"
	keyRules           = "x-deckhouse-validations"
)

// A change is a function that returns the changed form of s, which is the schema at path.
type change func(path string, s spec.Schema) (spec.Schema, error)

// parts returns a copy of s in which each direct subschema is replaced by the result of f for it.
// If f returns an error, parts returns the error without further calls of f.
func parts(path string, s spec.Schema, f change) (spec.Schema, error) {
	var failed error
	one := func(path string, s spec.Schema) spec.Schema {
		if failed != nil {
			return s
		}
		s, failed = f(path, s)
		return s
	}
	pointer := func(keyword string, s *spec.Schema) *spec.Schema {
		if s == nil {
			return nil
		}
		changed := one(path+"/"+keyword, *s)
		return &changed
	}
	list := func(keyword string, list []spec.Schema) []spec.Schema {
		list = slices.Clone(list)
		for i, s := range list {
			list[i] = one(fmt.Sprintf("%s/%s/%d", path, keyword, i), s)
		}
		return list
	}
	orBool := func(keyword string, s *spec.SchemaOrBool) *spec.SchemaOrBool {
		if s == nil || s.Schema == nil {
			return s
		}
		return &spec.SchemaOrBool{Allows: s.Allows, Schema: pointer(keyword, s.Schema)}
	}
	s.Properties = named(path+"/properties", s.Properties, one)
	s.PatternProperties = named(path+"/patternProperties", s.PatternProperties, one)
	s.AdditionalProperties = orBool("additionalProperties", s.AdditionalProperties)
	if s.Items != nil {
		s.Items = &spec.SchemaOrArray{Schema: pointer("items", s.Items.Schema), Schemas: list("items", s.Items.Schemas)}
	}
	s.AdditionalItems = orBool("additionalItems", s.AdditionalItems)
	s.AllOf, s.AnyOf, s.OneOf = list("allOf", s.AllOf), list("anyOf", s.AnyOf), list("oneOf", s.OneOf)
	s.Not = pointer("not", s.Not)
	if s.Dependencies != nil {
		s.Dependencies = maps.Clone(s.Dependencies)
		for _, name := range slices.Sorted(maps.Keys(s.Dependencies)) {
			d := s.Dependencies[name]
			d.Schema = pointer("dependencies/"+escape(name), d.Schema)
			s.Dependencies[name] = d
		}
	}
	return s, failed
}

// named returns a copy of schemas in which each schema is replaced by the result of f for it. It
// calls f in the order of the names.
func named(path string, schemas map[string]spec.Schema, f func(string, spec.Schema) spec.Schema) map[string]spec.Schema {
	if schemas == nil {
		return nil
	}
	changed := make(map[string]spec.Schema, len(schemas))
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		changed[name] = f(path+"/"+escape(name), schemas[name])
	}
	return changed
}

// extend returns s. If s has the key x-extend, extend adds the properties, definitions, extensions,
// required names, title and description of parent, as far as s does not set them itself. The file
// name in x-extend is ignored, because only one file can be extended.
func extend(s spec.Schema, parent *spec.Schema) spec.Schema {
	asked, _ := s.Extensions[keyExtend].(map[string]any)
	if _, named := asked["schema"].(string); !named || parent == nil {
		return s
	}
	s.Definitions = over(parent.Definitions, s.Definitions)
	s.Extensions = over(parent.Extensions, s.Extensions)
	s.Properties = over(parent.Properties, s.Properties)
	s.PatternProperties = over(parent.PatternProperties, s.PatternProperties)
	s.Required = union(parent.Required, s.Required)
	if s.Title == "" {
		s.Title = parent.Title
	}
	if s.Description == "" {
		s.Description = parent.Description
	}
	return s
}

// over returns the entries of both maps. If both maps have a key, the entry of high is used.
func over[M ~map[string]V, V any](low, high M) M {
	both := make(M, len(low)+len(high))
	maps.Copy(both, low)
	maps.Copy(both, high)
	return both
}

// union returns the names of both lists without duplicates.
func union(first, second []string) []string {
	names := slices.Clone(first)
	for _, name := range second {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// closed returns a copy of s that rejects unknown keys, unless s sets additionalProperties. Its
// properties and list elements are closed in the same way, but a property that sets
// additionalProperties stays unchanged, with all its subschemas.
func closed(s spec.Schema) (spec.Schema, error) {
	if s.AdditionalProperties == nil {
		s.AdditionalProperties = &spec.SchemaOrBool{Allows: false}
	}
	return parts("", s, func(path string, part spec.Schema) (spec.Schema, error) {
		switch keyword, _, _ := strings.Cut(path[1:], "/"); {
		case keyword == "items", keyword == "properties" && part.AdditionalProperties == nil:
			return closed(part)
		default:
			return part, nil
		}
	})
}

// requiredForHelm returns a copy of s in which the names in x-required-for-helm are also required,
// in the root and in properties at every depth.
func requiredForHelm(s spec.Schema) (spec.Schema, error) {
	return requireForHelm("", s)
}

func requireForHelm(path string, s spec.Schema) (spec.Schema, error) {
	names, err := helmNames(s.Extensions[keyRequiredForHelm])
	if err != nil {
		return s, fmt.Errorf("%s/%s %w", path, keyRequiredForHelm, err)
	}
	s.Required = union(s.Required, names)
	return parts(path, s, func(at string, part spec.Schema) (spec.Schema, error) {
		if keyword, _, _ := strings.Cut(at[len(path)+1:], "/"); keyword != "properties" {
			return part, nil
		}
		return requireForHelm(at, part)
	})
}

// helmNames returns the names in the value of x-required-for-helm.
func helmNames(v any) (names []string, err error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return []string{v}, nil
	case []any:
		for _, name := range v {
			name, isString := name.(string)
			if !isString {
				return nil, errors.New("must be the name of a property, or a list of names")
			}
			names = append(names, name)
		}
		return names, nil
	default:
		return nil, errors.New("must be the name of a property, or a list of names")
	}
}

// types are the names of types in OpenAPI, and the type null of JSON Schema.
var types = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

// withIntegers converts whole numbers from float64 to int64, the type of whole numbers in values.
// It modifies maps and lists in v.
func withIntegers(v any) any {
	switch v := v.(type) {
	case float64:
		if i := int64(v); float64(i) == v && i > -1<<53 && i < 1<<53 {
			return i
		}
	case []any:
		for i, element := range v {
			v[i] = withIntegers(element)
		}
	case map[string]any:
		for key, under := range v {
			v[key] = withIntegers(under)
		}
	}
	return v
}

// escape escapes a name for use as a part of a path, as in JSON pointers (RFC 6901).
func escape(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// unescape undoes escape.
func unescape(name string) string {
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
}

// element returns the element of list at index i, which is a decimal number.
func element(list []spec.Schema, i string) (spec.Schema, bool) {
	at, err := strconv.Atoi(i)
	if err != nil || at < 0 || at >= len(list) {
		return spec.Schema{}, false
	}
	return list[at], true
}
