package kube_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/kube"
)

func TestChangesAreToldInOrderAndNoneIsLost(t *testing.T) {
	t.Parallel()
	for name, period := range map[string]time.Duration{"watched": 0, "listed again all the time": 5 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, k := newFixture(t), newDurableReceiver()
			deliveredInOrder(t, s, k, kube.Spec{Owner: "hook", Selection: s.configMaps(), KeepFull: true, Period: period})
			if period == 0 {
				return
			}
			k.until(t, "lists", func(k *durableReceiver) bool { return len(k.lists) > 10 })
		})
	}
}

// deliveredInOrder creates, changes and deletes objects, and checks that all these changes are delivered in order.
func deliveredInOrder(t *testing.T, s *fixture, k *durableReceiver, spec kube.Spec) {
	t.Helper()
	s.create(t, "before")
	m := s.begin(t, k).open(t, spec)
	if got := shown(m); !slices.Equal(got, []string{"before"}) {
		t.Fatalf("the snapshot shows %q", got)
	}
	const objects, rounds = 20, 50 // 1000 changes
	want := make([][]string, objects)
	var writers sync.WaitGroup
	for i := range objects {
		writers.Go(func() {
			name := objectName(i)
			want[i] = append(want[i], "Added "+s.create(t, name).ResourceVersion)
			for round := range rounds - 2 {
				want[i] = append(want[i], "Modified "+s.update(t, name, "round", fmt.Sprint(round)).ResourceVersion)
			}
			s.delete(t, name)
			want[i] = append(want[i], "Deleted")
		})
	}
	writers.Wait()
	k.until(t, "all 1000 changes", func(k *durableReceiver) bool { return len(k.events) >= objects*rounds })
	got := map[string][]string{}
	for _, e := range k.events {
		name := strings.TrimPrefix(e.object, s.namespace+"/")
		if e.change == kube.Deleted {
			got[name] = append(got[name], "Deleted")
			continue
		}
		got[name] = append(got[name], string(e.change)+" "+e.version)
		if !strings.Contains(e.raw, `"resourceVersion":"`+e.version+`"`) || !strings.Contains(e.raw, `"managedFields"`) {
			t.Fatalf("%s came as %s", e.object, e.raw)
		}
	}
	for i, changes := range want {
		if name := objectName(i); !slices.Equal(got[name], changes) {
			t.Errorf("%s: delivered %q, want %q", name, got[name], changes)
		}
	}
	if got := shown(m); !slices.Equal(got, []string{"before"}) {
		t.Errorf("in the end the snapshot shows %q", got)
	}
	t.Logf("%d changes in %d batches", len(k.events), len(k.batches))
}

func TestWhatHappenedWhileAwayIsToldAfterwards(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	spec := kube.Spec{Owner: "hook", Selection: s.configMaps(), Filter: filter(t, ".data")}
	s.create(t, "stays", "a", "1")
	s.create(t, "changes", "a", "1")
	s.create(t, "goes", "a", "1")
	first := s.begin(t, k)
	first.open(t, spec)
	s.create(t, "later", "a", "1")
	k.untilDelivered(t, "hook", "Added later")
	first.stop()

	s.update(t, "changes", "a", "2")
	s.delete(t, "goes")
	s.create(t, "comes", "a", "1")
	s.create(t, "flits", "a", "1")
	s.delete(t, "flits")
	s.delete(t, "later")
	s.create(t, "later", "a", "1")

	spec.Resume = true
	second := s.begin(t, k)
	m := second.open(t, spec)
	if got := shown(m); !slices.Equal(got, []string{"changes", "comes", "later", "stays"}) {
		t.Errorf("the snapshot shows %q", got)
	}
	k.untilDelivered(t, "hook", "Added later",
		"Modified changes", "Deleted goes", "Added comes", "Added flits", "Deleted flits", "Deleted later", "Added later")
	if got := k.causes(); !slices.Equal(got, []kube.Cause{kube.First}) {
		t.Errorf("lists were delivered because of %q", got)
	}
	s.update(t, "stays", "a", "2") // this change must be delivered, and must be in the snapshot
	k.until(t, "the next change", func(k *durableReceiver) bool { return len(k.events) == 9 })
	eventually(t, "the snapshot to move on", func() bool { return string(m.Snapshot()[3].FilterResult) == `{"a":"2"}` })
}

