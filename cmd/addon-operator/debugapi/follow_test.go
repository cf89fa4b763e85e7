package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// followStream requests the stream that the API l serves at a path, and returns a decoder of its lines. The function
// post sends an empty form to another path of this API.
func followStream(t *testing.T, l *API, path string) (stream *json.Decoder, post func(path string)) {
	t.Helper()
	mux := http.NewServeMux()
	l.runs().workflowRoutes(mux)
	l.actionRoutes(mux)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	t.Cleanup(cancel)
	ask := func(method, path string) io.Reader {
		request, err := http.NewRequestWithContext(ctx, method, server.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s", path, response.Status)
		}
		return response.Body
	}
	return json.NewDecoder(ask(http.MethodGet, path)), func(path string) { ask(http.MethodPost, path) }
}

// nextEntry returns the next entry of the stream.
func nextEntry(t *testing.T, stream *json.Decoder) inspect.Entry {
	t.Helper()
	var e inspect.Entry
	if err := stream.Decode(&e); err != nil {
		t.Fatalf("the stream ends: %v", err)
	}
	return e
}

func TestTimelineIsFollowedThroughRunsAttemptsAndCommands(t *testing.T) {
	gate := make(gated)
	l := watched(t, gate)
	stream, post := followStream(t, l, "/workflow/timeline/follow")
	expect := func(what, text string) inspect.Entry {
		t.Helper()
		e := nextEntry(t, stream)
		if e.What != what || !strings.Contains(e.Text, text) {
			t.Fatalf("the next entry is %+v, want %s %q", e, what, text)
		}
		return e
	}
	expect(inspect.RunBegan, "") // this run began before the stream
	gate <- errors.New("not yet")
	failed := expect(string(store.Failed), "not yet")
	post("/task/" + failed.Task.String() + "/retry?reason=again&by=alice")
	if e := expect(inspect.Command, "task retry"); e.By != "alice" || !strings.Contains(e.Text, "again") {
		t.Errorf("the command is %+v", e)
	}
	gate <- nil
	if e := expect(string(store.Done), ""); e.Run != failed.Run {
		t.Errorf("the end of the step is %+v", e)
	}
	close(gate)
	for e := nextEntry(t, stream); e.What != inspect.RunEnded; e = nextEntry(t, stream) {
		if e.What != string(store.Done) {
			t.Fatalf("before the end of the run: %+v", e)
		}
	}
	if err := l.DB.Update(func(tx *store.Tx) error { return l.Engine.Raise(tx, workflow.Event{On: lifecycle.OnConfigMap}) }); err != nil {
		t.Fatal(err)
	}
	if e := expect(inspect.RunBegan, ""); e.Run != failed.Run+1 {
		t.Errorf("the next run is %+v", e)
	}
}

func TestFollowingASubjectShowsOnlyWhatIsAboutIt(t *testing.T) {
	gate := make(gated)
	l := watched(t, gate)
	stream, _ := followStream(t, l, "/workflow/timeline/follow?subject=other")
	gate <- nil // the step of module m ends
	close(gate)
	for range 2 {
		if err := l.DB.Update(func(tx *store.Tx) error {
			return l.Engine.Raise(tx, workflow.Event{On: lifecycle.OnResourcesAbsent, Subject: graph.Subject{Module: "other"}})
		}); err != nil {
			t.Fatal(err)
		}
		if e := nextEntry(t, stream); e.What != inspect.RunBegan || !strings.Contains(e.Text, "other") {
			t.Errorf("a run begins with %+v", e)
		}
		if e := nextEntry(t, stream); e.What != string(store.Done) || e.Subject != "other" {
			t.Errorf("the attempt is %+v", e)
		}
	}
}

func TestLogsAreFollowedWithoutSecrets(t *testing.T) {
	l := watched(t, make(gated))
	if err := l.DB.Update(func(tx *store.Tx) error {
		return store.AddRecord(tx, store.Record{Run: 1, Task: store.ID{Epoch: 1, N: 90}, Node: "n", State: store.Done, Ended: tx.Now(), Output: "before"})
	}); err != nil {
		t.Fatal(err)
	}
	stream, _ := followStream(t, l, "/workflow/logs/follow")
	if e := nextEntry(t, stream); e.Output != "before" {
		t.Errorf("the stored output is %+v", e)
	}
	observer := l.Changes.Observe(workflow.Observer{})
	observer.Recorded(store.Record{Run: 1, Task: store.ID{Epoch: 1, N: 91}, Node: "n", State: store.Done, Ended: time.Now()})
	observer.Recorded(store.Record{Run: 1, Task: store.ID{Epoch: 1, N: 92}, Node: "n", State: store.Done, Ended: time.Now(), Output: "password=hunter2"})
	l.Changes.Committed(store.Commit{})
	if e := nextEntry(t, stream); e.Output != "password=(redacted)" {
		t.Errorf("the new output is %+v", e)
	}
}

func TestEntriesThatAFollowerDoesNotReadInTimeAreCounted(t *testing.T) {
	var changes ChangeFeed
	at, stop := changes.watch(true)
	defer stop()
	other, stop := changes.watch(false)
	defer stop()
	for range mostChanges + 3 {
		changes.publish(inspect.Change{Began: &store.Run{}})
	}
	if changes, lost := changes.drain(at); len(changes) != mostChanges || lost != 3 {
		t.Errorf("%d changes, %d lost", len(changes), lost)
	}
	if changes, lost := changes.drain(at); len(changes) != 0 || lost != 0 {
		t.Errorf("taken twice: %d changes, %d lost", len(changes), lost)
	}
	if changes, _ := changes.drain(other); len(changes) != 0 {
		t.Errorf("a watcher that collects nothing has %d changes", len(changes))
	}
}

func TestFollowingAStoppedStoreEndsWithWhatItHas(t *testing.T) {
	l := watched(t, make(gated))
	stopped := *l
	stopped.Engine = nil
	stream, _ := followStream(t, &stopped, "/workflow/timeline/follow")
	nextEntry(t, stream)
	if err := stream.Decode(new(inspect.Entry)); !errors.Is(err, io.EOF) {
		t.Errorf("the stream goes on: %v", err)
	}
}
