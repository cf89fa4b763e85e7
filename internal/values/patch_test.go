package values_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
)

// patch parses the text of a patch file. If the text is invalid, it fails the test.
func patch(t testing.TB, text string) []values.Op {
	t.Helper()
	ops, err := values.ParsePatch([]byte(text))
	if err != nil {
		t.Fatalf("test data %s: %v", text, err)
	}
	return ops
}

func op(kind, path, value string) values.Op {
	o := values.Op{Op: kind, Path: path}
	if value != "" {
		o.Value = []byte(value)
	}
	return o
}

func TestPatchFileIsAStreamOfOperationsAndArrays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		want       []values.Op
	}{
		{"an empty file is no patch", "", nil},
		{"blanks are no patch", " \n\t\r\n", nil},
		{"an empty array is no operation", "[]", nil},
		{"one operation", `{"op":"add","path":"/m/a","value":1}`, []values.Op{op("add", "/m/a", "1")}},
		{"an array", `[{"op":"add","path":"/m/a","value":1},{"op":"remove","path":"/m/b"}]`, []values.Op{op("add", "/m/a", "1"), op("remove", "/m/b", "")}},
		{"a stream of both, with and without separators", `{"op":"remove","path":"/m/a"}[{"op":"remove","path":"/m/b"}]` + "\n" + `{"op":"test","path":"/m/c","value":null}`, []values.Op{op("remove", "/m/a", ""), op("remove", "/m/b", ""), op("test", "/m/c", "null")}},
		{"pretty-printed", "{\n  \"op\": \"add\",\n  \"path\": \"/m/a\",\n  \"value\": {\n    \"b\": [1, 2]\n  }\n}\n", []values.Op{op("add", "/m/a", `{"b":[1,2]}`)}},
		{"values that look like nothing", `{"op":"add","path":"/m/a","value":0}{"op":"add","path":"/m/b","value":false}{"op":"add","path":"/m/c","value":""}`, []values.Op{op("add", "/m/a", "0"), op("add", "/m/b", "false"), op("add", "/m/c", `""`)}},
		{"add without a value adds null", `{"op":"add","path":"/m/a"}`, []values.Op{op("add", "/m/a", "null")}},
		{"other fields are left out", `{"op":"remove","path":"/m/a","from":"/m/b","value":1,"comment":"x"}`, []values.Op{op("remove", "/m/a", "")}},
		{"whole numbers stay whole", `{"op":"add","path":"/m/a","value":9007199254740993}`, []values.Op{op("add", "/m/a", "9007199254740993")}},
		{"the last of two equal fields counts", `{"op":"add","path":"/m/a","path":"/m/b","value":1}`, []values.Op{op("add", "/m/b", "1")}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := values.ParsePatch([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestBadPatchFilesAreRefusedWithThePlace(t *testing.T) {
	t.Parallel()
	good := `{"op":"add","path":"/m/a","value":1}`
	for _, c := range []struct{ text, want string }{
		{`{"op":"replace","path":"/m/a","value":1}`, `replace /m/a: unsupported patch operation "replace"`},
		{`{"op":"move","from":"/m/a","path":"/m/b"}`, `move /m/b: unsupported patch operation "move"`},
		{`{"op":"copy","from":"/m/a","path":"/m/b"}`, `copy /m/b: unsupported patch operation "copy"`},
		{`{"op":"Add","path":"/m/a","value":1}`, `unsupported patch operation "Add"`},
		{`{"OP":"add","path":"/m/a","value":1}`, `document 1: operation 1: has no "op"`},
		{`{"op":null,"path":"/m/a"}`, `has no "op"`},
		{`{"op":5,"path":"/m/a"}`, `has no "op"`},
		{`{"op":"add","value":1}`, `"add" has no "path"`},
		{`{"op":"add","path":5,"value":1}`, `"add" has no "path"`},
		{`{"op":"add","path":"","value":1}`, "the path must begin with a slash"},
		{`{"op":"add","path":"m","value":1}`, "add m: the path must begin with a slash"},
		{`{"op":"add","path":"m/a","value":1}`, "add m/a: the path must begin with a slash"},
		{`5`, "document 1: operation 1: must be an object"},
		{`null`, "must be an object"},
		{`"add"`, "must be an object"},
		{`[[]]`, "must be an object"},
		{`[` + good + `,5]`, "document 1: operation 2: must be an object"},
		{good + good + `{"op":"replace","path":"/m/a"}`, "document 3: operation 1: replace /m/a"},
		{good + `{"op":"add",`, "document 2 ends in the middle"},
		{good + ` garbage`, "document 2 is not valid JSON"},
		{`op: add`, "document 1 is not valid JSON"},
		{`{"op":"add","path":"/m/a","value":1e999}`, "too large"},
	} {
		ops, err := values.ParsePatch([]byte(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || ops != nil {
			t.Errorf("ParsePatch(%s) = %v, %v; want nothing and an error with %q", c.text, ops, err, c.want)
		}
	}
}

func TestPatchErrorsDoNotQuoteValues(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"op":"replace","path":"/m/a","value":"hunter2"}`,
		`{"op":"add","path":"m","value":"hunter2"}`,
		`["hunter2"]`,
		`hunter2`,
		`{"op":"add","path":"/m/a","value":"hunter2}`,
	} {
		if _, err := values.ParsePatch([]byte(text)); err == nil || strings.Contains(err.Error(), "hunter2") || strings.Contains(err.Error(), "'h'") {
			t.Errorf("ParsePatch(%s) = %v, want an error that does not quote the value", text, err)
		}
	}
	ops := patch(t, `{"op":"add","path":"/m/a/b","value":"hunter2"}`)
	if _, err := values.Apply(doc(t, `{"m":{"a":"hunter2"}}`), ops); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Apply = %v, want an error that does not quote the value", err)
	}
	if _, err := values.Split(patch(t, `{"op":"add","path":"/mEnabled","value":"hunter2"}`), values.Global); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Split = %v, want an error that does not quote the value", err)
	}
}

func TestModuleHookMayChangeItsOwnSectionAndWhatIsBelowTheGlobalOne(t *testing.T) {
	t.Parallel()
	own := patch(t, `[{"op":"add","path":"/someModule/a","value":1},{"op":"remove","path":"/someModule"},{"op":"test","path":"/someModule/b","value":1}]`)
	global := patch(t, `{"op":"add","path":"/global/a","value":1}{"op":"remove","path":"/global/b/c"}`)
	got, err := values.Split(slices.Concat(global[:1], own, global[1:]), "someModule")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(values.Patch{Own: own, Global: global}, got); diff != "" {
		t.Errorf("Split (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ path, want string }{
		{"/global", "add /global: a hook of a module cannot replace all global values: use a path below /global"},
		{"/other/a", "add /other/a: a hook of a module can change only its own values, under /someModule, and global ones, under /global"},
		{"/someModuleEnabled", "add /someModuleEnabled: a hook of a module cannot set flags: only global hooks can"},
		{"/some-module/a", "only its own values"},
		{"/someModules/a", "only its own values"},
		{"/", "only its own values"},
	} {
		mixed := append(patch(t, `{"op":"add","path":"/someModule/a","value":1}`), op("add", c.path, "true"))
		if got, err := values.Split(mixed, "someModule"); err == nil || !strings.Contains(err.Error(), c.want) || got.Own != nil {
			t.Errorf("path %s: %v, %v; want nothing and an error with %q", c.path, got, err, c.want)
		}
	}
}

func TestPatchOfTheConfigMapChangesOwnSectionAndFlagsOfModulesThatCanBe(t *testing.T) {
	t.Parallel()
	yes := true
	got, err := values.SplitConfig(patch(t, `{"op":"add","path":"/global/a","value":1}{"op":"add","path":"/fooBarEnabled","value":true}`), values.Global)
	if err != nil {
		t.Fatal(err)
	}
	want := values.Patch{Own: patch(t, `{"op":"add","path":"/global/a","value":1}`), Flags: map[string]*bool{"fooBarEnabled": &yes}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("SplitConfig (-want +got):\n%s", diff)
	}
	for _, c := range []struct{ own, path, want string }{
		{values.Global, "/foo-barEnabled", `key /foo-barEnabled is no module's name in camelCase: write "fooBarEnabled" instead`},
		{"someModule", "/global/a", "add /global/a: a hook of a module can change only its own section of the ConfigMap"},
		{"someModule", "/someModuleEnabled", "cannot set flags"},
	} {
		if _, err := values.SplitConfig([]values.Op{op("add", c.path, "true")}, c.own); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("path %s: %v, want an error with %q", c.path, err, c.want)
		}
	}
}

func TestGlobalHookMayChangeGlobalValuesAndFlagsInOneFile(t *testing.T) {
	t.Parallel()
	got, err := values.Split(patch(t, `
		{"op":"add","path":"/global/a","value":1}
		{"op":"add","path":"/fooEnabled","value":true}
		{"op":"add","path":"/barEnabled","value":false}
		{"op":"remove","path":"/bazEnabled"}
		{"op":"remove","path":"/quxEnabled"}
		{"op":"add","path":"/quxEnabled","value":true}
		{"op":"remove","path":"/global/b"}`), values.Global)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(patch(t, `{"op":"add","path":"/global/a","value":1}{"op":"remove","path":"/global/b"}`), got.Own); diff != "" {
		t.Errorf("sections (-want +got):\n%s", diff)
	}
	yes, no := true, false
	if diff := cmp.Diff(map[string]*bool{"fooEnabled": &yes, "barEnabled": &no, "bazEnabled": nil, "quxEnabled": &yes}, got.Flags); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
}

func TestGlobalHookIsRefusedEverythingElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		op   values.Op
		want string
	}{
		{op("add", "/someModule/a", "1"), "add /someModule/a: a global hook can change only /global and flags"},
		{op("add", "/Enabled", "true"), "only /global and flags"},
		{op("add", "/", "true"), "only /global and flags"},
		{op("add", "/globals/a", "1"), "only /global and flags"},
		{op("add", "/fooEnabled", `"true"`), "add /fooEnabled: the value must be the boolean true or false, without quotes"},
		{op("add", "/fooEnabled", "1"), "the boolean true or false"},
		{op("add", "/fooEnabled", "null"), "the boolean true or false"},
		{op("add", "/fooEnabled/x", "true"), "nothing below a flag: use /fooEnabled"},
		{op("add", "/fooEnabled/", "true"), "nothing below a flag"},
		{op("test", "/fooEnabled", "true"), "not tested"},
	} {
		if _, err := values.Split([]values.Op{c.op}, values.Global); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %s: %v, want an error with %q", c.op, c.op.Value, err, c.want)
		}
	}
}