// TestAnOwnerWithoutASnapshotMissesNothingAfterItsFirstList has an owner that got an event before the restart, but not
// its snapshot.
func TestAnOwnerWithoutASnapshotMissesNothingAfterItsFirstList(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	spec := kube.Spec{Owner: "hook", Selection: s.configMaps()}
	first := s.begin(t, k)
	first.open(t, spec)
	s.create(t, "one")
	k.untilDelivered(t, "hook", "Added one")
	first.stop()
	s.delete(t, "one")

	spec.Delivered = func(kube.View) bool { return true }
	second := s.begin(t, k)
	m := second.open(t, spec)
	if got := shown(m); len(got) > 0 {
		t.Errorf("the snapshot shows %q", got)
	}
	k.untilDelivered(t, "hook", "Added one", "Deleted one")
}

func TestOwnerThatJoinsAViewLateAfterARestartGetsItsList(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	specs := []kube.Spec{{Owner: "a", Selection: s.configMaps()}, {Owner: "b", Selection: s.configMaps()}}
	first := s.begin(t, k)
	for i := range specs {
		first.open(t, specs[i])
		specs[i].Resume = true
	}
	first.stop()
	s.create(t, "one")

	second := s.begin(t, k)
	second.open(t, specs[0])
	k.untilDelivered(t, "a", "Added one")
	if got := k.causes(); !slices.Equal(got, []kube.Cause{kube.First, kube.Joined}) {
		t.Errorf("lists were delivered because of %q, although nobody was behind", got)
	}
	k.mu.Lock()
	k.behind = []string{"b"}
	k.mu.Unlock()
	second.open(t, specs[1])
	k.until(t, "a list for the late owner", func(k *durableReceiver) bool { return len(k.lists) == 3 })
	k.mu.Lock()
	list, before, change := k.lists[2], k.versions[k.lists[2].View], k.batches[len(k.batches)-1].Changes[0]
	k.mu.Unlock()
	if list.Cause != kube.Resumed || !slices.Equal(list.Owners, []string{"a", "b"}) || len(list.Others) > 0 || len(list.Objects) != 1 {
		t.Errorf("the list of %d objects is delivered to %q, not to %q, because of %q", len(list.Objects), list.Owners, list.Others, list.Cause)
	}
	if list.Version != before || kube.After(list.Objects[0].ResourceVersion, list.Version) {
		t.Errorf("the list has version %s, and contains version %s", list.Version, list.Objects[0].ResourceVersion)
	}
	if !slices.Equal(change.Owners, []string{"a"}) || len(change.Others) > 0 {
		t.Errorf("before that, the change was delivered to %q, not to %q", change.Owners, change.Others)
	}
	s.update(t, "one", "a", "2")
	k.untilDelivered(t, "a", "Added one", "Modified one")
	k.untilDelivered(t, "b", "Modified one")

	third := kube.Spec{Owner: "c", Selection: s.configMaps()}
	second.open(t, third)
	k.until(t, "a list for the new owner", func(k *durableReceiver) bool { return len(k.lists) == 4 })
	k.mu.Lock()
	defer k.mu.Unlock()
	if list := k.lists[3]; list.Cause != kube.Joined || !slices.Equal(list.Owners, []string{"c"}) || !slices.Equal(list.Others, []string{"a", "b"}) {
		t.Errorf("the list is delivered to %q, not to %q, because of %q", list.Owners, list.Others, list.Cause)
	}
}

