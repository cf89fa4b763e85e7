package values_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/values"
)

// brief returns each saved operation as the text "op path value hook".
func brief(saved []values.Saved) []string {
	var lines []string
	for _, s := range saved {
		lines = append(lines, strings.Join(strings.Fields(s.Op.Op+" "+s.Path+" "+string(s.Value)+" "+s.Hook), " "))
	}
	return lines
}

func TestFoldKeepsTheLastOperationOfAPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		runs []string
		want []string
	}{
		{"the last value", []string{`{"op":"add","path":"/m/a","value":1}`, `{"op":"add","path":"/m/a","value":2}`}, []string{"add /m/a 2 hook1"}},
		{"within one run as well", []string{`{"op":"add","path":"/m/a","value":1}{"op":"add","path":"/m/a","value":2}`}, []string{"add /m/a 2 hook0"}},
		{"a remove takes the place of an add", []string{`{"op":"add","path":"/m/a","value":1}`, `{"op":"remove","path":"/m/a"}`}, []string{"remove /m/a hook1"}},
		{"an append is saved once", []string{`{"op":"add","path":"/m/l/-","value":1}`, `{"op":"add","path":"/m/l/-","value":1}`, `{"op":"add","path":"/m/l/-","value":2}`}, []string{"add /m/l/- 2 hook2"}},
		{"an add drops what is below", []string{`{"op":"add","path":"/m/obj","value":{}}{"op":"add","path":"/m/obj/k","value":1}`, `{"op":"add","path":"/m/obj","value":{}}`}, []string{"add /m/obj {} hook1"}},
		{"a remove drops what is below", []string{`{"op":"add","path":"/m/a","value":{}}{"op":"add","path":"/m/a/b/c","value":1}`, `{"op":"remove","path":"/m/a"}`}, []string{"remove /m/a hook1"}},
		{"a longer name is not below", []string{`{"op":"add","path":"/m/ab","value":1}`, `{"op":"remove","path":"/m/a"}`}, []string{"remove /m/a hook1", "add /m/ab 1 hook0"}},
		{"parents come first", []string{`{"op":"add","path":"/m/a/b","value":1}{"op":"add","path":"/m/c","value":2}{"op":"add","path":"/m/b","value":3}`}, []string{"add /m/a/b 1 hook0", "add /m/b 3 hook0", "add /m/c 2 hook0"}},
		{"tests are not saved and drop nothing", []string{`{"op":"add","path":"/m/a/b","value":1}{"op":"test","path":"/m/a","value":{"b":1}}`}, []string{"add /m/a/b 1 hook0"}},
		{"a remove of an element stays before an add", []string{`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":1}`}, []string{"remove /m/l/0 hook0", "add /m/l/0 1 hook0"}},
		{"in a later run as well", []string{`{"op":"remove","path":"/m/l/0"}`, `{"op":"add","path":"/m/l/0","value":1}`}, []string{"remove /m/l/0 hook0", "add /m/l/0 1 hook1"}},
		{"the last remove before the last add", []string{`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":1}`, `{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":2}{"op":"add","path":"/m/l/0","value":3}`}, []string{"remove /m/l/0 hook1", "add /m/l/0 3 hook1"}},
		{"a remove of an element drops both", []string{`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":1}`, `{"op":"remove","path":"/m/l/0"}`}, []string{"remove /m/l/0 hook1"}},
		{"an add of the list drops both", []string{`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":1}`, `{"op":"add","path":"/m/l","value":[]}`}, []string{"add /m/l [] hook1"}},
		{"an add of a key needs no remove", []string{`{"op":"remove","path":"/m/a"}{"op":"add","path":"/m/a","value":1}`}, []string{"add /m/a 1 hook0"}},
		{"no operation", []string{``}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var saved []values.Saved
			for i, run := range c.runs {
				saved = values.MergePatches(saved, patch(t, run), "hook"+string(rune('0'+i)))
			}
			if diff := cmp.Diff(c.want, brief(saved)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestFoldLeavesTheListItWasGivenAlone(t *testing.T) {
	t.Parallel()
	saved := values.MergePatches(nil, patch(t, `{"op":"add","path":"/m/b","value":1}{"op":"add","path":"/m/c","value":1}{"op":"add","path":"/m/d","value":1}`), "one")
	before := brief(saved)
	values.MergePatches(saved, patch(t, `{"op":"remove","path":"/m/b"}{"op":"add","path":"/m/a","value":1}`), "two")
	if diff := cmp.Diff(before, brief(saved)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestAppendShowsOneElementAfterEveryRun(t *testing.T) {
	t.Parallel()
	base := doc(t, `{"m":{"arr":[]}}`)
	ops := patch(t, `{"op":"add","path":"/m/arr/-","value":"x"}`)
	var saved []values.Saved
	for run := range 3 {
		merged, _ := values.Replay(base, saved)
		if _, err := values.Apply(merged, ops); err != nil {
			t.Fatalf("run %d: %v", run, err)
		}
		saved = values.MergePatches(saved, ops, "hook")
		merged, skipped := values.Replay(base, saved)
		if diff := cmp.Diff(doc(t, `{"m":{"arr":["x"]}}`), merged); diff != "" || skipped != nil {
			t.Errorf("run %d: skipped %v, values (-want +got):\n%s", run, skipped, diff)
		}
	}
}

func TestAddOfARemovedElementReplacesItAfterEveryRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, base, want string
		runs             []string
	}{
		{
			"an element of the base", `{"m":{"l":["a","b"]}}`, `{"m":{"l":["A","b"]}}`,
			slices.Repeat([]string{`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":"A"}`}, 3),
		},
		{
			"both elements, the last one by a negative index", `{"m":{"l":["a","b"]}}`, `{"m":{"l":["A","B"]}}`,
			slices.Repeat([]string{`{"op":"remove","path":"/m/l/-1"}{"op":"add","path":"/m/l/-1","value":"B"}{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":"A"}`}, 3),
		},
		{
			"an appended element", `{"m":{"l":[]}}`, `{"m":{"l":["A"]}}`,
			[]string{
				`{"op":"add","path":"/m/l/-","value":"a"}`, `{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":"x"}`,
				`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":"A"}`,
			},
		},
		{
			"an element that an earlier run has removed", `{"m":{"l":["a","b"]}}`, `{"m":{"l":["A","b"]}}`,
			[]string{`{"op":"remove","path":"/m/l/0"}`, `{"op":"add","path":"/m/l/0","value":"A"}`},
		},
		{
			"a key of a map that looks like an index", `{"m":{"l":{"0":"a"}}}`, `{"m":{"l":{"0":"A"}}}`,
			slices.Repeat([]string{`{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":"A"}`}, 3),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			base := doc(t, c.base)
			var saved []values.Saved
			merged := base
			for i, run := range c.runs {
				want, err := values.Apply(merged, patch(t, run))
				if err != nil {
					t.Fatalf("run %d: %v", i, err)
				}
				saved = values.MergePatches(saved, patch(t, run), "hook")
				var skipped []values.Skipped
				merged, skipped = values.Replay(base, saved)
				if diff := cmp.Diff(want, merged); diff != "" || skipped != nil {
					t.Errorf("run %d: skipped %v, values (-want +got):\n%s", i, skipped, diff)
				}
			}
			if diff := cmp.Diff(doc(t, c.want), merged); diff != "" {
				t.Errorf("the last values (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplayToleratesABaseThatChanged(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, base, patch, want string
		skipped                 []string
	}{
		{"remove of a missing key is silent", `{"m":{"a":1}}`, `{"op":"remove","path":"/m/b"}`, `{"m":{"a":1}}`, nil},
		{"remove under a missing parent is silent", `{"m":{"a":1}}`, `{"op":"remove","path":"/m/b/c"}`, `{"m":{"a":1}}`, nil},
		{"remove of a missing element is silent", `{"m":{"l":[]}}`, `{"op":"remove","path":"/m/l/0"}`, `{"m":{"l":[]}}`, nil},
		{"remove from an absent section is silent", `{}`, `{"op":"remove","path":"/m/a"}`, `{}`, nil},
		{"an add whose parent vanished is skipped", `{"m":{"a":1}}`, `{"op":"add","path":"/m/gone/b","value":1}{"op":"add","path":"/m/c","value":2}`, `{"m":{"a":1,"c":2}}`, []string{`add /m/gone/b: the path contains "gone", which does not exist: add it first, as a map`}},
		{"an add whose parent became a scalar is skipped", `{"m":{"a":1}}`, `{"op":"add","path":"/m/a/b","value":1}`, `{"m":{"a":1}}`, []string{`add /m/a/b: "b" cannot be in a number: its parent must be a map or a list`}},
		{"an index that is out of range now is skipped", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/3","value":1}`, `{"m":{"l":[1]}}`, []string{`add /m/l/3: index 3 is out of range`}},
		{"an absent section is an empty one", `{}`, `{"op":"add","path":"/m/a","value":1}`, `{"m":{"a":1}}`, nil},
		{"nothing saved", `{"m":{"a":1}}`, ``, `{"m":{"a":1}}`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, skipped := values.Replay(doc(t, c.base), values.MergePatches(nil, patch(t, c.patch), "hooks/x.sh"))
			if diff := cmp.Diff(doc(t, c.want), got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
			var reasons []string
			for _, s := range skipped {
				reasons = append(reasons, s.Reason)
				if s.Hook != "hooks/x.sh" {
					t.Errorf("skipped operation of hook %q", s.Hook)
				}
			}
			if diff := cmp.Diff(c.skipped, reasons); diff != "" {
				t.Errorf("skipped (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReplayOfFoldedOperationsIsWhatTheyDidInTurn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := values.Values{"m": map[string]any(objectsOnly(2).Draw(t, "base"))}
		want, ops := applyAlone(base, drawMapOps(t))
		saved := values.MergePatches(nil, ops, "hook")
		got, skipped := values.Replay(base, saved)
		if len(skipped) > 0 {
			t.Fatalf("skipped %v of %v", skipped, brief(saved))
		}
		if canonical(t, got) != canonical(t, want) {
			t.Fatalf("%v merged to %v leads to %s, want %s", ops, brief(saved), canonical(t, got), canonical(t, want))
		}
	})
}

// objectsOnly generates objects without lists, because elements of a list have no stable names.
func objectsOnly(depth int) *rapid.Generator[values.Values] {
	under := scalars()
	if depth > 0 {
		under = rapid.OneOf(under, rapid.Map(objectsOnly(depth-1), func(v values.Values) any { return map[string]any(v) }))
	}
	return rapid.Map(rapid.MapOfN(names, under, 0, 4), func(m map[string]any) values.Values { return m })
}

// drawMapOps generates operations whose values contain no lists.
func drawMapOps(t *rapid.T) []values.Op {
	ops := drawOps(t, []string{"add", "add", "remove", "test"}, false)
	for i := range ops {
		if ops[i].Op != "remove" {
			ops[i].Value = json.RawMessage(canonical(t, objectsOnly(1).Draw(t, "object")))
		}
	}
	return ops
}

func TestFoldLaws(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		one := drawOps(t, []string{"add", "remove", "test"}, true)
		two := drawOps(t, []string{"add", "remove", "test"}, true)
		stepwise := values.MergePatches(values.MergePatches(nil, one, "h"), two, "h")
		atOnce := values.MergePatches(nil, append(slices.Clone(one), two...), "h")
		if diff := cmp.Diff(brief(atOnce), brief(stepwise)); diff != "" {
			t.Fatalf("merging the patches of two runs differs from merging them at once (-at once +in two runs):\n%s", diff)
		}
		if diff := cmp.Diff(brief(stepwise), brief(values.MergePatches(stepwise, two, "h"))); diff != "" {
			t.Fatalf("merging the patches of the same run again changes the list:\n%s", diff)
		}
		for i, s := range stepwise {
			if i == 0 || stepwise[i-1].Path < s.Path {
				continue
			}
			if stepwise[i-1].Path != s.Path || stepwise[i-1].Op.Op != "remove" || s.Op.Op != "add" {
				t.Fatalf("not sorted, or more of one path than a remove and an add: %v", brief(stepwise))
			}
		}
	})
}

func TestStoredListIsReadBackTheSame(t *testing.T) {
	t.Parallel()
	saved := values.MergePatches(nil, patch(t, `{"op":"add","path":"/m/a","value":{"n":9007199254740993}}{"op":"remove","path":"/m/b"}`), "hooks/x.sh")
	text, err := json.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"op":"add","path":"/m/a","value":{"n":9007199254740993},"hook":"hooks/x.sh"},{"op":"remove","path":"/m/b","hook":"hooks/x.sh"}]`
	if string(text) != want {
		t.Errorf("got %s, want %s", text, want)
	}
	var again []values.Saved
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(saved, again); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEnabledOverrideOfTheLastHookCounts(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	first := values.MergeEnabledOverrides(nil, map[string]*bool{"fooEnabled": &yes, "barEnabled": &yes}, "one", time.Time{})
	before := map[string]values.EnabledOverride{"fooEnabled": {Value: true, Hook: "one"}, "barEnabled": {Value: true, Hook: "one"}}
	if diff := cmp.Diff(before, first); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
	second := values.MergeEnabledOverrides(first, map[string]*bool{"fooEnabled": &no, "barEnabled": nil, "bazEnabled": nil}, "two", time.Time{})
	if diff := cmp.Diff(map[string]values.EnabledOverride{"fooEnabled": {Value: false, Hook: "two"}}, second); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, first); diff != "" {
		t.Errorf("the given overrides were changed (-want +got):\n%s", diff)
	}
}

// TestVainOperationsCanBeLeftOut checks that the saved operations have the same result without the removals that have
// no effect.
func TestVainOperationsCanBeLeftOut(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		base := values.Values{"m": map[string]any(objectsOnly(2).Draw(t, "base"))}
		_, ops := applyAlone(base, drawMapOps(t))
		saved := values.MergePatches(nil, ops, "hook")
		if rapid.Bool().Draw(t, "the base has changed") {
			base = values.Values{"m": map[string]any(objectsOnly(2).Draw(t, "other base"))}
		}
		want, _ := values.Replay(base, saved)
		paths := values.NoOp(base, saved)
		left := values.Without(saved, paths)
		got, _ := values.Replay(base, left)
		if canonical(t, got) != canonical(t, want) {
			t.Fatalf("%v without %v leads to %s, want %s", brief(saved), paths, canonical(t, got), canonical(t, want))
		}
		if len(left) != len(saved)-len(paths) {
			t.Fatalf("%d of %d operations are left without %d", len(left), len(saved), len(paths))
		}
		if again := values.NoOp(base, left); again != nil {
			t.Fatalf("without the operations that have no effect, NoOp returns %v", again)
		}
	})
}

func BenchmarkFoldOfManyOperations(b *testing.B) {
	ops := make([]values.Op, 20_000)
	for i := range ops {
		ops[i] = values.Op{Op: "add", Path: fmt.Sprintf("/m/names/%d", i), Value: json.RawMessage("1")}
	}
	for b.Loop() {
		values.MergePatches(values.MergePatches(nil, ops[:10_000], "a"), ops, "b")
	}
}

func TestOperationKeepsTheTimeAtWhichItWasFirstWrittenAsItIs(t *testing.T) {
	first, second := time.Unix(1, 0).UTC(), time.Unix(2, 0).UTC()
	merge := func(saved []values.Saved, text, hook string, at time.Time) []values.Saved {
		return values.Dated(values.MergePatches(saved, patch(t, text), hook), saved, at)
	}
	saved := merge(nil, `{"op":"add","path":"/m/a","value":1}{"op":"add","path":"/m/b","value":1}{"op":"add","path":"/m/c","value":1}`, "one", first)
	saved[0].Outdated = true
	saved = merge(saved, `{"op":"add","path":"/m/a","value":1}{"op":"add","path":"/m/b","value":2}`, "one", second)
	saved = merge(saved, `{"op":"add","path":"/m/c","value":1}`, "two", second)
	saved = merge(saved, `{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":1}`, "one", first)
	saved = merge(saved, `{"op":"remove","path":"/m/l/0"}{"op":"add","path":"/m/l/0","value":2}`, "one", second)
	got := map[string]values.Origin{}
	for _, s := range saved {
		got[s.Op.String()] = s.Origin
	}
	if diff := cmp.Diff(map[string]values.Origin{
		"add /m/a": {At: first}, "add /m/b": {At: second}, "add /m/c": {At: second},
		"remove /m/l/0": {At: first}, "add /m/l/0": {At: second},
	}, got); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

func TestTouchingOperationsAreAtAboveOrBelowASavedOne(t *testing.T) {
	t.Parallel()
	before := []values.Saved{saved("add", "/m/a/b", "1", "h")}
	var got []string
	for _, op := range values.Touching([]values.Op{
		{Op: "add", Path: "/m"},
		{Op: "add", Path: "/m/a"},
		{Op: "remove", Path: "/m/a/b"},
		{Op: "add", Path: "/m/a/b/c"},
		{Op: "add", Path: "/m/a/bc"},
		{Op: "add", Path: "/m/ab"},
		{Op: "add", Path: "/m/c"},
	}, before) {
		got = append(got, op.Path)
	}
	if diff := cmp.Diff([]string{"/m", "/m/a", "/m/a/b", "/m/a/b/c"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
