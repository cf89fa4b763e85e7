package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

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

// An objectNote is how far a task has come with its operations. It is written
// where an operation that is looked at anew could not tell that it is done.
type objectNote struct {
	// Settled operations are done or refused: no later attempt looks at them.
	Settled int `json:"settled"`
	// Refused says what became of those that were.
	Refused []string `json:"refused,omitempty"`
	// Mark is that of the first operation that is not settled.
	Mark *operation.Mark `json:"mark,omitempty"`
}

// doObject does one operation. One that is refused keeps none behind it from
// being done; the last one tells of all that were.
func (s *Site) doObject(ctx context.Context, t workflow.Task, data json.RawMessage) error {
	var w objectWork
	if err := json.Unmarshal(data, &w); err != nil {
		return workflow.Refused(err)
	}
	var note objectNote
	err := s.DB.View(func(tx *store.Tx) (err error) {
		note, _, err = store.LoadNote[objectNote](tx, t.ID)
		return err
	})
	if err == nil && w.Nth > note.Settled {
		err = s.settleObject(ctx, t, w, &note)
	}
	if err == nil && w.Nth == w.Of && len(note.Refused) > 0 {
		err = workflow.Refused(fmt.Errorf("$KUBERNETES_PATCH_PATH: %s", strings.Join(note.Refused, "; ")))
	}
	return err
}

// settleObject does w's operation, or finds that it is done, or notes that it is
// refused. An error has it looked at again.
func (s *Site) settleObject(ctx context.Context, t workflow.Task, w objectWork, note *objectNote) error {
	keep := func(next objectNote, more func(*store.Tx) error) error {
		*note = next
		return s.DB.Update(func(tx *store.Tx) error { return errors.Join(store.SaveNote(tx, t.ID, next), more(tx)) })
	}
	attempt := operation.Attempt{
		Since: w.At, Resumed: t.Resumed,
		Note: func(mark operation.Mark) error {
			return keep(objectNote{Settled: w.Nth - 1, Refused: note.Refused, Mark: &mark}, func(tx *store.Tx) error {
				if !w.Operation.Type.Deletes() || t.Subject.Module == "" {
					return nil
				}
				return s.noteRemoved(tx, t.Subject.Module, store.Object(mark.Object))
			})
		},
	}
	if note.Settled == w.Nth-1 {
		attempt.Mark = note.Mark
	}
	err := s.Objects.Do(ctx, w.Operation, attempt)
	settled := objectNote{Settled: w.Nth, Refused: note.Refused}
	nothing := func(*store.Tx) error { return nil }
	switch {
	case err != nil && operation.IsRefused(err):
		settled.Refused = append(settled.Refused, fmt.Sprintf("%s: %v", w, err))
		return keep(settled, nothing)
	case err != nil:
		return fmt.Errorf("$KUBERNETES_PATCH_PATH: %s: %w", w, err)
	case w.Last || w.Operation.Type.Repeatable() || w.Operation.Type.Deletes():
		return nil // once more does no harm: what was deleted is known by its uid
	default:
		return keep(settled, nothing)
	}
}

// noteRemoved notes that a hook of module is about to delete o, if that is an
// object of its release.
func (s *Site) noteRemoved(tx *store.Tx, module string, o store.Object) error {
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
		s.notifyInstalled(tx, module)
		return store.Save(tx, store.ReleaseKey(module), r)
	}
	return nil
}
