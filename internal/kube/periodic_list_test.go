package kube

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestASourceIsListedByTheShortestPeriodOfItsOwners(t *testing.T) {
	t.Parallel()
	all := views{
		"":   {owners: []*owner{{}, {period: time.Hour}}},
		".a": {owners: []*owner{{period: time.Minute}, {}}},
	}
	if got := all.shortestPeriod(); got != time.Minute {
		t.Errorf("period is %s", got)
	}
	if got := (views{}).shortestPeriod(); got != 0 {
		t.Errorf("period of nobody is %s", got)
	}
}

func TestTheAlarmRingsOnWhileThePeriodStays(t *testing.T) {
	t.Parallel()
	a := newPeriodicTimer()
	defer a.alarm.Stop()
	a.set(time.Hour)
	a.alarm.Reset(0) // now the alarm fires at once
	a.set(time.Hour)
	<-a.alarm.C
	a.rearm()
	a.set(0)
	a.rearm()
	if a.alarm.Stop() {
		t.Error("an alarm without a period was set")
	}
}

// TestAListThatIsAheadOfTheWatchIsTakenOverAsFarAsItHasCome updates a view from lists. The view must take over a listed
// object only if the watch has reached the version of the object. If an object is missing in a list, the view must
// delete it only if it is also missing in a later list, and the watch has reached the version of the earlier list by
// then.
func TestAListThatIsAheadOfTheWatchIsTakenOverAsFarAsItHasCome(t *testing.T) {
	t.Parallel()
	object := func(name, version, sum string) *Object {
		return &Object{Namespace: "ns", Name: name, UID: name, ResourceVersion: version, Checksum: sum}
	}
	all := func(objects ...*Object) map[objectKey]*Object {
		out := map[objectKey]*Object{}
		for _, o := range objects {
			out[o.key()] = o
		}
		return out
	}
	v := &view{objects: all(object("same", "1", "x"), object("stale", "2", "x"), object("moves", "3", "x"), object("goes", "4", "x"))}
	shows := func() string {
		var found []string
		for _, key := range slices.SortedFunc(maps.Keys(v.objects), func(a, b objectKey) int { return strings.Compare(a.name, b.name) }) {
			o := v.objects[key]
			found = append(found, o.Name+"@"+o.ResourceVersion+o.Checksum)
		}
		return strings.Join(found, " ")
	}
	want := func(what, want string) {
		t.Helper()
		if diff := cmp.Diff(want, shows()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	listed := gathered{view: v, objects: all(
		object("same", "1", "x"), object("stale", "5", "y"), object("moves", "11", "y"), object("found", "6", "x"), object("comes", "12", "x"),
	)}
	listed.update("12", "10")
	want("changes up to the version of the watch", "found@6x goes@4x moves@3x same@1x stale@5y")
	listed.update("12", "10")
	want("while the watch has not passed the list", "found@6x goes@4x moves@3x same@1x stale@5y")
	listed.update("13", "12")
	want("when it has", "comes@12x found@6x moves@11y same@1x stale@5y")
}

func TestAListWithVersionsThatCannotBeComparedIsApplied(t *testing.T) {
	t.Parallel()
	old := &Object{Name: "changes", UID: "1", ResourceVersion: "a", Checksum: "x"}
	goes := &Object{Name: "goes", UID: "2", ResourceVersion: "b"}
	v := &view{objects: map[objectKey]*Object{old.key(): old, goes.key(): goes}}
	changed := &Object{Name: "changes", UID: "1", ResourceVersion: "d", Checksum: "y"}
	listed := gathered{view: v, objects: map[objectKey]*Object{changed.key(): changed}}
	listed.update("e", "c")
	if v.objects[old.key()] != changed {
		t.Error("the changed object was not applied")
	}
	if v.objects[goes.key()] == nil {
		t.Error("an object was removed although only one list did not contain it")
	}
	listed.update("e", "c")
	if v.objects[goes.key()] != nil {
		t.Error("an object was not removed although two lists did not contain it")
	}
}

func TestWhatIsMissingOnceMayComeAgain(t *testing.T) {
	t.Parallel()
	goes := &Object{Name: "goes", UID: "1", ResourceVersion: "4"}
	v := &view{objects: map[objectKey]*Object{goes.key(): goes}}
	none := gathered{view: v, objects: map[objectKey]*Object{}}
	none.update("10", "10")
	gathered{view: v, objects: map[objectKey]*Object{goes.key(): goes}}.update("10", "10")
	none.update("10", "10")
	if len(v.objects) != 1 {
		t.Error("it is gone though it was missing once only")
	}
	another := &Object{Name: "goes", UID: "2", ResourceVersion: "9"}
	v.set(another.key(), another)
	none.update("10", "10")
	if len(v.objects) != 1 {
		t.Error("it is gone though another one of its name was missing")
	}
	none.update("10", "10")
	if len(v.objects) != 0 {
		t.Error("it is there though it was missing twice")
	}
}
