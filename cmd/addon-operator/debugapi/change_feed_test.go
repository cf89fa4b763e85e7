package debugapi

import (
	"errors"
	"testing"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// woken reports whether the channel wake of a reader has a signal, and receives the signal.
func woken(wake <-chan struct{}) bool {
	select {
	case <-wake:
		return true
	default:
		return false
	}
}

// feedStore returns an empty store in memory that reports its commits to the feed changes.
func feedStore(t *testing.T, changes *ChangeFeed) *store.DB {
	t.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{Committed: changes.Committed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() }) // a store in memory loses nothing if Close fails
	return db
}

func TestReadersAreWokenOnceAfterSeveralCommits(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	db := feedStore(t, &changes)
	wake, stop := changes.Commits()
	defer stop()
	observer := changes.Observe(workflow.Observer{})
	for range 3 {
		if err := db.Update(func(tx *store.Tx) error {
			tx.OnCommit(func() {
				observer.Recorded(store.Record{State: store.Failed})
				if woken(wake) {
					t.Error("a reader is woken before all changes of a commit are collected")
				}
			})
			tx.Put(store.ModuleKey("m"), []byte("{}"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if !woken(wake) {
			t.Error("a commit wakes no reader")
		}
	}
	changes.Committed(store.Commit{})
	changes.Committed(store.Commit{})
	if !woken(wake) || woken(wake) {
		t.Error("two commits before the reader receives are two signals")
	}
	stop()
	if changes.Committed(store.Commit{}); woken(wake) {
		t.Error("a reader is woken after its stop was called")
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
		t.Error("a task of a queue that has no error wakes readers")
	}
	if observer.Broken("q", errors.New("no")); !woken(wake) {
		t.Error("the error of a queue wakes no reader")
	}
	if observer.Began(began); !woken(wake) {
		t.Error("the end of the error of a queue wakes no reader")
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

// TestAFollowerIsWokenOnlyForWhatItShows follows the timeline of one module, and reports changes of this module and of
// others. Only the changes that this timeline shows must wake the follower.
func TestAFollowerIsWokenOnlyForWhatItShows(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	db := feedStore(t, &changes)
	web := graph.Subject{Module: "web"}
	if err := db.Update(func(tx *store.Tx) error {
		if err := store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 1, Began: tx.Now()}); err != nil {
			return err
		}
		return store.AddRecord(tx, store.Record{Run: 1, Task: store.ID{Epoch: 1, N: 1}, Node: "n", Subject: web, State: store.Done, Ended: tx.Now()})
	}); err != nil {
		t.Fatal(err)
	}
	at, stop := changes.watch(true)
	defer stop()
	observer := changes.Observe(workflow.Observer{})
	observer.Recorded(store.Record{Run: 2, Subject: graph.Subject{Module: "other"}}) // before narrow is called
	var follower *inspect.Follower
	if err := db.View(func(tx *store.Tx) (err error) {
		follower, _, err = inspect.FollowTimeline(tx, inspect.TimelineRequest{Subject: "web", Limit: 100})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	changes.narrow(at, follower.Wants())
	for _, test := range []struct {
		name   string
		commit func(tx *store.Tx)
		wakes  bool
	}{
		{"another record of the store", func(*store.Tx) {}, false},
		{"an attempt of another module", func(tx *store.Tx) {
			tx.OnCommit(func() { observer.Recorded(store.Record{Run: 2, Subject: graph.Subject{Module: "other"}}) })
		}, false},
		{"the end of a run of another module", func(tx *store.Tx) { tx.OnCommit(func() { observer.Ended(store.Run{ID: 2}) }) }, false},
		{"an attempt of the module", func(tx *store.Tx) { tx.OnCommit(func() { observer.Recorded(store.Record{Run: 3, Subject: web}) }) }, true},
		{"the end of its run", func(tx *store.Tx) { tx.OnCommit(func() { observer.Ended(store.Run{ID: 3}) }) }, true},
		{"the end of a run that is shown already", func(tx *store.Tx) { tx.OnCommit(func() { observer.Ended(store.Run{ID: 1}) }) }, true},
		{"a command of a person", func(tx *store.Tx) {
			if err := store.AddAction(tx, store.Action{Verb: "reload"}); err != nil {
				t.Error(err)
			}
		}, true},
	} {
		if err := db.Update(func(tx *store.Tx) error {
			test.commit(tx)
			return store.Save(tx, store.ModuleKey("m"), store.Module{})
		}); err != nil {
			t.Fatal(err)
		}
		if got := woken(at.wake); got != test.wakes {
			t.Errorf("%s: woken %t, want %t", test.name, got, test.wakes)
		}
		if got, _ := changes.drain(at); len(got) > 0 && !test.wakes {
			t.Errorf("%s: %+v is collected", test.name, got)
		}
	}
}
