package workflow

import (
	"addon-operator/store"
)

// mostEvents is the number of events of a binding that can wait before a new event is coalesced
// with a waiting event of the same object.
const mostEvents = 1000

// Types of events other than Added.
const (
	modified = "Modified"
	deleted  = "Deleted"
)

// backlogs counts the pending events of bindings, including those that an attempt processes. The
// count of a binding begins when the queue or the lane of its events has become long, or when many
// tasks of its hook are deferred. The count ends when no event of the binding is left. In between,
// the count is exact. The newest event of an object is recorded if it was added while at least
// mostEvents events of the binding were waiting.
type backlogs struct {
	*txn
	history *history
	queues  *queues
	unique  *unique
}

// isEvent reports whether t is an event that is counted. Unique tasks are not counted, because at
// most one of several equal tasks waits.
func (l *backlogs) isEvent(t *store.Task) bool { return t.Object != nil && !l.unique.isUnique(t) }

// coalesceEvent replaces the newest waiting event of t's object with the new event t, if t is a
// Modified event, too many events of the binding wait, and the newest event was also added while too
// many events waited. The result coalesced is true if t must not be added to the queue. Otherwise,
// if the events of the binding are counted, coalesceEvent adds t to their number. A replaced Added
// event stays an Added event, because the hook has not received it. After a Deleted event was added,
// neither this event nor older events of its object are replaced.
func (l *backlogs) coalesceEvent(t *store.Task) (coalesced bool, err error) {
	if !l.isEvent(t) {
		return false, nil
	}
	n, counted, err := l.backlog(t)
	if err != nil || !counted {
		return false, err
	}
	newest := store.BacklogKey(t, t.Object)
	at, known, err := store.Load[store.NewestEvent](l.tx, newest)
	if err != nil {
		return false, err
	}
	from, to := uint64(0), uint64(0)
	if n >= l.sizes.backlog {
		if from, to, err = coveredBy(l.tx, t); err != nil {
			return false, err
		}
	}
	many := n-int(to-from) >= l.sizes.backlog //nolint:gosec // an attempt covers a bounded number of slots
	if many && known && t.Object.Event == modified {
		old, ok, err := store.LoadAt(l.tx, at.Key)
		if err != nil {
			return false, err
		}
		begun := ok && (old.Claim != nil || old.Journal || old.Failed != nil || from <= old.Slot && old.Slot < to)
		if ok && !begun && old.Object.Event != deleted && old.Object.UID == t.Object.UID {
			return true, l.replace(old, t)
		}
	}
	if err := store.Save(l.tx, store.BacklogKey(t, nil), n+1); err != nil {
		return false, err
	}
	switch {
	case many:
		return false, store.Save(l.tx, newest, store.NewestEvent{ID: t.ID, Key: t.Key()})
	case known:
		l.tx.Delete(newest) // because t is newer than the recorded event
	}
	return false, nil
}

// backlog returns the number of pending events of t's binding, and whether they are counted. If they
// are not counted yet, and the queue or lane of t has become long, backlog counts them.
func (l *backlogs) backlog(t *store.Task) (n int, counted bool, err error) {
	n, counted, err = store.Load[int](l.tx, store.BacklogKey(t, nil))
	if err != nil || counted {
		return n, counted, err
	}
	if long, err := l.hasBacklog(t); err != nil || !long {
		return 0, false, err
	}
	return store.CountEvents(l.tx, t), true, nil
}

// hasBacklog reports whether the lane or queue of the new task t is so long that the events of t's
// binding must be counted.
func (l *backlogs) hasBacklog(t *store.Task) (long bool, err error) {
	if t.IsHeld() {
		lane, _, err := store.LoadLane(l.tx, t.LaneKey())
		return lane.Tasks >= l.sizes.backlog, err
	}
	first := store.Pos{Slot: t.Slot}
	for k := range l.tx.Range(store.QueueKey(t.Queue)) {
		first, err = store.ParsePos(k)
		break
	}
	return t.Slot-first.Slot >= uint64(l.sizes.backlog), err //nolint:gosec // the size is small
}

// countBacklog starts to count the pending events of t's binding. If t is not an event, or these
// events are counted already, countBacklog does nothing.
func (l *backlogs) countBacklog(t *store.Task) error {
	key := store.BacklogKey(t, nil)
	if !l.isEvent(t) || l.tx.Get(key) != nil {
		return nil
	}
	return store.Save(l.tx, key, store.CountEvents(l.tx, t))
}

// coveredBy returns the slots of t's queue that a begun attempt of t's hook covers. The result from
// is the first slot, and the result to is the slot behind the last one. Both are 0 if no attempt of
// the hook has begun.
func coveredBy(tx *store.Tx, t *store.Task) (from, to uint64, err error) {
	for head, err := range heads(tx, t.Queue) {
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

// replace copies the payload and the object of the new event t to old, a waiting event of the same
// object. The waiting event keeps its type. If t has another type, the object of old records this
// type as well, because the binding may not subscribe to the type of old any more. The record of
// t's run refers to the run of the waiting event, which continues.
func (l *backlogs) replace(old, t *store.Task) error {
	store.ReplacePayload(l.tx, old, t.Payload)
	object := *t.Object
	if object.Event = old.Object.Event; object.Event != t.Object.Event {
		object.Coalesced = t.Object.Event
	}
	old.Object = &object
	r := recordOf(t, store.Joined)
	r.Into = old.ID.String()
	l.history.count(t.Run, 0)
	l.history.join(t.Run, old.Run)
	if err := l.history.record(r); err != nil {
		return err
	}
	return l.queues.save(old)
}

// leaveBacklog subtracts t, which is being removed, from the number of events of its binding.
func (l *backlogs) leaveBacklog(t *store.Task) error {
	if !l.isEvent(t) {
		return nil
	}
	key := store.BacklogKey(t, nil)
	n, counted, err := store.Load[int](l.tx, key)
	if err != nil || !counted {
		return err
	}
	newest := store.BacklogKey(t, t.Object)
	at, _, err := store.Load[store.NewestEvent](l.tx, newest)
	if err != nil {
		return err
	}
	if at.ID == t.ID {
		l.tx.Delete(newest)
	}
	if n > 1 {
		return store.Save(l.tx, key, n-1)
	}
	l.tx.Delete(key)
	return nil
}

// follows is called after the key of the task t has changed. If t is the recorded newest event of
// its object, follows updates the key in that record.
func (l *backlogs) follows(t *store.Task) error {
	if !l.isEvent(t) {
		return nil
	}
	newest := store.BacklogKey(t, t.Object)
	at, known, err := store.Load[store.NewestEvent](l.tx, newest)
	if err != nil || !known || at.ID != t.ID {
		return err
	}
	at.Key = t.Key()
	return store.Save(l.tx, newest, at)
}
