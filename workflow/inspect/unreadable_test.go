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

// first returns the first key of a table, which must not be empty.
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
					read := k.Table() != store.Runs && k.Table() != store.History // whether the status reads the record
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

// TestAnUnreadableRecordIsShownWithWhatReplacesIt damages a record, and reads the status with and without an operator.
// The status must have one problem about the record, and its fix must say how the record is replaced.
func TestAnUnreadableRecordIsShownWithWhatReplacesIt(t *testing.T) {
	t.Parallel()
	const (
		moves    = "wait: the operator moves the record to the table of damaged records when it needs it"
		starts   = "start the operator: it moves the record to the table of damaged records"
		snapshot = "restore a snapshot of the store: docs/operations.md says how"
	)
	for name, c := range map[string]struct {
		key           store.Key
		live, stopped string
	}{
		"a module":               {store.ModuleKey("web"), moves, starts},
		"a quarantined item":     {store.QuarantineKey(store.ID{Epoch: 1, N: 9}), moves, starts},
		"the ConfigMap in force": {store.AppliedConfigKey(), "change the ConfigMap, or start the operator again: it then reads the ConfigMap", "start the operator again: it then reads the ConfigMap"},
		"the refused ConfigMap":  {store.RefusedConfigKey(), "change the ConfigMap: the operator then replaces or deletes the record", "start the operator: it then reads the ConfigMap and replaces or deletes the record"},
		"a problem":              {store.Problem{Kind: store.NotExecutable, Object: "x"}.Key(), "wait: the operator writes the record again when it finds the problem again", "start the operator: it writes the record again"},
		"a binding":              {store.BindingKey("web", "a.sh", "pods"), snapshot, snapshot},
		"a release":              {store.ReleaseKey("web"), snapshot, snapshot},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				w.fails("module-kubernetes-event", `admission webhook "pods" denied the request`) // this error makes the reader read the bindings
				w.start()
				w.saveModules(map[string]store.Module{"web": {State: store.On, Enabled: true}})
				w.raise(event("db", "other.sh"))
				w.update(func(tx *store.Tx) error {
					tx.Put(c.key, []byte(`{"at":`))
					return nil
				})
				for live, want := range map[bool]string{true: c.live, false: c.stopped} {
					s := w.status(inspect.Reader{Live: live})
					var fixes []string
					for _, p := range s.Problems {
						if p.Kind == inspect.Kind(store.DamagedRecord) && p.Object == c.key.String() && !p.At.IsZero() {
							fixes = append(fixes, p.Fix)
						}
					}
					if len(fixes) != 1 || !strings.HasPrefix(fixes[0], want) {
						t.Errorf("live %t: the fixes are %q, want %q", live, fixes, want)
					}
				}
			})
		})
	}
}
