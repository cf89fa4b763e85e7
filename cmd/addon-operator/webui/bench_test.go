package webui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/webui"
	"addon-operator/e2e/cputime"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Numbers of records, runs and modules in the store of a large operator.
const (
	manyRecords = 100_000
	manyRuns    = 20_000
	manyModules = 500
)

// crowded returns the page for the store of a stopped operator. The store has 500 modules with a hook each, and a
// history of 100,000 attempts.
func crowded(tb testing.TB) http.Handler {
	tb.Helper()
	db, err := store.Open(filepath.Join(tb.TempDir(), "store.db"), store.Options{Clock: time.Now})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	began := time.Now().Add(-30 * time.Hour)
	each := func(n int, write func(tx *store.Tx, i int) error) {
		const batch = 5000
		for from := 0; from < n; from += batch {
			if err := db.Update(func(tx *store.Tx) error {
				for i := from; i < min(from+batch, n); i++ {
					if err := write(tx, i); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				tb.Fatal(err)
			}
		}
	}
	module := func(i int) string { return fmt.Sprintf("module-%03d", i%manyModules) }
	each(manyModules, func(tx *store.Tx, i int) error {
		if err := store.Save(tx, store.ModuleKey(module(i)), store.Module{Order: i, State: store.On, Enabled: true, Why: "enabled by modules/values.yaml"}); err != nil {
			return err
		}
		if err := store.Save(tx, store.ReleaseKey(module(i)), store.Release{Revision: i + 1, Objects: []store.Object{{Kind: "ConfigMap", Name: module(i)}}}); err != nil {
			return err
		}
		return store.Save(tx, store.HookKey(module(i), "hooks/run.sh"), store.Hook{Config: json.RawMessage(`{"ordered":{"beforeHelm":10}}`)})
	})
	each(manyRuns, func(tx *store.Tx, i int) error {
		return store.Save(tx, store.RunKey(uint64(i+1)), store.Run{ //nolint:gosec // the number is small
			ID: uint64(i + 1), Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnStart), Began: began.Add(time.Duration(i) * time.Second), //nolint:gosec // the number is small
			Ended: began.Add(time.Duration(i+1) * time.Second),
		})
	})
	each(manyRecords, func(tx *store.Tx, i int) error {
		run := i%manyRuns + 1
		if i < 5*manyModules {
			run = 1 // these attempts belong to one converge
		}
		at := began.Add(time.Duration(i) * time.Second)
		return store.AddRecord(tx, store.Record{
			Run: uint64(run), Task: store.ID{Epoch: 1, N: tx.NextID()}, Node: string(lifecycle.ModuleBeforeHelm), Queue: fmt.Sprintf("queue-%d", i%4), //nolint:gosec // the number is small
			Subject: graph.Subject{Module: module(i), Hook: "hooks/run.sh"}, State: store.Done, Queued: at, Began: at, Ended: at.Add(time.Second), Try: 1,
			Output: "a line of output",
		})
	})
	values := scan.New(scan.Options{DB: db}, nil).Values
	api := &debugapi.API{DB: db, Now: time.Now, Changes: new(debugapi.ChangeFeed), Values: func() (*desired.Values, error) { return values, nil }}
	return webui.Handler(webui.Options{API: api.Routes(), Commits: api.Changes.Commits, Graphs: debugapi.Graphs})
}

// crowdedViews has the paths of the views that show many records of a large operator.
var crowdedViews = []string{
	"/", "/modules", "/module/module-007", "/runs", "/run/1", "/run/1?all=true", "/run/7", "/queues", "/queue/main", "/hooks", "/hook/module-007/hooks/run.sh",
	"/values/module-007", "/releases", "/release/module-007", "/timeline", "/timeline?subject=module-007", "/logs", "/why?subject=module-007",
}

// show requests a view and returns the size of the response in bytes.
func show(tb testing.TB, page http.Handler, path string) int {
	tb.Helper()
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	if answer.Code != http.StatusOK {
		tb.Fatalf("%s: status %d: %s", path, answer.Code, answer.Body)
	}
	return answer.Body.Len()
}

// BenchmarkViews measures the CPU time and the size of each view in crowdedViews, for a store with 500
// modules and a history of 100,000 attempts.
func BenchmarkViews(b *testing.B) {
	page := crowded(b)
	for _, path := range crowdedViews {
		b.Run(path, func(b *testing.B) {
			size, began := 0, cputime.Used()
			for b.Loop() {
				size = show(b, page, path)
			}
			b.ReportMetric(float64(size), "bytes")
			b.ReportMetric((cputime.Used()-began).Seconds()*1000/float64(b.N), "cpu-ms/op")
		})
	}
}
