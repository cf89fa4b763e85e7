package hookio_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookio"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// exchange returns an exchange for the hooks of the modules of s.
func exchange(s *scan.State) *hookio.Exchange {
	return hookio.New(hookio.Options{}, s.Modules, s.Values, s.ConfigMap, s.Log.Logger, nil)
}

func inputOf(t *testing.T, s *scan.State, module string) (in hookio.Input) {
	t.Helper()
	if err := s.DB.View(func(tx *store.Tx) (err error) {
		in, err = exchange(s).Read(tx, bindings.Hook{}, graph.Subject{Module: module, Hook: "hook.sh"}, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return in
}

func saveOutput(tx *store.Tx, s *scan.State, out hookio.Output, by graph.Subject) (facts []graph.Fact, err error) {
	saved, err := exchange(s).Save(tx, out, by)
	if saved.Module {
		facts = append(facts, lifecycle.ModuleChanged)
	}
	if saved.Global {
		facts = append(facts, lifecycle.GlobalChanged)
	}
	return facts, err
}

func sayValues(t *testing.T, s *scan.State, patch string) hookio.Output {
	t.Helper()
	in := inputOf(t, s, "web")
	o, err := hookio.NewOutput("web").Outcome(in, hook.Result{ValuesPatch: []byte(patch)})
	if err != nil {
		t.Fatal(err)
	}
	var out hookio.Output
	if err := json.Unmarshal(o.Data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAChangeOfValuesIsTheSameOnWhatWasReadAndOnWhatIsThereNow(t *testing.T) {
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1, list: [a]}")
	scantest.Scan(t, s)
	for _, step := range []struct {
		patch   string
		changed bool
		want    string
	}{
		{`{"op":"add","path":"/web/size","value":1}`, false, `{"list":["a"],"size":1}`},
		{`{"op":"add","path":"/web/size","value":2}`, true, `{"list":["a"],"size":2}`},
		{`{"op":"add","path":"/web/size","value":2}`, false, `{"list":["a"],"size":2}`},
		{`{"op":"add","path":"/web/list/-","value":"b"}`, true, `{"list":["a","b"],"size":2}`},
		{`[{"op":"remove","path":"/web/size"},{"op":"add","path":"/web/other","value":{}}]`, true, `{"list":["a","b"],"other":{}}`},
	} {
		out := sayValues(t, s, step.patch)
		var texts []string
		for _, base := range []string{"another", out.Base} { // the transaction with the wrong base is rolled back
			out.Base = base
			err := s.DB.Update(func(tx *store.Tx) error {
				facts, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "hook.sh"})
				if slices.Contains(facts, lifecycle.ModuleChanged) != step.changed || err != nil {
					t.Errorf("%s: %v, %v", step.patch, facts, err)
				}
				layers, err := s.Values.LayersOf(tx, "web")
				if err != nil {
					return err
				}
				merged, _ := layers.Section("web")
				text, err := json.Marshal(merged)
				texts = append(texts, string(text))
				if base == "another" {
					return hook.ErrGone
				}
				return err
			})
			if (err != nil) != (base == "another") {
				t.Fatal(err)
			}
		}
		if texts[0] != step.want || texts[1] != step.want {
			t.Errorf("%s: %s, want %s", step.patch, texts, step.want)
		}
	}
}

func TestValuesThatChangedDuringAHookRunAreCheckedAgain(t *testing.T) {
	for what, meanwhile := range map[string]func(*scan.State, string){
		"another hook": func(s *scan.State, _ string) {
			out := sayValues(t, s, `{"op":"remove","path":"/web/parent"}`)
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				_, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "other.sh"})
				return err
			})
		},
		"the ConfigMap": func(s *scan.State, _ string) {
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				return s.ConfigMap.SaveApplied(tx, scantest.Config(t, "web", "parent: none"), "2")
			})
		},
		"the files": func(s *scan.State, mounted string) {
			scantest.Write(t, mounted, "010-web/values.yaml", "web: {}")
			if _, err := s.Scan(); err != nil {
				t.Fatal(err)
			}
		},
		"the schema": func(s *scan.State, mounted string) {
			scantest.Write(t, mounted, "010-web/openapi/values.yaml", "properties: {parent: {type: object}}")
			if _, err := s.Scan(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s, mounted := scantest.New(t)
		scantest.Write(t, mounted, "010-web/values.yaml", "web: {parent: {}}")
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		out := sayValues(t, s, `{"op":"add","path":"/web/parent/child","value":1}`)
		meanwhile(s, mounted)
		err := s.DB.Update(func(tx *store.Tx) error {
			_, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "hook.sh"})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "$VALUES_JSON_PATCH_PATH does not fit the values, which have changed during the run") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestHistoryNamesWhatBecameOfARunOfEarlierCode(t *testing.T) {
	t.Parallel()
	const patch = `{"op":"add","path":"/web/a","value":1}`
	same := store.Hook{Code: "1", File: json.RawMessage(`{}`), Config: json.RawMessage(`{"ordered":{"beforeHelm":1}}`)}
	other := same
	other.Code = "2"
	for name, c := range map[string]struct {
		patch  string
		now    *store.Hook // nil if the hook was removed
		remark string
	}{
		"same code":                     {patch, &same, ""},
		"other code":                    {patch, &other, "values patches and flags saved as those of earlier code: the code of the hook has changed since this run"},
		"other code, no values":         {"", &other, ""},
		"removed hook":                  {patch, nil, "values patches and flags not saved: the hook has been removed since this run"},
		"removed hook, nothing to save": {"", nil, ""},
	} {
		s, _ := scantest.New(t)
		scantest.Scan(t, s)
		key := store.HookKey("web", "hook.sh")
		scantest.Update(t, s.DB, func(tx *store.Tx) error { return store.Save(tx, key, same) })
		out := sayValues(t, s, c.patch)
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			if c.now == nil {
				tx.Delete(key)
			} else if err := store.Save(tx, key, *c.now); err != nil {
				return err
			}
			saved, err := exchange(s).Save(tx, out, graph.Subject{Module: "web", Hook: "hook.sh"})
			if earlier := c.now != &same; saved.Remark != c.remark || saved.Earlier != earlier || saved.Module != (c.patch != "" && c.now != nil) {
				t.Errorf("%s: %+v, want the remark %q and earlier code %t", name, saved, c.remark, earlier)
			}
			return err
		})
	}
}

