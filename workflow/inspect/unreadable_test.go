package inspect_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// first returns the first key of a table.
func (w *fixture) first(t store.Table) (first store.Key) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(t)) {
			first = append(store.Key(nil), k...)
			break
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	if first == nil {
		w.t.Fatalf("table %s is empty", t)
	}
	return first
}

func TestAStoreWithAnUnreadableRecordIsShownWithAProblemThatNamesTheRecord(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]func(*fixture) store.Key{
		"a module":                func(*fixture) store.Key { return store.ModuleKey("web") },
		"a refused ConfigMap":     func(*fixture) store.Key { return store.RefusedConfigKey() },
		"a quarantined item":      func(*fixture) store.Key { return store.QuarantineKey(store.ID{Epoch: 1, N: 99}) },
		"a problem":               func(*fixture) store.Key { return store.Problem{Kind: store.NotExecutable, Object: "x"}.Key() },
		"the start of the store":  func(*fixture) store.Key { return store.StartupKey() },
		"the failing task":        func(w *fixture) store.Key { return w.first(store.Queues) },
		"a line of history":       func(w *fixture) store.Key { return w.first(store.History) },
		"the run":                 func(*fixture) store.Key { return store.RunKey(1) },
		"the exclusive task's ID": func(*fixture) store.Key { return store.ExclusiveKey() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				scenes()["failing-head"](w)
				k := key(w)
				if err := w.db.Update(func(tx *store.Tx) error {
					tx.Put(k, []byte(`{"at":`))
					return nil
				}); err != nil {
					t.Fatal(err)
				}
				shown := w.read(inspect.Reader{}, 0)
				text := strings.Join(strings.Fields(inspect.Text(shown, layout)), " ")
				if len(shown.Steps) == 0 || !strings.Contains(text, "record "+k.String()) || !strings.Contains(text, "fix: ") {
					t.Errorf("%d steps are shown, and %s is not named:\n%s", len(shown.Steps), k, text)
				}
				if err := w.db.View(func(tx *store.Tx) error {
					r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}}
					if _, err := r.Modules(tx); err != nil {
						t.Errorf("modules: %v", err)
					}
					status, err := r.Status(tx, inspect.StatusOperator{})
					if err != nil {
						t.Fatal("status:", err)
					}
					read := k.Table() != store.Runs && k.Table() != store.History // by the status
					if text := strings.Join(strings.Fields(inspect.StatusText(status, inspect.Layout{Whole: true})), " "); read && !strings.Contains(text, "record "+k.String()) {
						t.Errorf("the status does not name %s:\n%s", k, text)
					}
					if _, err := r.Runs(tx, 30); err != nil {
						t.Errorf("runs: %v", err)
					}
					return nil
				}); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
