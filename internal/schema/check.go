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

// A Violation is one thing that is wrong with values.
type Violation struct {
	// Path says where, from the key of the section: "web.ports[0].name".
	Path string
	// Rule is the keyword of the schema that is not met.
	Rule string
	// Text says what has to be. It follows the path in a sentence.
	Text string
}

// String returns one sentence: what, what it has to be, by which rule.
func (v Violation) String() string {
	if v.Rule == keyRules {
		return v.Path + ": " + v.Text + " (" + v.Rule + ")"
	}
	return v.Path + " " + v.Text + " (" + v.Rule + ")"
}

// ruleMore is the Rule of what stands for the mistakes that are not told one by one.
const ruleMore = "more"

// stands returns the violation's place among others, before the order of paths.
func (v Violation) stands() int {
	if v.Rule == ruleMore {
		return 1
	}
	return 0
}

// Violations is all that is wrong with values, in the order of paths.
type Violations []Violation

// shown bounds how many violations an error text lists.
const shown = 10

// Err returns an error that lists them, nil for none.
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

// Check holds a section to the schema and returns what is wrong, nothing for a nil
// Schema. key is the key of the section, old is what the section was before, for
// rules that compare: nil when it was not there. Rules are asked once all else is
// right. Nothing is changed.
func (s *Schema) Check(key string, section, old any) (found Violations) {
	if s == nil {
		return nil
	}
	section = plain(section)
	found = s.held(key, section)
	if len(found) == 0 {
		s.rules.check(key, section, plain(old), old != nil, &found)
	}
	slices.SortFunc(found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.stands(), b.stands()), strings.Compare(a.Path, b.Path), strings.Compare(a.Rule, b.Rule), strings.Compare(a.Text, b.Text))
	})
	return slices.Compact(found)
}

// held returns what is wrong with a section by the keywords of OpenAPI. The
// validator panics on what it did not foresee; then nothing can be said for the
// section.
func (s *Schema) held(key string, section any) (found Violations) {
	defer func() {
		if p := recover(); p != nil {
			found = Violations{{Path: key, Rule: "schema", Text: fmt.Sprintf("cannot be held to the schema: %.200v", p)}}
		}
	}()
	check := &bounded{&s.root, key, new(int)}
	for _, err := range check.Validate(section).Errors {
		found = append(found, s.explain(key, err))
	}
	return found
}

// What the Rule of a Violation is when a value is missing, and when a rule in the
// Common Expression Language does not hold.
const (
	Required = "required"
	Rules    = keyRules
)

// keywords says by which keyword of a schema the validator came to an error.
var keywords = map[int32]string{
	openapi.InvalidTypeCode: "type", openapi.RequiredFailCode: Required,
	openapi.TooLongFailCode: "maxLength", openapi.TooShortFailCode: "minLength", openapi.PatternFailCode: "pattern",
	openapi.EnumFailCode: "enum", openapi.MultipleOfFailCode: "multipleOf", openapi.MultipleOfMustBePositiveCode: "multipleOf",
	openapi.MaxFailCode: "maximum", openapi.MinFailCode: "minimum", openapi.UniqueFailCode: "uniqueItems",
	openapi.MaxItemsFailCode: "maxItems", openapi.MinItemsFailCode: "minItems", openapi.NoAdditionalItemsCode: "additionalItems",
	openapi.TooFewPropertiesCode: "minProperties", openapi.TooManyPropertiesCode: "maxProperties",
	openapi.UnallowedPropertyCode: "additionalProperties", openapi.FailedAllPatternPropsCode: "patternProperties",
}

// explain turns an error of the validator into words that hold no value.
//
// Where the validator gives no structure, explain reads its texts: which type it
// wanted, and which keyword combines the schemas that do not fit. The validation of
// custom resources in apiextensions does not help. It is built on the same validator
// and passes these texts on as they are: an error of oneOf is reported at the root
// instead of its path, no error has its keyword, and that of a format quotes the
// value. It cannot be bounded either, as [bounded] does.
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

// explainType tells a value of another type from text that is not in a format:
// then the validator's error holds the text.
func explainType(v *openapi.Validation) (rule, text string) {
	m := typeWanted.FindStringSubmatch(strings.TrimPrefix(v.Error(), v.Name))
	if m == nil {
		return "type", "is of a type that the schema does not take"
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

// explainComposite does what explain does for keywords that combine schemas.
func explainComposite(key string, err error) Violation {
	m := combined.FindStringSubmatch(err.Error())
	switch {
	case errors.Is(err, errMore):
		return Violation{Path: key, Rule: ruleMore, Text: "holds more mistakes than are listed"}
	case m == nil && strings.Contains(err.Error(), "additional items"):
		return Violation{Path: key, Rule: "additionalItems", Text: "holds a list with more elements than the schema describes"}
	case m == nil:
		return Violation{Path: key, Rule: "schema", Text: "does not fit"}
	case m[3] != "":
		text := map[string]string{
			"allOf": "must fit all the schemas listed", "anyOf": "must fit one of the schemas listed",
			"oneOf": "must fit one of the schemas listed, and only one", "not": "must not be what the schema excludes",
		}[m[3]]
		return Violation{Path: m[1], Rule: m[3], Text: text}
	default:
		return Violation{Path: m[4], Rule: "dependencies", Text: m[5]}
	}
}

// Names tells whether the schema has a property at a path of names joined by dots,
// from the key of the section.
func (s *Schema) Names(path string) bool {
	if s == nil {
		return false
	}
	_, found := s.at(path)
	return found
}

// at returns the schema of the property at a path.
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

// plain returns a copy of values as the validator knows them: plain maps, and all
// numbers float64, as a decoder of JSON gives them.
func plain(v any) any {
	return copied(v, func(leaf any) any {
		if n, whole := leaf.(int64); whole {
			return float64(n)
		}
		return leaf
	})
}
