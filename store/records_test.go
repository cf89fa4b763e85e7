package store_test

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

func TestATaskIsAfterTheBaselineOfABindingOnlyInTheEpochThatAttachedIt(t *testing.T) {
	t.Parallel()
	attached := store.Binding{AttachedIn: 3, Baseline: 10}
	for _, test := range []struct {
		name    string
		binding store.Binding
		task    store.ID
		epoch   uint64
		after   bool
	}{
		{"created after the baseline", attached, store.ID{Epoch: 3, N: 11}, 3, true},
		{"created in the transaction of the baseline", attached, store.ID{Epoch: 3, N: 10}, 3, false},
		{"created before the baseline", attached, store.ID{Epoch: 3, N: 9}, 3, false},
		{"pending since an earlier epoch", attached, store.ID{Epoch: 2, N: 11}, 3, false},
		{"after a restart", attached, store.ID{Epoch: 3, N: 11}, 4, false},
		{"created after a restart", attached, store.ID{Epoch: 4, N: 11}, 4, false},
		{"without a baseline", store.Binding{AttachedIn: 3}, store.ID{Epoch: 3, N: 11}, 3, false},
	} {
		if got := test.binding.After(test.task, test.epoch); got != test.after {
			t.Errorf("%s: %t", test.name, got)
		}
	}
}

func TestAModuleIsBrokenSinceItWasFirstFoundToBe(t *testing.T) {
	t.Parallel()
	var m store.Module
	for i, test := range []struct {
		why   string
		since time.Time
	}{
		{"", time.Time{}},
		{"no Chart.yaml", now.Add(1 * time.Hour)},
		{"no Chart.yaml", now.Add(1 * time.Hour)},
		{"invalid values", now.Add(1 * time.Hour)},
		{"", time.Time{}},
		{"invalid values", now.Add(5 * time.Hour)},
	} {
		m.SetBroken(test.why, now.Add(time.Duration(i)*time.Hour))
		if m.Broken != test.why || !m.BrokenSince.Equal(test.since) {
			t.Errorf("after %d h: broken because of %q since %s, want %q since %s", i, m.Broken, m.BrokenSince, test.why, test.since)
		}
	}
}

func TestAModuleHasRunInAStartIfItIsOnAndItsRunHasEndedThere(t *testing.T) {
	t.Parallel()
	start := store.Startup{StartRun: 7}
	for _, test := range []struct {
		module store.Module
		has    bool
	}{
		{store.Module{State: store.On, RanInStart: 7}, true},
		{store.Module{State: store.On, RanInStart: 6}, false},
		{store.Module{State: store.Deleting, RanInStart: 7}, false},
		{store.Module{State: store.Off, RanInStart: 7}, false},
	} {
		if got := test.module.HasRunSince(start); got != test.has {
			t.Errorf("%+v: %t", test.module, got)
		}
	}
}

func TestModulesAreLoadedByName(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	want := map[string]store.Module{"nginx": {State: store.On, Enabled: true}, "redis": {State: store.Off, Broken: "no Chart.yaml"}, "": {}}
	update(t, db, func(tx *store.Tx) (err error) {
		for name, m := range want {
			err = errors.Join(err, store.Save(tx, store.ModuleKey(name), m))
		}
		return err
	})
	load := func(loader func(*store.Tx) (map[string]store.Module, error)) (modules map[string]store.Module, err error) {
		view(t, db, func(tx *store.Tx) error { modules, err = loader(tx); return nil })
		return modules, err
	}
	for name, loader := range map[string]func(*store.Tx) (map[string]store.Module, error){"all": store.LoadModules, "readable": store.LoadReadableModules} {
		got, err := load(loader)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
	update(t, db, func(tx *store.Tx) error { tx.Put(store.ModuleKey("nginx"), []byte(`{"state":1}`)); return nil })
	delete(want, "nginx")
	got, err := load(store.LoadReadableModules)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("readable modules beside an unreadable one: %v (-want +got):\n%s", err, diff)
	}
	if got, err := load(store.LoadModules); got != nil || !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("all modules with an unreadable one: %v, %v", got, err)
	}
}

