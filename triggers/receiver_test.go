package triggers

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

var (
	pods  = kube.Source{Version: "v1", Resource: "pods", Kind: "Pod", Namespace: "ns"}
	label = kube.View{Source: pods, Filter: ".metadata.labels"}
)

// A testReceiver is a receiver with one attached binding. The testReceiver collects the raised
// events.
type testReceiver struct {
	*receiver
	t         *testing.T
	delivered []string
	events    []workflow.Event
	seen      bool
}

func newTestReceiver(t *testing.T, wants ...string) *testReceiver {
	t.Helper()
	d := &testReceiver{t: t}
	db := storetest.Memory(t)
	d.receiver = &receiver{db: db, isFollowed: func(kube.View) bool { return d.seen }, attached: func(text string) (graph.Subject, bool) { return attachedAs(append(us, late), text) }, engine: raiserFunc(func(_ *store.Tx, events ...workflow.Event) error {
		for _, ev := range events {
			text := ev.Object.Event + " " + ev.Object.Name + "@" + ev.Object.ResourceVersion
			if owner(ev.Subject) == late {
				text = "late: " + text
			}
			d.delivered = append(d.delivered, text)
			d.events = append(d.events, ev)
		}
		return nil
	})}
	if len(wants) == 0 {
		wants = []string{"Added", "Modified", "Deleted"}
	}
	d.attach(false, wants...)
	return d
}

func (d *testReceiver) attach(detached bool, wants ...string) {
	d.t.Helper()
	config, err := json.Marshal(map[string]any{"name": "pods", "kind": "Pod", "executeHookOnEvent": wants, "queue": "q"})
	if err != nil {
		d.t.Fatal(err)
	}
	d.update(func(tx *store.Tx) error {
		return store.Save(tx, store.BindingKey("m", "hooks/h", "pods"),
			store.Binding{Kind: store.Kubernetes, Config: config, Queue: "q", Detached: detached})
	})
}

func (d *testReceiver) update(fn func(*store.Tx) error) {
	d.t.Helper()
	if err := d.db.Update(fn); err != nil {
		d.t.Fatal(err)
	}
}

// attachedAs returns the binding among owners for which Subject.String returns text.
func attachedAs(owners []string, text string) (graph.Subject, bool) {
	for _, name := range owners {
		if s := SubjectOf(name); s.String() == text {
			return s, true
		}
	}
	return graph.Subject{}, false
}

// late is an owner that joins the watch later than the owner in the variable us. The binding of
// late is attached with [testReceiver.attachLate].
var late = owner(graph.Subject{Module: "m", Hook: "hooks/late", Binding: "pods"})

// attachLate attaches late, with settings added to its configuration, and delivers a first list of the pods a and b
// to the owners late and us.
func (d *testReceiver) attachLate(settings string) {
	d.t.Helper()
	config := `{"name":"pods","kind":"Pod","executeHookOnEvent":["Added","Modified","Deleted"]` + settings + `}`
	d.update(func(tx *store.Tx) error {
		return store.Save(tx, store.BindingKey("m", "hooks/late", "pods"), store.Binding{Kind: store.Kubernetes, Config: json.RawMessage(config), Queue: "q"})
	})
	first := kube.List{View: label, Cause: kube.First, Owners: append([]string{late}, us...), Version: "10", Objects: []*kube.Object{pod("a", 1, "x"), pod("b", 2, "x")}}
	if err := d.Listed(d.t.Context(), first); err != nil {
		d.t.Fatal(err)
	}
}

var us = []string{owner(graph.Subject{Module: "m", Hook: "hooks/h", Binding: "pods"})}

func pod(name string, version int, labels string) *kube.Object {
	return &kube.Object{
		Namespace: "ns", Name: name, UID: "uid-" + name, ResourceVersion: fmt.Sprint(version),
		Checksum: labels, FilterResult: json.RawMessage(`"` + labels + `"`),
	}
}

func (d *testReceiver) listed(cause kube.Cause, version string, objects ...*kube.Object) {
	d.t.Helper()
	if err := d.Listed(d.t.Context(), kube.List{View: label, Cause: cause, Owners: us, Version: version, Objects: objects}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *testReceiver) changed(version string, changes ...kube.Change) {
	d.t.Helper()
	for i := range changes {
		changes[i].Filter, changes[i].Owners = label.Filter, us
	}
	if err := d.Changed(d.t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: version, Changes: changes}); err != nil {
		d.t.Fatal(err)
	}
}

