package workflow

import (
	"context"
	"strings"
	"testing"

	"addon-operator/workflow/graph"
)

// nothing is a step whose Do returns an empty outcome.
type nothing struct{}

func (nothing) Do(context.Context, Task) (Outcome, error) { return Outcome{}, nil }

func TestEachNodeHasTheStepOfOnePart(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "g", Nodes: []graph.Node{{ID: "a"}, {ID: "b"}}}
	for name, c := range map[string]struct {
		parts []Steps
		want  string // a piece of the error; empty if the error must not be about steps
	}{
		"each node has one": {[]Steps{{"a": nothing{}}, {"b": nothing{}}}, ""},
		"a node has two":    {[]Steps{{"a": nothing{}, "b": nothing{}}, {"b": nothing{}}}, "node b has two steps"},
		"a node has none":   {[]Steps{{"a": nothing{}}}, "node b has no step"},
		"an unknown node":   {[]Steps{{"a": nothing{}, "b": nothing{}}, {"c": nothing{}}}, "a step is bound to unknown node c"},
	} {
		text := Join(g, c.parts...).check().Error() // the check always fails, because the graph is not complete
		if got := strings.Contains(text, "step"); got != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: %s; want %q", name, text, c.want)
		}
	}
}
