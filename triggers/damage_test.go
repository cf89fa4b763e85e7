package triggers

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// damage overwrites the record under k with bytes of which only a part can be decoded.
func damage(t *testing.T, db *store.DB, k store.Key) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		if tx.Get(k) == nil {
			t.Errorf("there is no record %s", k)
		}
		tx.Put(k, []byte(`{"uid":1,"kind":1,"source":1,"gone":true,"owners":{"m/hooks/h pods":0}}`))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// damagedKeys returns the keys of the records that were moved to the table of damaged records.
func damagedKeys(t *testing.T, db *store.DB) (keys []string) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		for d, err := range store.AllDamaged(tx) {
			if err != nil {
				return err
			}
			keys = append(keys, store.Key(d.Key).String())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestADamagedRecordOfACursorDoesNotStopTheEventsOfItsSource(t *testing.T) {
	t.Parallel()
	change := func(d *testReceiver) {
		d.t.Helper()
		d.changed("20", kube.Change{Type: kube.Modified, Object: pod("a", 11, "y")}, kube.Change{Type: kube.Modified, Object: pod("b", 12, "y")})
	}
	list := func(objects ...*kube.Object) func(*testReceiver) {
		return func(d *testReceiver) { d.t.Helper(); d.listed(kube.Gap, "20", objects...) }
	}
	object := objectKey(cursorKey(label), pod("a", 1, "x"))
	for name, test := range map[string]struct {
		lost store.Key
		then func(*testReceiver)
		want []string
	}{
		"an object that changes":                  {object, change, []string{"Added a@11", "Modified b@12"}},
		"an object that is deleted":               {object, func(d *testReceiver) { d.changed("20", kube.Change{Type: kube.Deleted, Object: pod("a", 11, "x")}) }, []string{"Deleted a@11"}},
		"an object in a list":                     {object, list(pod("a", 1, "x"), pod("b", 12, "y")), []string{"Added a@1", "Modified b@12"}},
		"an object that a list no longer has":     {object, list(pod("b", 12, "y")), []string{"Deleted a@", "Modified b@12"}},
		"the mark, and objects change":            {markKey(cursorKey(label)), change, []string{"Modified a@11", "Modified b@12"}},
		"the mark before a list":                  {markKey(cursorKey(label)), list(pod("a", 1, "x"), pod("b", 12, "y")), []string{"Modified b@12"}},
		"the version, and objects change":         {versionKey(pods), change, []string{"Modified a@11", "Modified b@12"}},
		"the version before a list":               {versionKey(pods), list(pod("a", 11, "y")), []string{"Deleted b@", "Modified a@11"}},
		"a binding that would have got the event": {store.BindingKey("m", "hooks/late", "pods"), change, []string{"Modified a@11", "Modified b@12"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestReceiver(t)
			d.attachLate("")
			if test.lost.Table() != store.Bindings {
				d.update(func(tx *store.Tx) error { tx.Delete(store.BindingKey("m", "hooks/late", "pods")); return nil })
			}
			var reported []string
			d.damaged = func(r store.Damaged) { reported = append(reported, store.Key(r.Key).String()) }
			damage(t, d.db, test.lost)
			test.then(d)
			d.want(test.want...)
			lost := []string{test.lost.String()}
			if diff := cmp.Diff(lost, damagedKeys(t, d.db)); diff != "" {
				t.Errorf("damaged records (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(lost, reported); diff != "" {
				t.Errorf("reported records (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACursorWithADamagedMarkIsDeliveredAsANewView(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.attachLate("")
	damage(t, d.db, markKey(cursorKey(label)))
	if d.knows(label, hookPods, 0) {
		t.Error("the damaged mark knows the binding")
	}
	if views := (&earlierViews{db: d.db}).of(hookPods, 0); len(views) > 0 {
		t.Errorf("the damaged mark has the views %v", views)
	}
	if v := d.stored(label); v != "" {
		t.Errorf("the cursor with the damaged mark has the version %q", v)
	}
	d.listed(kube.Appeared, "20", pod("a", 11, "x"))
	d.want("Deleted b@", "Added a@11")
}

func TestADamagedBindingDoesNotStopTheOtherBindings(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pod := hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod"}
		c := followCluster(t, func(tx *store.Tx) error {
			if err := saveBinding(tx, "db", "pods", store.Kubernetes, pod, tx.Epoch()); err != nil {
				return err
			}
			tx.Put(store.BindingKey("a", "h", "pods"), []byte(`{"kind":`))
			return store.Save(tx, store.ModuleKey("db"), store.Module{State: store.On, RanInStart: 3})
		})
		c.ready("db")
		damage(t, c.db, store.BindingKey("db", "h", "pods"))
		synctest.Wait()
		c.update(func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, pod, tx.Epoch()) })
		c.ready("web")
		if diff := cmp.Diff([]string{"web/h pods"}, followedBy(c.Kube)); diff != "" {
			t.Errorf("followed (-want +got):\n%s", diff)
		}
		want := []string{store.BindingKey("a", "h", "pods").String(), store.BindingKey("db", "h", "pods").String()}
		if diff := cmp.Diff(want, damagedKeys(t, c.db)); diff != "" {
			t.Errorf("damaged records (-want +got):\n%s", diff)
		}
		c.update(func(tx *store.Tx) error {
			if m, _, err := store.Load[store.Module](tx, store.ModuleKey("db")); err != nil || m.RanInStart != 0 {
				t.Errorf("the next run of the module does not attach its bindings: %+v, %v", m, err)
			}
			return nil
		})
	})
}

// TestADamagedBindingDoesNotEndTheSchedulesAndTheWebhooks deletes the damaged binding, as the trigger Kube does. Then
// the other binding must be used.
func TestADamagedBindingDoesNotEndTheSchedulesAndTheWebhooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		attachSchedule(t, db, "*/10 * * * * *", false)
		lost := store.BindingKey("a", "h", "b")
		spoil := func() {
			if err := db.Update(func(tx *store.Tx) error { tx.Put(lost, []byte(`{"kind":`)); return nil }); err != nil {
				t.Error(err)
			}
		}
		remove := func() {
			if err := db.Update(func(tx *store.Tx) error { tx.Delete(lost); return nil }); err != nil {
				t.Error(err)
			}
		}
		served := 0
		w := NewWebhook(db, func(webhook.Table) { served++ })
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Second)
		defer cancel()
		go func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		}()
		spoil()
		got := ticks(t, db, Skip, 25*time.Second, func() {
			time.Sleep(5 * time.Second)
			remove()
			time.Sleep(10 * time.Second)
			spoil()
			time.Sleep(time.Second)
			remove()
		})
		if diff := cmp.Diff(seconds(10, 20), got); diff != "" || served == 0 {
			t.Errorf("the table of webhooks was served %d times; ticks (-want +got):\n%s", served, diff)
		}
	})
}

