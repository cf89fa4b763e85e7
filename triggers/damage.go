package triggers

import (
	"context"
	"errors"
	"slices"

	"addon-operator/store"
)

// unreadable returns the RecordError that err wraps, if the record is in one of the tables; otherwise nil.
func unreadable(err error, tables ...store.Table) *store.RecordError {
	lost := (*store.RecordError)(nil)
	if errors.As(err, &lost) && slices.Contains(tables, lost.Key.Table()) {
		return lost
	}
	return nil
}

// withoutDamage calls fn. If fn fails because a record of a binding, a cursor or a version cannot be read,
// withoutDamage moves this record to the table of damaged records, and calls fn again. Without its record, the binding
// of a module is not attached until the module runs again, and the binding of a global hook is not attached until the
// next start run. Without the mark of its cursor, a view is treated as a new view.
func (r *receiver) withoutDamage(ctx context.Context, fn func() error) error {
	for {
		err := fn()
		lost := unreadable(err, store.Bindings, store.Cursors, store.Versions)
		if lost == nil {
			return err
		}
		if err := r.db.UpdateWithRoom(ctx, func(tx *store.Tx) error { return r.moveDamaged(tx, lost) }); err != nil {
			return err
		}
	}
}

// moveDamaged moves an unreadable record to the table of damaged records.
func (r *receiver) moveDamaged(tx *store.Tx, lost *store.RecordError) error {
	d, moved, err := store.MoveDamaged(tx, store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, lost.Key, lost.Err)
	if err != nil || !moved {
		return err
	}
	if r.damaged != nil {
		tx.OnCommit(func() { r.damaged(d) })
	}
	if lost.Key.Table() == store.Bindings {
		return startAgain(tx, lost.Key)
	}
	return nil
}

// startAgain makes the next run of a module its first run in this start, because only such a run attaches the bindings
// of the module. The argument binding is the key of a lost binding. For a global hook, startAgain does nothing.
func startAgain(tx *store.Tx, binding store.Key) error {
	p, err := binding.Parts()
	if err != nil {
		return err
	}
	key := store.ModuleKey(p.Str())
	m, ok, err := store.Load[store.Module](tx, key)
	if unreadable(err, store.Modules) != nil || err == nil && !ok {
		return nil //nolint:nilerr // without a readable record, the next run is the first one
	}
	if err != nil {
		return err
	}
	m.RanInStart = 0
	return store.Save(tx, key, m)
}
