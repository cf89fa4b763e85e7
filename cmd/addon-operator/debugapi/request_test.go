package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// An engineFixture is a real engine with the lifecycle graph and a store in memory. Each step of the engine records
// that it ran. If [engineFixture.fails] is true for a step, the step returns an error. The discovery finds the enabled
// modules "bad" and "good".
type engineFixture struct {
	t   *testing.T
	mem *store.Memory
	db  *store.DB
	e   *workflow.Engine

	mu    sync.Mutex
	ran   []string // the steps that ran after the last call of since(), each in the form "node subject"
	fails map[string]bool
}

type worldStep struct {
	w    *engineFixture
	node graph.NodeID
}

func (s worldStep) Do(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	what := strings.TrimSpace(string(s.node) + " " + t.Subject.String())
	s.w.ran = append(s.w.ran, what)
	if s.w.fails[what] {
		return workflow.Outcome{}, errors.New("no")
	}
	switch s.node {
	case lifecycle.DiscoverModules:
		return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{
			lifecycle.Enabled: {{Subject: graph.Subject{Module: "bad"}}, {Subject: graph.Subject{Module: "good"}}},
		}}, nil
	case lifecycle.ModuleRun:
		return workflow.Outcome{Facts: []graph.Fact{lifecycle.AlreadyStarted}}, nil
	}
	return workflow.Outcome{}, nil
}

func (worldStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

func newEngineFixture(t *testing.T) *engineFixture {
	t.Helper()
	w := &engineFixture{t: t, mem: new(store.Memory), fails: map[string]bool{}}
	w.open()
	t.Cleanup(w.close)
	return w
}

func (w *engineFixture) open() {
	w.t.Helper()
	var err error
	if w.db, err = store.OpenMemory(w.mem, store.Options{}); err != nil {
		w.t.Fatal(err)
	}
	steps := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			steps[n.ID] = worldStep{w, n.ID}
		}
	}
	if w.e, err = workflow.New(w.db, workflow.Observer{}, workflow.Implementation{Graph: lifecycle.Graph, Steps: steps}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *engineFixture) close() {
	w.e.Stop()
	if err := w.db.Close(); err != nil {
		w.t.Error(err)
	}
}

func (w *engineFixture) start(events ...workflow.Event) {
	w.t.Helper()
	if err := w.e.Start(func(*store.Tx) ([]workflow.Event, error) { return events, nil }); err != nil {
		w.t.Fatal(err)
	}
	synctest.Wait()
}

// fail sets whether a step fails from this call on. The argument what identifies the step: its node, a space, and its
// subject.
func (w *engineFixture) fail(what string, fails bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fails[what] = fails
}

// since returns the steps that ran after the last call of this method.
func (w *engineFixture) since() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	ran := w.ran
	w.ran = nil
	return ran
}

// post sends a form that has only the name of the person, alice, to a route of the debug socket.
func (w *engineFixture) post(path string) (status int, text string) {
	return postTo(&API{DB: w.db, Now: time.Now, Engine: w.e}, path)
}

