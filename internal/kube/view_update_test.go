package kube

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/jq"
)

// shown returns an object as a view shows it.
func shown(name, uid, sum string) *Object {
	return &Object{Namespace: "ns", Name: name, UID: uid, Checksum: sum}
}

// unfiltered returns an object for which the filter has always failed.
func unfiltered(name, uid string) *Object {
	o := shown(name, uid, "")
	o.Unfiltered = true
	return o
}

// viewOf returns a view with the objects.
func viewOf(objects ...*Object) *view {
	v := &view{objects: map[objectKey]*Object{}}
	for _, o := range objects {
		v.objects[o.key()] = o
	}
	return v
}

// objectsIn describes the objects of a view, also those that are in no snapshot.
func objectsIn(v *view) string {
	var all []string
	for _, o := range v.all() {
		text := o.Name + "/" + o.UID + "=" + o.Checksum
		if o.Unfiltered {
			text += " unfiltered"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

func TestAFrameOfTheWatchBecomesAtMostOneChange(t *testing.T) {
	t.Parallel()
	failure := &jq.FilterError{Public: "no size"}
	const oldFrame = true // the snapshot has a newer version
	for name, test := range map[string]struct {
		view    *view
		frame   string
		object  *Object
		old     bool
		failure *jq.FilterError
		change  ChangeType
		sum     string // checksum of the object in the change
		want    string
	}{
		"new object":                {viewOf(), frameAdded, shown("a", "1", "x"), false, nil, Added, "x", "a/1=x"},
		"changed object":            {viewOf(shown("a", "1", "x")), frameModified, shown("a", "1", "y"), false, nil, Modified, "y", "a/1=y"},
		"change outside the filter": {viewOf(shown("a", "1", "x")), frameModified, shown("a", "1", "x"), false, nil, "", "", "a/1=x"},
		// If an object matches the selector again, the API server reports it as added.
		"added object that is known":        {viewOf(shown("a", "1", "x")), frameAdded, shown("a", "1", "y"), false, nil, Modified, "y", "a/1=y"},
		"modified object that is not known": {viewOf(), frameModified, shown("a", "1", "x"), false, nil, Added, "x", "a/1=x"},
		"new object of the same name":       {viewOf(shown("a", "1", "x")), frameAdded, shown("a", "2", "x"), false, nil, Modified, "x", "a/2=x"},
		"deleted object":                    {viewOf(shown("a", "1", "x"), shown("b", "2", "x")), frameDeleted, shown("a", "1", "y"), false, nil, Deleted, "y", "b/2=x"},
		"deleted object that is not known":  {viewOf(), frameDeleted, shown("a", "1", "x"), false, nil, Deleted, "x", ""},

		"filter fails for a new object":     {viewOf(), frameAdded, shown("a", "1", ""), false, failure, "", "", "a/1= unfiltered"},
		"filter fails for a changed object": {viewOf(shown("a", "1", "x")), frameModified, shown("a", "1", ""), false, failure, "", "", "a/1=x"},
		"filter still fails":                {viewOf(unfiltered("a", "1")), frameModified, shown("a", "1", ""), false, failure, "", "", "a/1= unfiltered"},
		"filter no longer fails":            {viewOf(unfiltered("a", "1")), frameModified, shown("a", "1", "x"), false, nil, Added, "x", "a/1=x"},
		// The deletion contains the last result of the filter.
		"filter fails for a deleted object":           {viewOf(shown("a", "1", "x")), frameDeleted, shown("a", "1", ""), false, failure, Deleted, "x", ""},
		"filter fails for a deleted, unfiltered one":  {viewOf(unfiltered("a", "1")), frameDeleted, shown("a", "1", ""), false, failure, Deleted, "", ""},
		"old frame of a new object":                   {viewOf(shown("a", "1", "y")), frameAdded, shown("a", "1", "x"), oldFrame, nil, Added, "x", "a/1=y"},
		"old frame of a changed object":               {viewOf(shown("a", "1", "y")), frameModified, shown("a", "1", "x"), oldFrame, nil, Modified, "x", "a/1=y"},
		"old frame without a difference":              {viewOf(shown("a", "1", "y")), frameModified, shown("a", "1", "y"), oldFrame, nil, Modified, "y", "a/1=y"},
		"old frame of a deleted object, made again":   {viewOf(shown("a", "2", "y")), frameDeleted, shown("a", "1", "x"), oldFrame, nil, Deleted, "x", "a/2=y"},
		"old frame for which the filter fails":        {viewOf(), frameAdded, shown("a", "1", ""), oldFrame, failure, "", "", ""},
		"old frame of an object that is deleted then": {viewOf(), frameModified, shown("a", "1", "x"), oldFrame, nil, Modified, "x", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			change := viewUpdate{view: test.view, object: test.object, failure: test.failure, inSnapshot: !test.old}.applyTo(test.frame)
			switch {
			case change == nil:
				if test.change != "" {
					t.Errorf("no change, want %s", test.change)
				}
			case change.Type != test.change || change.Object.Checksum != test.sum || change.Object.Name != "a":
				t.Errorf("got %s of %+v, want %s with the checksum %q", change.Type, change.Object, test.change, test.sum)
			}
			if got := objectsIn(test.view); got != test.want {
				t.Errorf("the view has %q, want %q", got, test.want)
			}
		})
	}
}

// TestTheChangesOfAViewAreTheDifferencesOfItsSnapshots applies random frames to a view, and the resulting changes to a
// model. The filter may fail for some frames. The model must then contain the same objects as the snapshot of the view.
func TestTheChangesOfAViewAreTheDifferencesOfItsSnapshots(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		v, model, uids := viewOf(), map[string]string{}, map[string]int{}
		exists := map[string]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "frames") {
			name := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "name")
			frame := frameModified
			switch {
			case !exists[name]:
				frame = frameAdded
				uids[name]++
			case rapid.Bool().Draw(t, "deleted"):
				frame = frameDeleted
			}
			exists[name] = frame != frameDeleted
			n := viewUpdate{view: v, inSnapshot: true, object: shown(name, fmt.Sprint(uids[name]), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "sum"))}
			if rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				n.failure, n.object.Checksum = &jq.FilterError{Public: "fails"}, ""
			}
			change := n.applyTo(frame)
			_, had := model[name]
			switch {
			case change == nil:
			case change.Type == Deleted:
				delete(model, name)
			case had != (change.Type == Modified):
				t.Fatalf("%s of %s, which was there: %t", change.Type, name, had)
			default:
				model[name] = change.Object.UID + change.Object.Checksum
			}
			got := map[string]string{}
			for _, o := range v.snapshot() {
				got[o.Name] = o.UID + o.Checksum
			}
			if !maps.Equal(got, model) {
				t.Fatalf("after %s of %s, the snapshot has %v, and the model %v", frame, name, got, model)
			}
		}
	})
}

