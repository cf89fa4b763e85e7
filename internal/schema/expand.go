package schema

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// An expansion replaces the references in a schema by their targets. It rejects schemas that the
// validator cannot use.
type expansion struct {
	root  spec.Schema
	nodes int
	open  []string // the references whose targets are being expanded, outermost first
}

// expand returns root with each $ref replaced by its target. Other keywords in a map with $ref are
// ignored. For a recursive schema, expand returns an error. The definitions of root stay unchanged,
// because a schema that extends root may use them.
func expand(root spec.Schema) (spec.Schema, error) {
	e := &expansion{root: root}
	return e.visit("", root)
}

func (e *expansion) visit(path string, s spec.Schema) (spec.Schema, error) {
	if e.nodes++; e.nodes > maxNodes {
		return s, fmt.Errorf("it has more than %d parts, including the targets of references", maxNodes)
	}
	if len(e.open) > maxDepth || strings.Count(path, "/") > 2*maxDepth {
		return s, fmt.Errorf("%s: it is nested too deeply", path)
	}
	if ref := s.Ref.String(); ref != "" {
		return e.follow(path, ref)
	}
	if err := usable(s); err != nil {
		return s, fmt.Errorf("%s: %w", orRoot(path), err)
	}
	s.Default = withIntegers(clone(s.Default))
	return parts(path, s, e.visit)
}

// follow returns the target of the reference ref, which is at path, with the references in it
// replaced.
func (e *expansion) follow(path, ref string) (spec.Schema, error) {
	if slices.Contains(e.open, ref) {
		return spec.Schema{}, fmt.Errorf("%s: $ref %q refers to itself: replace it by a schema that is nested as deep as the values need", path, ref)
	}
	pointer, local := strings.CutPrefix(ref, "#/")
	switch {
	case !local && strings.HasPrefix(ref, "#"):
		return spec.Schema{}, fmt.Errorf("%s: $ref %q is not a path: write it like \"#/definitions/name\"", path, ref)
	case !local:
		return spec.Schema{}, fmt.Errorf("%s: $ref %q leads to another file: only references within the file are followed, such as \"#/definitions/name\"", path, ref)
	}
	if decoded, err := url.PathUnescape(pointer); err == nil { // the library escapes the characters that a URL does not permit
		pointer = decoded
	}
	s, found := lookUp(e.root, strings.Split(pointer, "/"))
	if !found {
		return s, fmt.Errorf("%s: $ref %q has no target: add the target under definitions", path, ref)
	}
	e.open = append(e.open, ref)
	defer func() { e.open = e.open[:len(e.open)-1] }()
	return e.visit(path, s)
}

// lookUp returns the schema at a path in s.
func lookUp(s spec.Schema, path []string) (spec.Schema, bool) {
	for len(path) > 0 {
		keyword := path[0]
		var next *spec.Schema
		switch {
		case keyword == "items" && s.Items != nil && s.Items.Schema != nil:
			next, path = s.Items.Schema, path[1:]
		case keyword == "additionalProperties" && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
			next, path = s.AdditionalProperties.Schema, path[1:]
		case keyword == "not" && s.Not != nil:
			next, path = s.Not, path[1:]
		case len(path) > 1:
			named, found := partNamed(s, keyword, unescape(path[1]))
			if !found {
				return s, false
			}
			next, path = &named, path[2:]
		default:
			return s, false
		}
		s = *next
	}
	return s, true
}

// partNamed returns the subschema of s that has this name, or index, in the value of keyword.
func partNamed(s spec.Schema, keyword, name string) (part spec.Schema, found bool) {
	switch keyword {
	case "definitions":
		part, found = s.Definitions[name]
	case "properties":
		part, found = s.Properties[name]
	case "patternProperties":
		part, found = s.PatternProperties[name]
	case "allOf":
		return element(s.AllOf, name)
	case "anyOf":
		return element(s.AnyOf, name)
	case "oneOf":
		return element(s.OneOf, name)
	}
	return part, found
}

// usable returns an error if s has an unknown type or an invalid pattern.
func usable(s spec.Schema) error {
	for _, t := range s.Type {
		if !slices.Contains(types, t) {
			return fmt.Errorf("there is no type %q: write one of %s", t, strings.Join(types, ", "))
		}
	}
	if err := checkPattern(s.Pattern); err != nil {
		return fmt.Errorf("pattern: %w", err)
	}
	for pattern := range s.PatternProperties {
		if err := checkPattern(pattern); err != nil {
			return fmt.Errorf("patternProperties: %w", err)
		}
	}
	return nil
}

func checkPattern(pattern string) error {
	_, err := regexp.Compile(pattern)
	if err == nil {
		return nil
	}
	return errors.New(strings.Replace(err.Error(), "error parsing regexp: ", "not a regular expression of RE2: ", 1))
}

// orRoot returns path for an error text. For the path of the root, which is empty, it returns "at
// the top".
func orRoot(path string) string {
	if path == "" {
		return "at the top"
	}
	return path
}