func TestABrokenModuleIsFoundAmongTheNamedOnes(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		tx.Put(store.ModuleKey("unreadable"), []byte("7"))
		return errors.Join(store.Save(tx, store.ModuleKey("nginx"), store.Module{}), store.Save(tx, store.ModuleKey("redis"), store.Module{Broken: "why"}))
	})
	view(t, db, func(tx *store.Tx) error {
		for _, test := range []struct {
			names  []string
			broken bool
		}{{nil, false}, {[]string{"nginx", "unknown"}, false}, {[]string{"nginx", "redis"}, true}, {[]string{"redis", "unreadable"}, true}} {
			if got, err := store.AnyBroken(tx, test.names); got != test.broken || err != nil {
				t.Errorf("%q: %t, %v", test.names, got, err)
			}
		}
		if got, err := store.AnyBroken(tx, []string{"unreadable", "redis"}); got || !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("with an unreadable record: %t, %v", got, err)
		}
		return nil
	})
}

func TestObjectsOfOneAPIGroupAreTheSameInAllItsVersions(t *testing.T) {
	t.Parallel()
	of := func(apiVersion string) store.Object {
		return store.Object{APIVersion: apiVersion, Kind: "Deployment", Namespace: "n", Name: "a"}
	}
	for _, test := range []struct {
		a, b string
		same bool
	}{
		{"apps/v1", "apps/v1", true},
		{"apps/v1", "apps/v1beta1", true},
		{"apps/v1", "extensions/v1beta1", false},
		{"v1", "v2", true},
		{"v1", "apps/v1", false},
		{"v1", "", true},
	} {
		if got := of(test.a).Is(of(test.b)); got != test.same {
			t.Errorf("%q and %q: the same object %t", test.a, test.b, got)
		}
		if got := of(test.a).Identity() == of(test.b).Identity(); got != test.same {
			t.Errorf("%q and %q: equal identities %t", test.a, test.b, got)
		}
	}
	if got := of("apps/v1"); got.Identity() != of("apps") || got != of("apps/v1") {
		t.Errorf("the identity of %+v is %+v", got, got.Identity())
	}
}

// subjects generates random subjects of bindings.
func subjects(t *rapid.T) graph.Subject {
	return graph.Subject{Module: rapid.String().Draw(t, "module"), Hook: rapid.String().Draw(t, "hook"), Binding: rapid.String().Draw(t, "binding")}
}

func TestABindingKeyReturnsItsBinding(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := subjects(t)
		k := store.BindingKey(s.Module, s.Hook, s.Binding)
		if got, err := store.ParseBindingKey(k); err != nil || got != s {
			t.Fatalf("%+v came back as %+v, %v", s, got, err)
		}
		for _, prefix := range []store.Key{store.BindingsOf(s.Module), store.BindingsOf(s.Module, s.Hook)} {
			if !bytes.HasPrefix(k, prefix) {
				t.Fatalf("%s is not among %s", k, prefix)
			}
			if _, err := store.ParseBindingKey(prefix); err == nil {
				t.Fatalf("%s is read as a binding", prefix)
			}
		}
	})
}

func TestAShardKeyReturnsItsHookAndPosition(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		group, s, from := rapid.String().Draw(t, "group"), subjects(t), rapid.Uint64().Draw(t, "from")
		s.Binding = ""
		k := store.ShardKey(group, s.Module, s.Hook, from)
		if got, position, err := store.ParseShardKey(k); err != nil || got != s || position != from {
			t.Fatalf("%+v from %d came back as %+v from %d, %v", s, from, got, position, err)
		}
		for _, prefix := range []store.Key{store.Shards(), store.ShardsOf(group), store.ShardKey(group, s.Module, s.Hook, 0)} {
			if !bytes.HasPrefix(k, prefix) {
				t.Fatalf("%s is not among %s", k, prefix)
			}
		}
		if bytes.HasPrefix(k, store.Families()) {
			t.Fatalf("%s is among the families", k)
		}
		if _, _, err := store.ParseShardKey(store.ShardsOf(group)); err == nil {
			t.Fatal("the prefix of a group is read as a shard")
		}
	})
}

