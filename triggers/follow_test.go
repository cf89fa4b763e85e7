package triggers

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"golang.org/x/sync/errgroup"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
)

// changedBindings changes the bindings in the store of k, and makes k read them.
func changedBindings(t *testing.T, k *Kube, change func(*store.Tx) error) {
	t.Helper()
	if err := k.db.Update(change); err != nil {
		t.Fatal(err)
	}
	if _, err := k.readBindings(); err != nil {
		t.Fatal(err)
	}
}

// follow makes k follow the changes of its bindings until the test ends. It starts no watch.
func follow(t *testing.T, k *Kube) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	group := new(errgroup.Group)
	group.Go(func() error { return k.follow(ctx, group) })
	t.Cleanup(func() {
		cancel()
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// followedBy returns the followed bindings of k in their order.
func followedBy(k *Kube) (names []string) {
	for _, s := range inOrder(k.follows) {
		names = append(names, s.String())
	}
	return names
}

// TestKubernetesBindingsAreFollowedAsLongAsTheyExist needs no cluster, because the watches do not run.
func TestKubernetesBindingsAreFollowedAsLongAsTheyExist(t *testing.T) {
	t.Parallel()
	k := NewKube(storetest.Memory(t), nil, nil, nil, kube.Observer{}, zerolog.Nop())
	if _, attached := k.attachedAs("web/h pods"); attached {
		t.Error("before the first read, a binding is attached")
	}
	pod := hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod"}
	changedBindings(t, k, func(tx *store.Tx) error {
		for _, module := range []string{"web", "db"} {
			if err := saveBinding(tx, module, "pods", store.Kubernetes, pod, 1); err != nil {
				return err
			}
		}
		return saveBinding(tx, "web", "tick", store.Schedule, hook.ScheduleBinding{Name: "tick"}, 1)
	})
	if diff := cmp.Diff([]string{"db/h pods", "web/h pods"}, followedBy(k)); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
	web := graph.Subject{Module: "web", Hook: "h", Binding: "pods"}
	if s, attached := k.attachedAs("web/h pods"); !attached || s != web {
		t.Errorf("the binding is %+v, attached %t", s, attached)
	}
	first := k.follows[web]
	changedBindings(t, k, func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, pod, 2) })
	if k.follows[web] != first {
		t.Error("the watch of a binding with the same configuration begins again")
	}
	changedBindings(t, k, func(tx *store.Tx) error {
		other := pod
		other.NameSelector = []string{"x"}
		return saveBinding(tx, "web", "pods", store.Kubernetes, other, 2)
	})
	if k.follows[web] == first || k.follows[web] == nil {
		t.Error("the watch of a binding with another configuration does not begin again")
	}
	if objects := k.Snapshot(web); len(objects) != 0 {
		t.Errorf("before the first list, the snapshot is %v", objects)
	}
	changedBindings(t, k, func(tx *store.Tx) error { tx.Delete(store.BindingKey("web", "h", "pods")); return nil })
	if diff := cmp.Diff([]string{"db/h pods"}, followedBy(k)); diff != "" {
		t.Errorf("after a detachment (-want +got):\n%s", diff)
	}
	if _, attached := k.attachedAs("web/h pods"); attached || k.Snapshot(web) != nil {
		t.Errorf("the detached binding is attached: %t, with the snapshot %v", attached, k.Snapshot(web))
	}
	if k.isFollowed(kube.View{Source: pods}) || len(k.FailingFilters()) > 0 {
		t.Error("a view is followed, or a filter fails, before the first list")
	}
}

func TestAHookIsReadyWhenItsLastChangeIsFollowed(t *testing.T) {
	t.Parallel()
	k := NewKube(storetest.Memory(t), nil, nil, nil, kube.Observer{}, zerolog.Nop())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := k.Ready(ctx, "web", "h"); !errors.Is(err, context.Canceled) {
		t.Errorf("before Run, the hook is ready: %v", err)
	}
	follow(t, k)
	broken := hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod", JqFilter: ".["}
	for n := range 100 {
		if err := k.Ready(t.Context(), "web", "h"); err != nil {
			t.Fatalf("the hook without a binding is not ready after %d changes: %v", n, err)
		}
		update := func(change func(*store.Tx) error) {
			t.Helper()
			if err := k.db.Update(change); err != nil {
				t.Fatal(err)
			}
		}
		update(func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, broken, 1) })
		if err := k.Ready(t.Context(), "web", "h"); err == nil {
			t.Fatalf("the hook with an invalid binding is ready after %d changes", n)
		}
		update(func(tx *store.Tx) error { tx.Delete(store.BindingKey("web", "h", "pods")); return nil })
	}
}

// TestReadyWaitsForAChangeThatIsNotFollowedYet calls awaitChange when both a change and a call of Ready are waiting.
// Go chooses one of them at random, and the call must not be answered in either case.
func TestReadyWaitsForAChangeThatIsNotFollowedYet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := NewKube(storetest.Memory(t), nil, nil, nil, kube.Observer{}, zerolog.Nop())
		for range 50 {
			if err := k.db.Update(func(tx *store.Tx) error {
				return saveBinding(tx, "web", "tick", store.Schedule, hook.ScheduleBinding{Name: "tick"}, 1)
			}); err != nil {
				t.Fatal(err)
			}
			answer := make(chan struct{})
			go func() { k.asked <- answer }()
			synctest.Wait()
			caughtUp, more := k.awaitChange(t.Context())
			if !more {
				t.Fatal("Run ends")
			}
			select {
			case <-answer:
				t.Fatal("Ready returns before the change is followed")
			default:
			}
			if caughtUp == nil {
				<-k.asked
			}
		}
	})
}

