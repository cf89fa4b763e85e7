package triggers

import (
	"context"
	"slices"
	"sync"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A receiver turns changes from the watches into events, and updates the cursors in the
// transactions that put the events into their queues.
type receiver struct {
	db     *store.DB
	engine workflow.Raiser
	// isFollowed reports whether a monitor of a binding follows the view.
	isFollowed func(kube.View) bool
	// attached returns the kubernetes binding in the store with the given text, in the form of [mark.Owners]. The
	// binding may be detached.
	attached func(text string) (graph.Subject, bool)
	// reduced is called when the payload of events was too large, so that the content of the object, and perhaps the
	// filter result, was left out. The argument to is the first binding whose event has this payload, and size is the
	// number of bytes of the complete payload. reduced can be nil.
	reduced func(to graph.Subject, o *kube.Object, size int)
	// damaged is called when an unreadable record was moved to the table of damaged records. damaged can be nil.
	damaged func(store.Damaged)
	// The mutex forgetting is locked while sweep or forget deletes cursors. Stored locks this mutex as well, so that
	// Stored never reads a cursor of which they have deleted only a part.
	forgetting sync.Mutex
}

// sweep deletes the cursors of all views except those that the function seen returns. If known, the
// second result of this function, is false, sweep deletes nothing.
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
	return r.withoutDamage(ctx, func() error { return sweepCursors(ctx, r.db, keys) })
}

// forget deletes the cursor of the view v, unless the function inUse reports that the view is in use.
func (r *receiver) forget(ctx context.Context, v kube.View, inUse func() (bool, error)) error {
	r.forgetting.Lock()
	defer r.forgetting.Unlock()
	return r.withoutDamage(ctx, func() error {
		if used, err := inUse(); used || err != nil {
			return err
		}
		return deleteCursor(ctx, r.db, v)
	})
}

// inUse reports whether a binding that is not among the leaving owners uses the view v. Such a binding follows the
// view, or needs the cursor to find the changes since an earlier process: all objects of the cursor were delivered to
// it in that process, and its monitor has not joined the watch yet.
func (r *receiver) inUse(v kube.View, leaving []string) (used bool, err error) {
	if r.isFollowed(v) {
		return true, nil
	}
	err = r.db.View(func(tx *store.Tx) error {
		m, _, err := store.Load[mark](tx, markKey(cursorKey(v)))
		if err != nil {
			return err
		}
		for text, attachedIn := range m.Owners {
			s, attached := r.attached(text)
			if !attached || slices.Contains(leaving, owner(s)) {
				continue
			}
			b, ok, err := store.Load[store.Binding](tx, store.BindingKey(s.Module, s.Hook, s.Binding))
			if err != nil {
				return err
			}
			used = used || ok && !b.Detached && b.AttachedIn == attachedIn
		}
		return nil
	})
	return used, err
}

// knows reports whether all objects of the cursor of v were delivered to the binding s since it was
// attached in epoch attachedIn. If the mark of the cursor is damaged, knows returns false. After any other
// read error, knows returns true, because errors of the store end the operator.
func (r *receiver) knows(v kube.View, s graph.Subject, attachedIn uint64) (knows bool) {
	err := r.db.View(func(tx *store.Tx) error {
		m, _, err := store.Load[mark](tx, markKey(cursorKey(v)))
		knows = err == nil && m.knows(s, attachedIn)
		return err
	})
	return knows || err != nil && unreadable(err, store.Cursors) == nil
}

// Stored returns the resource version up to which the view was delivered completely; empty if the
// view has no cursor.
func (r *receiver) Stored(ctx context.Context, v kube.View) (version string, err error) {
	r.forgetting.Lock()
	defer r.forgetting.Unlock()
	err = r.withoutDamage(ctx, func() error {
		return r.db.View(func(tx *store.Tx) error {
			if _, ok, err := store.Load[mark](tx, markKey(cursorKey(v))); err != nil || !ok {
				return err
			}
			all, _, err := store.Load[versions](tx, versionKey(v.Source))
			version = all[v.Filter]
			return err
		})
	})
	return version, err
}

// Behind reports whether one of the owners may have missed changes of v: because the owner had not joined yet, or
// because Left has removed the owner from the cursor since the call of knows for its monitor.
func (r *receiver) Behind(ctx context.Context, v kube.View, owners []string) (behind bool, err error) {
	err = r.withoutDamage(ctx, func() error {
		return r.db.View(func(tx *store.Tx) error {
			m, _, err := store.Load[mark](tx, markKey(cursorKey(v)))
			behind = slices.ContainsFunc(owners, func(name string) bool {
				text := SubjectOf(name).String()
				_, known := m.Owners[text]
				return !known || slices.Contains(m.Behind, text)
			})
			return err
		})
	})
	return behind, err
}

// Listed handles a list according to its cause. It delivers all objects of a view that has appeared,
// and it uses the first list of a view without a cursor as the baseline of a cursor. A list with the
// cause Joined only adds its owners to the cursor. Listed compares any other list with the delivered
// objects.
func (r *receiver) Listed(ctx context.Context, list kube.List) error {
	return r.withoutDamage(ctx, func() error { return r.receive(ctx, list) })
}

