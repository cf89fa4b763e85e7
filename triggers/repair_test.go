package triggers

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// ref returns a reference to a ConfigMap of a release.
func ref(name string) kube.Ref {
	return kube.Ref{APIVersion: "v1", Kind: "ConfigMap", Namespace: "ns", Name: name}
}

// newAbsent returns a trigger for release m, whose hooks have deleted the given removed objects.
// The events of the trigger are appended to raised.
func newAbsent(t *testing.T, db *store.DB, raised *[]workflow.Event, removed ...kube.Ref) *Absent {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		r := store.Release{}
		for _, o := range removed {
			r.Removed = append(r.Removed, store.Removed{Object: store.Object(o), At: tx.Now()})
		}
		return store.Save(tx, store.ReleaseKey("m"), r)
	}); err != nil {
		t.Fatal(err)
	}
	return &Absent{
		db: db, engine: raiserFunc(func(_ *store.Tx, events ...workflow.Event) error { *raised = append(*raised, events...); return nil }),
		changed: store.NewChangedKeys(db, absentKeys...), waited: make(chan struct{}, 1), stale: map[string]bool{}, watched: map[string]string{"m": "seen"},
		repairs: map[string]map[kube.Ref]*repairs{}, waiting: map[string]time.Time{},
	}
}

func TestAbsentObjectsOfAReleaseAreReportedInOneEvent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		release string
		removed []kube.Ref
		absent  []kube.Ref
		want    []store.Cause
	}{
		"one":                       {"m", nil, []kube.Ref{ref("a")}, []store.Cause{{Object: "ConfigMap.v1 ns/a", Event: "Deleted"}}},
		"two":                       {"m", nil, []kube.Ref{ref("a"), ref("b")}, []store.Cause{{Object: "ConfigMap.v1 ns/a", Event: "Deleted", Detail: "and 1 more"}}},
		"three":                     {"m", nil, []kube.Ref{ref("a"), ref("b"), ref("c")}, []store.Cause{{Object: "ConfigMap.v1 ns/a", Event: "Deleted", Detail: "and 2 more"}}},
		"none":                      {"m", nil, nil, nil},
		"removed by a hook":         {"m", []kube.Ref{ref("a")}, []kube.Ref{ref("a")}, nil},
		"one of two by a hook":      {"m", []kube.Ref{ref("a")}, []kube.Ref{ref("a"), ref("b")}, []store.Cause{{Object: "ConfigMap.v1 ns/b", Event: "Deleted"}}},
		"of a release that is gone": {"gone", nil, []kube.Ref{ref("a")}, nil},
	} {
		var raised []workflow.Event
		a := newAbsent(t, storetest.Memory(t), &raised, c.removed...)
		delivered := 0
		a.Delivered = func(string, []kube.Ref) { delivered++ }
		if err := a.raiseAbsent(t.Context(), c.release, c.absent); err != nil {
			t.Fatal(err)
		}
		var got []store.Cause
		for _, ev := range raised {
			if got = append(got, ev.Cause); ev.Subject.Module != "m" {
				t.Errorf("%s: the event is for %s", name, ev.Subject)
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" || delivered != len(c.want) {
			t.Errorf("%s: %d deliveries; causes (-want +got):\n%s", name, delivered, diff)
		}
	}
}