func TestAViewThatIsFollowedLaterThanOthersMissesNothing(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	specs := []kube.Spec{
		{Owner: "a", Selection: s.configMaps(), Filter: filter(t, ".data")},
		{Owner: "b", Selection: s.configMaps(), Filter: filter(t, ".data.a"), KeepFull: true},
	}
	s.create(t, "stays", "a", "1")
	first := s.begin(t, k)
	for i := range specs {
		first.open(t, specs[i])
		specs[i].Resume = true
	}
	s.create(t, "one", "a", "1")
	k.untilDelivered(t, "b", "Added one")
	first.stop()
	s.create(t, "flits", "a", "1")
	s.delete(t, "flits")

	second := s.begin(t, k)
	a := second.open(t, specs[0])
	k.untilDelivered(t, "a", "Added one", "Added flits", "Deleted flits")
	s.update(t, "one", "a", "2")
	k.untilDelivered(t, "a", "Added one", "Added flits", "Deleted flits", "Modified one")
	b := second.open(t, specs[1])
	k.untilDelivered(t, "b", "Added one", "Added flits", "Deleted flits", "Modified one")
	s.update(t, "one", "a", "3")
	k.untilDelivered(t, "b", "Added one", "Added flits", "Deleted flits", "Modified one", "Modified one")
	k.untilDelivered(t, "a", "Added one", "Added flits", "Deleted flits", "Modified one", "Modified one")
	for _, m := range []*kube.Monitor{a, b} {
		if got := shown(m); !slices.Equal(got, []string{"one", "stays"}) {
			t.Errorf("the snapshot shows %q", got)
		}
	}
	if len(second.logs.refused) != 0 {
		t.Errorf("versions %q were refused", second.logs.refused)
	}
}

func TestARefusedVersionIsToldAsAGap(t *testing.T) {
	t.Parallel()
	for name, version := range map[string]string{"ahead of the server": "999999999999", "not a number": "x"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, k := newFixture(t), newDurableReceiver()
			spec := kube.Spec{Owner: "hook", Selection: s.configMaps(), Filter: filter(t, ".data"), KeepFull: true}
			for _, name := range []string{"stays", "changes", "goes", "returns"} {
				s.create(t, name, "a", "1")
			}
			first := s.begin(t, k)
			view := first.open(t, spec).Views()[0]
			first.stop()
			s.update(t, "changes", "a", "2")
			s.delete(t, "goes")
			s.create(t, "comes", "a", "1")
			s.delete(t, "returns")
			s.create(t, "returns", "a", "1")
			k.mu.Lock()
			k.versions[view] = version
			k.mu.Unlock()

			spec.Resume = true
			second := s.begin(t, k)
			m := second.open(t, spec)
			k.until(t, "the gap", func(k *durableReceiver) bool { return len(k.events) == 5 })
			want := []string{"Modified changes", "Added comes", "Deleted returns", "Added returns", "Deleted goes"}
			if got := k.deliveredTo("hook"); !slices.Equal(got, want) {
				t.Errorf("delivered %q, want %q", got, want)
			}
			if got := k.causes(); !slices.Equal(got, []kube.Cause{kube.First, kube.Gap}) {
				t.Errorf("lists were delivered because of %q", got)
			}
			if got := second.logs.refused; !slices.Equal(got, []string{version}) {
				t.Errorf("refused versions: %q", got)
			}
			s.create(t, "after", "a", "1")
			k.untilDelivered(t, "hook", append(want, "Added after")...)
			eventually(t, "the snapshot to go on", func() bool {
				return slices.Equal(shown(m), []string{"after", "changes", "comes", "returns", "stays"})
			})
		})
	}
}

func TestOneWatchServesAllOwnersOfASource(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	counted := countRequests(s.config)
	s = fixtureOf(t, counted.config, s.namespace)
	s.create(t, "one", "a", "1")
	watches := s.begin(t, k)
	a := watches.open(t, kube.Spec{Owner: "a", Selection: s.configMaps(), Filter: filter(t, ".data.a")})
	b := watches.open(t, kube.Spec{Owner: "b", Selection: s.configMaps(), Filter: filter(t, ".data.a"), KeepFull: true})
	c := watches.open(t, kube.Spec{Owner: "c", Selection: s.configMaps()})
	eventually(t, "a watch", func() bool { return counted.open() == 1 })
	if o := a.Snapshot()[0]; o.Raw != nil || string(o.FilterResult) != `"1"` {
		t.Errorf("a sees %+v", o)
	}
	if o := b.Snapshot()[0]; !strings.Contains(string(o.Raw), `"kind":"ConfigMap"`) || string(o.FilterResult) != `"1"` {
		t.Errorf("b sees %+v", o)
	}
	if o := c.Snapshot()[0]; o.Raw != nil || o.FilterResult != nil || o.Checksum == "" {
		t.Errorf("c sees %+v", o)
	}
	if got := k.causes(); !slices.Equal(got, []kube.Cause{kube.First, kube.Joined, kube.First}) {
		t.Errorf("lists were delivered because of %q", got)
	}
	s.update(t, "one", "a", "1", "b", "1") // does not change the filter result
	s.create(t, "two", "a", "1")
	k.untilDelivered(t, "a", "Added two")
	k.untilDelivered(t, "b", "Added two")
	k.untilDelivered(t, "c", "Modified one", "Added two")
	if n := counted.open(); n != 1 {
		t.Errorf("%d watches are open", n)
	}
	a.Close()
	b.Close()
	if n := counted.open(); n != 1 {
		t.Errorf("%d watches are open while c is", n)
	}
	c.Close()
	eventually(t, "the watch to end", func() bool { return counted.open() == 0 })
	d := watches.open(t, kube.Spec{Owner: "d", Selection: s.configMaps()})
	if got := shown(d); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("d sees %q", got)
	}
}

