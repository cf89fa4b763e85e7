package kube

import (
	"context"
	"errors"

	"addon-operator/internal/jq"
)

// viewUpdate is the object in a frame of a watch, as it will be in one view.
type viewUpdate struct {
	view        *view
	owners      []string
	full        bool // whether the view keeps full objects
	object      *Object
	failure     *jq.FilterError // why the filter of the view has failed; nil if it has not
	inSnapshot  bool            // whether the frame is newer than the objects of the view
	forReceiver bool            // whether the frame is newer than the version that was delivered to the receiver
}

// apply applies a frame of the watch to all views, and returns the resulting changes. The argument doc is the object in
// the frame. If a filter was interrupted, apply returns an error and changes no view.
func (f *watch) apply(ctx context.Context, frameType string, doc *document) ([]Change, error) {
	version := doc.id.Metadata.ResourceVersion
	f.mu.Lock()
	var changed []viewUpdate
	for _, v := range f.views.ordered() {
		if v.listed == "" {
			continue // the object will be in the first list of the view
		}
		n := viewUpdate{view: v, owners: v.named(), full: v.full, inSnapshot: After(version, v.listed), forReceiver: After(version, v.delivered)}
		if n.inSnapshot || n.forReceiver {
			changed = append(changed, n)
		}
	}
	f.mu.Unlock()

	for i := range changed {
		n := &changed[i]
		var err error
		n.object, err = f.reads.filterDocument(ctx, n.view, n.owners, doc, n.full) // f.mu is not locked, because filters are slow
		if err != nil && !errors.As(err, &n.failure) {
			return nil, err
		}
	}
	var changes []Change
	for _, n := range changed {
		if n.failure != nil {
			f.reads.observer.filterFailed(n.view.name, n.owners, n.object, n.failure)
		}
		f.mu.Lock()
		failure := n.failure
		if frameType == frameDeleted {
			failure = nil
		}
		judged := n.view.recordFailure(n.object.key(), failure)
		if change := n.applyTo(frameType); change != nil && n.forReceiver {
			change.Filter = n.view.name.Filter
			change.Owners, change.Others = n.view.affected(version)
			changes = append(changes, *change)
		}
		f.mu.Unlock()
		if judged {
			f.reads.observer.failuresChanged(n.view.name)
		}
	}
	return changes, nil
}

// applyTo applies a frame of this type to the view, and returns the change of the view, or nil if there is none. The
// caller holds the lock.
func (n viewUpdate) applyTo(frameType string) *Change {
	v, key := n.view, n.object.key()
	before := v.objects[key]
	known := before != nil && !before.Unfiltered
	switch {
	case frameType == frameDeleted:
		if n.failure != nil && known {
			n.object.FilterResult, n.object.Checksum = before.FilterResult, before.Checksum
		}
		if n.inSnapshot {
			v.set(key, nil)
		}
		return &Change{Type: Deleted, Object: n.object}
	case n.failure != nil:
		if n.inSnapshot && before == nil {
			n.object.Unfiltered = true
			v.set(key, n.object)
		}
		return nil
	case !n.inSnapshot && frameType == frameAdded:
		return &Change{Type: Added, Object: n.object}
	case !n.inSnapshot:
		return &Change{Type: Modified, Object: n.object}
	}
	v.set(key, n.object)
	switch {
	case !known:
		return &Change{Type: Added, Object: n.object}
	case before.UID == n.object.UID && before.Checksum == n.object.Checksum:
		return nil
	default:
		return &Change{Type: Modified, Object: n.object}
	}
}

// filterDocument applies the filter of the view v to doc, and returns the result as an Object. If full is true, the
// Object also has the full object. If only metadata are read, the Object has no full object, no filter result and no
// checksum. So a change of the metadata is not a change of the view. filterDocument tells the observer the duration of
// the filter, with owners as the owners of the view.
func (r *reads) filterDocument(ctx context.Context, v *view, owners []string, doc *document, full bool) (*Object, error) {
	if r.metadata {
		return doc.object(), nil
	}
	filtered := r.observer.Filtered
	if v.filter == nil || filtered == nil {
		return doc.filtered(ctx, v.filter, full)
	}
	passed := r.observer.time()
	object, err := doc.filtered(ctx, v.filter, full)
	filtered(v.name, owners, passed())
	return object, err
}
