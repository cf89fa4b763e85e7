package kube

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"addon-operator/internal/jq"
)

// owner is an owner of one view. All fields except those of the last group are set when the owner joins, and do not
// change afterwards.
type owner struct {
	name     string
	keep     bool          // wants full objects
	resume   bool          // has joined before, often in an earlier process, so the receiver has stored the objects
	appeared bool          // has had an empty snapshot because the kind was not served
	period   time.Duration // interval of periodic lists; zero if there are none

	changed   func()        // called after the snapshot has changed; may be nil
	notServed func()        // called if the API server does not serve the source; may be nil
	ready     chan struct{} // closed when there is a snapshot and the receiver has accepted the lists that the owner needs

	// The lock of the watch guards the fields below.
	registered bool
	leaving    bool   // the watch must deliver the changes that are pending, and then remove the owner
	since      string // the owner does not get the changes up to this version; empty if it gets all changes
}

// leaves reports whether the watch must deliver the pending changes and remove the owner now. If the owner has joined
// before, often in an earlier process, leaves returns false until the owner is registered.
func (o *owner) leaves() bool { return o.leaving && (o.registered || !o.resume) }

// views are the views of a source, by the text of their filter. The lock of the watch guards the map.
type views map[string]*view

// ordered returns the views sorted by filter.
func (vs views) ordered() []*view {
	return slices.SortedFunc(maps.Values(vs), func(a, b *view) int { return cmp.Compare(a.name.Filter, b.name.Filter) })
}

// oldestDelivered returns the oldest of the versions up to which the views were delivered. The first watch of the
// source starts at this version. The result is empty if nothing was delivered.
func (vs views) oldestDelivered() string {
	oldest := ""
	for _, v := range vs {
		if v.delivered != "" && (oldest == "" || After(oldest, v.delivered)) {
			oldest = v.delivered
		}
	}
	return oldest
}

// shortestPeriod returns the shortest period of an owner, or zero if no owner has a period.
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

// view is a view whose source is being watched. The lock of the watch guards its fields. Only the goroutine of the
// watch writes listed, delivered and asked.
type view struct {
	name    View
	filter  *jq.Filter
	owners  []*owner
	whom    []string // the names of the owners, sorted; nil before named is called
	objects map[objectKey]*Object
	sorted  []*Object // the objects in snapshots: all except Unfiltered ones; nil after a change, until snapshot is called

	listed    string // all changes up to this version are applied to objects; empty before the first list
	newest    bool   // the last list was requested at the newest version
	delivered string // the receiver has all changes up to this version or a later one
	full      bool   // all objects have Raw, and new objects must get it
	asked     bool   // the receiver was asked which version it has stored
	dirty     bool   // objects have changed since the last call of announce

	failing map[objectKey]string // why the filter fails, by object; at most mostFailing objects

	missing map[objectKey]missing // the objects that were not in the last periodic list; used only by the goroutine of the watch
}

// wantsFull reports whether an owner wants full objects.
func (v *view) wantsFull() bool {
	return slices.ContainsFunc(v.owners, func(o *owner) bool { return o.keep })
}

// newcomers returns the owners that are not registered yet.
func (v *view) newcomers() []*owner {
	return pick(v.owners, func(o *owner) bool { return !o.registered })
}

// lacking reports whether the source must be listed for the view. This is so if it was never listed for the view, or
// if an owner wants full objects and the view does not have them.
func (v *view) lacking() bool { return v.listed == "" || (v.wantsFull() && !v.full) }

// set stores object, whose key is key. If object is nil, set removes the object with this key, and its filter failure.
func (v *view) set(key objectKey, object *Object) {
	if object == nil {
		delete(v.objects, key)
		delete(v.failing, key)
	} else {
		v.objects[key] = object
	}
	v.sorted, v.dirty = nil, true
}

// slim removes the Raw of all objects. It must not be called if an owner wants full objects.
func (v *view) slim() {
	v.full, v.sorted = false, nil
	for key, object := range v.objects {
		slim := *object
		slim.Raw = nil
		v.objects[key] = &slim
	}
}

// all returns all objects, including those that are Unfiltered, sorted by namespace and name.
func (v *view) all() []*Object {
	return slices.SortedFunc(maps.Values(v.objects), compareObjects)
}

// snapshot returns the objects except Unfiltered ones, sorted by namespace and name. snapshot returns the same slice
// until the view changes.
func (v *view) snapshot() []*Object {
	if v.sorted == nil {
		v.sorted = slices.DeleteFunc(v.all(), func(o *Object) bool { return o.Unfiltered })
	}
	return v.sorted
}

// affected returns the names of the registered owners that get a change at version. The result others has the names of
// the other registered owners, which have got a newer list. Both are sorted. An owner that is leaving also gets the
// change, because the change may be that an object was deleted together with its namespace.
func (v *view) affected(version string) (affected, others []string) {
	affected = make([]string, 0, len(v.owners))
	for _, o := range v.owners {
		switch {
		case !o.registered:
		case o.since == "" || After(version, o.since):
			affected = append(affected, o.name)
		default:
			others = append(others, o.name)
		}
	}
	slices.Sort(affected)
	slices.Sort(others)
	return slices.Compact(affected), slices.Compact(others)
}

// registered returns the registered owners.
func (v *view) registered() []*owner {
	return pick(v.owners, func(o *owner) bool { return o.registered })
}

// named returns the names of all owners of v, sorted. named returns the same slice until an owner joins or leaves.
func (v *view) named() []string {
	if v.whom == nil {
		v.whom = names(v.owners)
	}
	return v.whom
}

// names returns the names of owners, sorted.
func names(owners []*owner) []string {
	found := make([]string, len(owners))
	for i, o := range owners {
		found[i] = o.name
	}
	slices.Sort(found)
	return found
}

// mostFailing is the maximum number of filter failures that are recorded for a view.
const mostFailing = 1000

// recordFailure records the filter failure of an object or, if failure is nil, that there is none. recordFailure
// reports whether the recorded failures have changed. The reason that it records contains no content of the object.
func (v *view) recordFailure(key objectKey, failure *jq.FilterError) (changed bool) {
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
