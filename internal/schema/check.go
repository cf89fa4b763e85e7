package schema

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	openapi "k8s.io/kube-openapi/pkg/validation/errors"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// A Violation describes one value that a schema does not accept, or one required value that is
// missing.
type Violation struct {
	// Path is the path of the value. The path starts with the key of the section, as in
	// "web.ports[0].name".
	Path string
	// Rule is the keyword of the schema that the value violates.
	Rule string
	// Text names the requirement, as the end of a sentence that begins with Path. If Rule is Rules, Text
	// stands alone: it is the message of the violated rule, or says why the rule cannot be evaluated.
	Text string
}

// String returns one sentence with the path, the requirement and the rule.
func (v Violation) String() string {
	if v.Rule == keyRules {
		return v.Path + ": " + v.Text + " (" + v.Rule + ")"
	}
	return v.Path + " " + v.Text + " (" + v.Rule + ")"
}

// ruleMore is the Rule of a violation that represents all violations beyond the maximum number.
const ruleMore = "more"

// order returns the primary sort key of the violation, which puts a violation with ruleMore last.
// The path is the secondary sort key.
func (v Violation) order() int {
	if v.Rule == ruleMore {
		return 1
	}
	return 0
}

// Violations are the violations of one schema by a section, sorted by path.
type Violations []Violation

// shown is the maximum number of violations in an error text.
const shown = 10

// Err returns an error that lists the first violations, or nil if there are none.
func (v Violations) Err() error {
	if len(v) == 0 {
		return nil
	}
	var text strings.Builder
	for i, violation := range v {
		if i == shown {
			fmt.Fprintf(&text, "; and %d more", len(v)-shown)
			break
		}
		if i > 0 {
			text.WriteString("; ")
		}
		text.WriteString(violation.String())
	}
	return errors.New(text.String())
}

// Check validates a section and returns the violations. The parameter key is the key of the
// section. The parameter old is the previous section, or nil if there was none. Rules can compare section with old.
// Rules are evaluated only if there are no other violations. A nil Schema accepts each section. Check changes neither
// section nor old.
func (s *Schema) Check(key string, section, old any) (found Violations) {
	if s == nil {
		return nil
	}
	if found = s.held(key, exact(section)); len(found) == 0 {
		return s.CheckRules(key, section, old)
	}
	return found.sorted()
}

// CheckRules is like Check, but evaluates only the rules.
func (s *Schema) CheckRules(key string, section, old any) (found Violations) {
	if s == nil {
		return nil
	}
	s.rules.check(key, plain(section), plain(old), old != nil, &found)
	return found.sorted()
}

// sorted sorts v, and returns it without duplicates.
func (v Violations) sorted() Violations {
	slices.SortFunc(v, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.order(), b.order()), strings.Compare(a.Path, b.Path), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Text, b.Text))
	})
	return slices.Compact(v)
}

// held returns the violations of OpenAPI keywords by a section. It evaluates no rules. If the
// validator panics, held returns one violation for the whole section.
func (s *Schema) held(key string, section any) (found Violations) {
	defer func() {
		if p := recover(); p != nil {
			found = Violations{{Path: key, Rule: "schema", Text: fmt.Sprintf("cannot be checked against the schema: %.200v", p)}}
		}
	}()
	check := &bounded{&s.root, key, new(int)}
	for _, err := range check.Validate(section).Errors {
		found = append(found, s.explain(key, err))
	}
	return found
}

// The Rule of a Violation for a missing value, for a key that the schema does not know, and for a failed rule in the
// Common Expression Language.
const (
	Required   = "required"
	UnknownKey = "additionalProperties"
	Rules      = keyRules
)

// WithoutMissing returns the violations that are not caused by missing values. A missing value can be the reason why a
// schema with allOf, anyOf or oneOf does not match. So if a value is missing in the map or list that such a schema
// describes, the violation of this schema is omitted, too.
func (v Violations) WithoutMissing() (wrong Violations) {
	for _, violation := range v {
		combines := slices.Contains([]string{"allOf", "anyOf", "oneOf"}, violation.Rule)
		if violation.Rule == Required || combines && v.missingIn(violation.Path) {
			continue
		}
		wrong = append(wrong, violation)
	}
	return wrong
}

// missingIn reports whether a value in the map or list at path is missing.
func (v Violations) missingIn(path string) bool {
	return slices.ContainsFunc(v, func(missing Violation) bool {
		below, isIn := strings.CutPrefix(missing.Path, path)
		return missing.Rule == Required && isIn && (strings.HasPrefix(below, ".") || strings.HasPrefix(below, "["))
	})
}

// keywords maps error codes of the validator to the keywords of a schema that cause these errors.
var keywords = map[int32]string{
	openapi.InvalidTypeCode: "type", openapi.RequiredFailCode: Required,
	openapi.TooLongFailCode: "maxLength", openapi.TooShortFailCode: "minLength", openapi.PatternFailCode: "pattern",
	openapi.EnumFailCode: "enum", openapi.MultipleOfFailCode: "multipleOf", openapi.MultipleOfMustBePositiveCode: "multipleOf",
	openapi.MaxFailCode: "maximum", openapi.MinFailCode: "minimum", openapi.UniqueFailCode: "uniqueItems",
	openapi.MaxItemsFailCode: "maxItems", openapi.MinItemsFailCode: "minItems", openapi.NoAdditionalItemsCode: "additionalItems",
	openapi.TooFewPropertiesCode: "minProperties", openapi.TooManyPropertiesCode: "maxProperties",
	openapi.UnallowedPropertyCode: UnknownKey, openapi.FailedAllPatternPropsCode: "patternProperties",
}

