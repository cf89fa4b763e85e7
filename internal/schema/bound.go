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

// most is how many mistakes in values are told one by one.
const most = 100

// errMore stands for all mistakes beyond most. The validator keeps one of equal errors.
var errMore = errors.New("there are more mistakes than these")

// A bounded check holds values to a schema in time that grows as they do. The validator compares each mistake with all
// before it, and each element of a list without duplicates with all others: lists and maps of many thousands, which a
// ConfigMap has room for, took it hours. What is valid and what is not is the same; below the keywords that combine schemas
// the validator is on its own.
type bounded struct {
	schema *spec.Schema
	path   string
	told   *int // mistakes that were found, in all of the check
}

// SetPath says where the value is.
func (b *bounded) SetPath(path string) { b.path = path }

// Applies tells that the check is for values with a schema.
func (b *bounded) Applies(source any, _ reflect.Kind) bool {
	_, is := source.(*spec.Schema)
	return is
}

// Validate returns what is wrong with a value.
func (b *bounded) Validate(value any) *validate.Result {
	before := *b.told
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

// below makes the validator check what is below in the same way.
func (b *bounded) below(o *validate.SchemaValidatorOptions) {
	o.NewValidatorForIndex = func(_ int, s *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		return &bounded{s, path, b.told}
	}
	o.NewValidatorForField = func(_ string, s *spec.Schema, _ any, path string, _ strfmt.Registry, _ ...validate.Option) validate.ValueValidator {
		return &bounded{s, path, b.told}
	}
}

// withoutMostUnknown returns a map without the keys that are not known to a schema that is closed, but for the first of
// them that come, if there are many, and whether there are. Other values it returns as they are.
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

// unique tells whether no two elements of a list are equal.
func unique(list []any) bool {
	seen := make(map[string]bool, len(list))
	for _, element := range list {
		text, err := json.Marshal(element) // keys in order; NaN, which has no text, is equal to nothing
		if err == nil && seen[string(text)] {
			return false
		}
		seen[string(text)] = err == nil
	}
	return true
}