// receive handles a list. It may fail because a record is damaged.
func (r *receiver) receive(ctx context.Context, list kube.List) error {
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

// appear delivers all existing objects to the owners of list. An earlier call may have delivered
// some objects before it was interrupted; appear delivers these again. If the argument known is
// true, the view has a cursor for other owners already. This cursor does not record which objects an interrupted call
// delivered, so a deletion that follows the interruption may not be delivered to the owners of list. Otherwise appear
// writes the cursor. An interrupted call may have left a part of this cursor, so appear first delivers the deletions of
// the objects in this part that no longer exist.
func (r *receiver) appear(ctx context.Context, list kube.List, known bool) error {
	if !known {
		gone, err := r.gone(list)
		if err != nil {
			return err
		}
		if err := r.deliverAll(ctx, list.View.Source, gone, func(*store.Tx) error { return nil }); err != nil {
			return err
		}
	}
	objects := slices.DeleteFunc(slices.Clone(list.Objects), func(o *kube.Object) bool { return o.Unfiltered })
	return r.inPieces(ctx, list.View.Source, func(p *piece, at position) (position, bool, error) {
		for ; at.object < len(objects); at.object, at.owner = at.object+1, 0 {
			o := objects[at.object]
			if !known && !p.room(recordCost) {
				return at, false, nil
			}
			var err error
			if at.owner, err = p.addFor(list.Owners, at.owner, o); err != nil {
				return at, false, err
			}
			missing := list.Owners[at.owner:]
			if !known {
				if err := p.saveAdded(objectKey(cursorKey(list.View), o), o, missing); err != nil {
					return at, false, err
				}
			}
			if len(missing) > 0 {
				return at, false, nil
			}
		}
		if known {
			return at, true, listed(p.tx, list.View, list.Owners)
		}
		return at, true, complete(p.tx, list)
	})
}

// baseline writes the first list of a view to its cursor. The mark is written with the last piece,
// so that an interrupted baseline is not treated as a cursor.
func (r *receiver) baseline(ctx context.Context, list kube.List) error {
	cursor := cursorKey(list.View)
	if err := deleteCursor(ctx, r.db, list.View); err != nil {
		return err
	}
	return r.inPieces(ctx, list.View.Source, func(p *piece, at position) (position, bool, error) {
		for ; at.object < len(list.Objects); at.object++ {
			o := list.Objects[at.object]
			if o.Unfiltered {
				continue // the object is delivered when its filter succeeds
			}
			if !p.room(recordCost) {
				return at, false, nil
			}
			if err := p.save(objectKey(cursor, o), newDelivered(o)); err != nil {
				return at, false, err
			}
		}
		return at, true, complete(p.tx, list)
	})
}

// compare delivers the differences between the cursor of a view and its list. Only the last
// transaction saves the version of the list, so that an interrupted comparison is repeated.
func (r *receiver) compare(ctx context.Context, list kube.List) error {
	changes, err := r.difference(list)
	if err != nil {
		return err
	}
	return r.deliverAll(ctx, list.View.Source, changes, func(tx *store.Tx) error {
		return complete(tx, list)
	})
}

// complete stores in the cursor of a view that a list of the view was delivered completely.
func complete(tx *store.Tx, list kube.List) error {
	if err := listed(tx, list.View, list.Owners); err != nil {
		return err
	}
	return reach(tx, list.View.Source, list.Version, list.View.Filter)
}

// difference returns a Deleted change for each delivered object that is not in the list with the
// same uid, and then a Modified change for each object of the list that is not Unfiltered. The
// delivery ignores objects that have not changed.
func (r *receiver) difference(list kube.List) ([]kube.Change, error) {
	changes, err := r.gone(list)
	for _, o := range list.Objects {
		if !o.Unfiltered {
			changes = append(changes, kube.Change{Type: kube.Modified, Filter: list.View.Filter, Owners: list.Owners, Object: o})
		}
	}
	return changes, err
}

// gone returns the deletions of the delivered objects that are not in the list with the same uid. If the record of an
// object is damaged, its uid is unknown. Then the object is treated as deleted only if the list has no object with its
// name.
func (r *receiver) gone(list kube.List) (gone []kube.Change, err error) {
	cursor := cursorKey(list.View)
	head, present := string(markKey(cursor)), map[string]string{}
	for _, o := range list.Objects {
		present[string(objectKey(cursor, o))] = o.UID
	}
	err = r.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(cursor) {
			if string(k) == head {
				continue
			}
			t, _, err := store.Load[delivered](tx, k)
			lost := unreadable(err, store.Cursors) != nil
			if err != nil && !lost {
				return err
			}
			if lost {
				t = delivered{} // Load may have decoded a part
			}
			if uid, ok := present[string(k)]; ok && (lost || uid == t.UID) {
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

// Changed raises events for a batch of changes, and then saves the version that the views have
// reached.
func (r *receiver) Changed(ctx context.Context, batch kube.Batch) error {
	return r.withoutDamage(ctx, func() error {
		return r.deliverAll(ctx, batch.Source, batch.Changes, func(tx *store.Tx) error {
			return reach(tx, batch.Source, batch.Version, batch.Filters...)
		})
	})
}

// Left deletes the cursor of a view if no other binding uses the view; otherwise Left removes the owners from the
// cursor. If the namespace of the view matches again later, the objects that exist then cause no events.
func (r *receiver) Left(ctx context.Context, v kube.View, owners []string) error {
	var bindings []string
	for _, name := range owners {
		bindings = append(bindings, SubjectOf(name).String())
	}
	return r.withoutDamage(ctx, func() error {
		used, err := r.inUse(v, owners)
		if err != nil {
			return err
		}
		if !used {
			return deleteCursor(ctx, r.db, v)
		}
		return unlist(ctx, r.db, cursorKey(v), func(binding string) bool { return slices.Contains(bindings, binding) })
	})
}
