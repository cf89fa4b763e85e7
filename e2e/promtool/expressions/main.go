// Command expressions checks PromQL expressions against metrics, with the parser of Prometheus. It reads an [input] as
// JSON from standard input. It prints one line for each problem of an expression, such as a metric that does not
// exist, or a label that no series of a metric can have.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// An input has the expressions to check, and the metrics.
type input struct {
	// Metrics are the metrics by name. Their labels include the labels that Prometheus adds when it scrapes a target.
	// A histogram is three elements, with the suffixes _bucket, _sum and _count.
	Metrics map[string]metric `json:"metrics"`
	// Expressions are the expressions to check.
	Expressions []expression `json:"expressions"`
}

// A metric describes the series of one metric.
type metric struct {
	// Counts is set if the value only grows, as in a counter or in a series of a histogram.
	Counts bool     `json:"counts"`
	Labels []string `json:"labels"`
}

// An expression is one PromQL expression to check.
type expression struct {
	// Where says where the expression is used, such as the name of an alert. Each message about the expression has this
	// text.
	Where string `json:"where"`
	Expr  string `json:"expr"`
	// Labels are the labels that the result must have, because a legend or an annotation of the expression uses them.
	Labels []string `json:"labels"`
}

func main() {
	var in input
	if err := json.NewDecoder(os.Stdin).Decode(&in); err != nil {
		fmt.Fprintln(os.Stderr, "expressions: read the input:", err)
		os.Exit(1)
	}
	for _, e := range in.Expressions {
		c := checker{metrics: in.Metrics}
		parsed, err := parser.NewParser(parser.Options{}).ParseExpr(e.Expr)
		if err != nil {
			c.problem("it cannot be parsed: %v", err)
		} else {
			c.need(c.labels(parsed), e.Labels, "the result")
		}
		for _, p := range c.problems {
			fmt.Printf("%s: %s: %s\n", e.Where, e.Expr, p)
		}
	}
}

// A checker computes the labels of the result of one expression from the labels of its metrics.
type checker struct {
	metrics  map[string]metric
	problems []string
}

func (c *checker) problem(format string, args ...any) {
	if p := fmt.Sprintf(format, args...); !slices.Contains(c.problems, p) {
		c.problems = append(c.problems, p)
	}
}

// need reports a problem for each label in names that is not in have. The slice have lists the labels of one part of
// the expression; the message describes this part with the text in where.
func (c *checker) need(have, names []string, where string) {
	for _, name := range names {
		if !slices.Contains(have, name) {
			c.problem("%s has no label %s, only %s", where, name, strings.Join(have, ", "))
		}
	}
}

// labels returns the labels that the result of node, a part of an expression, can have.
func (c *checker) labels(node parser.Node) []string {
	switch n := node.(type) {
	case *parser.VectorSelector:
		return c.selected(n)
	case *parser.AggregateExpr:
		return c.aggregated(n)
	case *parser.Call:
		return c.called(n)
	case *parser.BinaryExpr:
		return c.combined(n)
	default: // the other kinds of nodes pass on the labels of their children
		var all []string
		for child := range parser.ChildrenIter(node) {
			all = append(all, c.labels(child)...)
		}
		return all
	}
}

// selected returns the labels of the series that the selector n selects. selected reports an unknown metric, and
// matchers of labels that the metric does not have.
func (c *checker) selected(n *parser.VectorSelector) []string {
	m, found := c.metrics[n.Name]
	if !found {
		c.problem("no metric is called %q", n.Name)
	}
	for _, matcher := range n.LabelMatchers {
		if found && matcher.Name != labels.MetricName {
			c.need(m.Labels, []string{matcher.Name}, n.Name)
		}
	}
	return m.Labels
}

func (c *checker) aggregated(n *parser.AggregateExpr) []string {
	inner := c.labels(n.Expr)
	if len(inner) > 0 {
		c.need(inner, n.Grouping, "the argument of "+n.Op.String())
	}
	switch {
	case n.Op == parser.TOPK || n.Op == parser.BOTTOMK:
		return inner
	case n.Without:
		return slices.DeleteFunc(slices.Clone(inner), func(name string) bool { return slices.Contains(n.Grouping, name) })
	default:
		return n.Grouping
	}
}

// called returns the labels of the result of the function call n. called reports a problem if rate, irate or increase
// is called for a gauge, or if the argument of histogram_quantile has no label le.
func (c *checker) called(n *parser.Call) []string {
	var all []string
	for _, arg := range n.Args {
		all = append(all, c.labels(arg)...)
	}
	switch n.Func.Name {
	case "rate", "irate", "increase":
		parser.Inspect(n, func(node parser.Node, _ []parser.Node) error {
			if s, ok := node.(*parser.VectorSelector); ok && c.metrics[s.Name].Labels != nil && !c.metrics[s.Name].Counts {
				c.problem("%s of %s, which is a gauge", n.Func.Name, s.Name)
			}
			return nil
		})
	case "histogram_quantile":
		c.need(all, []string{"le"}, "the argument of "+n.Func.Name)
		return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return name == "le" })
	case "absent":
		return nil
	}
	return all
}

// combined returns the labels of the result of a binary operator. combined reports labels of on(...), group_left(...)
// and group_right(...) that a side does not have.
func (c *checker) combined(n *parser.BinaryExpr) []string {
	left, right := c.labels(n.LHS), c.labels(n.RHS)
	m := n.VectorMatching
	if m == nil { // one side is a scalar
		return append(left, right...)
	}
	if m.On {
		c.need(left, m.MatchingLabels, "the left side of "+n.Op.String())
		c.need(right, m.MatchingLabels, "the right side of "+n.Op.String())
	}
	if m.Card == parser.CardOneToMany {
		left, right = right, left
	}
	c.need(right, m.Include, "one side of "+n.Op.String())
	switch {
	case n.Op == parser.LOR: // only labels of both sides are on every series of the result
		return slices.DeleteFunc(slices.Clone(left), func(name string) bool { return !slices.Contains(right, name) })
	case m.On && m.Card == parser.CardOneToOne && !n.Op.IsComparisonOperator():
		return m.MatchingLabels
	default:
		return append(slices.Clone(left), m.Include...)
	}
}