func TestRepairsOfAnObjectThatDisappearsAgainAndAgainBecomeRare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raised []workflow.Event
		a := newAbsent(t, storetest.Memory(t), &raised)
		repaired := func(wait time.Duration, absent ...kube.Ref) bool {
			t.Helper()
			time.Sleep(wait) // of simulated time
			raised = nil
			if err := a.raiseAbsent(t.Context(), "m", absent); err != nil {
				t.Fatal(err)
			}
			return len(raised) == 1
		}
		for i, c := range []struct {
			wait time.Duration
			refs []kube.Ref
			want bool
		}{
			{0, []kube.Ref{ref("a")}, true},
			{time.Second, []kube.Ref{ref("a")}, false},            // 4 s are left
			{time.Second, []kube.Ref{ref("a"), ref("b")}, true},   // b is absent for the first time
			{time.Second, []kube.Ref{ref("b")}, false},            // 4 s are left
			{4 * time.Second, []kube.Ref{ref("b")}, true},         // then 10 s
			{9 * time.Second, []kube.Ref{ref("b")}, false},        // 1 s is left
			{time.Second, []kube.Ref{ref("b")}, true},             // then 20 s
			{16 * time.Minute, []kube.Ref{ref("b")}, true},        // b existed for a long time, so its delays begin again with 5 s
			{5 * time.Second, []kube.Ref{ref("b")}, true},         // then 10 s
			{9 * time.Second, []kube.Ref{ref("b")}, false},        // 1 s is left
			{time.Second, []kube.Ref{ref("a"), ref("b")}, true},   // the delays of object a begin again as well
			{0, []kube.Ref{ref("a"), ref("b")}, false},            // both wait
			{5 * time.Second, []kube.Ref{ref("a")}, true},         // a waits 5 s
			{5 * time.Second, []kube.Ref{ref("unknown")}, true},   // the delays of the other objects have no effect on this object
			{time.Hour, []kube.Ref{ref("a"), ref("b")}, true},     // all delays have expired
			{4 * time.Second, []kube.Ref{ref("a")}, false},        // 1 s is left
			{1100 * time.Millisecond, []kube.Ref{ref("a")}, true}, // then 10 s
		} {
			if got := repaired(c.wait, c.refs...); got != c.want {
				t.Errorf("step %d, after %s: %v is repaired: %t", i, c.wait, c.refs, got)
			}
		}
		for range 20 { // until the longest delay is reached
			repaired(repairLongest, ref("a"))
		}
		if repaired(repairLongest-time.Second, ref("a")) || !repaired(time.Second, ref("a")) {
			t.Errorf("the longest delay is not %s", repairLongest)
		}
		time.Sleep(time.Hour) // so that all timers expire
	})
}

func TestAClockThatIsSetBackDoesNotDelayARepair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead time.Duration
		db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return time.Now().Add(ahead) }})
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		var raised []workflow.Event
		a := newAbsent(t, db, &raised)
		for i, step := range []struct {
			ahead, wait time.Duration
			want        int
		}{
			{time.Hour, 0, 1},
			{time.Hour, time.Second, 0}, // 4 s are left
			{0, time.Second, 1},         // the clock was set back; then 10 s
			{0, time.Second, 0},         // 9 s are left
			{0, 9 * time.Second, 1},
		} {
			time.Sleep(step.wait)
			ahead, raised = step.ahead, nil
			if err := a.raiseAbsent(t.Context(), "m", []kube.Ref{ref("a")}); err != nil {
				t.Fatal(err)
			}
			if len(raised) != step.want {
				t.Errorf("step %d: %d events, want %d", i, len(raised), step.want)
			}
		}
		time.Sleep(time.Hour) // so that all timers expire
	})
}

func TestADelayedRepairIsReportedAgainWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raised []workflow.Event
		a := newAbsent(t, storetest.Memory(t), &raised)
		for range 3 {
			if err := a.raiseAbsent(t.Context(), "m", []kube.Ref{ref("a")}); err != nil {
				t.Fatal(err)
			}
		}
		again := func() bool {
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.stale["m"] && a.watched["m"] == ""
		}
		time.Sleep(repairFirst - time.Millisecond)
		if again() {
			t.Error("the release is read again before the repair is due")
		}
		time.Sleep(time.Millisecond)
		if !again() || len(a.waited) != 1 || len(a.waiting) != 0 {
			t.Errorf("when the repair is due, the release is read again: %t, %d changes, waiting %v", again(), len(a.waited), a.waiting)
		}
	})
}

