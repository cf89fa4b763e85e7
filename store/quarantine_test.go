package store_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestAnItemHoldsTheWorkOfItsModuleConfigurationHookOrNode(t *testing.T) {
	t.Parallel()
	paused := &store.Pause{By: "mia", Reason: "upgrade"}
	item := func(s graph.Subject) *store.QuarantinedItem {
		return &store.QuarantinedItem{Graph: "lifecycle", Node: "module-run", Subject: s}
	}
	pause := func(s graph.Subject) *store.QuarantinedItem {
		return &store.QuarantinedItem{Graph: "lifecycle", Subject: s, Paused: paused}
	}
	nginx, hookA, hookB := graph.Subject{Module: "nginx"}, graph.Subject{Module: "nginx", Hook: "a.sh"}, graph.Subject{Module: "nginx", Hook: "b.sh"}
	global, none, config := graph.Subject{Hook: "g.sh"}, graph.Subject{}, graph.Subject{Configuration: "team/addons"}
	for _, test := range []struct {
		name  string
		item  *store.QuarantinedItem
		node  string
		of    graph.Subject
		holds bool
	}{
		{"the module of a crashed module", item(nginx), "other", nginx, true},
		{"a hook of a crashed module", item(nginx), "event", hookA, true},
		{"another hook of a module whose hook crashed", item(hookA), "event", hookB, true},
		{"the module whose hook crashed", item(hookA), "module-run", nginx, true},
		{"another module", item(nginx), "module-run", graph.Subject{Module: "redis"}, false},
		{"a global hook beside a crashed module", item(nginx), "event", global, false},
		{"a hook of a paused module", pause(nginx), "event", hookA, true},
		{"the paused hook", pause(hookA), "event", hookA, true},
		{"another hook than the paused one", pause(hookA), "event", hookB, false},
		{"the module of a paused hook", pause(hookA), "module-run", nginx, false},
		{"the crashed global hook at another node", item(global), "event", global, true},
		{"another global hook", item(global), "event", graph.Subject{Hook: "h.sh"}, false},
		{"a hook of a module with the name of the crashed global hook", item(global), "event", graph.Subject{Module: "nginx", Hook: "g.sh"}, false},
		{"the crashed configuration", item(config), "round", config, true},
		{"another configuration", item(config), "round", graph.Subject{Configuration: "team/other"}, false},
		{"a step without a subject at the crashed node", item(none), "module-run", none, true},
		{"a step without a subject at another node", item(none), "discover", none, false},
		{"a module at the crashed node of a step without a subject", item(none), "module-run", nginx, false},
		{"a pause of a queue holds no module", pause(none), "module-run", nginx, false},
	} {
		if got := test.item.Holds("lifecycle", test.node, test.of); got != test.holds {
			t.Errorf("%s: held %t", test.name, got)
		}
		if test.item.Holds("addons", test.node, test.of) {
			t.Errorf("%s: held in another graph", test.name)
		}
	}
}

func TestTheReasonOfAHeldTaskNamesTheHeldWork(t *testing.T) {
	t.Parallel()
	id := store.ID{Epoch: 3, N: 14}
	for _, test := range []struct {
		item   store.QuarantinedItem
		kind   store.ReasonKind
		detail string
		what   []string
	}{
		{
			store.QuarantinedItem{Subject: graph.Subject{Module: "nginx", Hook: "a.sh"}},
			store.AwaitsRelease, "module nginx is in quarantine (task 3-14)",
			[]string{"hook", "nginx/a.sh"},
		},
		{
			store.QuarantinedItem{Subject: graph.Subject{Hook: "g.sh"}},
			store.AwaitsRelease, "global hook g.sh is in quarantine (task 3-14)",
			[]string{"hook", "g.sh"},
		},
		{
			store.QuarantinedItem{Node: "discover"},
			store.AwaitsRelease, "step discover is in quarantine (task 3-14)",
			[]string{"all"},
		},
		{
			store.QuarantinedItem{Subject: graph.Subject{Configuration: "team/addons"}, Queue: "configuration/team/addons"},
			store.AwaitsRelease, "configuration team/addons is in quarantine (task 3-14)",
			[]string{"queue", "configuration/team/addons"},
		},
		{
			store.QuarantinedItem{Subject: graph.Subject{Module: "nginx"}, Paused: &store.Pause{By: "mia", Reason: "upgrade"}},
			store.AwaitsResume, "module nginx is paused by mia: upgrade",
			[]string{"module", "nginx"},
		},
		{
			store.QuarantinedItem{Subject: graph.Subject{Module: "nginx", Hook: "a.sh"}, Paused: &store.Pause{By: "mia", Reason: "upgrade"}},
			store.AwaitsResume, "hook nginx/a.sh is paused by mia: upgrade",
			[]string{"hook", "nginx/a.sh"},
		},
		{
			store.QuarantinedItem{Queue: "main", Paused: &store.Pause{By: "mia", Reason: "upgrade"}},
			store.AwaitsQueue, "queue main is paused by mia: upgrade",
			[]string{"queue", "main"},
		},
		{
			store.QuarantinedItem{Paused: &store.Pause{By: "mia", Reason: "upgrade"}},
			store.AwaitsQueue, "all work is paused by mia: upgrade",
			[]string{"all"},
		},
	} {
		test.item.ID = id
		want := store.Reason{Kind: test.kind, By: id, Detail: test.detail}
		if diff := cmp.Diff(want, test.item.Reason()); diff != "" {
			t.Errorf("reason (-want +got):\n%s", diff)
		}
		if got := test.item.What(); !slices.Equal(got, test.what) {
			t.Errorf("%s: the arguments are %q, want %q", test.detail, got, test.what)
		}
	}
}