func FuzzParsePatch(f *testing.F) {
	for _, seed := range []string{
		"", "[]", "{}", "null", "5", `[{"op":"add","path":"/m/a","value":{"b":[1,1.5,"x",null,true]}}]`,
		`{"op":"remove","path":"/m/a"}{"op":"test","path":"/m/~0~1/-","value":1}`,
		`{"op":"replace","path":"/m"}`, `{"op":"add","path":"/global","value":[]}`, `{"op":"add","path":"/fooEnabled","value":true}`,
		`{"op":"add","path":"/m/l/-1","value":1e3}`, "\x00", `[{"op":"add"`, `{"op":"add","path":"//","value":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	base := doc(f, `{"global":{"a":{"b":1}},"m":{"a":1,"l":[1,{"x":2}],"":{"":0}}}`)
	before := canonical(f, base)
	f.Fuzz(func(t *testing.T, text []byte) {
		ops, err := values.ParsePatch(text)
		if err != nil {
			return
		}
		patched, err := values.Apply(base, ops)
		if err == nil && patched == nil {
			t.Error("Apply gave no document and no error")
		}
		replayed, _ := values.Replay(base, values.MergePatches(nil, ops, "hook"))
		canonical(t, replayed)
		canonical(t, patched)
		if canonical(t, base) != before {
			t.Errorf("the base was changed")
		}
		for _, own := range []string{values.Global, "m"} {
			p, err := values.Split(ops, own)
			if err == nil && len(p.Own)+len(p.Global)+len(p.Flags) > len(ops) {
				t.Errorf("Split made more of %d operations", len(ops))
			}
		}
	})
}