func TestNamesThatComeAndGoAreNotSavedForEver(t *testing.T) {
	t.Parallel()
	for _, base := range []bool{true, false} {
		s, mounted := scantest.New(t)
		scantest.Write(t, mounted, "010-web/values.yaml", "web: {names: {}, mine: 1}")
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		run := func(patch string) {
			t.Helper()
			out := sayValues(t, s, patch)
			if !base {
				out.Base = ""
			}
			scantest.Update(t, s.DB, func(tx *store.Tx) error {
				_, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "hook.sh"})
				return err
			})
		}
		run(`{"op":"remove","path":"/web/mine"}`)
		for i := range 12 {
			var add, remove strings.Builder
			for j := range 100 {
				fmt.Fprintf(&add, `{"op":"add","path":"/web/names/%d-%d","value":{"a":1}}`, i, j)
				fmt.Fprintf(&remove, `{"op":"remove","path":"/web/names/%d-%d"}`, i, j)
			}
			run(add.String())
			run(remove.String())
		}
		if err := s.DB.View(func(tx *store.Tx) error {
			layers, err := s.Values.LayersOf(tx, "web")
			if err != nil {
				return err
			}
			if n := len(layers.Saved["web"]); n > 1100 {
				t.Errorf("%d operations are saved", n)
			}
			if merged, _ := layers.Section("web"); !cmp.Equal(merged, map[string]any{"names": map[string]any{}}) {
				t.Errorf("values are %v", merged)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func globalPatch(t *testing.T, s *scan.State) (saved []values.Saved) {
	t.Helper()
	if err := s.DB.View(func(tx *store.Tx) (err error) {
		saved, _, err = store.Load[[]values.Saved](tx, store.SavedKey(values.Global))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return saved
}

func TestAModuleHookPatchesGlobalValuesAsTheirOwner(t *testing.T) {
	s, mounted := scantest.New(t)
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	scantest.Write(t, mounted, "values.yaml", "global: {a: 1}")
	scantest.Scan(t, s)
	for _, step := range []struct {
		patch string
		want  []graph.Fact
	}{
		{`{"op":"add","path":"/global/a","value":1}`, nil},
		{`{"op":"add","path":"/global/a","value":2}`, []graph.Fact{lifecycle.GlobalChanged}},
		{`{"op":"add","path":"/global/a","value":2}{"op":"add","path":"/web/size","value":2}`, []graph.Fact{lifecycle.ModuleChanged}},
		{
			`{"op":"add","path":"/global/a","value":3}{"op":"add","path":"/web/size","value":3}`,
			[]graph.Fact{lifecycle.ModuleChanged, lifecycle.GlobalChanged},
		},
	} {
		out := sayValues(t, s, step.patch)
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			facts, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "hooks/hook.sh"})
			if diff := cmp.Diff(step.want, facts); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.patch, diff)
			}
			return err
		})
	}
	want := []values.Saved{{Op: values.Op{Op: "add", Path: "/global/a", Value: json.RawMessage("3")}, Hook: "web/hooks/hook.sh"}}
	if diff := cmp.Diff(want, globalPatch(t, s), cmpopts.IgnoreTypes(values.Origin{})); diff != "" {
		t.Errorf("saved global operations (-want +got):\n%s", diff)
	}
	scantest.Update(t, s.DB, func(tx *store.Tx) error { return bindings.Forget(tx, "web") })
	if left := globalPatch(t, s); len(left) > 0 {
		t.Errorf("after the module was forgotten, these global operations of its hooks are left: %v", left)
	}
}