// explain converts an error of the validator to a violation whose text contains no values.
//
// Some errors of the validator have no field for the wanted type, or for the keyword that combines schemas. For these
// errors, explain parses the text. The package apiextensions, which validates custom resources, is no alternative. It
// uses the same validator and returns the same texts. Its errors have no keywords, an error of oneOf has the path of
// the root instead of the path of the value, and an error of a format quotes the value. Also, it offers no way to limit
// the number of its errors, as [bounded] does.
func (s *Schema) explain(key string, err error) Violation {
	var v *openapi.Validation
	if !errors.As(err, &v) {
		return explainComposite(key, err)
	}
	out := Violation{Path: v.Name, Rule: keywords[v.Code()]}
	switch v.Code() {
	case openapi.InvalidTypeCode:
		out.Rule, out.Text = explainType(v)
	case openapi.RequiredFailCode:
		out.Text = "is missing and must be set"
	case openapi.UnallowedPropertyCode:
		name := fmt.Sprint(v.Value)
		out.Text = "is not known to the schema: remove it, or correct its name"
		if parent, found := s.at(v.Name); found {
			if near := Nearest(name, slices.Sorted(maps.Keys(parent.Properties))); near != "" {
				out.Text += fmt.Sprintf("; did you mean %q?", near)
			}
		}
		out.Path += "." + name
	default:
		_, out.Text, _ = strings.Cut(v.Error(), " in body ")
	}
	return out
}

var typeWanted = regexp.MustCompile(`must be of type ([^:]*)`)

// explainType returns the fields Rule and Text of the violation if a value has the wrong type, or if
// a string has the wrong format. For a wrong type and for a wrong format, the validator returns the
// same kind of error. The result does not contain the value that the error quotes.
func explainType(v *openapi.Validation) (rule, text string) {
	m := typeWanted.FindStringSubmatch(strings.TrimPrefix(v.Error(), v.Name))
	if m == nil {
		return "type", "is of a type that the schema does not permit"
	}
	for wanted := range strings.SplitSeq(m[1], ",") {
		if !slices.Contains(types, wanted) {
			return "format", "must be in the format " + wanted
		}
	}
	text = "must be of type " + strings.ReplaceAll(m[1], ",", " or ")
	if is, isType := v.Value.(string); isType && slices.Contains(types, is) {
		text += ", and is of type " + is
	}
	return "type", text
}

var combined = regexp.MustCompile(`^"(.*?)" (must .*?\((allOf|anyOf|oneOf|not)\))|^"(.*?)" (has a dependency on .*)`)

// explainComposite converts an error of the validator that has only a text and no fields, such as
// an error of a keyword that combines schemas.
func explainComposite(key string, err error) Violation {
	m := combined.FindStringSubmatch(err.Error())
	switch {
	case errors.Is(err, errMore):
		return Violation{Path: key, Rule: ruleMore, Text: "contains more mistakes than are listed"}
	case m == nil && strings.Contains(err.Error(), "additional items"):
		return Violation{Path: key, Rule: "additionalItems", Text: "contains a list with more elements than the schema describes"}
	case m == nil:
		return Violation{Path: key, Rule: "schema", Text: "does not fit"}
	case m[3] != "":
		text := map[string]string{
			"allOf": "must match all listed schemas", "anyOf": "must match at least one of the listed schemas",
			"oneOf": "must match exactly one of the listed schemas", "not": "must not match the excluded schema",
		}[m[3]]
		return Violation{Path: m[1], Rule: m[3], Text: text}
	default:
		return Violation{Path: m[4], Rule: "dependencies", Text: m[5]}
	}
}

// Names reports whether the schema has a property at path. The path consists of names joined by
// dots, and starts with the key of the section.
func (s *Schema) Names(path string) bool {
	if s == nil {
		return false
	}
	_, found := s.at(path)
	return found
}

// at returns the schema of the property at path.
func (s *Schema) at(path string) (at spec.Schema, found bool) {
	at = s.root
	for _, name := range strings.Split(path, ".")[1:] {
		name, _, inList := strings.Cut(name, "[")
		if at, found = at.Properties[name]; !found {
			return at, false
		}
		if inList {
			if at.Items == nil || at.Items.Schema == nil {
				return at, false
			}
			at = *at.Items.Schema
		}
	}
	return at, true
}

// plain returns a copy of values in which all numbers are float64, as rules expect.
func plain(v any) any {
	return copied(v, func(leaf any) any {
		if n, whole := leaf.(int64); whole {
			return float64(n)
		}
		return leaf
	})
}

// exact returns a copy of values for the validator, which expects float64 numbers. An integer that a float64 may not
// represent exactly stays an int64, because the validator does not treat such a float64 as an integer.
func exact(v any) any {
	const most = 1<<53 - 1
	return copied(v, func(leaf any) any {
		if n, whole := leaf.(int64); whole && -most <= n && n <= most {
			return float64(n)
		}
		return leaf
	})
}
