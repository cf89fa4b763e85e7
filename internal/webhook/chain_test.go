package webhook

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"addon-operator/internal/hook"
)

func conversionsOf(pairs ...[2]string) []Conversion {
	var all []Conversion
	for i, p := range pairs {
		all = append(all, Conversion{
			Asked: Asked{Hook: fmt.Sprintf("hook-%d", i), Binding: "x"},
			Config: hook.ConversionBinding{
				CRDName: "things.x.io", Conversions: []hook.Conversion{{FromVersion: p[0], ToVersion: p[1]}},
			},
		})
	}
	return all
}

func TestShortestChainIsTakenWhoeverDeclaresIt(t *testing.T) {
	t.Parallel()
	all := links(conversionsOf(
		[2]string{"v1", "v2"}, [2]string{"v2", "x.io/v3"}, [2]string{"x.io/v3", "v4"}, [2]string{"v1", "v3"}, [2]string{"v2", "v1"},
	))
	for _, c := range []struct {
		from, to string
		want     []string
	}{
		{"x.io/v1", "x.io/v2", []string{"hook-0"}},
		{"x.io/v1", "x.io/v4", []string{"hook-3", "hook-2"}},
		{"x.io/v2", "x.io/v4", []string{"hook-1", "hook-2"}},
		{"x.io/v4", "x.io/v1", nil},
		{"x.io/v1", "x.io/v9", nil},
		{"x.io/v1", "x.io/v1", nil},
	} {
		var got []string
		for _, l := range chain(all, c.from, c.to) {
			got = append(got, l.Hook)
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("from %s to %s by %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// TestNoChainIsShorter compares the lengths of chains with distances that are computed
// independently, by repeated relaxation of all links.
func TestNoChainIsShorter(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		version := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("v%d", rapid.IntRange(1, 6).Draw(t, "n")) })
		var pairs [][2]string
		for range rapid.IntRange(0, 12).Draw(t, "links") {
			pairs = append(pairs, [2]string{version.Draw(t, "from"), version.Draw(t, "to")})
		}
		from, to := "x.io/"+version.Draw(t, "asked"), "x.io/"+version.Draw(t, "wanted")
		all := links(conversionsOf(pairs...))
		const far = 100
		distance := map[string]int{from: 0}
		at := func(v string) int {
			if d, ok := distance[v]; ok {
				return d
			}
			return far
		}
		for range 7 {
			for _, l := range all {
				distance[l.to] = min(at(l.to), at(l.from)+1)
			}
		}
		row := chain(all, from, to)
		want := at(to)
		if want >= far {
			want = 0
		}
		if len(row) != want {
			t.Fatalf("from %s to %s over %v takes %d links, want %d", from, to, pairs, len(row), want)
		}
		reached := from
		for _, l := range row {
			if l.from != reached {
				t.Fatalf("a link from %s follows %s", l.from, reached)
			}
			reached = l.to
		}
		if len(row) > 0 && reached != to {
			t.Fatalf("the chain ends at %s, not %s", reached, to)
		}
	})
}
