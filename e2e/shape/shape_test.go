package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const (
	bell = "(*workflow.Bell).Ring"
	door = "(store.Door).Do"
)

func house(t *testing.T) *tree {
	t.Helper()
	tree, err := load("testdata/house")
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestMeasures(t *testing.T) {
	t.Parallel()
	h := house(t)
	path, err := h.path(bell, door)
	if err != nil {
		t.Fatal(err)
	}
	c, err := h.lines()
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		got   row
		value float64
		where string
	}{
		"methods of all files of a package count":                          {h.methods(), 4, "workflow.Bell"},
		"imports of cmd and of others do not count":                        {h.fanOut(), 1, "workflow"},
		"one arrow of a circle of two runs backward":                       {h.backwardArrows("workflow", "store"), 20, "1 of 5"},
		"a function above 15 is complex":                                   {h.complexity(), 7.14, "1 of 14"},
		"tests are compared with code":                                     {testRatio(c), 0.05, "5 to 110"},
		"the path goes through a literal, a method value and an interface": {path, 4, "5 functions on the path"},
	} {
		if test.got.Value != test.value || test.got.Where != test.where {
			t.Errorf("%s: %v (%s), want %v (%s)\n%s", name, test.got.Value, test.got.Where, test.value, test.where, strings.Join(test.got.Details, "\n"))
		}
	}
}

// TestPathNamesTheFilesAReaderOpens checks the files of a path. The path leads through a function literal in the method
// Ring, and through a method value that the method Bell.call uses. Bell.call is treated as the caller of the method
// value. The result must have neither the files of methods that do not lead to the end of the path, nor the files of
// functions after the end of the path.
func TestPathNamesTheFilesAReaderOpens(t *testing.T) {
	t.Parallel()
	r, err := house(t).path(bell, door)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"store/door.go", "workflow/bell.go", "workflow/lonely.go", "workflow/step.go"}
	if diff := cmp.Diff(want, r.Details); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestPathToARenamedFunctionIsRefused(t *testing.T) {
	t.Parallel()
	for _, ends := range [][2]string{{"(*workflow.Bell).Rang", door}, {bell, "(store.Door).Did"}, {door, bell}} {
		if r, err := house(t).path(ends[0], ends[1]); err == nil {
			t.Errorf("from %s to %s: %+v, want an error", ends[0], ends[1], r)
		}
	}
}

func TestPackagesThatDoNotCompileAreRefused(t *testing.T) {
	t.Parallel()
	if _, err := load(t.TempDir()); err == nil {
		t.Error("a directory without a module was measured")
	}
}

func TestBackwardArrowsAreTheFewestThatBreakAllCircles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		arrows string
		want   int
	}{
		"no circle":                  {"a>b a>c b>c c>d", 0},
		"one circle of three":        {"a>b b>c c>a", 1},
		"two circles with one arrow": {"a>b b>c c>a b>d d>a", 1},
		"two circles apart":          {"a>b b>a c>d d>c a>c", 2},
	} {
		var arrows []arrow
		for word := range strings.FieldsSeq(test.arrows) {
			from, to, _ := strings.Cut(word, ">")
			arrows = append(arrows, arrow{from, to})
		}
		if got := backward(arrows); len(got) != test.want {
			t.Errorf("%s: %v run backwards, want %d", name, got, test.want)
		}
	}
}

func TestWithoutBackwardArrowsNoCircleIsLeft(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		file := rapid.StringMatching("[a-h]")
		some := map[arrow]bool{}
		for range rapid.IntRange(0, 30).Draw(t, "arrows") {
			if a := (arrow{file.Draw(t, "from"), file.Draw(t, "to")}); a.from != a.to {
				some[a] = true
			}
		}
		arrows := slices.Collect(maps.Keys(some))
		back := backward(slices.Clone(arrows))
		if again := backward(slices.Clone(arrows)); !slices.Equal(back, again) {
			t.Fatalf("%v run backwards, and then %v", back, again)
		}
		if 2*len(back) > len(arrows) {
			t.Fatalf("%d of %d run backwards, more than in any order or its reverse", len(back), len(arrows))
		}
		left := slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool { return slices.Contains(back, a) })
		if circular(left) {
			t.Fatalf("without %v, a circle is left in %v", back, left)
		}
		if len(back) > 0 && !circular(arrows) {
			t.Fatalf("%v run backwards, and there is no circle in %v", back, arrows)
		}
	})
}

// circular reports whether arrows have a cycle. As long as there are files that use no other file, it removes the
// arrows to these files. If arrows remain, they have a cycle.
func circular(arrows []arrow) bool {
	for {
		left := slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool {
			return !slices.ContainsFunc(arrows, func(b arrow) bool { return b.from == a.to })
		})
		if len(left) == len(arrows) {
			return len(left) > 0
		}
		arrows = left
	}
}

// TestThisTreeIsMeasured measures this repository. For example, it fails if main.go still has the old name of a renamed
// function.
func TestThisTreeIsMeasured(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run([]string{"--json", "../.."}, &out); err != nil {
		t.Fatal(err)
	}
	var rows []row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 7 {
		t.Errorf("%d measures, want 7", len(rows))
	}
	for _, r := range rows {
		if r.Value == 0 && r.AtLeast+r.AtMost == 0 {
			t.Errorf("%s is 0", r.Name)
		}
	}
}