func postTo(l *API, path string) (status int, text string) {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(url.Values{"by": {"alice"}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	out := httptest.NewRecorder()
	l.Routes().ServeHTTP(out, r)
	return out.Code, out.Body.String()
}

func (w *engineFixture) modules(enabled map[string]bool) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		for name, on := range enabled {
			if err := store.Save(tx, store.ModuleKey(name), store.Module{State: store.On, Enabled: on, Why: "disabled by values.yaml"}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

var startEvent = workflow.Event{On: lifecycle.OnStart}

func TestRequestedModuleRunPassesAFailingModule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.modules(map[string]bool{"good": true, "bad": true, "off": false})
		w.fail("module-beforehelm bad", true)
		w.fail("module-run bad", true)
		w.start(startEvent)
		w.since()
		status, text := w.post("/module/good/run")
		if status != 200 || text != "module run of good requested as run 2; see addon-operator workflow inspect 2\n" {
			t.Errorf("answer %d %q", status, text)
		}
		synctest.Wait()
		if ran := w.since(); len(ran) == 0 || ran[0] != "module-run good" || slices.Contains(ran, "module-run bad") {
			t.Errorf("ran %q, want the run of good before the failing one", ran)
		}
		actions := 0
		if err := w.db.View(func(tx *store.Tx) error {
			run, _, err := store.Load[store.Run](tx, store.RunKey(2))
			for a, err := range store.ActionsBackwards(tx) {
				if err != nil || a.Verb != "module run" || a.By != "alice" || a.What != "good" || a.Run != 2 || a.At.IsZero() {
					t.Errorf("the history has the action %+v (%v)", a, err)
				}
				actions++
			}
			if actions != 1 {
				t.Errorf("the history has %d actions, want 1", actions)
			}
			if run.Cause.By != "alice" || run.Subject.Module != "good" || run.Ended.IsZero() {
				t.Errorf("run %+v", run)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		save(t, w.db, map[string]any{string(store.ModuleKey("blocked")): store.Module{Enabled: true, Undefined: "things.yaml: no kind"}})
		for path, want := range map[string]string{
			"/module/blocked/run": "409 module blocked is not run, because its CRDs cannot be installed: things.yaml: no kind; " +
				"correct the cause, and run addon-operator reload, which installs them\n",
			"/module/off/run": "409 module off is not enabled (disabled by values.yaml), so it is not run\n",
			"/module/new/run": "404 no module is called \"new\"; see addon-operator module list, and run addon-operator reload if its directory is new\n",
		} {
			code, answer, _ := strings.Cut(want, " ")
			if status, text := w.post(path); status != map[string]int{"409": 409, "404": 404}[code] || text != answer {
				t.Errorf("%s: %d %q", path, status, text)
			}
		}
	})
}

func TestRequestedReloadIsUniqueAndRestartsAConvergeThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.fail("module-run bad", true)
		w.start(startEvent)
		w.since()
		if status, text := w.post("/reload"); status != 200 {
			t.Fatalf("answer %d %q", status, text)
		}
		synctest.Wait()
		if ran := w.since(); !slices.Contains(ran, "discover-modules") || ran[0] != "global-beforeall" && ran[0] != "discover-modules" {
			t.Errorf("ran %q, want the converge from beforeAll", ran)
		}
		w.fail("module-run bad", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		w.since()
		w.fail("discover-modules", true)
		for range 5 {
			w.post("/reload")
		}
		synctest.Wait()
		w.fail("discover-modules", false)
		time.Sleep(time.Minute)
		synctest.Wait()
		runs := 0
		for _, what := range w.since() {
			if what == "module-run good" {
				runs++
			}
		}
		if runs < 1 || runs > 2 { // a reload restarts a converge, but at most three times in a row
			t.Errorf("5 reloads requested while the first failed made %d converges, want 1 or 2", runs)
		}
	})
}

func TestRequestIsDoneAfterARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.modules(map[string]bool{"good": true})
		w.start()
		w.e.Drain() // the engine claims no task after this call
		if status, text := w.post("/module/good/run"); status != 200 {
			t.Fatalf("answer %d %q", status, text)
		}
		w.close()
		w.open()
		w.start()
		if ran := w.since(); !slices.Contains(ran, "module-run good") {
			t.Errorf("after the restart ran %q", ran)
		}
	})
}

func TestTheAnswerToARequestSaysWhatKeepsItFromStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		w.modules(map[string]bool{"good": true, "bad": true})
		w.start()
		if err := w.e.Pause(lifecycle.Graph.Name, workflow.PauseTarget{Subject: graph.Subject{Module: "good"}}, "bob", "maintenance"); err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]string{
			"/module/good/run": "\nit cannot start now: module good is paused by bob: maintenance\n",
			"/module/bad/run":  "\n",
		} {
			status, text := w.post(path)
			if _, answer, _ := strings.Cut(text, "see addon-operator workflow inspect "); status != 200 || answer[1:] != want {
				t.Errorf("%s: %d %q, want %q at its end", path, status, text, want)
			}
			synctest.Wait()
		}
	})
}

func TestRequestNeedsARunningOperator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEngineFixture(t)
		status, text := postTo(&API{DB: w.db, Now: time.Now}, "/reload")
		if status != 409 || !strings.Contains(text, "leave --store out") {
			t.Errorf("answer %d %q", status, text)
		}
	})
}