func (d *testReceiver) stored(v kube.View) string {
	d.t.Helper()
	version, err := d.Stored(d.t.Context(), v)
	if err != nil {
		d.t.Fatal(err)
	}
	return version
}

func (d *testReceiver) want(delivered ...string) {
	d.t.Helper()
	if diff := cmp.Diff(delivered, d.delivered); diff != "" {
		d.t.Error(diff)
	}
	d.delivered = nil
}

func TestFirstListIsSilentAndLaterChangesAreTold(t *testing.T) {
	d := newTestReceiver(t)
	if v := d.stored(label); v != "" {
		t.Errorf("a view without deliveries has version %q", v)
	}
	d.listed(kube.First, "10", pod("a", 1, "x"), pod("b", 2, "x"))
	d.want()
	d.changed("20", kube.Change{Type: kube.Modified, Object: pod("a", 11, "y")}, kube.Change{Type: kube.Added, Object: pod("c", 12, "x")},
		kube.Change{Type: kube.Deleted, Object: pod("b", 13, "x")})
	d.want("Modified a@11", "Added c@12", "Deleted b@13")
	if v := d.stored(label); v != "20" {
		t.Errorf("version is %q, want 20", v)
	}
}

func TestCursorDecidesWhatAChangeIs(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "10", pod("a", 1, "x"))
	d.changed("20",
		kube.Change{Type: kube.Added, Object: pod("a", 1, "x")},       // delivered before, unchanged
		kube.Change{Type: kube.Added, Object: pod("a", 12, "y")},      // delivered before, changed
		kube.Change{Type: kube.Modified, Object: pod("new", 13, "x")}, // never delivered before
		kube.Change{Type: kube.Deleted, Object: pod("never", 14, "x")},
	)
	d.want("Modified a@12", "Added new@13")
}

func TestRecreatedObjectIsDeletedAndAdded(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "10", pod("a", 1, "x"))
	again := pod("a", 15, "x")
	again.UID = "another"
	d.changed("20", kube.Change{Type: kube.Modified, Object: again})
	d.want("Deleted a@", "Added a@15")
	if got := string(d.events[0].Payload); got != `{"filterResult":"x"}` {
		t.Errorf("the deletion shows %s, want the filter result that was delivered", got)
	}
}

func TestGapIsComparedWithWhatWasTold(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "10", pod("stays", 1, "x"), pod("changes", 2, "x"), pod("goes", 3, "x"), pod("odd", 4, "x"))
	odd := pod("odd", 33, "")
	odd.Unfiltered = true
	d.listed(kube.Gap, "50", pod("changes", 30, "y"), pod("comes", 31, "x"), odd, pod("stays", 32, "x"))
	d.want("Deleted goes@", "Modified changes@30", "Added comes@31")
	if v := d.stored(label); v != "50" {
		t.Errorf("version is %q, want 50", v)
	}
	d.listed(kube.Gap, "60", pod("changes", 30, "y"), pod("comes", 31, "x"), odd, pod("stays", 32, "x"))
	d.want()
}

