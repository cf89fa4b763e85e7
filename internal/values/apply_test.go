package values_test

import (
	"encoding/json"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/values"
)

func TestApplyDoesWhatTheOperationsSay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, base, patch, want string }{
		{"add a key", `{"m":{}}`, `{"op":"add","path":"/m/a","value":{"b":1}}`, `{"m":{"a":{"b":1}}}`},
		{"add replaces", `{"m":{"a":{"b":1}}}`, `{"op":"add","path":"/m/a","value":2}`, `{"m":{"a":2}}`},
		{"add without a value sets null", `{"m":{"a":1}}`, `{"op":"add","path":"/m/a"}`, `{"m":{"a":null}}`},
		{"add below an absent section", `{}`, `{"op":"add","path":"/m/a","value":1}`, `{"m":{"a":1}}`},
		{"add below a section that is null", `{"m":null}`, `{"op":"add","path":"/m/a","value":1}`, `{"m":{"a":1}}`},
		{"add a whole section", `{"m":{"a":1}}`, `{"op":"add","path":"/m","value":{"b":2}}`, `{"m":{"b":2}}`},
		{"a module's section may be a list", `{}`, `{"op":"add","path":"/m","value":[1]}`, `{"m":[1]}`},
		{"remove a key", `{"m":{"a":1,"b":2}}`, `{"op":"remove","path":"/m/a"}`, `{"m":{"b":2}}`},
		{"remove a null", `{"m":{"a":null}}`, `{"op":"remove","path":"/m/a"}`, `{"m":{}}`},
		{"append", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/-","value":2}{"op":"add","path":"/m/l/-","value":3}`, `{"m":{"l":[1,2,3]}}`},
		{"insert", `{"m":{"l":[1,2]}}`, `{"op":"add","path":"/m/l/1","value":9}`, `{"m":{"l":[1,9,2]}}`},
		{"insert at the end by index", `{"m":{"l":[1,2]}}`, `{"op":"add","path":"/m/l/2","value":9}`, `{"m":{"l":[1,2,9]}}`},
		{"add at a negative index counts places from the end", `{"m":{"l":[1,2]}}`, `{"op":"add","path":"/m/l/-1","value":9}`, `{"m":{"l":[1,2,9]}}`},
		{"remove at a negative index", `{"m":{"l":[1,2]}}`, `{"op":"remove","path":"/m/l/-1"}`, `{"m":{"l":[1]}}`},
		{"into an element", `{"m":{"l":[{"a":1}]}}`, `{"op":"add","path":"/m/l/0/b","value":2}`, `{"m":{"l":[{"a":1,"b":2}]}}`},
		{"into a list in a list", `{"m":{"l":[[1]]}}`, `{"op":"add","path":"/m/l/0/-","value":2}`, `{"m":{"l":[[1,2]]}}`},
		{"escapes", `{"m":{"a/b":{"c~d":1}}}`, `{"op":"remove","path":"/m/a~1b/c~0d"}`, `{"m":{"a/b":{}}}`},
		{"an escaped escape", `{"m":{"~1":1}}`, `{"op":"remove","path":"/m/~01"}`, `{"m":{}}`},
		{"the empty name is a name", `{"m":{}}`, `{"op":"add","path":"/m/","value":1}`, `{"m":{"":1}}`},
		{"later operations see earlier ones", `{"m":{}}`, `{"op":"add","path":"/m/a","value":{}}{"op":"add","path":"/m/a/b","value":1}`, `{"m":{"a":{"b":1}}}`},
		{"a section removed and added again", `{"m":{"a":1}}`, `{"op":"remove","path":"/m"}{"op":"add","path":"/m","value":{}}`, `{"m":{}}`},
		{"a test that holds", `{"m":{"a":{"b":[1]}}}`, `{"op":"test","path":"/m/a","value":{"b":[1.0]}}`, `{"m":{"a":{"b":[1]}}}`},
		{"a test of what is missing against null", `{"m":{}}`, `{"op":"test","path":"/m/a","value":null}`, `{"m":{}}`},
		{"a test leaves an absent section absent", `{}`, `{"op":"test","path":"/m","value":null}`, `{}`},
		{"a test in a list", `{"m":{"l":[1,2]}}`, `{"op":"test","path":"/m/l/1","value":2}`, `{"m":{"l":[1,2]}}`},
		{"no operation", `{"m":{"a":1}}`, ``, `{"m":{"a":1}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := values.Apply(doc(t, c.base), patch(t, c.patch))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(doc(t, c.want), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestApplyIsStrict(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, base, patch, want string }{
		{"remove of a missing key", `{"m":{}}`, `{"op":"remove","path":"/m/a"}`, `remove /m/a: there is no "a" to remove`},
		{"remove under a missing parent", `{"m":{}}`, `{"op":"remove","path":"/m/a/b"}`, `the path contains "a", which does not exist`},
		{"remove under an absent section", `{}`, `{"op":"remove","path":"/m/a"}`, `the path contains "m", which does not exist`},
		{"remove under a section that is null", `{"m":null}`, `{"op":"remove","path":"/m/a"}`, `in null`},
		{"add under a missing parent", `{"m":{}}`, `{"op":"add","path":"/m/a/b","value":1}`, `add /m/a/b: the path contains "a", which does not exist: add it first, as a map`},
		{"add under null", `{"m":{"a":null}}`, `{"op":"add","path":"/m/a/b","value":1}`, `"b" cannot be in null`},
		{"add under a scalar", `{"m":{"a":5}}`, `{"op":"add","path":"/m/a/b","value":1}`, `"b" cannot be in a number: its parent must be a map or a list`},
		{"add below a scalar", `{"m":{"a":true}}`, `{"op":"add","path":"/m/a/b/c","value":1}`, `in a boolean`},
		{"an index beyond the end", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/2","value":1}`, `index 2 is out of range`},
		{"an index before the start", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/-3","value":1}`, `index -3 is out of range`},
		{"remove beyond the end", `{"m":{"l":[1]}}`, `{"op":"remove","path":"/m/l/1"}`, `index 1 is out of range`},
		{"remove behind the end", `{"m":{"l":[1]}}`, `{"op":"remove","path":"/m/l/-"}`, `"-" is no index`},
		{"a word as index", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/x","value":1}`, `"x" is no index of a list`},
		{"through a missing element", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/5/a","value":1}`, `index 5 is out of range`},
		{"through a scalar element", `{"m":{"l":[1]}}`, `{"op":"add","path":"/m/l/0/a/b","value":1}`, `in a number`},
		{"remove the whole section", `{"m":{"a":1}}`, `{"op":"remove","path":"/m"}`, `remove /m: would leave no section "m": add {} instead`},
		{"add null as section", `{"m":{"a":1}}`, `{"op":"add","path":"/m"}`, `would leave no section "m"`},
		{"add a scalar as section", `{"m":{"a":1}}`, `{"op":"add","path":"/m","value":"x"}`, `would make the section "m" a string`},
		{"add a list as global section", `{"global":{}}`, `{"op":"add","path":"/global","value":[]}`, `would make the section "global" a list`},
		{"a test that fails", `{"m":{"a":1}}`, `{"op":"test","path":"/m/a","value":2}`, `test /m/a: the test failed`},
		{"a test of what is missing", `{"m":{}}`, `{"op":"test","path":"/m/a","value":2}`, `the test failed`},
		{"a test of an index beyond the end", `{"m":{"l":[1]}}`, `{"op":"test","path":"/m/l/1","value":2}`, `index 1 is out of range`},
		{"the second of two", `{"m":{}}`, `{"op":"add","path":"/m/a","value":1}{"op":"remove","path":"/m/b"}`, `remove /m/b`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := values.Apply(doc(t, c.base), patch(t, c.patch))
			if err == nil || !strings.Contains(err.Error(), c.want) || got != nil {
				t.Errorf("got %v, %v; want nothing and an error with %q", got, err, c.want)
			}
		})
	}
}

func TestApplyRefusesAStoredValueThatIsNoJSON(t *testing.T) {
	t.Parallel()
	if _, err := values.Apply(doc(t, `{"m":{}}`), []values.Op{op("add", "/m/a", "{")}); err == nil {
		t.Error("a broken value was applied")
	}
}

// drawOps generates operations of the given kinds on section m. If indexed is true, their paths also contain indexes
// of lists.
func drawOps(t *rapid.T, kinds []string, indexed bool) []values.Op {
	segment := rapid.SampledFrom([]string{"a", "b", "c", "a~1b", "~0", "y"})
	if indexed {
		segment = rapid.SampledFrom([]string{"a", "b", "c", "a~1b", "~0", "y", "-", "0", "1", "2", "-1", "-2"})
	}
	n := rapid.IntRange(0, 6).Draw(t, "operations")
	ops := make([]values.Op, 0, n)
	for range n {
		o := values.Op{
			Op:   rapid.SampledFrom(kinds).Draw(t, "op"),
			Path: "/m/" + strings.Join(rapid.SliceOfN(segment, 1, 3).Draw(t, "path"), "/"),
		}
		if o.Op != "remove" {
			o.Value = json.RawMessage(canonical(t, anything(2).Draw(t, "value")))
		}
		ops = append(ops, o)
	}
	return ops
}

// applyAlone applies ops to base one by one, and skips each operation that cannot be applied. It returns the resulting
// document and the applied operations.
func applyAlone(base values.Values, ops []values.Op) (values.Values, []values.Op) {
	var fit []values.Op
	for _, o := range ops {
		if next, err := values.Apply(base, []values.Op{o}); err == nil {
			base, fit = next, append(fit, o)
		}
	}
	return base, fit
}

func TestApplyAgreesWithTheLibraryTheExistingOperatorUses(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		// The generated keys do not include the empty name, because for the library this name means the node itself.
		keys := rapid.SampledFrom([]string{"a", "b", "a/b", "~", "y"})
		base := values.Values{"m": rapid.MapOfN(keys, anything(2), 0, 5).Draw(t, "base")}
		_, ops := applyAlone(base, drawOps(t, []string{"add", "add", "remove", "test"}, true))
		ops = append(ops, drawOps(t, []string{"add", "remove", "test"}, true)...)
		got, err := values.Apply(base, ops)
		want, wantErr := applyByLibrary(t, base, ops)
		if (err == nil) != (wantErr == nil) {
			t.Fatalf("on %s, %v: error %v, the library's %v", canonical(t, base), canonical(t, ops), err, wantErr)
		}
		if err == nil && canonical(t, got) != canonical(t, want) {
			t.Fatalf("on %s, %v: %s, the library's %s", canonical(t, base), canonical(t, ops), canonical(t, got), canonical(t, want))
		}
	})
}

// applyByLibrary applies operations with the library evanphx/json-patch. It applies them one by one, because in a
// patch of several operations the operation "test" wrongly fails for a null that an earlier operation has set. The
// library panics at some "test" operations on a value that has null in a list. In these cases, applyByLibrary discards
// the generated operations.
func applyByLibrary(t *rapid.T, base values.Values, ops []values.Op) (result values.Values, err error) {
	t.Helper()
	text := []byte(canonical(t, base))
	for i := range ops {
		one, err := jsonpatch.DecodePatch([]byte(canonical(t, ops[i:i+1])))
		if err != nil {
			return nil, err
		}
		panicked := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			text, err = one.Apply(text)
			return false
		}()
		if panicked {
			t.Skip("the library panics")
		}
		if err != nil {
			return nil, err
		}
	}
	return result, json.Unmarshal(text, &result)
}
