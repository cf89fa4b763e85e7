package draw_test

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/workflow/addons"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

var update = flag.Bool("update", false, "rewrite docs/lifecycle.md, docs/addons-graph.md and testdata with what the code draws")

// garden returns a small graph that has each feature for which a drawing has a symbol or a text.
// Some names in the garden have characters that must be quoted in a drawing.
func garden() *graph.Graph {
	return &graph.Graph{
		Name: "garden",
		Doc:  "A year in a <small> garden.",
		Nodes: []graph.Node{
			{ID: "dig", Number: "1", Group: "spring", Doc: "dig over every bed", ForEach: "beds", Inputs: []graph.Input{"spade"}, Unique: true, FixedDelay: true},
			{ID: "end", Number: "2", Group: "spring", Scope: graph.ScopeModule, Doc: "sow", RetryFrom: "dig", Outputs: []graph.Output{"seed_list"}, Uninterruptible: true},
			{ID: "dry-out", Number: "3", Group: `"hot" summer`, Junction: true, Doc: "it's dry"},
			{ID: "dry out", Number: "4", Group: `"hot" summer`, Scope: graph.ScopeBinding, Batch: true, Doc: "water can --full"},
			{ID: "sleep", Number: "5", Doc: "wait for the gardeners", Scope: graph.ScopeModule, ForEach: "gardeners", JoinsRunning: true, WakesFailed: true},
		},
		Edges: []graph.Edge{
			{On: "frost's over", To: "dig", Place: graph.Front},
			{On: "no rain", To: "dry-out"},
			{On: "no rain", To: "dry out", Place: graph.BindingQueue},
			{From: "dig", To: "end", ForEach: "beds"},
			{From: "end", To: "dry out", When: "seeds | bulbs in", Unless: "wet", Place: graph.Tail},
			{From: "dry-out", To: "dry out", Place: graph.Tail},
			{From: "dry out", To: "dig", When: "wet", Place: graph.Rewind},
			{From: "dry out", To: "dry out", Unless: "wet", Loop: true},
			{From: "dry out", To: "sleep", CancelsPending: true},
		},
		Triggers: map[graph.Trigger]string{"frost's over": "no *frost for $DAYS", "no rain": "the sky is blue"},
		Facts:    map[graph.Fact]string{"wet": "the soil is wet", "seeds | bulbs in": "something was sown"},
		FanOuts:  map[graph.FanOut]string{"beds": "the beds, by sun.hours", "gardeners": "who still works"},
		Inputs:   map[graph.Input]string{"spade": "a tool"},
		Outputs:  map[graph.Output]string{"seed_list": "what was sown [and where]"},
	}
}

// july returns the states of some of the garden's nodes in a run in progress.
func july() draw.States {
	return draw.States{
		"dig":     {Tone: draw.Done, Icon: "✔", Word: "done", Detail: "3 of 3"},
		"end":     {Tone: draw.Failed, Icon: "✖", Word: "failed", Detail: "try 7: \"no <seed> left\" in `shed` #4 & \\shop\\\n\x1b[31mthe second line of an error that is longer than a terminal is wide"},
		"dry out": {Tone: draw.Active, Icon: "●", Word: "running"},
		"sleep":   {Tone: draw.Waiting, Detail: "for dry out"},
	}
}

func TestDrawingsAreCurrent(t *testing.T) {
	if err := garden().Check(); err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{
		"../../docs/lifecycle.md":    draw.Markdown(lifecycle.Graph),
		"../../docs/addons-graph.md": draw.Markdown(addons.Graph),
		"testdata/garden.md":         draw.Markdown(garden()),
		"testdata/garden.mmd":        draw.Mermaid(garden(), nil),
		"testdata/garden.dot":        draw.DOT(garden(), nil),
		"testdata/garden.txt":        draw.Text(garden(), nil),
		"testdata/garden.july.mmd":   draw.Mermaid(garden(), july()),
		"testdata/garden.july.dot":   draw.DOT(garden(), july()),
		"testdata/garden.july.txt":   draw.Text(garden(), july()),
	} {
		file = filepath.FromSlash(file)
		if *update {
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Errorf("%v; go test ./workflow/draw -update writes it", err)
			continue
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s is not what the code draws; go test ./workflow/draw -update rewrites it (-file +code):\n%s", file, diff)
		}
	}
}

func TestDrawingTwiceGivesTheSame(t *testing.T) {
	t.Parallel()
	all := func() string {
		return draw.Markdown(garden()) + draw.Mermaid(garden(), july()) + draw.DOT(garden(), july()) + draw.Text(garden(), july())
	}
	want := all()
	for range 20 {
		if got := all(); got != want {
			t.Fatal(cmp.Diff(want, got))
		}
	}
}