func TestOwnerThatJoinsLateAfterARestartMissesNothing(t *testing.T) {
	changes := []kube.Change{{Type: kube.Modified, Object: pod("a", 11, "y")}, {Type: kube.Deleted, Object: pod("b", 12, "x")}, {Type: kube.Added, Object: pod("c", 13, "x")}}
	again := func() []kube.Change { return append([]kube.Change{}, changes...) }

	t.Run("the change has what it wants", func(t *testing.T) {
		d := newTestReceiver(t)
		d.attachLate("")
		d.changed("20", again()...)
		d.want("Modified a@11", "late: Modified a@11", "Deleted b@12", "late: Deleted b@12", "Added c@13", "late: Added c@13")
		d.wantBehind(false, late)
	})
	for name, settings := range map[string]string{
		"it wants full objects":      `,"keepFullObjectsInMemory":true`,
		"its namespaces have labels": `,"namespaces":{"labelSelector":{"matchLabels":{"a":"b"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestReceiver(t)
			d.attachLate(settings)
			d.changed("20", again()...)
			d.want("Modified a@11", "Deleted b@12", "Added c@13")
			d.changed("30", kube.Change{Type: kube.Modified, Object: pod("c", 21, "y")})
			d.want("Modified c@21")
			d.wantBehind(true, late)
			d.wantBehind(false, us...)
			d.resumed("30", pod("a", 11, "y"), pod("c", 21, "y"))
			d.want("late: Deleted b@", "late: Modified a@11", "late: Added c@21")
			d.wantBehind(false, late)
			d.resumed("30", pod("a", 11, "y"), pod("c", 21, "y"))
			d.want()
			if v := d.stored(label); v != "30" {
				t.Errorf("version is %q, want 30", v)
			}
		})
	}
	t.Run("it has joined and has a newer list", func(t *testing.T) {
		d := newTestReceiver(t)
		d.attachLate("")
		change := kube.Change{Type: kube.Modified, Object: pod("a", 11, "y"), Filter: label.Filter, Owners: us, Others: []string{late}}
		if err := d.Changed(t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: "20", Changes: []kube.Change{change}}); err != nil {
			t.Fatal(err)
		}
		d.want("Modified a@11")
		d.resumed("20", pod("a", 11, "y"), pod("b", 2, "x"))
		d.want()
	})
	for name, leave := range map[string]func(d *testReceiver) error{
		"its namespace does not match any more": func(d *testReceiver) error { d.seen = true; return d.Left(t.Context(), label, []string{late}) },
		"its namespace did not match at the start": func(d *testReceiver) error {
			return sweepOwners(t.Context(), d.db, func(binding string, _ kube.View) bool { return binding == SubjectOf(late).String() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newTestReceiver(t)
			d.attachLate("")
			if err := leave(d); err != nil {
				t.Fatal(err)
			}
			d.changed("20", again()...)
			d.want("Modified a@11", "Deleted b@12", "Added c@13")
			if d.knows(label, SubjectOf(late), 0) {
				t.Error("the cursor knows the binding")
			}
			if !d.knows(label, SubjectOf(us[0]), 0) {
				t.Error("the cursor does not know the other binding")
			}
		})
	}
}

// The namespace of the view stops matching, and matches again before the watch calls Left. So the monitor of the owner
// late follows the view again.
func TestAnOwnerThatFollowsAViewAgainBeforeItHasLeftIsListedAgain(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.attachLate("")
	d.seen = true
	if err := d.Left(t.Context(), label, []string{late}); err != nil {
		t.Fatal(err)
	}
	d.wantBehind(true, late)
	d.wantBehind(false, us...)
	d.resumed("20", pod("a", 11, "y"), pod("b", 2, "x"))
	d.want("late: Modified a@11", "Modified a@11")
	d.wantBehind(false, late)
	if !d.knows(label, SubjectOf(late), 0) {
		t.Error("the cursor does not know the binding")
	}
}

// wantBehind checks that Behind returns want for owners.
func (d *testReceiver) wantBehind(want bool, owners ...string) {
	d.t.Helper()
	if behind, err := d.Behind(d.t.Context(), label, owners); err != nil || behind != want {
		d.t.Errorf("%q are behind: %t (%v), want %t", owners, behind, err, want)
	}
}

// resumed delivers a list with the cause Resumed to the owners late and us.
func (d *testReceiver) resumed(version string, objects ...*kube.Object) {
	d.t.Helper()
	list := kube.List{View: label, Cause: kube.Resumed, Owners: append([]string{late}, us...), Version: version, Objects: objects}
	if err := d.Listed(d.t.Context(), list); err != nil {
		d.t.Fatal(err)
	}
}

func TestAppearedObjectsAreAddedToThoseWhoWereShownNone(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "10", pod("a", 1, "x"))
	d.listed(kube.Appeared, "50", pod("a", 1, "x"))
	d.want("Added a@1")
	if v := d.stored(label); v != "10" {
		t.Errorf("version is %q; the state at version 10 was delivered already", v)
	}
	fresh := newTestReceiver(t)
	fresh.listed(kube.Appeared, "50", pod("a", 1, "x"))
	fresh.want("Added a@1")
	if v := fresh.stored(label); v != "50" {
		t.Errorf("version is %q, want 50", v)
	}
}

func TestOnlyWantedEventsOfAttachedBindingsAreRaisedAndTheCursorMovesAllTheSame(t *testing.T) {
	d := newTestReceiver(t, "Deleted")
	d.listed(kube.First, "10")
	d.changed("20", kube.Change{Type: kube.Added, Object: pod("a", 11, "x")})
	d.want()
	d.attach(true, "Added", "Modified", "Deleted")
	d.changed("30", kube.Change{Type: kube.Modified, Object: pod("a", 21, "y")})
	d.want()
	d.attach(false, "Added", "Modified", "Deleted")
	d.changed("40", kube.Change{Type: kube.Modified, Object: pod("a", 31, "y")})
	d.want()
	d.changed("50", kube.Change{Type: kube.Deleted, Object: pod("a", 41, "y")})
	d.want("Deleted a@41")
}

func TestBatchMovesOnlyTheViewsItNames(t *testing.T) {
	d := newTestReceiver(t)
	whole := kube.View{Source: pods}
	d.listed(kube.First, "10")
	if err := d.Listed(t.Context(), kube.List{View: whole, Cause: kube.First, Version: "90"}); err != nil {
		t.Fatal(err)
	}
	d.changed("40")
	if got := d.stored(label) + " " + d.stored(whole); got != "40 90" {
		t.Errorf("versions are %s, want 40 90", got)
	}
}

func TestLargeBatchesAreToldWholeInPieces(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "1")
	var changes []kube.Change
	for i := range 3007 {
		changes = append(changes, kube.Change{Type: kube.Added, Object: pod(fmt.Sprintf("p%05d", i), 2+i, "x")})
	}
	d.changed("9999", changes...)
	if len(d.delivered) != len(changes) {
		t.Errorf("%d events for %d changes", len(d.delivered), len(changes))
	}
	d.delivered = nil
	d.changed("9999", changes...) // delivered again, as after an error that occurs when the last piece is committed already
	d.want()
}

func TestTheVersionOfAWatchMovesAfterAllEventsOfABatch(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "1")
	var changes []kube.Change
	for i := range 3007 { // more changes than one transaction delivers
		changes = append(changes, kube.Change{
			Type: kube.Added, Object: pod(fmt.Sprintf("p%05d", i), 2+i, "x"), Filter: label.Filter, Owners: us,
		})
	}
	d.endAfterOneCommit()
	if err := d.Changed(t.Context(), kube.Batch{Source: pods, Filters: []string{label.Filter}, Version: "9999", Changes: changes}); err == nil {
		t.Fatal("the batch was delivered in one transaction")
	}
	d.db.Guard(nil)
	if version := d.stored(label); version != "1" {
		t.Errorf("%d of %d events are raised, and a watch would continue from version %q", len(d.delivered), len(changes), version)
	}
}

// endAfterOneCommit makes the store reject all commits after the next one.
func (d *testReceiver) endAfterOneCommit() {
	commits := 0
	d.db.Guard(func() error {
		if commits++; commits > 1 {
			return errors.New("the process ends")
		}
		return nil
	})
}

func TestCursorsOfViewsThatNobodySeesAreForgotten(t *testing.T) {
	d := newTestReceiver(t)
	whole := kube.View{Source: pods}
	d.listed(kube.First, "10", pod("a", 1, "x"))
	if err := d.Listed(t.Context(), kube.List{View: whole, Cause: kube.First, Version: "10", Objects: []*kube.Object{pod("a", 1, "x")}}); err != nil {
		t.Fatal(err)
	}
	d.seen = true
	if err := d.Left(t.Context(), label, us); err != nil {
		t.Fatal(err)
	}
	if d.stored(label) == "" {
		t.Error("a cursor was deleted although its view is in use")
	}
	if err := sweepCursors(t.Context(), d.db, map[string]bool{string(cursorKey(whole)): true}); err != nil {
		t.Fatal(err)
	}
	if got := d.stored(label) + " " + d.stored(whole); got != " 10" {
		t.Errorf("versions are %q, want only that of the view in use", got)
	}
	d.listed(kube.First, "70", pod("a", 1, "x"))
	d.want()
}

// The other binding has followed the view in an earlier process. It has not joined the watch yet, so no monitor follows
// the view.
func TestACursorStaysWhileAnotherOwnerHasNotJoinedYet(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(d *testReceiver) error{
		"the namespace does not match any more": func(d *testReceiver) error { return d.Left(d.t.Context(), label, us) },
		"the monitor was closed": func(d *testReceiver) error {
			return d.forget(d.t.Context(), label, func() (bool, error) { return d.inUse(label, us) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newTestReceiver(t)
			d.attachLate("")
			if err := leave(d); err != nil {
				t.Fatal(err)
			}
			if !d.knows(label, SubjectOf(late), 0) || d.stored(label) != "10" {
				t.Error("the cursor that a binding needs was deleted")
			}
			d.update(func(tx *store.Tx) error { tx.Delete(store.BindingKey("m", "hooks/late", "pods")); return nil })
			if err := leave(d); err != nil {
				t.Fatal(err)
			}
			if version := d.stored(label); version != "" {
				t.Errorf("a cursor that no binding needs has version %q", version)
			}
		})
	}
}

func TestACursorWhoseDeletionWasInterruptedIsNone(t *testing.T) {
	d := newTestReceiver(t)
	var pods []*kube.Object
	for i := range 12_000 { // more records than one transaction deletes
		pods = append(pods, pod(fmt.Sprint("p", i), 1, "a"))
	}
	d.listed(kube.First, "1", pods...)
	d.endAfterOneCommit()
	if err := d.Left(t.Context(), label, us); err == nil {
		t.Fatal("the cursor was deleted in one transaction")
	}
	d.db.Guard(nil)
	if version := d.stored(label); version != "" {
		t.Errorf("a watch would continue from version %q", version)
	}
	d.listed(kube.First, "2", pods[0])
	d.changed("3", kube.Change{Type: kube.Deleted, Object: pods[0]})
	d.want("Deleted p0@1")
}

func TestAListAgainTellsWhatDiffersFromWhatWasTold(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "10", pod("a", 1, "x"), pod("b", 2, "x"), pod("c", 3, "x"))
	d.listed(kube.Periodic, "20", pod("a", 1, "x"), pod("b", 2, "late"), pod("d", 4, "x"))
	d.want("Deleted c@", "Modified b@2", "Added d@4")
	d.listed(kube.Periodic, "20", pod("a", 1, "x"), pod("b", 2, "late"), pod("d", 4, "x"))
	d.want()
	if v := d.stored(label); v != "20" {
		t.Errorf("the version is %s", v)
	}
}

func TestEventsOfLegacyBindingsAreDoneAlone(t *testing.T) {
	d := newTestReceiver(t)
	d.listed(kube.First, "10")
	d.changed("11", kube.Change{Type: kube.Added, Object: pod("a", 11, "x")})
	config := []byte(`{"name":"pods","kind":"Pod","executeHookOnEvent":["Added"],"queue":"q","legacy":true}`)
	d.update(func(tx *store.Tx) error {
		return store.Save(tx, store.BindingKey("m", "hooks/h", "pods"), store.Binding{Kind: store.Kubernetes, Config: config, Queue: "q"})
	})
	d.changed("12", kube.Change{Type: kube.Added, Object: pod("b", 12, "x")})
	if len(d.events) != 2 || d.events[0].NoBatch || !d.events[1].NoBatch {
		t.Errorf("events are %+v", d.events)
	}
}

func TestWhatAFilterFailedOnIsAddedWhenItIsWhole(t *testing.T) {
	half := pod("half", 1, "")
	half.Unfiltered, half.FilterResult = true, nil
	for _, cause := range []kube.Cause{kube.First, kube.Appeared} {
		d := newTestReceiver(t)
		if cause == kube.Appeared {
			d.listed(kube.First, "5", half)
		}
		d.listed(cause, "10", half)
		d.want()
		d.changed("11", kube.Change{Type: kube.Modified, Object: pod("half", 11, "x")})
		d.want("Added half@11")
	}
}

func TestWhatAFilterFailedOnGoesInSilence(t *testing.T) {
	half := pod("half", 1, "")
	half.Unfiltered, half.FilterResult = true, nil
	d := newTestReceiver(t)
	d.listed(kube.First, "10", half)
	d.changed("11", kube.Change{Type: kube.Deleted, Object: half})
	d.want()
}

func TestCauseOfAnEventNamesWhoChangedTheObject(t *testing.T) {
	t.Parallel()
	d := newTestReceiver(t)
	d.listed(kube.First, "1")
	by := func(manager string, version int, labels string) *kube.Object {
		o := pod("a", version, labels)
		o.Manager = manager
		return o
	}
	d.changed("4",
		kube.Change{Type: kube.Added, Object: by("kubectl-create", 2, "x")},
		kube.Change{Type: kube.Modified, Object: by("kubelet (status)", 3, "y")},
		kube.Change{Type: kube.Deleted, Object: by("kubelet (status)", 4, "y")}) // a deleted object does not show who deleted it
	var managers []string
	for _, ev := range d.events {
		managers = append(managers, ev.Cause.Event+" "+ev.Cause.Manager)
	}
	if diff := cmp.Diff([]string{"Added kubectl-create", "Modified kubelet (status)", "Deleted "}, managers); diff != "" {
		t.Errorf("managers in causes (-want +got):\n%s", diff)
	}
}
