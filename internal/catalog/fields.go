package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"addon-operator/internal/tree"
)

// fields reads values from a YAML map, and collects an error for each value that has a wrong type.
type fields struct {
	of   map[string]any
	errs []error
}

// parseFields parses a YAML file that contains a map. If the file has no document, it returns nil without an error.
func parseFields(text []byte) (*fields, error) {
	document, err := parseYAML(text)
	if err != nil || document == nil {
		return nil, err
	}
	of, isMap := document.(map[string]any)
	if !isMap {
		return nil, fmt.Errorf("file must be a map (got %s)", tree.Kind(document))
	}
	return &fields{of: of}, nil
}

// err returns one error with the texts of all collected errors, separated by commas. err returns nil if there are
// none.
func (f *fields) err() error {
	if len(f.errs) == 0 {
		return nil
	}
	texts := make([]string, len(f.errs))
	for i, err := range f.errs {
		texts[i] = err.Error()
	}
	return errors.New(strings.Join(texts, ", "))
}

func (f *fields) wrong(key, want string, value any) {
	f.errs = append(f.errs, fmt.Errorf("%s must be %s (got %s)", key, want, tree.Kind(value)))
}

func (f *fields) text(name string) string {
	value := field(f.of, name)
	text, isScalar := scalarText(value)
	if !isScalar {
		f.wrong(name, "a string", value)
	}
	return text
}

// tristate returns the boolean value of the field with this name, or nil if the field is missing or null.
func (f *fields) tristate(name string) *bool {
	value := field(f.of, name)
	if value == nil {
		return nil
	}
	is, isBool := value.(bool)
	if !isBool {
		f.wrong(name, "true or false", value)
	}
	return &is
}

func (f *fields) bool(name string) bool {
	is := f.tristate(name)
	return is != nil && *is
}

func (f *fields) texts(name string) []string {
	value := field(f.of, name)
	list, isList := value.([]any)
	if !isList && value != nil {
		f.wrong(name, "a list of strings", value)
	}
	var texts []string
	for _, item := range list {
		text, isScalar := scalarText(item)
		if !isScalar {
			f.wrong("an item of "+name, "a string", item)
		}
		texts = append(texts, text)
	}
	return texts
}

func (f *fields) textMap(name string) map[string]string {
	value := field(f.of, name)
	entries, isMap := value.(map[string]any)
	if !isMap && value != nil {
		f.wrong(name, "a map of strings", value)
	}
	if len(entries) == 0 {
		return nil
	}
	texts := make(map[string]string, len(entries))
	for _, under := range slices.Sorted(maps.Keys(entries)) {
		text, isScalar := scalarText(entries[under])
		if !isScalar {
			f.wrong(name+"."+under, "a string", entries[under])
		}
		texts[under] = text
	}
	return texts
}