func TestEveryEdgeIsAnArrow(t *testing.T) {
	t.Parallel()
	for _, g := range []*graph.Graph{garden(), lifecycle.Graph} {
		back := 0
		for _, n := range g.Nodes {
			if n.RetryFrom != "" {
				back++
			}
		}
		for _, tt := range []struct {
			drawing string
			arrow   string
			want    int
		}{
			{draw.Mermaid(g, nil), `(?m)^  \w+ -\.?->(\|"[^"]*"\|)? \w+$`, len(g.Edges)},
			{draw.DOT(g, nil), `(?m)^  "[^"]+" -> "[^"]+"( \[.*\])?$`, len(g.Edges) + back},
			{draw.Text(g, nil), `(?m)^ +-> \d+\w? \S`, len(g.Edges)},
			{draw.Text(g, nil), `(?m)^ +<- \d+\w? \S`, back},
		} {
			if got := len(regexp.MustCompile(tt.arrow).FindAllString(tt.drawing, -1)); got != tt.want {
				t.Errorf("graph %s: %d arrows like %s, want %d", g.Name, got, tt.arrow, tt.want)
			}
		}
	}
}

func TestEveryNodeHasABoxOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, g := range []*graph.Graph{garden(), lifecycle.Graph} {
		boxes := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^ +(\w+)(\[|\(\[|>)"`).FindAllStringSubmatch(draw.Mermaid(g, nil), -1) {
			boxes[m[1]] = true
		}
		if want := len(g.Nodes) + len(g.Triggers); len(boxes) != want {
			t.Errorf("graph %s: %d boxes, want %d: %v", g.Name, len(boxes), want, boxes)
		}
	}
}

func TestEveryLinkOfAPageHasItsHeading(t *testing.T) {
	t.Parallel()
	for _, g := range []*graph.Graph{garden(), lifecycle.Graph} {
		page := draw.Markdown(g)
		headings := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
			headings[strings.ReplaceAll(strings.ToLower(m[1]), " ", "-")] = true
		}
		links := regexp.MustCompile(`\]\(#([^)]*)\)`).FindAllStringSubmatch(page, -1)
		if len(links) < len(g.Edges) {
			t.Errorf("graph %s: %d links for %d edges", g.Name, len(links), len(g.Edges))
		}
		for _, m := range links {
			if !headings[m[1]] {
				t.Errorf("graph %s: nothing is headed %q", g.Name, m[1])
			}
		}
	}
}

func TestPageTellsTheMeaningOfEveryName(t *testing.T) {
	t.Parallel()
	plain := strings.NewReplacer("`", "", `\`, "").Replace
	g := lifecycle.Graph
	page := plain(draw.Markdown(g))
	tell := func(kind, name, meaning string) {
		if !strings.Contains(page, "| "+name+" | "+meaning+" |") {
			t.Errorf("the page does not explain %s %q as %q", kind, name, meaning)
		}
	}
	for name, meaning := range g.Triggers {
		tell("trigger", string(name), meaning)
	}
	for name, meaning := range g.Facts {
		tell("fact", string(name), meaning)
	}
	for name, meaning := range g.FanOuts {
		tell("list", string(name), meaning)
	}
	for name, meaning := range g.Inputs {
		tell("input", string(name), meaning)
	}
	for name, meaning := range g.Outputs {
		tell("output", string(name), meaning)
	}
}

func TestLifecycleFitsTheTerminal(t *testing.T) {
	t.Parallel()
	for line := range strings.Lines(draw.Text(lifecycle.Graph, nil)) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > draw.Width {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}

func TestTextFitsTheTerminalWhateverTheStateSays(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		says := draw.State{
			Icon:   rapid.SampledFrom([]string{"", "✔", "\x1b"}).Draw(t, "icon"),
			Word:   rapid.String().Draw(t, "word"),
			Detail: rapid.String().Draw(t, "detail") + strings.Repeat("x", rapid.IntRange(0, 200).Draw(t, "long")),
		}
		text := draw.Text(garden(), draw.States{"end": says})
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if n := utf8.RuneCountInString(line); n > draw.Width {
				t.Errorf("%d columns: %q", n, line)
			}
			if strings.ContainsFunc(line, unicode.IsControl) {
				t.Errorf("a control character reaches the terminal: %q", line)
			}
		}
		kept := func(s string) string { return strings.Join(strings.FieldsFunc(s, notShown), "") }
		if !strings.Contains(kept(text), kept(says.Detail)) {
			t.Errorf("the detail %q is not in\n%s", says.Detail, text)
		}
	})
}

// notShown reports whether a drawing may omit the character r or replace it by a space.
func notShown(r rune) bool { return !unicode.IsPrint(r) || unicode.IsSpace(r) }

func TestEmptyGraphIsDrawn(t *testing.T) {
	t.Parallel()
	g := &graph.Graph{Name: "nothing"}
	for _, got := range []string{draw.Markdown(g), draw.Mermaid(g, nil), draw.DOT(g, nil), draw.Text(g, nil)} {
		if got == "" || !strings.HasSuffix(got, "\n") {
			t.Errorf("drawn as %q", got)
		}
	}
}
