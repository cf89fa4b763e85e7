package workflow

import (
	"addon-operator/store"
)

// mostEvents is how many events of a binding wait before those are folded that
// say of an object what a newer one says as well.
const mostEvents = 1000

// The kinds of events that folding tells apart.
const (
	modified = "Modified"
	deleted  = "Deleted"
)

// isEvent reports whether t counts among the events that wait for a binding.
func (m *transition) isEvent(t *store.Task) bool { return t.Object != nil && !m.isUnique(t) }

// coalesceEvent has t, a new event that is yet to be put at the tail of its queue,
// replace what waits of its object, where too many events of its binding wait
// already. What the hook was not told of as Added stays an Added; a Deleted is
// never folded, nor is anything before it.
func (m *transition) coalesceEvent(t *store.Task) (folded bool, err error) {
	if !m.isEvent(t) {
		return false, nil
	}
	n, crowded, err := m.backlog(t)
	if err != nil || !crowded {
		return false, err
	}
	newest := store.BacklogKey(t, t.Object)
	at, known, err := store.Load[store.NewestEvent](m.tx, newest)
	if err != nil {
		return false, err
	}
	from, to := uint64(0), uint64(0)
	if n >= mostEvents {
		if from, to, err = m.covered(t); err != nil {
			return false, err
		}
	}
	many := n-int(to-from) >= mostEvents //nolint:gosec // a range is bounded
	if many && known && t.Object.Event == modified {
		old, ok, err := store.LoadAt(m.tx, at.Key)
		if err != nil {
			return false, err
		}
		begun := ok && (old.Claim != nil || old.Journal || old.Failed != nil || from <= old.Slot && old.Slot < to)
		if ok && !begun && old.Object.Event != deleted && old.Object.UID == t.Object.UID {
			return true, m.replace(old, t)
		}
	}
	if err := store.Save(m.tx, store.BacklogKey(t, nil), n+1); err != nil {
		return false, err
	}
	switch {
	case many:
		return false, store.Save(m.tx, newest, store.NewestEvent{ID: t.ID, Key: t.Key()})
	case known:
		m.tx.Delete(newest) // what it leads to is not the newest any more
	}
	return false, nil
}

// backlog returns how many events wait for the binding of t, and whether they are
// counted: they are from when the queue has grown long until none is left.
func (m *transition) backlog(t *store.Task) (n int, counted bool, err error) {
	n, counted, err = store.Load[int](m.tx, store.BacklogKey(t, nil))
	if err != nil || counted {
		return n, counted, err
	}
	if long, err := m.hasBacklog(t); err != nil || !long {
		return 0, false, err
	}
	return store.CountEvents(m.tx, t), true, nil
}

// hasBacklog reports whether the lane or queue of t, which is about to be put there, is
// so long that the events of its bindings are counted.
func (m *transition) hasBacklog(t *store.Task) (long bool, err error) {
	if t.IsHeld() {
		lane, _, err := store.LoadLane(m.tx, t.LaneKey())
		return lane.Tasks >= mostEvents, err
	}
	first := store.Pos{Slot: t.Slot}
	for k := range m.tx.Range(store.QueueKey(t.Queue)) {
		first, err = store.ParsePos(k)
		break
	}
	return t.Slot-first.Slot >= mostEvents, err
}

// countBacklog has the events that wait for the binding of t, one of them, counted
// from now on.
func (m *transition) countBacklog(t *store.Task) error {
	key := store.BacklogKey(t, nil)
	if !m.isEvent(t) || m.tx.Get(key) != nil {
		return nil
	}
	return store.Save(m.tx, key, store.CountEvents(m.tx, t))
}

// covered returns the places of t's queue that an attempt of its hook covers,
// from the first to the one behind the last; where none was begun there are none.
func (m *transition) covered(t *store.Task) (from, to uint64, err error) {
	for head, err := range m.heads(t.Queue) {
		if err != nil {
			return 0, 0, err
		}
		if head.Subject.Module != t.Subject.Module || head.Subject.Hook != t.Subject.Hook || head.Claim == nil && !head.Journal {
			continue
		}
		from, to = head.Slot, head.Slot+1
		if head.Claim != nil && head.Claim.End != 0 {
			to = head.Claim.End + 1
		}
	}
	return from, to, nil
}

// replace has the waiting event old say what t says, whose run old's goes on
// for.
func (m *transition) replace(old, t *store.Task) error {
	store.ReplacePayload(m.tx, old, t.Payload)
	object := *t.Object
	object.Event = old.Object.Event
	old.Object = &object
	r := recordOf(t, store.Joined)
	r.Into = old.ID.String()
	m.count(t.Run, 0)
	m.join(t.Run, old.Run)
	if err := m.record(r); err != nil {
		return err
	}
	return m.save(old)
}

// leaveBacklog counts t, which is taken away, no longer.
func (m *transition) leaveBacklog(t *store.Task) error {
	if !m.isEvent(t) {
		return nil
	}
	key := store.BacklogKey(t, nil)
	n, counted, err := store.Load[int](m.tx, key)
	if err != nil || !counted {
		return err
	}
	newest := store.BacklogKey(t, t.Object)
	at, _, err := store.Load[store.NewestEvent](m.tx, newest)
	if err != nil {
		return err
	}
	if at.ID == t.ID {
		m.tx.Delete(newest)
	}
	if n > 1 {
		return store.Save(m.tx, key, n-1)
	}
	m.tx.Delete(key)
	return nil
}

// follows keeps track of t, which has come to another place.
func (m *transition) follows(t *store.Task) error {
	if !m.isEvent(t) {
		return nil
	}
	newest := store.BacklogKey(t, t.Object)
	at, known, err := store.Load[store.NewestEvent](m.tx, newest)
	if err != nil || !known || at.ID != t.ID {
		return err
	}
	at.Key = t.Key()
	return store.Save(m.tx, newest, at)
}