func TestAnInterruptionReturnsItsItemAndNode(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := subjects(t)
		s.Configuration = rapid.String().Draw(t, "configuration")
		graphName, node := rapid.String().Draw(t, "graph"), rapid.String().Draw(t, "node")
		k := store.InterruptionKey(graphName, node, s)
		if got, ok, err := store.InterruptedItem(k, graphName, node); err != nil || !ok || got != s {
			t.Fatalf("%+v came back as %+v, %t, %v", s, got, ok, err)
		}
		if !bytes.HasPrefix(k, store.InterruptionsOf(s.Module)) {
			t.Fatalf("%s is not among those of module %q", k, s.Module)
		}
		for _, other := range [][2]string{{graphName + "x", node}, {graphName, node + "x"}} {
			if _, ok, err := store.InterruptedItem(k, other[0], other[1]); ok || err != nil {
				t.Fatalf("%s belongs to node %s of %s: %v", k, other[1], other[0], err)
			}
		}
	})
	for _, k := range []store.Key{nil, store.InterruptionsOf("nginx")} {
		if item, _, err := store.InterruptedItem(k, "", ""); err == nil {
			t.Errorf("%s is read as an interruption of %+v", k, item)
		}
	}
}

func TestAnExpeditedTaskTakesTheOlderOnesAlong(t *testing.T) {
	t.Parallel()
	d := store.Deferral{Expedited: store.ID{Epoch: 2, N: 5}}
	for id, want := range map[store.ID]bool{{Epoch: 2, N: 5}: true, {Epoch: 2, N: 4}: true, {Epoch: 1, N: 9}: true, {Epoch: 2, N: 6}: false, {Epoch: 3, N: 1}: false} {
		if got := d.Expedites(id); got != want {
			t.Errorf("task %s: %t", id, got)
		}
		if (store.Deferral{}).Expedites(id) {
			t.Errorf("task %s is expedited without a request", id)
		}
	}
}

func TestRunsAreNumberedAfterTheNewest(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		if n, err := store.NextRun(tx); n != 1 || err != nil {
			t.Errorf("the first run is %d, %v", n, err)
		}
		return errors.Join(store.Save(tx, store.RunKey(300), store.Run{ID: 300}), store.Save(tx, store.RunKey(2), store.Run{ID: 2}))
	})
	view(t, db, func(tx *store.Tx) error {
		if n, err := store.NextRun(tx); n != 301 || err != nil {
			t.Errorf("the run after run 300 is %d, %v", n, err)
		}
		for r, err := range store.RunsBackwards(tx) {
			if err != nil || r.ID != 300 {
				t.Errorf("the newest run is %d, %v", r.ID, err)
			}
			break // the loop may end early
		}
		return nil
	})
}

func TestTheHistoryOfARunIsInTheOrderOfItsAttempts(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	for i := range 3 {
		update(t, db, func(tx *store.Tx) (err error) {
			for try := range 100 {
				err = errors.Join(err, store.AddRecord(tx, store.Record{Run: 1, Try: i*100 + try}), store.AddRecord(tx, store.Record{Run: 2, Try: -1}))
			}
			return err
		})
	}
	view(t, db, func(tx *store.Tx) error {
		records := mustAll(t, store.RecordsOf(tx, 1))
		for i, r := range records {
			if r.Try != i {
				t.Fatalf("record %d is of attempt %d", i, r.Try)
			}
		}
		if len(records) != 300 {
			t.Errorf("%d records are yielded", len(records))
		}
		return nil
	})
}

