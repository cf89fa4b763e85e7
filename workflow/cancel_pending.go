package workflow

import (
	"errors"

	"addon-operator/store"
)

// errEnough ends a walk over tasks before the last.
var errEnough = errors.New("enough tasks were taken away")

// cancelPending takes away what waits of the module of t in any queue, and lets what
// runs, or has begun its effects, end without consequence. It spares t's own
// place and what came after the clearing began. Where more waits than one transition can take
// away, t.CancelsPending stays set, and until continueCancel has come to the end a mark makes
// an orphan of every such task that comes to its turn before.
func (m *transition) cancelPending(t *store.Task) error {
	mark, marked, err := store.Load[store.Ref](m.tx, cancelKey(t))
	if err != nil {
		return err
	}
	if !marked {
		mark = store.Ref{ID: m.newID(), Pos: t.Pos} // t's own id can be older than tasks it clears
	}
	by := *t
	by.ID = mark.ID
	err = m.eachHead(func(other *store.Task) error {
		switch {
		case other.Abandoned || !cancels(&by, other) || !m.claimed(other) && !other.Journal:
			return nil
		case !m.fits(costOf(other)):
			return errEnough
		}
		other.Abandoned = true
		return m.save(other)
	})
	if err == nil {
		err = m.cancelWaiting(&by)
	}
	if err == nil {
		err = m.cancelDeferred(&by)
	}
	if errors.Is(err, errEnough) {
		t.CancelsPending = true
		return store.Save(m.tx, cancelKey(t), mark)
	}
	t.CancelsPending = false
	m.tx.Delete(cancelKey(t))
	return err
}

// cancelWaiting removes the tasks that t clears from the queues. Those that a
// running attempt covers are only abandoned.
func (m *transition) cancelWaiting(t *store.Task) error {
	return m.each(func(other, holder *store.Task) error {
		switch {
		case other.Abandoned || !cancels(t, other):
			return nil
		case !m.fits(costOf(other)):
			return errEnough
		case holder != nil:
			other.Abandoned = true
			return m.save(other)
		}
		return m.abandon(other)
	})
}

// continueCancel goes on with what clear has left over.
func (m *transition) continueCancel(t *store.Task) error {
	m.lookLater(t.Queue)
	if err := m.cancelPending(t); err != nil {
		return err
	}
	return m.save(t)
}

// cancels reports whether other is among what t clears.
func cancels(t, other *store.Task) bool {
	return other.ID.Before(t.ID) && other.Graph == t.Graph && other.Subject.Module == t.Subject.Module &&
		(other.Queue != t.Queue || other.Slot != t.Slot)
}

// markAbandoned makes t one if it is among what is being cleared.
func (m *transition) markAbandoned(t *store.Task) error {
	if t.Abandoned || t.Subject.Module == "" {
		return nil
	}
	mark, ok, err := store.Load[store.Ref](m.tx, cancelKey(t))
	if err != nil || !ok {
		return err
	}
	t.Abandoned = cancels(&store.Task{ID: mark.ID, Pos: mark.Pos, Graph: t.Graph, Subject: t.Subject}, t)
	return nil
}

// cancelKey is where it is marked that t's module is being cleared. No queue
// has the empty name.
func cancelKey(t *store.Task) store.Key {
	return store.At(store.Unique).Str("").Str(t.Graph).Str(t.Subject.Module)
}
