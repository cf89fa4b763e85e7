package jq

import (
	"context"
	"errors"
	"slices"

	"github.com/itchyny/gojq"
)

// These limits of a plain program also limit its memory. Each step keeps at most a few hundred bytes in memory. An
// iteration keeps about forty bytes for each element of its input, until the iteration ends.
const (
	maxSteps     = 50_000
	maxIteration = 256 << 10 // maximum of (bytes of the input) × (1 + iterations in the program)
)

// plain says whether a program is plain, and how many iterations its text contains.
type plain struct {
	is         bool
	iterations int
}

// fits reports whether the program may run in this process if its input has this number of bytes.
func (p plain) fits(bytes int) bool { return p.is && bytes*(1+p.iterations) <= maxIteration }

// errSpent is the error of a plain program that needs more steps or more time than is allowed in this process.
var errSpent = errors.New("more steps or time than a filter may take in this process")

// budget is a context that limits the steps of a program: it ends after maxSteps calls of Done. The jq interpreter
// calls Done before each step.
type budget struct {
	context.Context //nolint:containedctx // budget is itself a context
	left            int
}

func newBudget(ctx context.Context) *budget { return &budget{ctx, maxSteps} }

// Done returns a closed channel if no steps are left. It also returns a closed channel if b.Context has ended, but
// checks this only every 256 steps. Otherwise it returns nil.
func (b *budget) Done() <-chan struct{} {
	const every = 256 // number of steps between two checks of b.Context
	if b.left--; b.left < 0 || b.left%every == 0 && b.Context.Err() != nil {
		return closed
	}
	return nil
}

// Err returns errSpent if the steps or the time of the program are used up. Otherwise it returns the error of
// b.Context.
func (b *budget) Err() error {
	if b.left < 0 || errors.Is(context.Cause(b.Context), errSpent) {
		return errSpent
	}
	return b.Context.Err()
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// classify finds out whether the program q is plain, which means that it only selects and arranges parts of its input.
// No step of a plain program creates a value that is larger than the values in the text and in the input of the
// program. A plain program does not add, repeat, encode or sort. It defines no functions, and compares values only
// with constants.
func classify(q *gojq.Query) plain {
	c := &classifier{}
	return plain{is: c.query(q), iterations: c.iterations}
}

type classifier struct{ iterations int }

func (c *classifier) query(q *gojq.Query) bool {
	if q == nil {
		return true
	}
	if q.Meta != nil || len(q.Imports) > 0 || len(q.FuncDefs) > 0 || len(q.Patterns) > 0 {
		return false
	}
	if q.Term != nil {
		return c.term(q.Term)
	}
	switch q.Op {
	case gojq.OpPipe, gojq.OpComma, gojq.OpAlt, gojq.OpAnd, gojq.OpOr:
	case gojq.OpEq, gojq.OpNe, gojq.OpGt, gojq.OpLt, gojq.OpGe, gojq.OpLe:
		if !isScalar(q.Left) && !isScalar(q.Right) {
			return false // it may take forever to compare two large values that share parts
		}
	default:
		return false
	}
	return c.query(q.Left) && c.query(q.Right)
}

func (c *classifier) term(t *gojq.Term) bool {
	return c.suffixes(t.SuffixList) && c.base(t)
}

func (c *classifier) suffixes(list []*gojq.Suffix) bool {
	for _, s := range list {
		if s.Iter {
			c.iterations++
		}
		if s.Index != nil && !c.index(s.Index) {
			return false
		}
	}
	return true
}

// base reports whether the term t without its suffixes is plain.
func (c *classifier) base(t *gojq.Term) bool {
	switch t.Type {
	case gojq.TermTypeIdentity, gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return true
	case gojq.TermTypeIndex:
		return c.index(t.Index)
	case gojq.TermTypeString:
		return t.Str.Queries == nil
	case gojq.TermTypeFunc:
		return c.function(t.Func)
	case gojq.TermTypeArray:
		return c.query(t.Array.Query)
	case gojq.TermTypeObject:
		return !slices.ContainsFunc(t.Object.KeyVals, func(e *gojq.ObjectKeyVal) bool { return !isConstantKey(e) || !c.query(e.Val) })
	case gojq.TermTypeIf:
		return c.query(t.If.Cond) && c.query(t.If.Then) && c.query(t.If.Else) &&
			!slices.ContainsFunc(t.If.Elif, func(e *gojq.IfElif) bool { return !c.query(e.Cond) || !c.query(e.Then) })
	case gojq.TermTypeQuery:
		return c.query(t.Query)
	default:
		return false
	}
}

// isConstantKey reports whether the key of e is a constant.
func isConstantKey(e *gojq.ObjectKeyVal) bool {
	isVariable := e.Key != "" && e.Key[0] == '$'
	return !isVariable && e.KeyQuery == nil && (e.KeyString == nil || e.KeyString.Queries == nil)
}

// index reports whether i is a constant index, which is a name or another scalar.
func (c *classifier) index(i *gojq.Index) bool {
	switch {
	case i.IsSlice:
		return false
	case i.Name != "":
		return true
	case i.Str != nil:
		return i.Str.Queries == nil
	default:
		return isScalar(i.Start)
	}
}

// plainFunctions contains the functions that a plain program may call. For each of them, it has the numbers of
// arguments that are allowed.
var plainFunctions = map[string][]int{
	"select": {1}, "map": {1}, "any": {0, 1, 2}, "all": {0, 1, 2}, "not": {0}, "empty": {0}, "length": {0}, "type": {0},
	"has": {1}, "startswith": {1}, "endswith": {1}, "first": {1}, "isempty": {1}, "values": {0}, "nulls": {0}, "booleans": {0},
	"numbers": {0}, "strings": {0}, "arrays": {0}, "objects": {0}, "iterables": {0}, "scalars": {0},
}

func (c *classifier) function(f *gojq.Func) bool {
	if !slices.Contains(plainFunctions[f.Name], len(f.Args)) {
		return false
	}
	switch f.Name {
	case "map", "any", "all":
		c.iterations++
	}
	return !slices.ContainsFunc(f.Args, func(q *gojq.Query) bool { return !c.query(q) })
}

// isScalar reports whether q is a constant that is neither a list nor a map.
func isScalar(q *gojq.Query) bool {
	if q == nil || q.Term == nil || len(q.FuncDefs) > 0 || len(q.Term.SuffixList) > 0 {
		return false
	}
	t := q.Term
	switch t.Type {
	case gojq.TermTypeNull, gojq.TermTypeTrue, gojq.TermTypeFalse, gojq.TermTypeNumber:
		return true
	case gojq.TermTypeUnary:
		return t.Unary.Term.Type == gojq.TermTypeNumber && len(t.Unary.Term.SuffixList) == 0
	case gojq.TermTypeString:
		return t.Str.Queries == nil
	default:
		return false
	}
}
