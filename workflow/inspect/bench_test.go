package inspect_test

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// generate creates a store file with the given numbers of runs, records of history and pending tasks. generate returns
// the open store.
func generate(tb testing.TB, runs, records, pending int) *store.DB {
	tb.Helper()
	db, err := store.Open(filepath.Join(tb.TempDir(), "store.db"), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	began := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	const batch = 5000
	do := func(n int, each func(tx *store.Tx, i int) error) {
		for from := 0; from < n; from += batch {
			err := db.Update(func(tx *store.Tx) error {
				for i := from; i < min(from+batch, n); i++ {
					if err := each(tx, i); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				tb.Fatal(err)
			}
		}
	}
	do(runs, func(tx *store.Tx, i int) error {
		open := 0
		if i == runs-1 {
			open = 1
		}
		return store.Save(tx, store.RunKey(uint64(i+1)), store.Run{ID: uint64(i + 1), Graph: "lifecycle", Trigger: string(lifecycle.OnStart), Began: began, Open: open})
	})
	do(records, func(tx *store.Tx, i int) error {
		return store.AddRecord(tx, store.Record{
			Run: uint64(i%runs + 1), Task: store.ID{Epoch: 1, N: tx.NextID()}, Node: string(lifecycle.ModuleBeforeHelm), Queue: "main",
			Subject: graph.Subject{Module: fmt.Sprintf("module-%03d", i%300), Hook: fmt.Sprintf("hooks/%02d-hook.sh", i%7)},
			State:   store.Done, Queued: began, Began: began.Add(time.Duration(i) * time.Second), Ended: began.Add(time.Duration(i+1) * time.Second), Try: 1,
		})
	})
	do(pending, func(tx *store.Tx, i int) error {
		t := &store.Task{
			ID: store.ID{Epoch: 1, N: tx.NextID()}, Graph: "lifecycle", Node: string(lifecycle.ModuleKubernetesEvent), Run: uint64(runs + i),
			Subject: graph.Subject{Module: "m", Hook: "h", Binding: "b"}, Queued: began,
			Payload: fmt.Appendf(nil, `{"padding":%q}`, strings.Repeat("x", 100)),
		}
		t.Pos = store.Pos{Queue: "main", Slot: store.FirstSlot + uint64(i)}
		if i == 0 {
			t.Failed, t.Due = &store.Failure{Node: t.Node, Subject: t.Subject, Count: 3, Error: "no", At: began}, began.Add(time.Hour)
		}
		return store.SaveTask(tx, t)
	})
	return db
}

// sizes are the sizes of the stores that the benchmarks read.
var sizes = map[string]struct{ runs, records, pending int }{
	"100000-of-one-run":     {runs: 1, records: 100_000, pending: 1},
	"100000-of-many-runs":   {runs: 50_000, records: 100_000, pending: 1},
	"100000-tasks-waiting":  {runs: 10, records: 1000, pending: 100_000},
	"1000-and-what-matters": {runs: 10, records: 1000, pending: 10},
}

func BenchmarkInspect(b *testing.B) {
	for name, size := range sizes {
		b.Run(name, func(b *testing.B) {
			db := generate(b, size.runs, size.records, size.pending)
			for b.Loop() {
				show(b, db)
			}
		})
	}
}

func show(tb testing.TB, db *store.DB) (string, *inspect.Run) {
	tb.Helper()
	run := read(tb, db, 0)
	return inspect.Text(run, layout), run
}

func TestLongHistoryIsReadUpToABoundAndSaysSo(t *testing.T) {
	t.Parallel()
	db := generate(t, 1, 10_000, 1)
	text, run := show(t, db)
	if run.Unread == 0 || len(text) > 10_000 {
		t.Errorf("of 10,000 lines %d were left unread, and the text is %d bytes long", run.Unread, len(text))
	}
	if want := "8000 older lines of history left out"; !strings.Contains(text, want) {
		t.Errorf("the text does not say %q:\n%s", want, text)
	}
}

func TestRunFarBackInALongQueueSaysThatNobodyLookedThere(t *testing.T) {
	t.Parallel()
	db := generate(t, 1, 10, 50_010)
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.RunKey(50_009), store.Run{ID: 50_009, Graph: "lifecycle", Open: 1})
	}); err != nil {
		t.Fatal(err)
	}
	text := inspect.Text(read(t, db, 50_009), layout)
	if want := "1 task stands too far back in long queues"; !strings.Contains(text, want) {
		t.Errorf("the text does not say %q:\n%s", want, text)
	}
}

