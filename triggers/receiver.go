package triggers

import (
	"context"
	"slices"
	"sync"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A receiver turns changes from the watches into events, and updates the cursors in the
// transactions that put the events into their queues.
type receiver struct {
	db    *store.DB
	raise Raise
	// seen reports whether any binding sees the view.
	seen func(kube.View) bool
	// reduced is told of an event that was delivered without its object, which was too large; nil is
	// silence.
	reduced func(to graph.Subject, o *kube.Object, size int)
	// forgetting is held while cursors that nobody sees are deleted. Whoever asks
	// for a view's cursor sees the view, and so either keeps it or finds it gone.
	forgetting sync.Mutex
}

// sweep deletes the cursors of all views but those seen, if it is known which
// these are.
func (r *receiver) sweep(ctx context.Context, seen func() (views []kube.View, known bool)) error {
	r.forgetting.Lock()
	defer r.forgetting.Unlock()
	views, known := seen()
	if !known {
		return nil
	}
	keys := map[string]bool{}
	for _, v := range views {
		keys[string(cursorKey(v))] = true
	}
	return sweepCursors(ctx, r.db, keys)
}

// forget deletes the cursor of v unless it is seen.
func (r *receiver) forget(ctx context.Context, v kube.View, seen func(kube.View) bool) error {
	r.forgetting.Lock()
	defer r.forgetting.Unlock()
	if seen(v) {
		return nil
	}
	return deleteCursor(ctx, r.db, v)
}

// knows reports whether all objects of the cursor of v were delivered to the binding that
// was attached in epoch attachedIn. After a read error it returns true, because errors of
// the store end the operator.
func (r *receiver) knows(v kube.View, s graph.Subject, attachedIn uint64) (knows bool) {
	err := r.db.View(func(tx *store.Tx) error {
		m, _, err := store.Load[mark](tx, markKey(cursorKey(v)))
		knows = m.knows(s, attachedIn)
		return err
	})
	return knows || err != nil
}

// Stored returns the version up to which the view was told in full.
func (r *receiver) Stored(_ context.Context, v kube.View) (version string, err error) {
	r.forgetting.Lock()
	defer r.forgetting.Unlock()
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
func (r *receiver) Listed(ctx context.Context, list kube.List) error {
	if list.Cause == kube.Joined {
		return r.db.UpdateWithRoom(ctx, func(tx *store.Tx) error { return listed(tx, list.View, list.Owners) })
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
		return r.baseline(ctx, list)
	case list.Cause == kube.Appeared:
		return r.appear(ctx, list, known)
	default:
		return r.compare(ctx, list)
	}
}

// appear tells owners that were shown nothing of all objects there are. What was
// told of a view that is known is right already. One that is not is another
// comparison that was interrupted, after which some owners were told a part: all
// is told again, and what is gone since.
func (r *receiver) appear(ctx context.Context, list kube.List, known bool) error {
	if !known {
		gone, err := r.gone(list)
		if err != nil {
			return err
		}
		if err := r.tellAll(ctx, list.View.Source, gone, func(*store.Tx) error { return nil }); err != nil {
			return err
		}
	}
	objects := slices.DeleteFunc(slices.Clone(list.Objects), func(o *kube.Object) bool { return o.Unfiltered })
	return r.inPieces(ctx, list.View.Source, func(p *piece, at position) (position, bool, error) {
		for ; at.object < len(objects); at.object, at.owner = at.object+1, 0 {
			o := objects[at.object]
			for ; at.owner < len(list.Owners); at.owner++ {
				if added, err := p.addFor(list.Owners[at.owner], o); err != nil || !added {
					return at, false, err
				}
			}
			if known {
				continue
			}
			if !p.room(recordCost) {
				return at, false, nil
			}
			if err := p.save(objectKey(cursorKey(list.View), o), tell(o)); err != nil {
				return at, false, err
			}
		}
		if known {
			return at, true, listed(p.tx, list.View, list.Owners)
		}
		return at, true, complete(p.tx, list)
	})
}

// baseline writes what a view is told of first. Its mark comes with the last
// piece: a baseline that was interrupted is none.
func (r *receiver) baseline(ctx context.Context, list kube.List) error {
	cursor := cursorKey(list.View)
	if err := deleteCursor(ctx, r.db, list.View); err != nil {
		return err
	}
	return r.inPieces(ctx, list.View.Source, func(p *piece, at position) (position, bool, error) {
		for ; at.object < len(list.Objects); at.object++ {
			o := list.Objects[at.object]
			if o.Unfiltered {
				continue // it is added when there is something to tell of it
			}
			if !p.room(recordCost) {
				return at, false, nil
			}
			if err := p.save(objectKey(cursor, o), tell(o)); err != nil {
				return at, false, err
			}
		}
		return at, true, complete(p.tx, list)
	})
}

// compare tells the difference between what a view was told and its list. The
// version moves with the last piece, so a comparison that was interrupted is
// made again.
func (r *receiver) compare(ctx context.Context, list kube.List) error {
	changes, err := r.difference(list)
	if err != nil {
		return err
	}
	return r.tellAll(ctx, list.View.Source, changes, func(tx *store.Tx) error {
		return complete(tx, list)
	})
}

// complete notes that a list was told to its end.
func complete(tx *store.Tx, list kube.List) error {
	if err := listed(tx, list.View, list.Owners); err != nil {
		return err
	}
	return reach(tx, list.View.Source, list.Version, list.View.Filter)
}

// difference returns the changes that lead from what was told to the list: what
// is gone first, then the rest in the list's order.
func (r *receiver) difference(list kube.List) ([]kube.Change, error) {
	changes, err := r.gone(list)
	for _, o := range list.Objects {
		if !o.Unfiltered {
			changes = append(changes, kube.Change{Type: kube.Modified, Filter: list.View.Filter, Owners: list.Owners, Object: o})
		}
	}
	return changes, err
}

// gone returns the deletions of what was told of and is not in the list.
func (r *receiver) gone(list kube.List) (gone []kube.Change, err error) {
	cursor := cursorKey(list.View)
	present := map[string]string{string(markKey(cursor)): ""}
	for _, o := range list.Objects {
		present[string(objectKey(cursor, o))] = o.UID
	}
	err = r.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(cursor) {
			t, _, err := store.Load[delivered](tx, k)
			if err != nil {
				return err
			}
			if uid, ok := present[string(k)]; ok && uid == t.UID {
				continue
			}
			o, err := remembered(k, t, list.View.Source)
			if err != nil {
				return err
			}
			gone = append(gone, kube.Change{Type: kube.Deleted, Filter: list.View.Filter, Owners: list.Owners, Object: o})
		}
		return nil
	})
	return gone, err
}

// Changed raises events for a batch of changes and moves the source's version.
func (r *receiver) Changed(ctx context.Context, batch kube.Batch) error {
	return r.tellAll(ctx, batch.Source, batch.Changes, func(tx *store.Tx) error {
		return reach(tx, batch.Source, batch.Version, batch.Filters...)
	})
}

// Left forgets what a view was told, if nobody sees it any more: should its
// namespace match again, its objects are new.
func (r *receiver) Left(ctx context.Context, v kube.View, _ []string) error {
	if r.seen(v) {
		return nil
	}
	return deleteCursor(ctx, r.db, v)
}
