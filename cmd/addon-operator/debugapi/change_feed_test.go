package debugapi

import (
	"errors"
	"testing"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
)

// woken reports whether a reader has been woken since it was last asked.
func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

func TestReadersAreWokenOnceAfterSeveralCommits(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	db, err := store.OpenMemory(new(store.Memory), store.Options{Committed: func(time.Duration, int) { changes.Committed() }})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	wake, stop := changes.Commits()
	defer stop()
	observer := changes.Observe(workflow.Observer{})
	for range 3 {
		if err := db.Update(func(tx *store.Tx) error {
			tx.OnCommit(func() {
				observer.Recorded(store.Record{State: store.Failed})
				if woken(wake) {
					t.Error("a reader is woken before all that a commit has changed is collected")
				}
			})
			tx.Put(store.ModuleKey("m"), []byte("{}"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !woken(wake) {
			t.Error("no reader is woken by a commit")
		}
	}
	changes.Committed()
	changes.Committed()
	if !woken(wake) || woken(wake) {
		t.Error("two commits are not one signal")
	}
	stop()
	if changes.Committed(); woken(wake) {
		t.Error("a reader is woken that has left")
	}
}

func TestReadersAreWokenWhenAQueueStandsStillAndWhenItGoesOn(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	wake, stop := changes.Commits()
	defer stop()
	observer := changes.Observe(workflow.Observer{})
	began := workflow.Task{Task: store.Task{Pos: store.Pos{Queue: "q"}}}
	if observer.Began(began); woken(wake) {
		t.Error("a task of a queue that goes on wakes readers")
	}
	if observer.Broken("q", errors.New("no")); !woken(wake) {
		t.Error("a queue that stands still wakes no reader")
	}
	if observer.Began(began); !woken(wake) {
		t.Error("a queue that goes on wakes no reader")
	}
}

func TestChangeFeedCallsTheObserverBehindIt(t *testing.T) {
	t.Parallel()
	called := ""
	observer := new(ChangeFeed).Observe(workflow.Observer{
		Began: func(workflow.Task) { called += "began " }, Recorded: func(store.Record) { called += "recorded " },
		Raised: func(store.Run) { called += "raised " }, Ended: func(store.Run) { called += "ended " },
		Broken: func(string, error) { called += "broken" },
	})
	observer.Began(workflow.Task{})
	observer.Recorded(store.Record{})
	observer.Raised(store.Run{})
	observer.Ended(store.Run{})
	observer.Broken("q", errors.New("no"))
	if want := "began recorded raised ended broken"; called != want {
		t.Errorf("called: %q, want %q", called, want)
	}
}