func TestASnapshotIsSortedAndStaysTheSameUntilAChange(t *testing.T) {
	t.Parallel()
	other := shown("a", "4", "x")
	other.Namespace = "before"
	v := viewOf(shown("b", "1", "x"), shown("a", "2", "x"), other, unfiltered("c", "3"))
	first := v.snapshot()
	var names []string
	for _, o := range first {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	if want := []string{"before/a", "ns/a", "ns/b"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
	if again := v.snapshot(); &again[0] != &first[0] {
		t.Error("an unchanged view makes another snapshot")
	}
	if v.dirty {
		t.Error("a snapshot is a change")
	}
	v.set(objectKey{"ns", "b"}, nil)
	if !v.dirty || len(v.snapshot()) != 2 || len(first) != 3 {
		t.Errorf("after a deletion, the snapshot has %d objects, and the earlier one %d", len(v.snapshot()), len(first))
	}
}

// A view must drop the texts of its objects if no owner wants full objects. But a snapshot that was returned before
// must keep the texts of its objects.
func TestAViewWithoutFullObjectsHasNoTexts(t *testing.T) {
	t.Parallel()
	o := shown("a", "1", "x")
	o.Raw, o.FilterResult = []byte(`{"kind":"Pod"}`), []byte("1")
	v := viewOf(o)
	v.full = true
	before := v.snapshot()
	v.slim()
	if got := v.snapshot()[0]; v.full || got.Raw != nil || string(got.FilterResult) != "1" || got.Checksum != "x" {
		t.Errorf("full %t: got %+v", v.full, got)
	}
	if string(before[0].Raw) != `{"kind":"Pod"}` {
		t.Error("the object of an earlier snapshot has lost its text")
	}
}

func TestAFilterFailureIsReportedWhenItsReasonChanges(t *testing.T) {
	t.Parallel()
	v := viewOf()
	key := func(i int) objectKey { return objectKey{"ns", fmt.Sprint(i)} }
	for _, step := range []struct {
		name    string
		failure *jq.FilterError
		changed bool
	}{
		{"no failure", nil, false},
		{"failure", &jq.FilterError{Public: "a"}, true},
		{"same failure", &jq.FilterError{Public: "a"}, false},
		{"other failure", &jq.FilterError{Public: "b"}, true},
		{"no failure again", nil, true},
		{"still none", nil, false},
	} {
		if changed := v.recordFailure(key(0), step.failure); changed != step.changed {
			t.Errorf("%s: changed %t, want %t", step.name, changed, step.changed)
		}
	}

	for i := range mostFailing {
		v.recordFailure(key(i), &jq.FilterError{Public: "a"})
	}
	if v.recordFailure(key(mostFailing), &jq.FilterError{Public: "a"}) || len(v.failing) != mostFailing {
		t.Errorf("%d failures are recorded", len(v.failing))
	}
	if !v.recordFailure(key(1), &jq.FilterError{Public: "b"}) {
		t.Error("at the limit, another reason of a recorded failure is no change")
	}
	v.set(key(2), nil)
	if !v.recordFailure(key(mostFailing), &jq.FilterError{Public: "a"}) {
		t.Error("after the deletion of a failing object, another failure is not recorded")
	}
}

func TestTheNextWatchStartsFromTheOldestDeliveredVersion(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		delivered []string
		want      string
	}{
		"no view":             {nil, ""},
		"nothing delivered":   {[]string{"", ""}, ""},
		"one":                 {[]string{"7"}, "7"},
		"compared as numbers": {[]string{"10", "9", "100"}, "9"},
		"some not delivered":  {[]string{"", "12", ""}, "12"},
	} {
		vs := views{}
		for i, version := range test.delivered {
			vs[fmt.Sprint(i)] = &view{delivered: version}
		}
		if got := vs.oldestDelivered(); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

func TestASourceIsListedForAViewThatLacksObjectsOrTheirTexts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		view view
		want bool
	}{
		"never listed":                    {view{}, true},
		"listed":                          {view{listed: "1"}, false},
		"owner of full objects":           {view{listed: "1", owners: []*owner{{}, {keep: true}}}, true},
		"owner of full objects, has them": {view{listed: "1", full: true, owners: []*owner{{keep: true}}}, false},
		"full objects that nobody needs":  {view{listed: "1", full: true, owners: []*owner{{}}}, false},
	} {
		if got := test.view.lacking(); got != test.want {
			t.Errorf("%s: got %t, want %t", name, got, test.want)
		}
	}
}

func TestOwnersOfAViewAreNamedInOrder(t *testing.T) {
	t.Parallel()
	v := &view{owners: []*owner{{name: "b", registered: true}, {name: "a"}, {name: "c", registered: true, leaving: true}}}
	got := [][]string{v.named(), names(v.newcomers()), names(v.registered())}
	if diff := cmp.Diff([][]string{{"a", "b", "c"}, {"a"}, {"b", "c"}}, got); diff != "" {
		t.Errorf("all, newcomers, registered (-want +got):\n%s", diff)
	}
}