func TestAHookWithAnInvalidBindingIsNotReady(t *testing.T) {
	t.Parallel()
	k := NewKube(storetest.Memory(t), nil, nil, nil, kube.Observer{}, zerolog.Nop())
	changedBindings(t, k, func(tx *store.Tx) error {
		return saveBinding(tx, "web", "pods", store.Kubernetes, hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod", JqFilter: ".["}, 1)
	})
	follow(t, k)
	if err := k.Ready(t.Context(), "web", "h"); err == nil || !strings.HasPrefix(err.Error(), "binding pods: ") {
		t.Errorf("the hook is ready with the error %v", err)
	}
	for _, name := range []string{"other", ""} {
		if err := k.Ready(t.Context(), "web", name); err != nil {
			t.Errorf("hook %q, which has no binding, is not ready: %v", name, err)
		}
	}
	for _, id := range []string{"pods", "none"} {
		s := graph.Subject{Module: "web", Hook: "h", Binding: id}
		if objects := k.Snapshot(s); objects != nil || k.IsComplete(s) {
			t.Errorf("the snapshot of binding %s, which is not followed, is %v; complete: %t", id, objects, k.IsComplete(s))
		}
	}
}

func TestBindingsThatAreNotFollowedAreLogged(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]any{
		"the configuration cannot be decoded": []int{1},
		"the filter is invalid":               hook.KubernetesBinding{Name: "pods", APIVersion: "v1", Kind: "Pod", JqFilter: ".["},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			k := NewKube(storetest.Memory(t), nil, nil, nil, kube.Observer{}, zerolog.New(&log))
			for range 2 {
				changedBindings(t, k, func(tx *store.Tx) error { return saveBinding(tx, "web", "pods", store.Kubernetes, config, 1) })
			}
			want := `"hook":"web/h pods","message":"binding is not followed"}`
			if lines := log.String(); !strings.Contains(lines, want) || strings.Count(lines, "\n") != 1 {
				t.Errorf("got the log %s, want one line with %s", lines, want)
			}
		})
	}
}

func TestADeletedCursorLeavesNoVersion(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	whole := kube.View{Source: pods}
	kept := func() (all versions) {
		t.Helper()
		if err := d.db.View(func(tx *store.Tx) (err error) {
			all, _, err = store.Load[versions](tx, versionKey(pods))
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return all
	}
	d.listed(kube.First, "10", pod("a", 1, "x"))
	if err := d.Listed(t.Context(), kube.List{View: whole, Cause: kube.First, Version: "20"}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		view kube.View
		want versions
	}{{label, versions{"": "20"}}, {whole, nil}, {whole, nil}} {
		if err := deleteCursor(t.Context(), d.db, step.view); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.want, kept()); diff != "" {
			t.Errorf("without the cursor of %s (-want +got):\n%s", step.view, diff)
		}
	}
}

// TestABindingThatAppearsDoesNotMoveTheCursorOfTheOthers delivers a new state of an object to a new binding first.
// The other binding must still receive this state.
func TestABindingThatAppearsDoesNotMoveTheCursorOfTheOthers(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.attachLate("")
	newer := pod("a", 40, "y")
	if err := d.Listed(t.Context(), kube.List{View: label, Cause: kube.Appeared, Owners: []string{late}, Version: "50", Objects: []*kube.Object{newer}}); err != nil {
		t.Fatal(err)
	}
	d.want("late: Added a@40")
	change := kube.Change{Type: kube.Modified, Object: newer, Filter: label.Filter, Owners: us, Others: []string{late}}
	if err := d.Changed(t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: "40", Changes: []kube.Change{change}}); err != nil {
		t.Fatal(err)
	}
	d.want("Modified a@40")
}

func TestAListThatJoinsMovesNoVersion(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.listed(kube.First, "10", pod("a", 1, "x"))
	d.listed(kube.Joined, "50", pod("a", 40, "y"), pod("b", 41, "x"))
	d.want()
	if v := d.stored(label); v != "10" {
		t.Errorf("the version is %q, want 10", v)
	}
	if !d.knows(label, SubjectOf(us[0]), 0) {
		t.Error("the cursor does not know the binding")
	}
	d.changed("50", kube.Change{Type: kube.Modified, Object: pod("a", 40, "y")})
	d.want("Modified a@40")
}

func TestADamagedRecordOfTheStartEndsTheWebhooks(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	save := func(text string) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error { tx.Put(store.StartupKey(), []byte(text)); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	save("{")
	if _, err := NewWebhook(db, nil).attached(); err == nil {
		t.Error("the table of webhooks is complete or not without the record of the start")
	}
	save("{}") // the check of the store at the end of the test rejects damaged records
}

func TestViewsThatWereDeliveredEarlierAreReadOnce(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.attachLate("")
	if err := d.Listed(t.Context(), kube.List{View: kube.View{Source: pods}, Cause: kube.First, Owners: us, Version: "10"}); err != nil {
		t.Fatal(err)
	}
	source := pods
	source.Kind = ""
	e := &earlierViews{db: d.db}
	if diff := cmp.Diff([]kube.View{{Source: source, Filter: label.Filter}}, e.of(SubjectOf(late), 0)); diff != "" {
		t.Errorf("earlier views (-want +got):\n%s", diff)
	}
	if views := e.of(SubjectOf(us[0]), 0); len(views) != 2 {
		t.Errorf("the owner of two cursors has the earlier views %v", views)
	}
	if views := e.of(SubjectOf(late), 1); len(views) > 0 {
		t.Errorf("the binding that was attached again has the earlier views %v", views)
	}
	e.drop()
	if views := e.of(SubjectOf(late), 0); len(views) > 0 {
		t.Errorf("after drop, the binding has the earlier views %v", views)
	}
}