func TestReasonsSayWhetherTheTaskLeavesItsQueue(t *testing.T) {
	t.Parallel()
	prefixes := map[store.ReasonKind]string{
		store.AwaitsStart: "held: ", store.AwaitsRelease: "held: ", store.AwaitsResume: "held: ",
		store.AwaitsLimit: "deferred: ", store.AwaitsDelay: "deferred: ",
		store.AwaitsQueue: "", store.AwaitsRetry: "", store.AwaitsExclusive: "", store.AwaitsItems: "", store.AwaitsModules: "",
	}
	for kind, prefix := range prefixes {
		r := &store.Reason{Kind: kind, Detail: "why"}
		if got := r.String(); got != prefix+"why" {
			t.Errorf("%s shows as %q", kind, got)
		}
		if r.Holds() != (prefix == "held: ") {
			t.Errorf("%s holds its task: %t", kind, r.Holds())
		}
		for other := range prefixes {
			if r.Is(other) != (kind == other) {
				t.Errorf("%s is %s: %t", kind, other, r.Is(other))
			}
		}
	}
	var none *store.Reason
	if none.Holds() || none.Is(store.AwaitsStart) || none.Is("") {
		t.Error("no reason holds a task, or has a kind")
	}
}

func TestTheOldestItemThatHoldsATaskIsItsReason(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	nginx := graph.Subject{Module: "nginx"}
	item := func(n uint64, s graph.Subject) store.QuarantinedItem {
		return store.QuarantinedItem{ID: store.ID{Epoch: 1, N: n}, Graph: "lifecycle", Node: "n", Subject: s}
	}
	update(t, db, func(tx *store.Tx) (err error) {
		for _, q := range []store.QuarantinedItem{item(300, nginx), item(1, graph.Subject{Module: "redis"}), item(20, nginx)} {
			err = errors.Join(err, store.Save(tx, store.QuarantineKey(q.ID), q))
		}
		return err
	})
	view(t, db, func(tx *store.Tx) error {
		q, err := store.QuarantineOf(tx, "lifecycle", "event", graph.Subject{Module: "nginx", Hook: "a.sh"})
		if err != nil || q == nil || q.ID.N != 20 {
			t.Errorf("held by %+v, %v", q, err)
		}
		if q, err := store.QuarantineOf(tx, "lifecycle", "event", graph.Subject{Module: "mysql"}); q != nil || err != nil {
			t.Errorf("a module outside of quarantine is held by %+v, %v", q, err)
		}
		return nil
	})
}

