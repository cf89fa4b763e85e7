package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/internal/kube"
	"addon-operator/internal/operation"
	"addon-operator/store"
	"addon-operator/workflow"
)

// objectEffect is the kind of effect that does one operation with an object.
const objectEffect = "object operation"

// An objectWork is one of the operations a run of a hook wants done.
type objectWork struct {
	// Nth counts the operations of the run from 1, Of is how many there are.
	Nth int `json:"nth"`
	Of  int `json:"of"`
	// Last is set where no other effect follows.
	Last bool `json:"last,omitempty"`
	// At is a time before the run.
	At        time.Time           `json:"at"`
	Operation operation.Operation `json:"operation"`
}

// String names the operation for messages.
func (w objectWork) String() string {
	return fmt.Sprintf("operation %d of %d (%s)", w.Nth, w.Of, w.Operation)
}

// kind names the kind of the object the operation is about.
func (w objectWork) kind() string {
	return w.Operation.APIVersion + " " + strings.ToLower(w.Operation.Kind)
}

// objectEffects returns the effects that do operations, written down at a time;
// more effects may follow unless last is set.
func objectEffects(operations []operation.Operation, at time.Time, last bool) ([]workflow.Effect, error) {
	var effects []workflow.Effect
	for i, o := range operations {
		data, err := json.Marshal(objectWork{Nth: i + 1, Of: len(operations), Last: last && i+1 == len(operations), At: at, Operation: o})
		if err != nil {
			return nil, fmt.Errorf("$KUBERNETES_PATCH_PATH: operation %d: %w", i+1, err)
		}
		effects = append(effects, workflow.Effect{Kind: objectEffect, Data: data})
	}
	return effects, nil
}

// An objectNote records the progress of a task in its operations. It is written for
// operations whose completion cannot be detected in the cluster.
type objectNote struct {
	// Settled operations are done or refused: no later attempt looks at them.
	Settled int `json:"settled"`
	// Refused says what became of the first of those that were, More is how many
	// more there are.
	Refused []string `json:"refused,omitempty"`
	More    int      `json:"more,omitempty"`
	// Unserved are kinds that were waited for and have not appeared.
	Unserved []string `json:"unserved,omitempty"`
	// Mark is that of the first operation that is not settled.
	Mark *operation.Mark `json:"mark,omitempty"`
}

// mostRefusals is how many refusals of one run are told in full.
const mostRefusals = 20

// refuse adds why an operation was refused.
func (n *objectNote) refuse(w objectWork, err error) {
	if kind := w.kind(); errors.Is(err, kube.ErrNotServed) && len(n.Unserved) < mostRefusals && !slices.Contains(n.Unserved, kind) {
		n.Unserved = append(n.Unserved, kind)
	}
	if len(n.Refused) == mostRefusals {
		n.More++
		return
	}
	n.Refused = append(n.Refused, fmt.Sprintf("%s: %v", w, err))
}

// err returns the error of the whole run, nil where none was refused.
func (n *objectNote) err() error {
	if len(n.Refused) == 0 {
		return nil
	}
	text := strings.Join(n.Refused, "; ")
	if n.More > 0 {
		text += fmt.Sprintf("; and %d more", n.More)
	}
	return workflow.Refused(fmt.Errorf("$KUBERNETES_PATCH_PATH: %s", text))
}

// An objectRun does operations of one run of a hook, one after another.
type objectRun struct {
	objects *Objects
	module  string
	// resumed is set where any of them may have been tried before.
	resumed bool
	note    objectNote
	// save keeps the note, and what more writes, in one transaction; more may be
	// nil.
	save func(note objectNote, more func(*store.Tx) error) error
}

// Objects carries out the object operations of hooks. An object of a release that a hook of its module
// deletes is noted as removed before the request is sent.
type Objects struct {
	db       *store.DB
	executor *operation.Executor
	changes  Changes
}

// doObject does one operation of a task. One that is refused keeps none behind it
// from being done; the last one tells of all that were.
func (ob *Objects) doObject(ctx context.Context, t workflow.Task, data json.RawMessage) error {
	r := objectRun{objects: ob, module: t.Subject.Module, resumed: t.Resumed}
	if err := ob.db.View(func(tx *store.Tx) (err error) {
		r.note, _, err = store.LoadNote[objectNote](tx, t.ID)
		return err
	}); err != nil {
		return err
	}
	r.save = func(note objectNote, more func(*store.Tx) error) error {
		return ob.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
			err := store.SaveNote(tx, t.ID, note)
			if err == nil && more != nil {
				err = more(tx)
			}
			return err
		})
	}
	return r.do(ctx, data)
}

