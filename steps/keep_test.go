package steps

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
)

// sayValues returns what a run of a hook leads to that read the values as they are
// now and writes this patch.
func sayValues(t *testing.T, s *Site, patch string) said {
	t.Helper()
	in := hookInput{metrics: s.metricsOf("web", "hook.sh")}
	if err := s.DB.View(func(tx *store.Tx) error { return in.readLayers(tx, s, "web") }); err != nil {
		t.Fatal(err)
	}
	o, err := said{Section: "web"}.outcome(in, hook.Result{ValuesPatch: []byte(patch)})
	if err != nil {
		t.Fatal(err)
	}
	var out said
	if err := json.Unmarshal(o.Data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAChangeOfValuesIsTheSameOnWhatWasReadAndOnWhatIsThereNow(t *testing.T) {
	s, mounted, _ := site(t)
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
			err := s.DB.Update(func(tx *store.Tx) error {
				changed, err := s.keep(tx, out, "web/hook.sh")
				if changed != step.changed || err != nil {
					t.Errorf("%s: changed %t, %v", step.patch, changed, err)
				}
				layers, err := s.layers(tx, "web")
				if err != nil {
					return err
				}
				merged, _ := layers.Section("web")
				text, err := json.Marshal(merged)
				texts = append(texts, string(text))
				if base == "another" {
					return errGone
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

func TestValuesThatChangedWhileAHookRanAreCheckedAnew(t *testing.T) {
	for what, meanwhile := range map[string]func(*Site, string){
		"another hook": func(s *Site, _ string) {
			out := sayValues(t, s, `{"op":"remove","path":"/web/parent"}`)
			update(t, s.DB, func(tx *store.Tx) error { _, err := s.keep(tx, out, "web/other.sh"); return err })
		},
		"the ConfigMap": func(s *Site, _ string) {
			update(t, s.DB, func(tx *store.Tx) error {
				return s.saveApplied(tx, parsed(t, "web", "parent: none"), "2")
			})
		},
		"the files": func(s *Site, mounted string) {
			write(t, mounted, "010-web/values.yaml", "web: {}")
			if _, err := s.Scan(); err != nil {
				t.Fatal(err)
			}
		},
		"the schema": func(s *Site, mounted string) {
			write(t, mounted, "010-web/openapi/values.yaml", "properties: {parent: {type: object}}")
			if _, err := s.Scan(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		s, mounted, _ := site(t)
		write(t, mounted, "010-web/values.yaml", "web: {parent: {}}")
		if _, err := s.Scan(); err != nil {
			t.Fatal(err)
		}
		out := sayValues(t, s, `{"op":"add","path":"/web/parent/child","value":1}`)
		meanwhile(s, mounted)
		err := s.DB.Update(func(tx *store.Tx) error { _, err := s.keep(tx, out, "web/hook.sh"); return err })
		if err == nil || !strings.Contains(err.Error(), "$VALUES_JSON_PATCH_PATH, on values changed meanwhile") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatARunLeadsToIsBounded(t *testing.T) {
	t.Parallel()
	in := hookInput{metrics: (&Site{}).metricsOf("", "hook.sh")}
	operation := `{"operation":"Delete","kind":"Pod","namespace":"default","name":"a"}`
	run := func(n int) error {
		_, err := said{Section: values.Global}.outcome(in, hook.Result{Operations: []byte(strings.Repeat(operation, n))})
		return err
	}
	if err := run(1000); err != nil {
		t.Error(err)
	}
	want := "what the hook has written to its output files, 100000 effects among it, comes to "
	if err := run(100_000); err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "15 MiB is the most: write less in one run") {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestTheMostThatARunLeadsToFitsTheStore: what is let through can be written down.
func TestTheMostThatARunLeadsToFitsTheStore(t *testing.T) {
	t.Parallel()
	small := workflow.Effect{Kind: objectEffect, Data: json.RawMessage(`{}`)}
	most := slices.Repeat([]workflow.Effect{small}, mostSaid/(len(small.Data)+perEffect))
	if err := bounded(workflow.Outcome{Effects: most}); err != nil {
		t.Fatal(err)
	}
	if err := bounded(workflow.Outcome{Effects: append(most, small)}); err == nil {
		t.Error("one more is let through")
	}
	db, err := store.OpenMemory(&store.Memory{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	update(t, db, func(tx *store.Tx) error {
		return store.Save(tx, store.JournalKey(store.ID{Epoch: 1, N: 1}), workflow.Outcome{Effects: most})
	})
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

// TestNamesThatComeAndGoAreNotSavedForEver: a hook that adds and removes other names
// at each run leaves no more than a bound.
func TestNamesThatComeAndGoAreNotSavedForEver(t *testing.T) {
	t.Parallel()
	for _, base := range []bool{true, false} {
		s, mounted, _ := site(t)
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
			update(t, s.DB, func(tx *store.Tx) error { _, err := s.keep(tx, out, "web/hook.sh"); return err })
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
			layers, err := s.layers(tx, "web")
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