func TestAGlobalPatchOfAModuleHookIsHeldToTheGlobalSchema(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Write(t, s.Modules.GlobalHooks(), "openapi/values.yaml", "properties: {a: {type: integer}}")
	scantest.Scan(t, s)
	in := inputOf(t, s, "web")
	_, err := hookio.NewOutput("web").Outcome(in, hook.Result{ValuesPatch: []byte(`{"op":"add","path":"/global/a","value":"text"}`)})
	if err == nil || !strings.Contains(err.Error(), "openapi/values.yaml") || !strings.Contains(err.Error(), "$VALUES_JSON_PATCH_PATH") {
		t.Errorf("got %v, want what the schema says", err)
	}
}

func TestAConfigPatchOfAGlobalHookSetsFlagsInTheConfigMap(t *testing.T) {
	s, _ := scantest.New(t)
	scantest.Scan(t, s)
	before := scantest.Config(t, "global", "{a: 1}", "oldEnabled", "true", "sameEnabled", "true")
	scantest.Update(t, s.DB, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, before, "1") })
	in := inputOf(t, s, "")
	o, err := hookio.NewOutput("").Outcome(in, hook.Result{ConfigPatch: []byte(
		`{"op":"add","path":"/newEnabled","value":false}{"op":"remove","path":"/oldEnabled"}{"op":"add","path":"/sameEnabled","value":true}`)})
	if err != nil || len(o.Effects) != 1 {
		t.Fatalf("%d effects, %v", len(o.Effects), err)
	}
	var out hookio.Output
	if err := json.Unmarshal(o.Data, &out); err != nil {
		t.Fatal(err)
	}
	no := false
	if diff := cmp.Diff(map[string]*bool{"newEnabled": &no, "oldEnabled": nil}, out.Config.Flags); diff != "" {
		t.Errorf("flags to write (-want +got):\n%s", diff)
	}
	for _, want := range [][]graph.Fact{{lifecycle.GlobalChanged}, nil} { // the second time, nothing changes
		scantest.Update(t, s.DB, func(tx *store.Tx) error {
			facts, err := saveOutput(tx, s, out, graph.Subject{Hook: "hook.sh"})
			if diff := cmp.Diff(want, facts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return err
		})
	}
	after := scantest.Config(t, "global", "{a: 1}", "newEnabled", "false", "sameEnabled", "true")
	if err := s.DB.View(func(tx *store.Tx) error {
		config, err := s.Applied.InForce(tx)
		if diff := cmp.Diff(after, config); diff != "" {
			t.Errorf("in force (-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// While the journal has the effect of the hook, step 16 does not put the flags of this effect in force.
	if err := out.Config.Revert(before, &after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("left to the hook (-want +got):\n%s", diff)
	}
}

func TestFirstLinesOfBadJSONAreInTheErrorWithoutSecrets(t *testing.T) {
	t.Parallel()
	s, _ := scantest.New(t)
	in := inputOf(t, s, "")
	const printed = "jq: error: invalid\nsecond line"
	const secret = `{"op":"add","path":"/global/token","value":"tok-123"`
	for variable, result := range map[string]func([]byte) hook.Result{
		"$VALUES_JSON_PATCH_PATH":        func(text []byte) hook.Result { return hook.Result{ValuesPatch: text} },
		"$CONFIG_VALUES_JSON_PATCH_PATH": func(text []byte) hook.Result { return hook.Result{ConfigPatch: text} },
		"$METRICS_PATH":                  func(text []byte) hook.Result { return hook.Result{Metrics: text} },
		"$KUBERNETES_PATCH_PATH":         func(text []byte) hook.Result { return hook.Result{Operations: append([]byte("{"), text...)} },
	} {
		_, err := hookio.NewOutput("").Outcome(in, result([]byte(printed)))
		if err == nil || !strings.HasPrefix(err.Error(), variable+": ") || !strings.Contains(err.Error(), "jq: error: invalid⏎ second line”") {
			t.Errorf("%s: %v", variable, err)
		}
		_, err = hookio.NewOutput("").Outcome(in, result([]byte(secret)))
		if err == nil || !strings.Contains(err.Error(), "/global/token (redacted)”") || strings.Contains(err.Error(), "tok-123") {
			t.Errorf("%s, of a secret: %v", variable, err)
		}
	}
}
