package debugapi

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/metrics"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

// TestProblemsAreCountedByKindAndModule compares the counts of a scrape with the problems in the
// store.
func TestProblemsAreCountedByKindAndModule(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	if err := db.Update(func(tx *store.Tx) error {
		if _, err := store.ReplaceProblems(tx, store.FailingFilter, []store.Problem{
			{Kind: store.FailingFilter, Subject: graph.Subject{Module: "web", Hook: "a"}, Object: "Pod a", Error: "no field"},
			{Kind: store.FailingFilter, Subject: graph.Subject{Module: "web", Hook: "b"}, Object: "Pod a", Error: "no field"},
			{Kind: store.FailingFilter, Subject: graph.Subject{Hook: "c"}, Object: "Pod a", Error: "no field"},
		}); err != nil {
			return err
		}
		return store.Save(tx, store.ModuleKey("db"), store.Module{Broken: "bad values.yaml"})
	}); err != nil {
		t.Fatal(err)
	}
	api := &API{DB: db, Now: time.Now}
	state, err := api.State()
	if err != nil {
		t.Fatal(err)
	}
	got := map[metrics.Problem]int{}
	for p, n := range state.Problems {
		if n > 0 {
			got[p] = n
		}
	}
	want := map[metrics.Problem]int{{Kind: "failing filter", Module: "web"}: 2, {Kind: "failing filter"}: 1, {Kind: "broken", Module: "db"}: 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n, counted := state.Problems[metrics.Problem{Kind: "disk full"}]; !counted || n != 0 {
		t.Errorf("a kind without a problem: %d, %t", n, counted)
	}
}