// doObjectsNow does the operations of a run that is no task: what a crash leaves
// of them undone is not done later.
func (ob *Objects) doObjectsNow(ctx context.Context, module string, effects []workflow.Effect) error {
	r := objectRun{objects: ob, module: module}
	r.save = func(_ objectNote, more func(*store.Tx) error) error {
		if more == nil {
			return nil
		}
		return ob.db.UpdateWithRoom(ctx, more)
	}
	for _, e := range effects {
		if err := r.do(ctx, e.Data); err != nil {
			return err
		}
	}
	return nil
}

// do does one operation, or finds that it is settled.
func (r *objectRun) do(ctx context.Context, data json.RawMessage) error {
	var w objectWork
	if err := json.Unmarshal(data, &w); err != nil {
		return workflow.Refused(err)
	}
	if w.Nth > r.note.Settled {
		if err := r.settle(ctx, w); err != nil {
			return fmt.Errorf("$KUBERNETES_PATCH_PATH: %s: %w", w, err)
		}
	}
	if w.Nth < w.Of {
		return nil
	}
	return r.note.err()
}

// settle does w's operation, or finds that it is done, or notes that it is
// refused. An error has it looked at again.
func (r *objectRun) settle(ctx context.Context, w objectWork) error {
	awaited := slices.Contains(r.note.Unserved, w.kind())
	attempt := operation.Attempt{Since: w.At, Resumed: r.resumed, Awaited: awaited, Note: func(mark operation.Mark) error {
		note := r.note
		note.Settled, note.Mark = w.Nth-1, &mark
		vain := w.Operation.Type.Deletes() && mark.UID == ""
		if vain && w.Last {
			return nil // nothing behind it can make the object
		}
		if vain || !w.Operation.Type.Deletes() || r.module == "" {
			return r.keep(note, nil)
		}
		return r.keep(note, func(tx *store.Tx) error { return r.objects.noteRemoved(tx, r.module, store.Object(mark.Object)) })
	}}
	if r.note.Settled == w.Nth-1 {
		attempt.Mark = r.note.Mark
	}
	err := r.objects.executor.Do(ctx, w.Operation, attempt)
	settled := r.note
	settled.Settled, settled.Mark = w.Nth, nil
	switch {
	case err != nil && operation.IsRefused(err):
		settled.refuse(w, err)
		if kept, ok := operation.NotDeleted(err); ok && r.module != "" {
			return r.keep(settled, func(tx *store.Tx) error { return r.objects.noteKept(tx, r.module, store.Object(kept)) })
		}
	case err != nil:
		return err
	case w.Last || w.Operation.Type.Repeatable() || w.Operation.Type.Deletes():
		return nil // to look once more does no harm: what was deleted is known by its uid
	}
	return r.keep(settled, nil)
}

func (r *objectRun) keep(note objectNote, more func(*store.Tx) error) error {
	r.note = note
	return r.save(note, more)
}

// noteRemoved notes that a hook of module is about to delete o, if that is an
// object of its release.
func (ob *Objects) noteRemoved(tx *store.Tx, module string, o store.Object) error {
	r, ok, err := store.Load[store.Release](tx, store.ReleaseKey(module))
	if err != nil || !ok {
		return err
	}
	for _, own := range r.Objects {
		if !own.Is(o) {
			continue
		}
		for i := range r.Removed {
			if r.Removed[i].Is(o) {
				r.Removed[i].At = tx.Now()
				return store.Save(tx, store.ReleaseKey(module), r)
			}
		}
		r.Removed = append(r.Removed, store.Removed{Object: own, At: tx.Now()})
		releaseChanged(tx, ob.changes, module)
		return store.Save(tx, store.ReleaseKey(module), r)
	}
	return nil
}

// noteKept reverts the note that a hook of module is deleting o, because the API server rejected it.
func (ob *Objects) noteKept(tx *store.Tx, module string, o store.Object) error {
	r, ok, err := store.Load[store.Release](tx, store.ReleaseKey(module))
	if err != nil || !ok || !r.Lacks(o) {
		return err
	}
	r.Removed = slices.DeleteFunc(r.Removed, func(removed store.Removed) bool { return removed.Is(o) })
	releaseChanged(tx, ob.changes, module)
	return store.Save(tx, store.ReleaseKey(module), r)
}