func read(tb testing.TB, db *store.DB, id uint64) (run *inspect.Run) {
	tb.Helper()
	r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true}
	err := db.View(func(tx *store.Tx) (err error) {
		run, err = r.Run(tx, inspect.Request{Run: id})
		return err
	})
	if err != nil {
		tb.Fatal(err)
	}
	return run
}

// BenchmarkTimeline reads the newest 50 entries of all subjects, and the newest 50 entries of one module.
func BenchmarkTimeline(b *testing.B) {
	for name, size := range sizes {
		db := generate(b, size.runs, size.records, size.pending)
		for _, subject := range []string{"", "module-007"} {
			b.Run(name+"/"+cmp.Or(subject, "all"), func(b *testing.B) {
				for b.Loop() {
					if err := db.View(func(tx *store.Tx) error {
						t, err := inspect.ReadTimeline(tx, inspect.TimelineRequest{Subject: subject, Limit: 50})
						_ = inspect.TimelineText(&t, inspect.Layout{Now: db.Now()})
						return err
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkDiagnose searches for patterns in a store with a failing hook.
func BenchmarkDiagnose(b *testing.B) {
	r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true}
	for name, size := range sizes {
		db := generate(b, size.runs, size.records, size.pending)
		if err := db.Update(func(tx *store.Tx) error {
			return store.SaveTask(tx, &store.Task{
				ID: store.ID{Epoch: 1, N: tx.NextID()}, Pos: store.Pos{Queue: "failing", Slot: store.FirstSlot}, Graph: lifecycle.Graph.Name, Run: 1,
				Node: string(lifecycle.ModuleKubernetesEvent), Subject: graph.Subject{Module: "web", Hook: "h", Binding: "b"},
				Failed: &store.Failure{Node: string(lifecycle.ModuleKubernetesEvent), Subject: graph.Subject{Module: "web", Hook: "h", Binding: "b"}, Count: 3, Error: "exit status 3"},
			})
		}); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if err := db.View(func(tx *store.Tx) error {
					d, err := r.Diagnose(tx, inspect.StatusOperator{})
					if err == nil {
						_ = inspect.DiagnosisText(d, inspect.Layout{Now: db.Now()})
					}
					return err
				}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkWhy explains a module, a hook and a queue in a store with 500 modules.
func BenchmarkWhy(b *testing.B) {
	r := inspect.Reader{Graphs: []*graph.Graph{lifecycle.Graph}, Live: true}
	for name, size := range sizes {
		db := generate(b, size.runs, size.records, size.pending)
		if err := db.Update(func(tx *store.Tx) error {
			for i := range 500 {
				m := store.Module{State: store.On, Enabled: true, Why: "enabled by modules/values.yaml", DecidedIn: 1, RanIn: 1}
				if err := store.Save(tx, store.ModuleKey(fmt.Sprintf("module-%03d", i)), m); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
		for _, subject := range []string{"module-007", "m/h", "main"} {
			b.Run(name+"/"+subject, func(b *testing.B) {
				for b.Loop() {
					if err := db.View(func(tx *store.Tx) error {
						why, err := r.Why(tx, subject)
						if err == nil {
							_ = inspect.WhyText(why, inspect.Layout{Now: db.Now()})
						}
						return err
					}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
