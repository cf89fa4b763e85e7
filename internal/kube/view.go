package kube

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"addon-operator/internal/jq"
)

// owner is one user of one view. All fields except the last group are set before the owner joins,
// and do not change afterwards.
type owner struct {
	name     string
	keep     bool          // wants full objects
	resume   bool          // had joined in an earlier process, so the receiver knows what was delivered to it
	appeared bool          // had an empty snapshot because the kind was not served
	period   time.Duration // interval of periodic lists; zero means none

	changed   func()        // called after a snapshot has changed; may be nil
	notServed func()        // called when the server does not serve the source; may be nil
	ready     chan struct{} // closed when the snapshot exists and the receiver has accepted it

	// The lock of the watch guards the fields below.
	registered bool
	leaving    bool   // the goroutine of the watch removes the owner after it has delivered pending changes
	since      string // changes up to this version do not affect the owner
}

// views are the views of a source. The key is the text of the filter. The lock of the watch guards
// the map.
type views map[string]*view

// ordered returns the views sorted by filter.
func (vs views) ordered() []*view {
	return slices.SortedFunc(maps.Values(vs), func(a, b *view) int { return cmp.Compare(a.name.Filter, b.name.Filter) })
}

// oldestDelivered returns the oldest of the delivered versions of all views. The next watch must
// start from it. The result is empty if nothing was delivered.
func (vs views) oldestDelivered() string {
	oldest := ""
	for _, v := range vs {
		if v.delivered != "" && (oldest == "" || After(oldest, v.delivered)) {
			oldest = v.delivered
		}
	}
	return oldest
}

// shortestPeriod returns the shortest period of all owners, or zero if no owner has a period.
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

// view is the state of a view while its source is watched. The lock of the watch guards it. Only
// the watch's goroutine writes listed, delivered and asked.
type view struct {
	name    View
	filter  *jq.Filter
	owners  []*owner
	whom    []string // the owners' names, sorted; nil until named is called
	objects map[objectKey]*Object
	sorted  []*Object // the objects for snapshots: all except Unfiltered objects; nil until snapshot is called

	listed    string // objects include all changes up to this version; empty before the first list
	newest    bool   // the last list was of the server's newest version
	delivered string // the receiver has all changes up to this version
	full      bool   // all objects have Raw, and new objects get it
	asked     bool   // the receiver was asked for its stored version
	dirty     bool   // objects have changed since the owners were notified

	failing map[objectKey]string // the reasons of filter failures by object; at most mostFailing

	missing map[objectKey]missing // objects not in the last periodic list; only the goroutine of run uses the map
}

// wantsFull reports whether any owner wants full objects.
func (v *view) wantsFull() bool {
	return slices.ContainsFunc(v.owners, func(o *owner) bool { return o.keep })
}

// newcomers returns the owners that are not registered yet.
func (v *view) newcomers() []*owner {
	return pick(v.owners, func(o *owner) bool { return !o.registered })
}

// lacking reports whether the source must be listed for the view: the view was never listed, or an
// owner needs full objects and the view has none.
func (v *view) lacking() bool { return v.listed == "" || (v.wantsFull() && !v.full) }

// set stores object under key. If object is nil, set removes the object under key and its filter
// failure.
func (v *view) set(key objectKey, object *Object) {
	if object == nil {
		delete(v.objects, key)
		delete(v.failing, key)
	} else {
		v.objects[key] = object
	}
	v.sorted, v.dirty = nil, true
}

// slim removes the JSON text of all objects. No owner may want full objects.
func (v *view) slim() {
	v.full, v.sorted = false, nil
	for key, object := range v.objects {
		slim := *object
		slim.Raw = nil
		v.objects[key] = &slim
	}
}

// all returns all objects, including Unfiltered objects, sorted by namespace and name.
func (v *view) all() []*Object {
	return slices.SortedFunc(maps.Values(v.objects), compareObjects)
}

// snapshot returns the objects for snapshots, sorted. It returns the same slice until the view
// changes.
func (v *view) snapshot() []*Object {
	if v.sorted == nil {
		v.sorted = slices.DeleteFunc(v.all(), func(o *Object) bool { return o.Unfiltered })
	}
	return v.sorted
}

// affected returns the names of the registered owners, sorted: those that a change at version
// affects, and the others, which have a newer list. An owner that is leaving is affected, because
// the change can be the deletion of an object together with its namespace.
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

// named returns the owners' names, sorted. It returns the same slice until an owner joins or
// leaves.
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

// mostFailing limits the number of recorded filter failures of a view.
const mostFailing = 1000

// recordFailure records whether the filter fails for an object, and reports whether the record changed. The
// recorded reason contains no content of the object.
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
