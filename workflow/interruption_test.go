package workflow

import (
	"testing"

	"addon-operator/workflow/graph"
)

func TestSkippedFanOutAboutAConfigurationForgetsInterruptionsOfItsScope(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fanOut, item string
		want         bool
	}{
		{"winner", "loser", true},
		{"winner", "winner", true},
		{"winner", "stage/loser", false},
		{"stage/winner", "stage/loser", true},
		{"stage/winner", "stage-2/loser", false},
		{"stage/winner", "loser", false},
		{"winner", "", false},
		{"", "loser", true},
	} {
		if got := isWithin(graph.Subject{Configuration: c.item}, graph.Subject{Configuration: c.fanOut}); got != c.want {
			t.Errorf("item %q of a fan-out about %q: %t, want %t", c.item, c.fanOut, got, c.want)
		}
	}
}
