package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/store"
	"addon-operator/workflow"
)

// An Executor carries out the operations of hooks. Before it deletes an object of the release of the hook's module,
// it records that a hook removes the object.
type Executor struct {
	// Write is called for the requests of a task that change an object; [operation.Attempt.Write] describes the calls.
	// Write may be nil.
	Write func(t workflow.Task, object kube.Ref) (wrote func(resourceVersion string))

	db      *store.DB
	cluster *operation.Executor
}

// New returns an executor that uses cluster to send requests to the API server.
func New(db *store.DB, cluster *operation.Executor) *Executor {
	return &Executor{db: db, cluster: cluster}
}

// Do carries out one operation of a task. The argument data is the data of the effect. If an operation that is not
// the last one of the task is rejected, Do returns nil. For the last operation, Do returns the errors of all rejected
// operations of the task.
func (e *Executor) Do(ctx context.Context, t workflow.Task, data json.RawMessage) error {
	r := run{executor: e, module: t.Subject.Module, resumed: t.Resumed}
	if e.Write != nil {
		r.write = func(object kube.Ref) func(string) { return e.Write(t, object) }
	}
	if err := e.db.View(func(tx *store.Tx) (err error) {
		r.note, _, err = store.LoadNote[note](tx, t.ID)
		return err
	}); err != nil {
		return err
	}
	r.save = func(n note, more func(*store.Tx) error) error {
		return e.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			err := store.SaveNote(tx, t.ID, n)
			if err == nil && more != nil {
				err = more(tx)
			}
			return err
		})
	}
	return r.do(ctx, data)
}

// DoNow carries out the operations of a hook run without a task, for a review request. If the operator ends in between,
// the remaining operations are lost.
func (e *Executor) DoNow(ctx context.Context, module string, effects []workflow.Effect) error {
	r := run{executor: e, module: module}
	r.save = func(_ note, more func(*store.Tx) error) error {
		if more == nil {
			return nil
		}
		return e.db.UpdateWithRoom(ctx, more)
	}
	for _, effect := range effects {
		if err := r.do(ctx, effect.Data); err != nil {
			return err
		}
	}
	return nil
}

// A run carries out the operations of one run of a hook in order.
type run struct {
	executor *Executor
	module   string
	// resumed is true if an earlier attempt may have sent some of the operations.
	resumed bool
	note    note
	// save saves the note n. In the same transaction, it calls the function more, unless more is nil.
	save  func(n note, more func(*store.Tx) error) error
	write func(object kube.Ref) (wrote func(resourceVersion string)) // see [operation.Attempt.Write]; may be nil
}

// do carries out one operation, if the note does not say that it is already done or rejected.
func (r *run) do(ctx context.Context, data json.RawMessage) error {
	var s step
	if err := json.Unmarshal(data, &s); err != nil {
		return workflow.Refused(err)
	}
	if s.Number > r.note.Settled {
		if err := r.settle(ctx, s); err != nil {
			return fmt.Errorf("$KUBERNETES_PATCH_PATH: %s: %w", s, err)
		}
	}
	if s.Number < s.Total {
		return nil
	}
	return r.note.err()
}

// settle carries out the operation, unless it finds that an earlier attempt has already done this. If the operation
// is rejected, settle records this in the note. If settle returns an error, the next attempt tries the operation
// again.
func (r *run) settle(ctx context.Context, s step) error {
	attempt := operation.Attempt{
		Since: s.At, Resumed: r.resumed, Awaited: slices.Contains(r.note.Unserved, s.kind()),
		Note: func(mark operation.Mark) error { return r.saveMark(s, mark) }, Write: r.write,
	}
	if r.note.Settled == s.Number-1 {
		attempt.Mark = r.note.Mark
	}
	err := r.executor.cluster.Do(ctx, s.Operation, attempt)
	settled := r.note
	settled.Settled, settled.Mark = s.Number, nil
	switch {
	case err != nil && operation.IsRefused(err):
		settled.refuse(s, err)
		if kept, ok := operation.NotDeleted(err); ok && r.module != "" {
			return r.saveNote(settled, func(tx *store.Tx) error { return r.executor.revertRemoved(tx, r.module, store.Object(kept)) })
		}
	case err != nil:
		return err
	case s.Last || s.Operation.Type.Repeatable() || s.Operation.Type.Deletes():
		return nil // the next attempt can repeat the operation: a deletion is safe because the mark has the object's UID
	}
	return r.saveNote(settled, nil)
}

// saveMark saves the mark of an operation that is about to be sent, or the mark of a deletion whose object does not
// exist. If the operation deletes an object of the module's release, saveMark also records that a hook removes the
// object.
func (r *run) saveMark(s step, mark operation.Mark) error {
	n := r.note
	n.Settled, n.Mark = s.Number-1, &mark
	if !s.Operation.Type.Deletes() || mark.UID == "" || r.module == "" {
		return r.saveNote(n, nil)
	}
	return r.saveNote(n, func(tx *store.Tx) error { return r.executor.noteRemoved(tx, r.module, store.Object(mark.Object)) })
}

func (r *run) saveNote(n note, more func(*store.Tx) error) error {
	r.note = n
	return r.save(n, more)
}

// noteRemoved records in the module's release that a hook is about to delete o, if the release contains o.
func (e *Executor) noteRemoved(tx *store.Tx, module string, o store.Object) error {
	r, ok, err := store.Load[store.Release](tx, store.ReleaseKey(module))
	if err != nil || !ok {
		return err
	}
	own := slices.IndexFunc(r.Objects, func(own store.Object) bool { return own.Is(o) })
	if own < 0 {
		return nil
	}
	if i := slices.IndexFunc(r.Removed, func(removed store.Removed) bool { return removed.Is(o) }); i >= 0 {
		r.Removed[i].At = tx.Now()
		return store.Save(tx, store.ReleaseKey(module), r)
	}
	r.Removed = append(r.Removed, store.Removed{Object: r.Objects[own], At: tx.Now()})
	return store.Save(tx, store.ReleaseKey(module), r)
}

// revertRemoved removes the record that [Executor.noteRemoved] has made of o. It is called if the API server has
// rejected the deletion.
func (e *Executor) revertRemoved(tx *store.Tx, module string, o store.Object) error {
	r, ok, err := store.Load[store.Release](tx, store.ReleaseKey(module))
	if err != nil || !ok || !r.Lacks(o) {
		return err
	}
	r.Removed = slices.DeleteFunc(r.Removed, func(removed store.Removed) bool { return removed.Is(o) })
	return store.Save(tx, store.ReleaseKey(module), r)
}
