package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// A gated is the implementation of a step. An attempt receives an error from the channel, and ends
// with this error.
type gated chan error

func (g gated) Do(ctx context.Context, _ workflow.Task) (workflow.Outcome, error) {
	select {
	case err := <-g:
		return workflow.Outcome{}, err
	case <-ctx.Done():
		return workflow.Outcome{}, ctx.Err()
	}
}

func (gated) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

// watched returns the API of a running engine whose steps receive their results from the channel
// gate.
func watched(t testing.TB, gate gated) *API {
	t.Helper()
	changes := new(ChangeFeed)
	db, err := store.OpenMemory(new(store.Memory), store.Options{Committed: changes.Committed})
	if err != nil {
		t.Fatal(err)
	}
	code := map[graph.NodeID]workflow.Step{}
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction && !n.JoinsRunning {
			code[n.ID] = gate
		}
	}
	l := &API{DB: db, Now: time.Now, Changes: changes}
	if l.Engine, err = workflow.New(db, changes.Observe(workflow.Observer{}), workflow.Implementation{Graph: lifecycle.Graph, Steps: code}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.Engine.Stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := l.Engine.Start(func(*store.Tx) ([]workflow.Event, error) {
		return []workflow.Event{{On: lifecycle.OnResourcesAbsent, Subject: graph.Subject{Module: "m"}}}, nil
	}); err != nil {
		t.Fatal(err)
	}
	return l
}

// watchStream requests the stream of snapshots from the API l, and returns a decoder of its lines.
func watchStream(t *testing.T, l *API, query string) *json.Decoder {
	t.Helper()
	mux := http.NewServeMux()
	l.runs().workflowRoutes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/workflow/watch"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	return json.NewDecoder(response.Body)
}

// until reads snapshots until one has the given state, and returns this snapshot.
func until(t *testing.T, stream *json.Decoder, state inspect.State) *inspect.Run {
	t.Helper()
	for {
		run := new(inspect.Run)
		if err := stream.Decode(run); err != nil {
			t.Fatalf("no snapshot says %s: %v", state, err)
		}
		if run.State == state {
			return run
		}
	}
}

func TestWatchSendsASnapshotAfterEachCommitAndEndsWithTheRun(t *testing.T) {
	gate := make(gated)
	l := watched(t, gate)
	stream := watchStream(t, l, "?run=1")
	until(t, stream, inspect.Running)
	gate <- errors.New("not yet")
	failing := until(t, stream, inspect.Failing)
	if len(failing.Problems) != 1 || failing.Problems[0].Error != "not yet" {
		t.Errorf("the failing run's problems are %+v", failing.Problems)
	}
	if err := l.Engine.Retry(failing.Problems[0].Task, "me", ""); err != nil {
		t.Fatal(err)
	}
	close(gate)
	until(t, stream, inspect.Done)
	if err := stream.Decode(new(inspect.Run)); !errors.Is(err, io.EOF) {
		t.Errorf("after the end of the run the stream goes on: %v", err)
	}
}

func TestWatchWithoutARunFollowsTheMostImportantOne(t *testing.T) {
	gate := make(gated)
	l := watched(t, gate)
	stream := watchStream(t, l, "")
	if run := until(t, stream, inspect.Running); run.ID != 1 {
		t.Errorf("run %d is shown", run.ID)
	}
	gate <- nil
	until(t, stream, inspect.Done)
	err := l.DB.Update(func(tx *store.Tx) error {
		return l.Engine.Raise(tx, workflow.Event{On: lifecycle.OnConfigMap})
	})
	if err != nil {
		t.Fatal(err)
	}
	if run := until(t, stream, inspect.Running); run.ID != 2 {
		t.Errorf("run %d is shown while run 2 runs", run.ID)
	}
}

func TestQueueThatStandsStillIsAProblemUntilItGoesOn(t *testing.T) {
	l := watched(t, make(gated))
	l.Changes.noteStuck("other", errors.New("the disk is full"))
	run, err := l.runs().inspect(inspect.Request{Run: 1})
	if err != nil {
		t.Fatal(err)
	}
	if !run.Attention() || run.Problems[0].Kind != inspect.KindStalled {
		t.Errorf("the problems are %+v", run.Problems)
	}
	l.Changes.noteProcessing("other")
	if run, err = l.runs().inspect(inspect.Request{Run: 1}); err != nil || run.Attention() {
		t.Errorf("after the queue has continued, the problems are %+v, %v", run.Problems, err)
	}
}
