package webui_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/webui"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A fixture is the page of a real engine with a store in memory. A fixture has the modules "good" and "bad". The hook
// of module "bad" fails until [fixture.mend] is called.
type fixture struct {
	t       *testing.T
	db      *store.DB
	engine  *workflow.Engine
	changes *debugapi.ChangeFeed
	options webui.Options
	server  *httptest.Server

	mu     sync.Mutex
	mended bool
}

// badHook is the failing hook of module "bad".
var badHook = graph.Subject{Module: "bad", Hook: "hooks/connect.sh"}

// printed is the output of badHook while it fails.
const printed = "no such host\nconnecting with password=hunter2"

type worldStep struct {
	w    *fixture
	node graph.NodeID
}

func (s worldStep) Do(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
	switch s.node {
	case lifecycle.DiscoverModules:
		return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{
			lifecycle.Enabled: {{Subject: graph.Subject{Module: "good"}}, {Subject: graph.Subject{Module: "bad"}}},
		}}, nil
	case lifecycle.ModuleRun:
		return workflow.Outcome{Facts: []graph.Fact{lifecycle.AlreadyStarted}}, nil
	}
	s.w.mu.Lock()
	defer s.w.mu.Unlock()
	if t.Subject == badHook && !s.w.mended {
		for line := range strings.Lines(printed) {
			t.Print(strings.TrimSuffix(line, "\n"))
		}
		return workflow.Outcome{}, errors.New("exit status 1: " + printed)
	}
	return workflow.Outcome{}, nil
}

func (s worldStep) Items(_ *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if s.node == lifecycle.ModuleBeforeHelm && t.Subject.Module == "bad" {
		return []graph.Item{{Subject: badHook}}, nil, nil
	}
	return nil, nil, nil
}

// newFixture starts an engine and serves its page. The argument actions says whether the page allows
// actions. newFixture returns after badHook has failed.
func newFixture(t *testing.T, actions bool) *fixture {
	t.Helper()
	w := &fixture{t: t, changes: new(debugapi.ChangeFeed)}
	var err error
	if w.db, err = store.OpenMemory(new(store.Memory), store.Options{
		Clock: time.Now, Committed: w.changes.Committed,
	}); err != nil {
		t.Fatal(err)
	}
	code := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			code[n.ID] = worldStep{w, n.ID}
		}
	}
	if w.engine, err = workflow.New(w.db, w.changes.Observe(workflow.Observer{}), workflow.Implementation{Graph: lifecycle.Graph, Steps: code}); err != nil {
		t.Fatal(err)
	}
	w.fill()
	if err := w.engine.Start(func(*store.Tx) ([]workflow.Event, error) {
		return []workflow.Event{{On: lifecycle.OnStart, Cause: store.Cause{Detail: "each start converges"}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	values := scan.New(scan.Options{DB: w.db}, nil).Values
	api := &debugapi.API{
		DB: w.db, Now: time.Now, Began: time.Now(), Version: "v1", Engine: w.engine, Changes: w.changes, Slow: new(debugapi.SlowRuns),
		Values: func() (*desired.Values, error) { return values, nil },
		Render: func(_ context.Context, module string, _, _ bool) (now, released string, err error) {
			return "kind: Secret\nmetadata: {name: " + module + "}\nstringData: {a: new-secret}\n", "kind: ConfigMap\nmetadata: {name: " + module + "}\n", nil
		},
	}
	w.options = webui.Options{
		API: api.Routes(), Commits: w.changes.Commits, Graphs: debugapi.Graphs, Version: "v1", Process: "p1", Actions: actions,
	}
	w.server = httptest.NewServer(webui.Handler(w.options))
	t.Cleanup(func() {
		w.server.Close()
		w.engine.Stop()
		if err := w.db.Close(); err != nil {
			t.Error(err)
		}
	})
	w.until("the hook has failed", func() bool { return strings.Contains(w.get("/"), "no such host") })
	return w
}

// fill writes the records of modules, releases and hooks to the store. In a real operator, the
// steps write these records.
func (w *fixture) fill() {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.ModuleKey("good"), store.Module{Order: 10, State: store.On, Enabled: true, Why: "enabled by modules/values.yaml"}),
			store.Save(tx, store.ModuleKey("bad"), store.Module{Order: 20, State: store.On, Enabled: true, Why: "enabled by modules/values.yaml"}),
			store.Save(tx, store.ReleaseKey("good"), store.Release{Revision: 3, Objects: []store.Object{{Kind: "ConfigMap", Namespace: "n", Name: "good"}}}),
			store.Save(tx, store.HookKey("bad", badHook.Hook), store.Hook{Config: json.RawMessage(`{"ordered":{"beforeHelm":10}}`)}),
			store.Save(tx, store.HookKey("", "settings.sh"), store.Hook{Config: json.RawMessage(`{"ordered":{"onStartup":1}}`)}),
		)
	}); err != nil {
		w.t.Fatal(err)
	}
}

// mend makes badHook succeed from this call on.
func (w *fixture) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.mended = true
}

// until calls a function again and again until the function returns true. The argument what
// describes the condition for the error after a timeout.
func (w *fixture) until(what string, is func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(90 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("timed out waiting until %s", what)
		}
	}
}

// answer sends a request, and returns the status and the body of the answer.
func (w *fixture) answer(request *http.Request) (status int, body string) {
	w.t.Helper()
	response, err := w.server.Client().Do(request)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(b)
}

func (w *fixture) request(method, path, body string) *http.Request {
	w.t.Helper()
	request, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	return request
}

// get returns the view at a path. The status of the answer must be 200.
func (w *fixture) get(path string) string {
	w.t.Helper()
	status, body := w.answer(w.request(http.MethodGet, path, ""))
	if status != http.StatusOK {
		w.t.Fatalf("%s: status %d: %s", path, status, body)
	}
	return body
}

// post sends a form with the headers of a browser in which the page is open.
func (w *fixture) post(path string, form url.Values) (status int, body string) {
	w.t.Helper()
	request := w.request(http.MethodPost, path, form.Encode())
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	return w.answer(request)
}

// actions returns the stored actions, newest first.
func (w *fixture) actions() (all []store.Action) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) error {
		for a, err := range store.ActionsBackwards(tx) {
			if err != nil {
				return err
			}
			all = append(all, a)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return all
}