func TestListReturnsAllObjectsAtAVersionNotBeforeTheRequested(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	const objects = 1100 // more than two pages
	names := make(chan int, objects)
	for i := range objects {
		names <- i
	}
	close(names)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for i := range names {
				s.create(t, objectName(i))
			}
		})
	}
	writers.Wait()
	last := s.create(t, objectName(objects)).ResourceVersion
	m := s.begin(t, newDurableReceiver()).open(t, kube.Spec{Owner: "hook", Selection: s.configMaps()})
	for name, notBefore := range map[string]string{
		"newest": kube.NewestVersion, "cached": last, "not reached by the server": "999999999999",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, version, err := s.client.ListNames(t.Context(), m.Views()[0].Source, notBefore)
			if err != nil {
				t.Fatal(err)
			}
			if version != last && kube.After(last, version) {
				t.Errorf("list of version %s, which is before %s", version, last)
			}
			slices.Sort(got)
			for i, name := range got {
				if want := objectName(i); name != want {
					t.Fatalf("object %d is %s, want %s", i, name, want)
				}
			}
			if len(got) != objects+1 {
				t.Errorf("%d of %d objects are listed", len(got), objects+1)
			}
		})
	}
}

// For a list of the newest version, the API server waits until its cache has all changes in etcd. There must be no
// such wait for the first list of a source.
func TestTheFirstListComesFromTheServersCacheAndIsNotBehindTheWatch(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	recorded := recordLists(s.config)
	second := fixtureOf(t, recorded.config, s.namespace)
	s.create(t, "one", "a", "1")
	l := second.begin(t, k)
	l.open(t, kube.Spec{Owner: "a", Selection: s.configMaps(), Filter: filter(t, ".data")})
	version := s.create(t, "two", "a", "1").ResourceVersion
	k.untilDelivered(t, "a", "Added two")
	b := l.open(t, kube.Spec{Owner: "b", Selection: s.configMaps(), Filter: filter(t, ".data.a")})
	if got := shown(b); !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("the snapshot shows %q", got)
	}
	got := recorded.versions()
	if len(got) != 2 || got[0] != kube.AnyVersion || (got[1] != version && !kube.After(got[1], version)) {
		t.Errorf("lists asked for versions %q, want %q and %s or later", got, kube.AnyVersion, version)
	}
}

