package hookio

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/steps/bindings"
	"addon-operator/steps/hookmetrics"
	"addon-operator/steps/objects"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
)

func TestWhatARunLeadsToIsBounded(t *testing.T) {
	t.Parallel()
	in := Input{metrics: (&hookmetrics.Recorder{}).Parser("", "hook.sh")}
	operation := `{"operation":"Delete","kind":"Pod","namespace":"default","name":"a"}`
	run := func(n int) error {
		_, err := NewOutput("").Outcome(in, hook.Result{Operations: []byte(strings.Repeat(operation, n))})
		return err
	}
	if err := run(1000); err != nil {
		t.Error(err)
	}
	want := "the output of the hook, with 100000 effects, needs "
	if err := run(100_000); err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "more than the limit of 15 MiB; write less in one run") {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestASynchronizationOfVeryManyObjectsKeepsNoVersionsAndSucceeds(t *testing.T) {
	t.Parallel()
	in := Input{metrics: (&hookmetrics.Recorder{}).Parser("", "hook.sh")}
	const objects = 16
	for size, kept := range map[int]bool{1 << 10: true, 1 << 20: false} { // long UIDs replace a large number of objects
		versions := map[string]bindings.Version{}
		for i := range objects {
			versions[fmt.Sprintf("default/web-%d", i)] = bindings.Version{UID: strings.Repeat("x", size), ResourceVersion: "1"}
		}
		run := NewOutput("")
		run.Observed = map[string]map[string]bindings.Version{"pods": versions}
		o, err := run.Outcome(in, hook.Result{Operations: []byte(`{"operation":"Delete","kind":"Pod","namespace":"default","name":"a"}`)})
		if err != nil || len(o.Effects) != 1 {
			t.Errorf("UIDs of %d bytes: %d effects, %v", size, len(o.Effects), err)
			continue
		}
		out, err := Decode("", o.Data)
		if err != nil || kept != (len(out.Observed["pods"]) == objects) || !kept && out.Observed != nil {
			t.Errorf("UIDs of %d bytes: %d versions are kept, %v", size, len(out.Observed["pods"]), err)
		}
	}
}

// TestTheLargestAcceptedOutputFitsInTheStore saves an output with the maximum accepted number of effects in one
// transaction, which must succeed.
func TestTheLargestAcceptedOutputFitsInTheStore(t *testing.T) {
	t.Parallel()
	small := workflow.Effect{Kind: objects.EffectKind, Data: json.RawMessage(`{}`)}
	most := slices.Repeat([]workflow.Effect{small}, mostOutput/(len(small.Data)+perEffect))
	if err := bounded(workflow.Outcome{Effects: most}); err != nil {
		t.Fatal(err)
	}
	if err := bounded(workflow.Outcome{Effects: append(most, small)}); err == nil {
		t.Error("one more effect is accepted")
	}
	db, err := store.OpenMemory(&store.Memory{}, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.JournalKey(store.ID{Epoch: 1, N: 1}), workflow.Outcome{Effects: most})
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Error(err)
	}
}

func TestSummaryOfAHooksOutputNamesWhatChangesWithoutValues(t *testing.T) {
	t.Parallel()
	ops := func(paths ...string) (ops []values.Op) {
		for _, path := range paths {
			ops = append(ops, values.Op{Op: "add", Path: path, Value: json.RawMessage(`"secret"`)})
		}
		return ops
	}
	yes := true
	for _, test := range []struct {
		want       string
		out        Output
		operations int
	}{
		{"", Output{}, 0},
		{"", Output{Patch: sections.Patch{Values: ops("/web/same")}}, 0},
		{"1 object operation", Output{}, 1},
		{"values /web/a, /web/b, /web/c, 2 more changed; 7 object operations", Output{
			Patch: sections.Patch{Values: ops("/web/a", "/web/b", "/web/c", "/web/d", "/web/e"), Changed: true},
		}, 7},
		{"values /web/a changed; values /global/b changed; ConfigMap values /web/c, dbEnabled set; enabled overrides webEnabled set", Output{
			Patch:  sections.Patch{Values: ops("/web/a"), Changed: true},
			Global: &sections.Patch{Values: ops("/global/b"), Changed: true},
			Config: &sections.ConfigWrite{Ops: ops("/web/c"), Flags: map[string]*bool{"dbEnabled": &yes}},
			Flags:  map[string]*bool{"webEnabled": nil},
		}, 0},
	} {
		if got := test.out.summary(test.operations); got != test.want {
			t.Errorf("summary of %+v with %d operations: %q, want %q", test.out, test.operations, got, test.want)
		}
	}
}
