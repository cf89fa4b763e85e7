package triggers

import (
	"context"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
)

// Bounds of what one transaction takes of a list or a batch; each piece leaves
// a cursor that is true.
const (
	pieceObjects = 5000
	pieceEvents  = 1000
)

// A receiver turns what the hub tells into events, and moves the cursors in the
// transactions that put the events into their queues.
type receiver struct {
	db    *store.DB
	raise Raise
	// seen reports whether any binding sees the view.
	seen func(kube.View) bool
}

// Stored returns the version up to which the view was told in full.
func (r *receiver) Stored(_ context.Context, v kube.View) (version string, err error) {
	err = r.db.View(func(tx *store.Tx) error {
		if tx.Get(markKey(cursorKey(v))) == nil {
			return nil
		}
		all, _, err := store.Load[versions](tx, versionKey(v.Source))
		version = all[v.Filter]
		return err
	})
	return version, err
}

// Listed takes a view's list as the baseline of its cursor, or compares it with
// what was told before.
func (r *receiver) Listed(_ context.Context, list kube.List) error {
	if list.Cause == kube.Joined {
		return nil
	}
	known := false
	if err := r.db.View(func(tx *store.Tx) error {
		known = tx.Get(markKey(cursorKey(list.View))) != nil
		return nil
	}); err != nil {
		return err
	}
	switch {
	case list.Cause == kube.First && !known:
		return r.baseline(list)
	case list.Cause == kube.Appeared && known:
		return r.appear(list)
	default:
		return r.compare(list)
	}
}

// appear tells owners that were shown nothing of all objects there are. What the
// view was told is right already.
func (r *receiver) appear(list kube.List) error {
	rest := list.Objects
	for len(rest) > 0 {
		n := min(len(rest), max(1, pieceEvents/max(1, len(list.Owners))))
		piece := rest[:n]
		rest = rest[n:]
		if err := r.db.Update(func(tx *store.Tx) error {
			var all []workflow.Event
			for _, o := range piece {
				if o.Unfiltered {
					continue
				}
				events, err := r.events(tx, list.View.Source, list.Owners, kube.Added, o)
				if err != nil {
					return err
				}
				all = append(all, events...)
			}
			return r.raise(tx, all...)
		}); err != nil {
			return err
		}
	}
	return nil
}

// baseline writes what a view is told of first. Its mark comes with the last
// piece: a baseline that was interrupted is none.
func (r *receiver) baseline(list kube.List) error {
	cursor := cursorKey(list.View)
	if err := deleteCursor(r.db, list.View); err != nil {
		return err
	}
	rest := list.Objects
	for {
		n := min(len(rest), pieceObjects)
		piece := rest[:n]
		rest = rest[n:]
		if err := r.db.Update(func(tx *store.Tx) error {
			for _, o := range piece {
				if o.Unfiltered {
					continue // it is added when there is something to tell of it
				}
				if err := store.Save(tx, objectKey(cursor, o), tell(o)); err != nil {
					return err
				}
			}
			if len(rest) > 0 {
				return nil
			}
			return listed(tx, list)
		}); err != nil {
			return err
		}
		if len(rest) == 0 {
			return nil
		}
	}
}

// compare tells the difference between what a view was told and its list. The
// version moves with the last piece, so a comparison that was interrupted is
// made again.
func (r *receiver) compare(list kube.List) error {
	changes, err := r.difference(list)
	if err != nil {
		return err
	}
	return r.tellAll(list.View.Source, changes, func(tx *store.Tx) error {
		return listed(tx, list)
	})
}

// listed notes that a list was told to its end.
func listed(tx *store.Tx, list kube.List) error {
	if err := store.Save(tx, markKey(cursorKey(list.View)), markOf(list.View)); err != nil {
		return err
	}
	return reach(tx, list.View.Source, list.Version, list.View.Filter)
}

// difference returns the changes that lead from what was told to the list: what
// is gone first, then the rest in the list's order.
func (r *receiver) difference(list kube.List) ([]kube.Change, error) {
	cursor := cursorKey(list.View)
	present := map[string]bool{}
	var changes []kube.Change
	for _, o := range list.Objects {
		present[string(objectKey(cursor, o))] = true
		if !o.Unfiltered {
			changes = append(changes, kube.Change{Type: kube.Modified, Filter: list.View.Filter, Owners: list.Owners, Object: o})
		}
	}
	var gone []kube.Change
	err := r.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(cursor) {
			if present[string(k)] || string(k) == string(markKey(cursor)) {
				continue
			}
			t, _, err := store.Load[told](tx, k)
			if err != nil {
				return err
			}
			o, err := remembered(k, t, list.View.Source)
			if err != nil {
				return err
			}
			gone = append(gone, kube.Change{Type: kube.Deleted, Filter: list.View.Filter, Owners: list.Owners, Object: o})
		}
		return nil
	})
	return append(gone, changes...), err
}

// Changed raises events for a batch of changes and moves the source's version.
func (r *receiver) Changed(_ context.Context, batch kube.Batch) error {
	return r.tellAll(batch.Source, batch.Changes, func(tx *store.Tx) error {
		return reach(tx, batch.Source, batch.Version, batch.Filters...)
	})
}

// Left forgets what a view was told, if nobody sees it any more: should its
// namespace match again, its objects are new.
func (r *receiver) Left(_ context.Context, v kube.View, _ []string) error {
	if r.seen(v) {
		return nil
	}
	return deleteCursor(r.db, v)
}
