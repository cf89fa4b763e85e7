package inspect_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// TestDataKeepsItsNames compares the JSON of runs with golden files, because scripts read the JSON. If a field was
// added, or if only a text has changed, update the golden files with -update. If a field was renamed, was removed or
// has another type, the change breaks scripts.
func TestDataKeepsItsNames(t *testing.T) {
	t.Parallel()
	for name, scene := range map[string]string{
		"failing.json": "failing-head", "resumed.json": "resumed", "merged.json": "merged", "blocked.json": "blocked",
		"awaiting.json": "awaiting-synchronization",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				run := w.snapshot(scenes()[scene](w))
				text, err := json.MarshalIndent(run, "", "  ")
				if err != nil {
					t.Fatal(err)
				}
				compareAny(t, name, string(text)+"\n")
			})
		})
	}
}

func TestSnapshotReadsTheSameAfterItWasSent(t *testing.T) {
	t.Parallel()
	for name, scene := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				run := w.snapshot(scene(w))
				text, err := json.Marshal(run)
				if err != nil {
					t.Fatal(err)
				}
				received := new(inspect.Run)
				if err := json.Unmarshal(text, received); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(inspect.Text(run, layout), inspect.Text(received, layout)); diff != "" {
					t.Errorf("text (-made here +received):\n%s", diff)
				}
			})
		})
	}
}

func TestPayloadsAndOutcomesAreNotInASnapshot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		ev := on(lifecycle.OnModuleKubeEvent, "m", "h", "b")
		ev.Payload = json.RawMessage(`{"object":{"data":{"password":"hunter2"}}}`)
		w.fails(string(lifecycle.ModuleKubernetesEvent), "no")
		w.start(ev)
		text, err := json.Marshal(w.snapshot(0))
		if err != nil {
			t.Fatal(err)
		}
		var back map[string]any
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(1.0, back["schema"]); diff != "" {
			t.Errorf("schema (-want +got):\n%s", diff)
		}
		if string(text) == "" || strings.Contains(string(text), "hunter2") {
			t.Errorf("the snapshot holds the payload: %s", text)
		}
	})
}

func TestNodesAreDrawnInTheGravestOfTheirStates(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		states := inspect.States(w.snapshot(scenes()["failing-head"](w)), 60)
		got := map[graph.NodeID]draw.Tone{}
		for node, s := range states {
			got[node] = s.Tone
		}
		want := map[graph.NodeID]draw.Tone{
			lifecycle.DiscoverModules: draw.Done, lifecycle.ModuleRun: draw.Failed, lifecycle.ReleaseCheck: draw.Done,
			lifecycle.ReleaseUpgrade: draw.Failed, lifecycle.GlobalAfterAll: draw.Waiting,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("tones (-want +got):\n%s", diff)
		}
	})
}

func TestListTellsHowEachRunStands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		scenes()["failing-head"](w)
		r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true}
		var runs []inspect.Summary
		err := w.db.View(func(tx *store.Tx) (err error) {
			runs, err = r.Runs(tx, 30)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now = w.snapshot(0).At
		compare(t, "list.txt", inspect.ListText(runs, l))
	})
}