func TestVersionsAreToldWhenNothingElseIs(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	watches := s.begin(t, k)
	watches.DeliverVersionsEvery(20 * time.Millisecond)
	s.create(t, "one", "a", "1")
	view := watches.open(t, kube.Spec{Owner: "hook", Selection: s.configMaps(), Filter: filter(t, ".data")}).Views()[0]
	object := configMap("one", "a", "1")
	object.Labels = nil // does not change the filter result
	object, err := s.api.CoreV1().ConfigMaps(s.namespace).Update(t.Context(), object, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	k.until(t, "the version", func(k *durableReceiver) bool { return k.versions[view] == object.ResourceVersion })
	for _, batch := range k.batches { // there can be more than one, because the API server announces a version each minute
		if len(batch.Changes) != 0 {
			t.Errorf("delivered %+v", batch)
		}
	}
	if len(k.events) != 0 {
		t.Errorf("delivered the events %v", k.events)
	}
}

func TestFiltersThatFailLeaveObjectsAsTheyWere(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	spec := kube.Spec{Owner: "hook", Selection: s.configMaps(), Filter: filter(t, `.data.items | fromjson`)}
	s.create(t, "bad", "items", "[")
	s.create(t, "good", "items", "[1]")
	watches := s.begin(t, k)
	m := watches.open(t, spec)
	if got := shown(m); !slices.Equal(got, []string{"good"}) {
		t.Errorf("the snapshot shows %q", got)
	}
	s.update(t, "good", "items", "{")
	s.update(t, "bad", "items", "[2]")
	k.untilDelivered(t, "hook", "Added bad")
	if got := string(m.Snapshot()[1].FilterResult); got != "[1]" {
		t.Errorf("good became %s", got)
	}
	s.delete(t, "good")
	k.untilDelivered(t, "hook", "Added bad", "Deleted good")
	if got := k.events[1].result; got != "[1]" {
		t.Errorf("good was deleted as %s", got)
	}
	watches.stop()
	if got := len(watches.logs.filter); got != 3 {
		t.Errorf("the observer received %d failures: %q", got, watches.logs.filter)
	}

	// After a gap, an object for which the filter fails is delivered neither as deleted nor as changed.
	s.update(t, "bad", "items", "[")
	k.mu.Lock()
	for view := range k.cursors {
		k.versions[view] = "999999999999"
	}
	k.mu.Unlock()
	spec.Resume = true
	s.begin(t, k).open(t, spec)
	k.until(t, "the gap", func(k *durableReceiver) bool { return len(k.lists) == 2 })
	k.untilDelivered(t, "hook", "Added bad", "Deleted good")
}

func TestWhatAReceiverDoesNotTakeIsToldAgain(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	k.refuse = 2
	s.create(t, "one")
	s.begin(t, k).open(t, kube.Spec{Owner: "hook", Selection: s.configMaps()})
	k.mu.Lock()
	k.refuse = 3
	k.mu.Unlock()
	s.create(t, "two")
	s.create(t, "three")
	k.untilDelivered(t, "hook", "Added two", "Added three")
}

func TestNamedObjectsAreWatchedByName(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	few, many := []string{"wanted", "other"}, []string{"wanted"}
	for i := range 40 {
		many = append(many, fmt.Sprintf("absent-%d", i))
	}
	for name, names := range map[string][]string{"few": few, "many": many} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fixtureOf(t, s.config, cluster.Start(t).Namespace(t))
			k := newDurableReceiver()
			s.create(t, "unwanted")
			m := s.begin(t, k).open(t, kube.Spec{Owner: "hook", Selection: kube.Selection{
				Kind: "cm", Names: names, Namespaces: []string{s.namespace}, Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"made": "yes"}},
			}})
			s.create(t, "wanted")
			s.update(t, "unwanted", "a", "1")
			s.update(t, "wanted", "a", "1")
			k.untilDelivered(t, "hook", "Added wanted", "Modified wanted")
			if got := shown(m); !slices.Equal(got, []string{"wanted"}) {
				t.Errorf("the snapshot shows %q", got)
			}
		})
	}
}