func TestAPauseStopsItsQueueOrAllQueues(t *testing.T) {
	t.Parallel()
	pause := func(n uint64, queue string, s graph.Subject) store.QuarantinedItem {
		return store.QuarantinedItem{ID: store.ID{Epoch: 1, N: n}, Graph: "lifecycle", Subject: s, Queue: queue, Paused: &store.Pause{By: "mia"}}
	}
	crashed := store.QuarantinedItem{ID: store.ID{Epoch: 1, N: 9}, Graph: "lifecycle", Queue: "main"}
	for _, test := range []struct {
		name  string
		items []store.QuarantinedItem
		queue string
		by    uint64 // number of the pause to find; 0 if none must be found
	}{
		{"no items", nil, "main", 0},
		{"a pause of the queue", []store.QuarantinedItem{pause(1, "main", graph.Subject{})}, "main", 1},
		{"a pause of another queue", []store.QuarantinedItem{pause(1, "main", graph.Subject{})}, "side", 0},
		{"a pause of all work", []store.QuarantinedItem{pause(1, "", graph.Subject{})}, "side", 1},
		{"a pause of a module whose event is in the queue", []store.QuarantinedItem{pause(1, "main", graph.Subject{Module: "nginx"})}, "main", 0},
		{"a crashed step of the queue", []store.QuarantinedItem{crashed}, "main", 0},
		{"the oldest of two", []store.QuarantinedItem{pause(8, "", graph.Subject{}), pause(2, "main", graph.Subject{})}, "main", 2},
	} {
		db := inMemory(t)
		update(t, db, func(tx *store.Tx) (err error) {
			for _, q := range test.items {
				err = errors.Join(err, store.Save(tx, store.QuarantineKey(q.ID), q))
			}
			return err
		})
		view(t, db, func(tx *store.Tx) error {
			q, err := store.PauseOfQueue(tx, test.queue)
			if err != nil || (q == nil) != (test.by == 0) || q != nil && q.ID.N != test.by {
				t.Errorf("%s: paused by %+v, %v", test.name, q, err)
			}
			return nil
		})
	}
}

func TestAnUnreadableItemInQuarantineIsAnError(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		tx.Put(store.QuarantineKey(store.ID{Epoch: 1, N: 1}), []byte(`{"id":"1"}`))
		return nil
	})
	view(t, db, func(tx *store.Tx) error {
		if q, err := store.QuarantineOf(tx, "g", "n", graph.Subject{}); q != nil || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("QuarantineOf: %+v, %v", q, err)
		}
		if q, err := store.PauseOfQueue(tx, "main"); q != nil || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("PauseOfQueue: %+v, %v", q, err)
		}
		return nil
	})
}

func TestAnEpochWithoutACleanExitHasCrashed(t *testing.T) {
	t.Parallel()
	never := func(uint64) bool { return false }
	type exit struct {
		epoch uint64
		clean bool // the clean exit of the epoch is in the store
		noted bool // the clean exit of the epoch is only in the note beside the store
	}
	for _, test := range []struct {
		name    string
		before  []exit
		crashed []uint64
	}{
		{"the first process", nil, nil},
		{"after a clean exit", []exit{{1, true, false}}, nil},
		{"after a crash", []exit{{1, false, false}}, []uint64{1}},
		{"after a clean exit that could not be stored", []exit{{1, false, true}}, nil},
		{"after crashes before and after a clean exit", []exit{{1, false, false}, {2, true, false}, {5, false, false}}, []uint64{1, 5}},
	} {
		var e store.Ends
		for _, p := range test.before {
			e.Begin(p.epoch, never)
			if p.clean {
				e.Ended = p.epoch
			}
			if p.noted {
				e.Begin(p.epoch+1, func(epoch uint64) bool { return epoch == p.epoch })
				e.Ended = p.epoch + 1
			}
		}
		e.Begin(9, never)
		if e.Begun != 9 || !slices.Equal(e.Unclean, test.crashed) {
			t.Errorf("%s: epoch %d begun, %v have crashed, want %v", test.name, e.Begun, e.Unclean, test.crashed)
		}
		for epoch := range uint64(10) {
			if got := e.Crashed(epoch); got != slices.Contains(test.crashed, epoch) {
				t.Errorf("%s: epoch %d has crashed: %t", test.name, epoch, got)
			}
		}
	}
}

func TestTheLatestCrashesAreRemembered(t *testing.T) {
	t.Parallel()
	var e store.Ends
	for epoch := range uint64(100) {
		e.Begin(epoch+1, func(uint64) bool { return false })
	}
	if len(e.Unclean) != 64 || e.Unclean[0] != 36 || e.Unclean[63] != 99 {
		t.Errorf("%d crashes are remembered: %v", len(e.Unclean), e.Unclean)
	}
}
