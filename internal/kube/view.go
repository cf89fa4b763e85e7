package kube

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"addon-operator/internal/jq"
)

// owner is one user of one view. Its fields are set before it joins, but for the last group.
type owner struct {
	name     string
	keep     bool          // wants full objects
	resume   bool          // had joined in an earlier process: gets lists only if another owner needs one
	appeared bool          // was shown an empty snapshot when the kind was not served
	period   time.Duration // after which all objects are listed again for it; 0 is never

	changed   func()        // called after a snapshot has changed; may be nil
	notServed func()        // called when the server does not serve the source; may be nil
	ready     chan struct{} // closed when there is a snapshot and the receiver knows of it

	// The feed's lock guards these.
	registered bool
	leaving    bool   // unsubscribes after pending changes are delivered, on the goroutine of the watch
	since      string // changes up to this version do not concern it
}

// views are the views of a source, by the text of their filter. The lock of the watch guards them.
type views map[string]*view

// ordered returns the views in an order that is always the same.
func (vs views) ordered() []*view {
	return slices.SortedFunc(maps.Values(vs), func(a, b *view) int { return cmp.Compare(a.name.Filter, b.name.Filter) })
}

// oldestDelivered returns the version after which a watch must begin for the view whose last delivery is the oldest. It
// is empty if nothing was delivered.
func (vs views) oldestDelivered() string {
	oldest := ""
	for _, v := range vs {
		if v.delivered != "" && (oldest == "" || After(oldest, v.delivered)) {
			oldest = v.delivered
		}
	}
	return oldest
}

// shortestPeriod returns the shortest period of all owners, zero if they have none.
func (vs views) shortestPeriod() time.Duration {
	var shortest time.Duration
	for _, v := range vs {
		for _, o := range v.owners {
			if o.period > 0 && (shortest == 0 || o.period < shortest) {
				shortest = o.period
			}
		}
	}
	return shortest
}

// view is the state of a view while its source is watched. The lock of its feed guards it; listed, told and asked are
// written by the feed's goroutine only.
type view struct {
	name    View
	filter  *jq.Filter
	owners  []*owner
	whom    []string // the owners' names, sorted; nil until asked for
	objects map[objectKey]*Object
	sorted  []*Object // of objects, without those unfiltered; nil until asked for

	listed    string // objects hold all changes up to here; empty before the first list
	newest    bool   // the last list was of the server's newest version
	delivered string // the receiver knows all changes up to here
	full      bool   // objects have their Raw, and new ones get it
	asked     bool   // the receiver was asked what it knows
	dirty     bool   // objects have changed since the owners were told

	failing map[objectKey]string // the objects on which the filter fails now, with why; of very many, the first

	missing map[objectKey]missing // what it shows and the last list again did not; of the feed's goroutine only
}

// keeps reports whether any owner wants full objects.
func (v *view) keeps() bool {
	return slices.ContainsFunc(v.owners, func(o *owner) bool { return o.keep })
}

// newcomers returns the owners that were not admitted yet.
func (v *view) newcomers() []*owner {
	return pick(v.owners, func(o *owner) bool { return !o.registered })
}

// lacking reports whether an owner waits for more than the view has.
func (v *view) lacking() bool { return v.listed == "" || (v.keeps() && !v.full) }

// set puts object in its place, or, if it is nil, takes away what is there.
func (v *view) set(key objectKey, object *Object) {
	if object == nil {
		delete(v.objects, key)
		delete(v.failing, key)
	} else {
		v.objects[key] = object
	}
	v.sorted, v.dirty = nil, true
}

// slim takes away what only owners who want full objects need.
func (v *view) slim() {
	v.full, v.sorted = false, nil
	for key, object := range v.objects {
		slim := *object
		slim.Raw = nil
		v.objects[key] = &slim
	}
}

// all returns all objects, sorted.
func (v *view) all() []*Object {
	return slices.SortedFunc(maps.Values(v.objects), compareObjects)
}

// snapshot returns the objects to show, sorted. It is the same slice until something changes.
func (v *view) snapshot() []*Object {
	if v.sorted == nil {
		v.sorted = slices.DeleteFunc(v.all(), func(o *Object) bool { return o.Unfiltered })
	}
	return v.sorted
}

// concerned returns the owners whom a change at version concerns.
func (v *view) concerned(version string) []string {
	names := make([]string, 0, len(v.owners))
	for _, o := range v.owners {
		if o.registered && !o.leaving && (o.since == "" || After(version, o.since)) {
			names = append(names, o.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// named returns the owners' names, sorted. It is the same slice until an owner joins or leaves.
func (v *view) named() []string {
	if v.whom == nil {
		v.whom = names(v.owners)
	}
	return v.whom
}

// names returns the owners' names, sorted.
func names(owners []*owner) []string {
	found := make([]string, len(owners))
	for i, o := range owners {
		found[i] = o.name
	}
	slices.Sort(found)
	return found
}

// mostFailing bounds the objects of a view that are known to fail its filter.
const mostFailing = 1000

// judge notes whether the filter fails on an object, and reports whether that is another answer than before. The reason it
// notes quotes nothing of the object.
func (v *view) judge(key objectKey, failure *jq.FilterError) (news bool) {
	before, failed := v.failing[key]
	switch {
	case failure == nil:
		delete(v.failing, key)
		return failed
	case len(v.failing) >= mostFailing && !failed:
		return false
	}
	if v.failing == nil {
		v.failing = map[objectKey]string{}
	}
	v.failing[key] = failure.Public
	return !failed || before != failure.Public
}
