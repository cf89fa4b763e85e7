package inspect_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// status returns the status of a running operator.
func (w *world) status(r inspect.Reader) (s *inspect.Status) {
	w.t.Helper()
	r.Graphs = []*graph.Graph{lifecycle.Graph}
	if err := w.db.View(func(tx *store.Tx) (err error) {
		s, err = r.Status(tx)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	s.Operator = inspect.StatusOperator{
		Version: "v1.2.3", Started: w.db.Now().Add(-3 * time.Hour), Store: "/data/store.db", StoreBytes: 12<<20 + 300<<10, FreeBytes: 3 << 30,
	}
	return s
}

// saveModules saves records of modules.
func (w *world) saveModules(modules map[string]store.Module) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		for name, m := range modules {
			if err := store.Save(tx, store.ModuleKey(name), m); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// converged saves that the converge of run has ended.
func (w *world) converged(run uint64) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.StartupKey(), store.Startup{StartRun: run, Converged: run, ConvergedAt: tx.Now()})
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestStatusOfAnOperatorWithoutProblemsSaysSoInItsFirstLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.discovers("web", "db")
		w.start(onStart)
		sleep(10 * time.Second)
		w.converged(1)
		now := w.db.Now()
		w.saveModules(map[string]store.Module{
			"web": {State: store.On, Enabled: true, Order: 20, RanIn: 1, RanAt: now.Add(-time.Minute)},
			"db":  {State: store.On, Enabled: true, Order: 10, RanIn: 1, RanAt: now.Add(-time.Minute)}, "old": {State: store.Off},
		})
		s := w.status(inspect.Reader{Live: true})
		if s.Attention || s.Starting || len(s.Queues) != 0 || len(s.Running) != 0 {
			t.Errorf("status %+v", s)
		}
		compare(t, "status-well.txt", inspect.StatusText(s, look))
		wide := look
		wide.Wide = true
		compare(t, "status-well-wide.txt", inspect.StatusText(s, wide))
	})
}

func TestStatusNamesProblemsModulesAndQueuesThatWaitWithTheNextCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.discovers("cert-manager", "ingress-nginx")
		w.fails("release-upgrade cert-manager", helmError)
		w.start(onStart)
		w.saveModules(map[string]store.Module{
			"cert-manager": {State: store.On, Enabled: true, RanIn: 1, RanAt: w.db.Now().Add(-26 * time.Hour)}, "ingress-nginx": {State: store.On, Enabled: true},
			"broken": {State: store.On, Enabled: true, Broken: "values.yaml: line 3: did not find expected key"},
		})
		began := time.Now()
		sleep(90 * time.Second)
		s := w.status(inspect.Reader{Live: true, Slow: []inspect.Problem{{Kind: inspect.KindSlow, Run: 1, Node: "module-run", At: began}}})
		if !s.Attention || len(s.Problems) != 3 {
			t.Errorf("status %+v", s)
		}
		for _, m := range s.Modules {
			if m.Name == "cert-manager" && (m.State != inspect.ModuleFailing || m.Since.Before(began) || m.Since.After(began.Add(time.Second))) {
				t.Errorf("module %+v, want it failing since its first failure at %s", m, began)
			}
		}
		compare(t, "status-failing.txt", inspect.StatusText(s, look))
	})
}

func TestStatusFitsOnAScreenWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		all := names("module", 40)
		w.discovers("web")
		w.fails("release-upgrade web", helmError)
		w.start(onStart)
		records := map[string]store.Module{"web": {State: store.On, Enabled: true}}
		for i, name := range all {
			records[name] = store.Module{State: store.On, Enabled: true, Order: i, Broken: "/modules/" + name + "/values.yaml: line 3: did not find expected key"}
		}
		w.saveModules(records)
		sleep(20 * time.Minute)
		s := w.status(inspect.Reader{Live: true, Full: &store.Shortage{Since: time.Now(), Err: errors.New("no space left on device")}})
		text := inspect.StatusText(s, look)
		if n := strings.Count(text, "\n"); n > 23 || n < 15 {
			t.Errorf("%d lines:\n%s", n, text)
		}
		compare(t, "status-many.txt", text)
		whole := look
		whole.Whole = true
		if text := inspect.StatusText(s, whole); strings.Count(text, "module-40") < 3 {
			t.Errorf("a look that cuts nothing off leaves a module out:\n%s", text)
		}
	})
}

func TestStatusShowsTasksInProgressAndHowLongTheyRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.start(onStart)
		w.saveModules(map[string]store.Module{"web": {State: store.On, Enabled: true}})
		sleep(4 * time.Minute)
		s := w.status(inspect.Reader{Live: true})
		if len(s.Running) != 1 || s.Running[0].Node != "release-upgrade" || time.Since(s.Running[0].Since) != 4*time.Minute {
			t.Fatalf("running %+v", s.Running)
		}
		s = w.status(inspect.Reader{Live: true, Slow: []inspect.Problem{{Kind: inspect.KindSlow, Task: s.Running[0].Task, Run: 1, At: s.Running[0].Since}}})
		if !s.Running[0].Slow {
			t.Errorf("running %+v", s.Running)
		}
		compare(t, "status-running.txt", inspect.StatusText(s, look))
	})
}

func TestStatusOfAStoppedStoreSaysThatNobodyRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.start(onStart, onConfigMap("4711"))
		w.close()
		w.open()
		s := w.status(inspect.Reader{})
		if s.Live || len(s.Running) != 0 || len(s.Queues) != 1 {
			t.Errorf("status %+v", s)
		}
		compare(t, "status-stopped.txt", inspect.StatusText(s, look))
	})
}