func TestNamespacesAreFollowedByTheirLabels(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	c := cluster.Start(t)
	label := map[string]string{"team": s.namespace} // no other test uses this label
	a, b := c.Namespace(t), c.Namespace(t)
	if a > b {
		a, b = b, a
	}
	s.label(t, a, label)
	s.createIn(t, a, "in-a")
	s.createIn(t, b, "in-b")
	selection := s.configMaps()
	selection.Namespaces, selection.NamespaceLabels = nil, &metav1.LabelSelector{MatchLabels: label}
	m := s.begin(t, k).open(t, kube.Spec{Owner: "hook", Selection: selection})
	if got := shown(m); !slices.Equal(got, []string{"in-a"}) {
		t.Fatalf("the snapshot shows %q", got)
	}
	s.label(t, b, label)
	eventually(t, "in-b to be shown", func() bool { return slices.Equal(shown(m), []string{"in-a", "in-b"}) })
	wait(t, m)
	s.createIn(t, b, "more-b")
	k.untilDelivered(t, "hook", "Added more-b")

	s.label(t, a, nil)
	k.until(t, "namespace a to leave", func(k *durableReceiver) bool { return len(k.left) == 1 && k.left[0].Namespace == a })
	if got := shown(m); !slices.Equal(got, []string{"in-b", "more-b"}) {
		t.Errorf("the snapshot shows %q", got)
	}
	s.createIn(t, a, "unseen")
	s.label(t, a, label)
	eventually(t, "namespace a to be back", func() bool { return len(shown(m)) == 4 })
	k.untilDelivered(t, "hook", "Added more-b")

	// If a namespace is deleted, its objects are deleted too, and the deletion of each object is delivered.
	if err := s.api.CoreV1().Namespaces().Delete(t.Context(), b, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.until(t, "namespace b to leave", func(k *durableReceiver) bool { return len(k.left) == 2 })
	got := k.deliveredTo("hook")
	slices.Sort(got)
	if want := []string{"Added more-b", "Deleted in-b", "Deleted more-b"}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

// forbidding returns a fixture whose clients must not list or watch the ConfigMaps in the given namespaces while denied
// is true.
func (s *fixture) forbidding(t *testing.T, denied *atomic.Bool, namespaces ...string) *fixture {
	t.Helper()
	return fixtureOf(t, answering(s.config, func(path string) int {
		for _, namespace := range namespaces {
			if denied.Load() && path == "/api/v1/namespaces/"+namespace+"/configmaps" {
				return http.StatusForbidden
			}
		}
		return 0
	}), s.namespace)
}

// The rights in a namespace often end before the namespace: when a namespace is deleted, its RoleBindings are deleted
// like all its objects.
func TestNamespacesWithoutRightsAreLeft(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	c := cluster.Start(t)
	label := map[string]string{"team": s.namespace} // no other test uses this label
	a, b := c.Namespace(t), c.Namespace(t)
	for _, namespace := range []string{a, b} {
		s.label(t, namespace, label)
		s.createIn(t, namespace, "in-"+namespace)
	}
	selection := s.configMaps()
	selection.Namespaces, selection.NamespaceLabels = nil, &metav1.LabelSelector{MatchLabels: label}
	var denied atomic.Bool
	watches := s.forbidding(t, &denied, a, b).begin(t, k)
	watches.open(t, kube.Spec{Owner: "hook", Selection: selection})
	denied.Store(true)
	s.label(t, a, nil)
	k.until(t, "namespace a to leave", func(k *durableReceiver) bool { return len(k.left) == 1 && k.left[0].Namespace == a })
	if err := s.api.CoreV1().Namespaces().Delete(t.Context(), b, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	k.until(t, "namespace b to leave", func(k *durableReceiver) bool { return len(k.left) == 2 })
	if got, want := k.deliveredTo("hook"), []string{"Deleted in-" + b}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

func TestNamespacesThatNoLongerMatchAfterARestartAreLeft(t *testing.T) {
	t.Parallel()
	for name, denied := range map[string]bool{"with rights": false, "without rights": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			leftAfterARestart(t, denied)
		})
	}
}

// leftAfterARestart runs two processes. Between them, namespace a loses its label, namespace b is deleted, and the
// namespace of the fixture stays. If denied is true, the second process has no rights in a and b.
func leftAfterARestart(t *testing.T, denied bool) {
	t.Helper()
	s, k := newFixture(t), newDurableReceiver()
	c := cluster.Start(t)
	label := map[string]string{"team": s.namespace} // no other test uses this label
	a, b := c.Namespace(t), c.Namespace(t)
	for _, namespace := range []string{a, b, s.namespace} {
		s.label(t, namespace, label)
		s.createIn(t, namespace, "in-"+namespace)
	}
	spec := kube.Spec{Owner: "hook", Selection: s.configMaps()}
	spec.Selection.Namespaces, spec.Selection.NamespaceLabels = nil, &metav1.LabelSelector{MatchLabels: label}
	first := s.begin(t, k)
	m := first.open(t, spec)
	if got := len(shown(m)); got != 3 {
		t.Fatalf("the snapshot has %d objects", got)
	}
	earlier := m.Views()
	first.stop()

	s.label(t, a, nil)
	if err := s.api.CoreV1().Namespaces().Delete(t.Context(), b, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the deletion of namespace b", func() bool {
		_, err := s.api.CoreV1().Namespaces().Get(t.Context(), b, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
	var rights atomic.Bool
	rights.Store(denied)
	s = s.forbidding(t, &rights, a, b)
	spec.Resume, spec.Earlier = true, func() []kube.View { return earlier }
	m = s.begin(t, k).open(t, spec)
	if got := shown(m); !slices.Equal(got, []string{"in-" + s.namespace}) {
		t.Errorf("the snapshot shows %q", got)
	}
	if views := m.Parting(); len(views) != 2 || slices.Contains(views, m.Views()[0]) {
		t.Errorf("the monitor leaves %v", views)
	}
	k.until(t, "namespaces a and b to leave", func(k *durableReceiver) bool { return len(k.left) == 2 })
	if got, want := k.deliveredTo("hook"), []string{"Deleted in-" + b}; !slices.Equal(got, want) {
		t.Errorf("delivered %q, want %q", got, want)
	}
}

func TestWaitSaysWhichListIsMissingAndWhy(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	config := rest.CopyConfig(s.config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	m, err := fixtureOf(t, config, s.namespace).begin(t, newDurableReceiver()).Open(kube.Spec{Owner: "hook", Selection: s.configMaps()})
	if err != nil {
		t.Fatal(err)
	}
	says := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		err = m.Wait(ctx)
		return err != nil && strings.Contains(err.Error(), "v1/configmaps") && strings.Contains(err.Error(), "nobody")
	}
	for limit := time.Now().Add(90 * time.Second); !says(); { // repeated, because the API server may not have answered yet
		if err == nil || time.Now().After(limit) {
			t.Fatalf("the error is %v", err)
		}
	}
}

// The kind of the monitor is found only at a later attempt, and the namespaces can never be listed.
func TestWaitSaysThatTheNamespacesAreMissingAfterAFailedLookupOfTheKind(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var found atomic.Bool
	config := answering(s.config, func(path string) int {
		switch {
		case path == "/api/v1/namespaces":
			return http.StatusForbidden
		case (path == "/api" || path == "/apis" || path == "/api/v1") && !found.Load():
			return http.StatusServiceUnavailable
		}
		return 0
	})
	selection := s.configMaps()
	selection.Namespaces, selection.NamespaceLabels = nil, &metav1.LabelSelector{MatchLabels: map[string]string{"team": s.namespace}}
	m, err := fixtureOf(t, config, s.namespace).begin(t, newDurableReceiver()).Open(kube.Spec{Owner: "hook", Selection: selection})
	if err != nil {
		t.Fatal(err)
	}
	says := func(text string) func() bool {
		return func() bool {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			err := m.Wait(ctx)
			return err != nil && strings.Contains(err.Error(), text)
		}
	}
	eventually(t, "the error of the lookup", says(`find kind "ConfigMap"`))
	found.Store(true)
	eventually(t, "the error of the list of namespaces", says("the list of v1/namespaces"))
}

func TestMonitorKnowsTheObjectsOnWhichItsFilterFailsNow(t *testing.T) {
	t.Parallel()
	s, k := newFixture(t), newDurableReceiver()
	s.create(t, "bad", "items", "[")
	s.create(t, "good", "items", "[1]")
	m := s.begin(t, k).open(t, kube.Spec{Owner: "hook", Selection: s.configMaps(), Filter: filter(t, `.data.items | fromjson`)})
	until := func(what string, names ...string) {
		t.Helper()
		var got []string
		for deadline := time.Now().Add(90 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			got = nil
			for _, f := range m.Failures() {
				if got = append(got, f.Name); f.Err == "" || f.Namespace != s.namespace {
					t.Errorf("failure %+v", f)
				}
			}
			if slices.Equal(got, names) {
				return
			}
		}
		t.Errorf("%s: it fails on %q, want %q", what, got, names)
	}
	until("after the list", "bad")
	s.update(t, "good", "items", "{")
	until("after a change for the worse", "bad", "good")
	s.update(t, "bad", "items", "[2]")
	until("after a change for the better", "good")
	s.delete(t, "good")
	until("after it was deleted")
}
