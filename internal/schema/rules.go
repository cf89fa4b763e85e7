package schema

import (
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The limits of one rule.
const (
	// maxExpression is the maximum length of the expression in bytes.
	maxExpression = 16 << 10
	// maxCost is the maximum cost of one evaluation, in cost units of CEL. Kubernetes has the same
	// limit for its validation rules.
	maxCost = 1_000_000
)

// The variables in the expression of a rule: the value that the rule checks, and its previous
// value.
const (
	celSelf    = "self"
	celOldSelf = "oldSelf"
)

// A rule is one compiled condition, and the message for values that violate it.
type rule struct {
	expression, message string
	program             cel.Program
	// transition is true if the rule uses the previous value.
	transition bool
}

// ruled contains the rules of a schema and of its subschemas.
type ruled struct {
	rules      []rule
	properties map[string]*ruled
	additional *ruled // the rules for keys that are not in properties
	items      *ruled
}

// compile compiles the rules in root and returns the Schema of root. The references in root must
// have been replaced.
func compile(file string, root spec.Schema) (*Schema, error) {
	c := &compiler{}
	rules, err := c.visit("", &root)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return &Schema{file: file, root: root, rules: rules}, nil
}

// A compiler compiles rules. A compiler creates the CEL environment when it compiles its first
// rule.
type compiler struct{ env *cel.Env }

// visit returns the rules of s and of its subschemas, or nil if they have no rules.
func (c *compiler) visit(path string, s *spec.Schema) (r *ruled, err error) {
	r = &ruled{properties: map[string]*ruled{}}
	if r.rules, err = c.rules(path, s.Extensions[keyRules]); err != nil {
		return nil, err
	}
	for name, property := range s.Properties {
		below, err := c.visit(path+"/properties/"+escape(name), &property)
		if err != nil {
			return nil, err
		}
		if below != nil {
			r.properties[name] = below
		}
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		if r.additional, err = c.visit(path+"/additionalProperties", s.AdditionalProperties.Schema); err != nil {
			return nil, err
		}
	}
	if s.Items != nil && s.Items.Schema != nil {
		if r.items, err = c.visit(path+"/items", s.Items.Schema); err != nil {
			return nil, err
		}
	}
	if r.rules == nil && len(r.properties) == 0 && r.additional == nil && r.items == nil {
		return nil, nil
	}
	return r, nil
}

// rules compiles v, the value of x-deckhouse-validations.
func (c *compiler) rules(path string, v any) ([]rule, error) {
	if v == nil {
		return nil, nil
	}
	list, isList := v.([]any)
	if !isList {
		return nil, fmt.Errorf("%s/%s must be a list of maps with expression and message", path, keyRules)
	}
	rules := make([]rule, 0, len(list))
	for i, v := range list {
		at := fmt.Sprintf("%s/%s/%d", path, keyRules, i)
		fields, _ := v.(map[string]any)
		expression, _ := fields["expression"].(string)
		message, _ := fields["message"].(string)
		if expression == "" || message == "" {
			return nil, fmt.Errorf("%s must have an expression and a message, both strings", at)
		}
		compiled, err := c.compile(expression)
		if err != nil {
			return nil, fmt.Errorf("%s/expression: %w", at, err)
		}
		compiled.message = message
		rules = append(rules, compiled)
	}
	return rules, nil
}

func (c *compiler) compile(expression string) (rule, error) {
	r := rule{expression: expression}
	if len(expression) > maxExpression {
		return r, fmt.Errorf("it is longer than %d bytes", maxExpression)
	}
	if c.env == nil {
		env, err := cel.NewEnv(cel.Variable(celSelf, cel.DynType), cel.Variable(celOldSelf, cel.DynType))
		if err != nil {
			return r, err
		}
		c.env = env
	}
	checked, issues := c.env.Compile(expression)
	if issues.Err() != nil {
		first := issues.Errors()[0]
		return r, fmt.Errorf("not valid CEL at line %d, column %d: %s", first.Location.Line(), first.Location.Column()+1, first.Message)
	}
	if t := checked.OutputType(); !t.IsExactType(cel.BoolType) && !t.IsExactType(cel.DynType) {
		return r, fmt.Errorf("it must be true or false, and is of type %s", t)
	}
	celast.PreOrderVisit(checked.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		r.transition = r.transition || e.Kind() == celast.IdentKind && e.AsIdent() == celOldSelf
	}))
	var err error
	r.program, err = c.env.Program(checked, cel.CostLimit(maxCost))
	return r, err
}

// check evaluates the rules for the value self and appends violations to *found. All numbers in self
// and old must be float64, as existing rules expect. The argument old is the previous value of self.
// If there is none, had is false, and rules that use the previous value are skipped. Elements of
// lists have no previous values.
func (r *ruled) check(path string, self any, old any, had bool, found *Violations) {
	if r == nil {
		return
	}
	switch v := self.(type) {
	case map[string]any:
		before, _ := old.(map[string]any)
		for key, under := range v {
			below := r.properties[key]
			if below == nil {
				below = r.additional
			}
			oldUnder, hadUnder := before[key]
			below.check(path+"."+key, under, oldUnder, hadUnder, found)
		}
	case []any:
		for i, element := range v {
			r.items.check(fmt.Sprintf("%s[%d]", path, i), element, nil, false, found)
		}
	}
	for _, rule := range r.rules {
		if rule.transition && !had {
			continue
		}
		if err := rule.eval(self, old); err != nil {
			*found = append(*found, Violation{Path: path, Rule: keyRules, Text: err.Error()})
		}
	}
}

// errNoBool is the error of a rule whose result is neither true nor false.
var errNoBool = errors.New("it is neither true nor false")

// eval returns nil if the rule is true for self. It also returns nil if the rule accesses a missing
// key, because such a rule does not apply to self.
func (r rule) eval(self, old any) error {
	out, _, err := r.program.Eval(map[string]any{celSelf: self, celOldSelf: old})
	if err == nil {
		holds, isBool := out.Value().(bool)
		switch {
		case isBool && holds:
			return nil
		case isBool:
			return errors.New(r.message)
		}
		err = errNoBool
	}
	if strings.Contains(err.Error(), "no such key") {
		return nil
	}
	return fmt.Errorf("rule %q cannot be evaluated: %s", r.expression, cause(err))
}

// cause returns the reason why a rule cannot be evaluated. It does not return the error text of the
// CEL library, which may contain values.
func cause(err error) string {
	text := err.Error()
	switch {
	case errors.Is(err, errNoBool):
		return text
	case strings.Contains(text, "cost limit"):
		return fmt.Sprintf("it costs more than %d", maxCost)
	case strings.Contains(text, "no such overload"):
		return "an operator or a function does not accept values of these types; all numbers are doubles, and int() converts them to integers"
	default:
		return "a function in it fails on these values"
	}
}