func TestTrimmingTheHistoryPassesUnreadableRuns(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	update(t, db, func(tx *store.Tx) error {
		tx.Put(store.RunKey(1), []byte("7"))
		return errors.Join(store.AddRecord(tx, store.Record{Run: 1}), store.AddRecord(tx, store.Record{Run: 2}),
			store.Save(tx, store.RunKey(2), store.Run{ID: 2, Ended: now}), store.Save(tx, store.RunKey(3), store.Run{ID: 3, Ended: now}))
	})
	update(t, db, func(tx *store.Tx) error {
		size := 0
		for k, v := range tx.Range(store.RunKey(2)) {
			size += len(k) + len(v)
		}
		for k, v := range tx.Range(store.At(store.History).Uint(2)) {
			size += len(k) + len(v)
		}
		freed, more, err := store.TrimHistory(tx, now.Add(time.Second), 0, 100)
		if freed != int64(size) || more || err != nil {
			t.Errorf("%d of %d bytes are freed, more %t, %v", freed, size, more, err)
		}
		if len(mustAll(t, store.RecordsOf(tx, 1))) != 1 || len(mustAll(t, store.RecordsOf(tx, 2))) != 0 || tx.Get(store.RunKey(1)) == nil || tx.Get(store.RunKey(3)) == nil {
			t.Error("not exactly run 2 is deleted")
		}
		return nil
	})
}

func TestTrimmingTheHistoryDeletesRunsWithoutHistoryInPieces(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	const runs = 25
	update(t, db, func(tx *store.Tx) error {
		for id := range uint64(runs) {
			if err := store.Save(tx, store.RunKey(id+1), store.Run{ID: id + 1, Ended: now}); err != nil {
				return err
			}
		}
		return nil
	})
	pieces := 0
	for more := true; more; pieces++ {
		update(t, db, func(tx *store.Tx) (err error) {
			_, more, err = store.TrimHistory(tx, now.Add(time.Second), 0, 10)
			if n := tx.Written().Ops; n > 10 {
				t.Errorf("one piece deletes %d records, want at most 10", n)
			}
			return err
		})
	}
	view(t, db, func(tx *store.Tx) error {
		if left := mustAll(t, store.RunsBackwards(tx)); len(left) != 1 || left[0].ID != runs || pieces != 3 {
			t.Errorf("%d runs are left after %d pieces, want only the newest after 3", len(left), pieces)
		}
		return nil
	})
}

func TestActionsAfterAnotherAreOldestFirst(t *testing.T) {
	t.Parallel()
	db := inMemory(t)
	add := func(tx *store.Tx, what string) store.ID {
		if err := store.AddAction(tx, store.Action{Verb: "task retry", What: what}); err != nil {
			t.Fatal(err)
		}
		_, last, err := store.ActionsAfter(tx, store.ID{})
		if err != nil {
			t.Fatal(err)
		}
		return last
	}
	update(t, db, func(tx *store.Tx) error {
		if actions, last, err := store.ActionsAfter(tx, store.ID{Epoch: 4, N: 2}); len(actions) > 0 || last != (store.ID{Epoch: 4, N: 2}) || err != nil {
			t.Errorf("without actions: %v, the last is %s, %v", actions, last, err)
		}
		first := add(tx, "1-1")
		second, third := add(tx, "1-2"), add(tx, "1-3")
		for after, want := range map[store.ID][]string{{}: {"1-1", "1-2", "1-3"}, first: {"1-2", "1-3"}, second: {"1-3"}, third: nil} {
			actions, last, err := store.ActionsAfter(tx, after)
			var got []string
			for _, a := range actions {
				got = append(got, a.What)
			}
			if diff := cmp.Diff(want, got); diff != "" || last != third || err != nil {
				t.Errorf("after %s: the last is %s, %v (-want +got):\n%s", after, last, err, diff)
			}
		}
		// ActionsAfter skips an unreadable action, but returns its ID as the last one.
		tx.Put(store.At(store.Actions).Uint(tx.Epoch()).Uint(99), []byte("7"))
		actions, last, err := store.ActionsAfter(tx, second)
		if len(actions) != 1 || last != (store.ID{Epoch: tx.Epoch(), N: 99}) || err != nil {
			t.Errorf("before an unreadable action: %v, the last is %s, %v", actions, last, err)
		}
		return nil
	})
}