func TestADamagedTickOfAScheduleIsReplacedByTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		attachSchedule(t, db, "*/10 * * * * *", false)
		s := graph.Subject{Module: "m", Hook: "hooks/h", Binding: "tick"}
		if err := db.Update(func(tx *store.Tx) error { tx.Put(store.TickKey(s), []byte(`"20`)); return nil }); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(seconds(10), ticks(t, db, Once, 15*time.Second, nil)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestATickOfADamagedBindingIsNotRaised(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		raised := 0
		s := NewSchedule(db, raiserFunc(func(_ *store.Tx, events ...workflow.Event) error { raised += len(events); return nil }), Skip, zerolog.Nop())
		attachSchedule(t, db, "*/10 * * * * *", false)
		tickers := map[graph.Subject]*ticker{}
		if err := s.follow(tickers); err != nil {
			t.Fatal(err)
		}
		k := store.BindingKey("m", "hooks/h", "tick")
		damage(t, db, k)
		time.Sleep(10 * time.Second)
		if err := s.tick(t.Context(), tickers); err != nil || raised > 0 {
			t.Errorf("%d ticks were raised, error %v", raised, err)
		}
		if err := db.Update(func(tx *store.Tx) error { tx.Delete(k); return nil }); err != nil {
			t.Fatal(err)
		}
	})
}

// A raised tick needs records of the engine, for example of the tasks of its queue.
func TestTicksAreRaisedAgainAfterTheRepairOfARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db := storetest.Memory(t)
		attachSchedule(t, db, "*/10 * * * * *", false)
		begin, failed := time.Now(), 0
		var at []time.Duration
		s := NewSchedule(db, raiserFunc(func(_ *store.Tx, events ...workflow.Event) error {
			if failed < 2 {
				failed++
				return fmt.Errorf("claim: %w", &store.RecordError{Key: store.QueueKey("q"), Err: store.ErrCorrupt})
			}
			for range events {
				at = append(at, time.Since(begin))
			}
			return nil
		}), Skip, zerolog.Nop())
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if diff := cmp.Diff([]time.Duration{20 * time.Second, 30 * time.Second}, at); diff != "" || failed != 2 {
			t.Errorf("%d attempts failed; ticks (-want +got):\n%s", failed, diff)
		}
	})
}
