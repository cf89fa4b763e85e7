package steps

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
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// inputOf returns the input of a hook of module with the values as they are now.
func inputOf(t *testing.T, s *Lifecycle, module string) (in hookio.Input) {
	t.Helper()
	if err := s.db.View(func(tx *store.Tx) (err error) {
		in, err = s.exchange.Read(tx, bindings.Hook{}, graph.Subject{Module: module, Hook: "hook.sh"}, false)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return in
}

// saveOutput saves the output of a hook and returns the facts.
func saveOutput(tx *store.Tx, s *Lifecycle, out hookio.Output, by graph.Subject) (facts []graph.Fact, err error) {
	module, global, err := s.exchange.Save(tx, out, by)
	if module {
		facts = append(facts, lifecycle.ModuleChanged)
	}
	if global {
		facts = append(facts, lifecycle.GlobalChanged)
	}
	return facts, err
}

// sayValues returns what a run of a hook leads to that read the values as they are
// now and writes this patch.
func sayValues(t *testing.T, s *Lifecycle, patch string) hookio.Output {
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
	s, mounted, _ := newLifecycle(t)
	write(t, mounted, "010-web/values.yaml", "web: {size: 1, list: [a]}")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
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
		for _, base := range []string{"another", out.Base} { // the first is taken back
			out.Base = base
			err := s.db.Update(func(tx *store.Tx) error {
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
	for what, meanwhile := range map[string]func(*Lifecycle, string){
		"another hook": func(s *Lifecycle, _ string) {
			out := sayValues(t, s, `{"op":"remove","path":"/web/parent"}`)
			update(t, s.db, func(tx *store.Tx) error {
				_, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "other.sh"})
				return err
			})
		},
		"the ConfigMap": func(s *Lifecycle, _ string) {
			update(t, s.db, func(tx *store.Tx) error {
				return s.ConfigMap.SaveApplied(tx, parsed(t, "web", "parent: none"), "2")
			})
		},
		"the files": func(s *Lifecycle, mounted string) {
			write(t, mounted, "010-web/values.yaml", "web: {}")
			if _, err := s.Scan(); err != nil {
				t.Fatal(err)
			}
		},
		"the schema": func(s *Lifecycle, mounted string) {
			write(t, mounted, "010-web/openapi/values.yaml", "properties: {parent: {type: object}}")
			if _, err := s.Scan(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s, mounted, _ := newLifecycle(t)
		write(t, mounted, "010-web/values.yaml", "web: {parent: {}}")
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		out := sayValues(t, s, `{"op":"add","path":"/web/parent/child","value":1}`)
		meanwhile(s, mounted)
		err := s.db.Update(func(tx *store.Tx) error {
			_, err := saveOutput(tx, s, out, graph.Subject{Module: "web", Hook: "hook.sh"})
			return err
		})
		if err == nil || !strings.Contains(err.Error(), "$VALUES_JSON_PATCH_PATH, on values changed meanwhile") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestNamesThatComeAndGoAreNotSavedForEver: a hook that adds and removes other names
// at each run leaves no more than a bound.
func TestNamesThatComeAndGoAreNotSavedForEver(t *testing.T) {
	t.Parallel()
	for _, base := range []bool{true, false} {
		s, mounted, _ := newLifecycle(t)
		write(t, mounted, "010-web/values.yaml", "web: {names: {}, mine: 1}")
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		run := func(patch string) {
			t.Helper()
			out := sayValues(t, s, patch)
			if !base {
				out.Base = ""
			}
			update(t, s.db, func(tx *store.Tx) error {
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
		if err := s.db.View(func(tx *store.Tx) error {
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

// globalPatch returns the saved operations of the global section.
func globalPatch(t *testing.T, s *Lifecycle) (saved []values.Saved) {
	t.Helper()
	if err := s.db.View(func(tx *store.Tx) (err error) {
		saved, _, err = store.Load[[]values.Saved](tx, store.SavedKey(values.Global))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return saved
}

func TestAModuleHookPatchesGlobalValuesAsTheirOwner(t *testing.T) {
	s, mounted, _ := newLifecycle(t)
	write(t, mounted, "010-web/values.yaml", "web: {size: 1}")
	write(t, mounted, "values.yaml", "global: {a: 1}")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
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
		update(t, s.db, func(tx *store.Tx) error {
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
	update(t, s.db, func(tx *store.Tx) error { return s.bindings.Forget(tx, "web") })
	if left := globalPatch(t, s); len(left) > 0 {
		t.Errorf("the module is gone, and of its hooks' operations on global values are left: %v", left)
	}
}

func TestAGlobalPatchOfAModuleHookIsHeldToTheGlobalSchema(t *testing.T) {
	s, _, _ := newLifecycle(t)
	write(t, s.options.GlobalHooksDir, "openapi/values.yaml", "properties: {a: {type: integer}}")
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	in := inputOf(t, s, "web")
	_, err := hookio.NewOutput("web").Outcome(in, hook.Result{ValuesPatch: []byte(`{"op":"add","path":"/global/a","value":"text"}`)})
	if err == nil || !strings.Contains(err.Error(), "openapi/values.yaml") || !strings.Contains(err.Error(), "$VALUES_JSON_PATCH_PATH") {
		t.Errorf("got %v, want what the schema says", err)
	}
}

func TestOnlyEventsAndSchedulesOfModuleHooksReportChangedGlobalValues(t *testing.T) {
	s, _, _ := newLifecycle(t)
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct {
		node graph.NodeID
		want []graph.Fact
	}{
		{lifecycle.ModuleOnStartup, nil},
		{lifecycle.ModuleBeforeHelm, nil},
		{lifecycle.ModuleAfterHelm, nil},
		{lifecycle.ModuleAfterDelete, nil},
		{lifecycle.ModuleKubernetesEvent, []graph.Fact{lifecycle.GlobalChanged}},
		{lifecycle.ModuleScheduleEvent, []graph.Fact{lifecycle.GlobalChanged}},
	} {
		out := sayValues(t, s, fmt.Sprintf(`{"op":"add","path":"/global/a","value":%d}`, i))
		data, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		update(t, s.db, func(tx *store.Tx) error {
			task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web", Hook: "hook.sh"}}}
			facts, err := s.hookStep(c.node, "").Apply(tx, task, workflow.Outcome{Data: data})
			if diff := cmp.Diff(c.want, facts); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.node, diff)
			}
			return err
		})
	}
}

func TestAConfigPatchOfAGlobalHookSetsFlagsInTheConfigMap(t *testing.T) {
	s, _, _ := newLifecycle(t)
	if _, err := s.Scan(); err != nil {
		t.Fatal(err)
	}
	before := parsed(t, "global", "{a: 1}", "oldEnabled", "true", "sameEnabled", "true")
	update(t, s.db, func(tx *store.Tx) error { return s.ConfigMap.SaveApplied(tx, before, "1") })
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
	for _, want := range [][]graph.Fact{{lifecycle.GlobalChanged}, nil} { // the second time nothing is another
		update(t, s.db, func(tx *store.Tx) error {
			facts, err := saveOutput(tx, s, out, graph.Subject{Hook: "hook.sh"})
			if diff := cmp.Diff(want, facts); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			return err
		})
	}
	after := parsed(t, "global", "{a: 1}", "newEnabled", "false", "sameEnabled", "true")
	if err := s.db.View(func(tx *store.Tx) error {
		config, err := s.applied.InForce(tx)
		if diff := cmp.Diff(after, config); diff != "" {
			t.Errorf("in force (-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	// While the hook's effect is open, step 16 leaves what it reads of these flags to it.
	if err := out.Config.Revert(before, &after); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("left to the hook (-want +got):\n%s", diff)
	}
}