// A skip of the failing task ends the run of the module, and changes no record of the module, its bindings or its
// release.
func TestAnObjectThatIsAbsentDuringARunIsReportedAgainAlthoughNoRecordChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var raised []workflow.Event
		db := storetest.Memory(t)
		a := newAbsent(t, db, &raised)
		run := &store.Task{Graph: "lifecycle", Node: string(lifecycle.ReleaseUpgrade), Subject: graph.Subject{Module: "m"}, Run: 1, Pos: store.Pos{Queue: "main", Slot: store.FirstSlot}}
		if err := db.Update(func(tx *store.Tx) error {
			run.ID = store.ID{Epoch: tx.Epoch(), N: tx.NextID()}
			return errors.Join(store.Save(tx, store.RunKey(1), store.Run{ID: 1, Open: 1}), store.SaveTask(tx, run))
		}); err != nil {
			t.Fatal(err)
		}
		report := func() {
			t.Helper()
			if err := a.raiseAbsent(t.Context(), "m", []kube.Ref{ref("a")}); err != nil {
				t.Fatal(err)
			}
		}
		again := func() bool {
			synctest.Wait()
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.stale["m"]
		}
		report()
		report()
		time.Sleep(repairLongest - time.Millisecond)
		if again() {
			t.Error("the release is read again early, although the run continues")
		}
		time.Sleep(time.Millisecond)
		if !again() {
			t.Error("the release is not read again")
		}
		a.stale = map[string]bool{}
		report() // the run still continues
		if err := db.Update(func(tx *store.Tx) error { store.DropTask(tx, run); tx.Delete(store.RunKey(1)); return nil }); err != nil {
			t.Fatal(err)
		}
		report()
		if len(raised) != 1 {
			t.Fatalf("after the run, %d events are raised", len(raised))
		}
		report()
		time.Sleep(repairFirst)
		if !again() {
			t.Error("the timer of the run delays the next repair")
		}
		a.stale = map[string]bool{}
		time.Sleep(time.Hour)
		if again() {
			t.Error("a timer that another one has replaced has an effect")
		}
	})
}

func TestObjectsThatHooksHaveRemovedAreNotWatched(t *testing.T) {
	t.Parallel()
	r := store.Release{
		Objects: []store.Object{store.Object(ref("a")), store.Object(ref("b")), store.Object(ref("c"))},
		Removed: []store.Removed{{Object: store.Object(ref("b"))}},
	}
	if diff := cmp.Diff([]kube.Ref{ref("a"), ref("c")}, refsOf(r)); diff != "" {
		t.Errorf("watched objects (-want +got):\n%s", diff)
	}
}

func TestAFailedReadOfTheConfigMapIsRetriedAtOnceWhenItCanBeRead(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, c := range []struct {
		failed    bool
		err, want error
		retries   int
	}{
		{false, nil, nil, 0}, {true, nil, nil, 1}, {true, workflow.ErrNoTask, nil, 1}, {true, fmt.Errorf("task: %w", workflow.ErrRuns), nil, 1}, {true, broken, broken, 1},
	} {
		db := storetest.Memory(t)
		task := &store.Task{
			ID: store.ID{Epoch: 1, N: 1}, Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot}, Graph: "lifecycle", Run: 1, Node: string(lifecycle.ConfigMapChanged),
		}
		if c.failed {
			task.Failed = &store.Failure{Count: 1}
		}
		if err := db.Update(func(tx *store.Tx) error {
			return errors.Join(store.SaveTask(tx, task), store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: "lifecycle", Began: tx.Now(), Open: 1}))
		}); err != nil {
			t.Fatal(err)
		}
		var retried []store.ID
		trigger := NewConfigMap(db, nil, &kube.ConfigMap{}, func(id store.ID) error { retried = append(retried, id); return c.err })
		if err := trigger.wake(); !errors.Is(err, c.want) || !slices.Equal(retried, slices.Repeat([]store.ID{task.ID}, c.retries)) {
			t.Errorf("failed %t, the retry returns %v: %v, retried %v", c.failed, c.err, err, retried)
		}
	}
}
