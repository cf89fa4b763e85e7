package schema

import (
	"encoding/json"
	"errors"
	"reflect"
	"regexp"

	openapi "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
)

// most is the maximum number of violations that a validation reports.
const most = 100

// errMore represents all violations beyond the maximum number. It can be added several times,
// because the validator keeps only one of several equal errors.
var errMore = errors.New("there are more mistakes than these")

// bounded validates a value in linear time. The validator of kube-openapi compares each error with
// all previous errors, and each element of a list with uniqueItems with all other elements. For
// lists and maps with many thousands of elements, which fit into a ConfigMap, these comparisons
// need hours. The result of bounded is the same, except that the number of reported violations is
// limited. Below keywords that combine schemas, such as anyOf, the validator of kube-openapi runs
// without bounded.
type bounded struct {
	schema *spec.Schema
	path   string
	told   *int // number of violations found so far; shared by all validators of one check
}

// SetPath sets the path of the validated value. Violations contain this path.
func (b *bounded) SetPath(path string) { b.path = path }

// Applies reports whether source is a schema. The validator of kube-openapi calls this method.
func (b *bounded) Applies(source any, _ reflect.Kind) bool {
	_, is := source.(*spec.Schema)
	return is
}

// Validate returns the violations of b.schema by a value.
func (b *bounded) Validate(value any) *validate.Result {
	before := *b.told
	if n, whole := value.(int64); whole && b.schema.Type.Contains("number") {
		value = float64(n) // the validator would convert the limits of the number to int64, and they may not fit
	}
	plain := *b.schema
	list, _ := value.([]any)
	plain.UniqueItems = false
	value, cut := withoutMostUnknown(&plain, value)
	r := validate.NewSchemaValidator(&plain, nil, b.path, strfmt.Default, b.below).Validate(value)
	if b.schema.UniqueItems && !unique(list) {
		r.AddErrors(openapi.DuplicateItems(b.path, "body"))
	}
	switch {
	case before >= most && len(r.Errors) > 0:
		r.Errors = []error{errMore}
	case cut:
		r.AddErrors(errMore)
	}
	*b.told = max(*b.told, before+len(r.Errors))
	return r
}

// below sets options of the validator, so that it uses bounded for nested values.
func (b *bounded) below(o *validate.SchemaValidatorOptions) {
	o.NewValidatorForIndex = func(_ int, s *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		return &bounded{s, path, b.told}
	}
	o.NewValidatorForField = func(_ string, s *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		return &bounded{s, path, b.told}
	}
}

// withoutMostUnknown limits the unknown keys of a map whose schema permits no additional
// properties. The constant most is the limit. If the map has more unknown keys, withoutMostUnknown
// returns true and a copy of the map with as many of these keys as the limit permits. Other values
// are returned unchanged.
func withoutMostUnknown(s *spec.Schema, value any) (_ any, cut bool) {
	fields, isMap := value.(map[string]any)
	if !isMap || s.AdditionalProperties == nil || s.AdditionalProperties.Allows || len(fields) <= most {
		return value, false
	}
	var patterns []*regexp.Regexp
	for pattern := range s.PatternProperties {
		if compiled, err := regexp.Compile(pattern); err == nil {
			patterns = append(patterns, compiled)
		}
	}
	known := func(key string) bool {
		if _, found := s.Properties[key]; found {
			return true
		}
		for _, pattern := range patterns {
			if pattern.MatchString(key) {
				return true
			}
		}
		return false
	}
	kept, unknown := make(map[string]any, most), 0
	for key, under := range fields {
		if !known(key) {
			if unknown++; unknown > most {
				continue
			}
		}
		kept[key] = under
	}
	if unknown <= most {
		return value, false
	}
	return kept, true
}

// unique reports whether no two elements of a list are equal.
func unique(list []any) bool {
	seen := make(map[string]bool, len(list))
	for _, element := range list {
		text, err := json.Marshal(element) // equal elements have equal texts; an element with NaN has no text, and is equal to no other element
		if err == nil && seen[string(text)] {
			return false
		}
		seen[string(text)] = err == nil
	}
	return true
}
