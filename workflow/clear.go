package workflow

import (
	"errors"

	"addon-operator/store"
)

// errEnough ends a walk over tasks before the last.
var errEnough = errors.New("enough tasks were taken away")

// clear takes away what waits of the module of t in any queue, and lets what
// runs, or has begun its effects, end without consequence. It spares t's own
// place and what came after the clearing began. Where more waits than one move can take
// away, t.Clears stays set, and until clearOn has come to the end a mark makes
// an orphan of every such task that comes to its turn before.
func (m *move) clear(t *store.Task) error {
	mark, marked, err := store.Load[store.Ref](m.tx, clearKey(t))
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
		case other.Orphan || !clears(&by, other) || !m.claimed(other) && !other.Journal:
			return nil
		case !m.fits(costOf(other)):
			return errEnough
		}
		other.Orphan = true
		return m.save(other)
	})
	if err == nil {
		err = m.clearWaiting(&by)
	}
	if err == nil {
		err = m.clearLater(&by)
	}
	if errors.Is(err, errEnough) {
		t.Clears = true
		return store.Save(m.tx, clearKey(t), mark)
	}
	t.Clears = false
	m.tx.Delete(clearKey(t))
	return err
}

// clearWaiting removes the tasks that t clears from the queues. Those that a
// running attempt covers are only abandoned.
func (m *move) clearWaiting(t *store.Task) error {
	return m.each(func(other, holder *store.Task) error {
		switch {
		case other.Orphan || !clears(t, other):
			return nil
		case !m.fits(costOf(other)):
			return errEnough
		case holder != nil:
			other.Orphan = true
			return m.save(other)
		}
		return m.abandon(other)
	})
}

// clearOn goes on with what clear has left over.
func (m *move) clearOn(t *store.Task) error {
	m.lookLater(t.Queue)
	if err := m.clear(t); err != nil {
		return err
	}
	return m.save(t)
}

// clears reports whether other is among what t clears.
func clears(t, other *store.Task) bool {
	return other.ID.Before(t.ID) && other.Graph == t.Graph && other.Subject.Module == t.Subject.Module &&
		(other.Queue != t.Queue || other.Place != t.Place)
}

// orphan makes t one if it is among what is being cleared.
func (m *move) orphan(t *store.Task) error {
	if t.Orphan || t.Subject.Module == "" {
		return nil
	}
	mark, ok, err := store.Load[store.Ref](m.tx, clearKey(t))
	if err != nil || !ok {
		return err
	}
	t.Orphan = clears(&store.Task{ID: mark.ID, Pos: mark.Pos, Graph: t.Graph, Subject: t.Subject}, t)
	return nil
}

// clearKey is where it is marked that t's module is being cleared. No queue
// has the empty name.
func clearKey(t *store.Task) store.Key {
	return store.At(store.Once).Str("").Str(t.Graph).Str(t.Subject.Module)
}
