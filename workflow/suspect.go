package workflow

import (
	"errors"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// What was running when the process died is suspected to have killed it: at
// exclusiveAfter such ends it runs alone, at quarantineAfter, the last of them while it
// ran alone, it is set aside.
const (
	exclusiveAfter  = 2
	quarantineAfter = 3
)

// ends returns how earlier processes ended. Where that cannot be read, nothing is
// held against any task.
func (m *transition) ends() (store.Ends, error) {
	ends, _, err := store.Load[store.Ends](m.tx, store.EndsKey())
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
		return store.Ends{}, nil
	}
	return ends, err
}

// beginEpoch notes that this life begins to do tasks.
func (m *transition) beginEpoch() error {
	ends, err := m.ends()
	if err != nil {
		return err
	}
	ends.Begin(m.epoch, m.e.db.ExitedCleanly)
	return store.Save(m.tx, store.EndsKey(), ends)
}

// endEpoch notes that this process ends as it is meant to: in the store, or beside it where the store
// takes nothing more.
func (e *Engine) endEpoch() {
	err := e.db.Update(func(tx *store.Tx) error {
		ends, err := newTransition(e, tx).ends()
		if err != nil || ends.Begun != tx.Epoch() {
			return err
		}
		ends.Ended = tx.Epoch()
		return store.Save(tx, store.EndsKey(), ends)
	})
	if errors.Is(err, store.ErrFull) {
		err = e.db.NoteCleanExit()
	}
	if err != nil && e.db.Err() == nil {
		e.broken("", err)
	}
}

// crashes returns how many lives have died while what c is the claim on ran.
func (m *transition) crashes(c *store.Claim) (int, error) {
	if c == nil || c.Epoch == 0 || c.Epoch == m.epoch || c.Excused {
		return 0, nil
	}
	ends, err := m.ends()
	if ends.Crashed(c.Epoch) {
		return c.Crashes + 1, err
	}
	return c.Crashes, err
}

// begin claims t, or where it is suspected of having killed the process, waits
// until it can run alone, or sets it aside. Where t stands for a list, member is
// the one to be done.
func (m *transition) begin(b *bound, n *graph.Node, t *store.Task, item graph.Item) (c *claim, wait bool, err error) {
	if err := m.takeInterruption(n, t, item); err != nil {
		return nil, false, err
	}
	crashes, err := m.crashes(t.Claim)
	if err != nil {
		return nil, false, err
	}
	if crashes >= quarantineAfter && t.Claim.Exclusive {
		return nil, false, m.quarantine(b, t, item, crashes)
	}
	if crashes >= exclusiveAfter {
		if free, err := m.claimExclusive(t); err != nil || !free {
			return nil, true, err
		}
	}
	c, err = m.claim(b, n, t, item, crashes)
	return c, false, err
}

// claimExclusive has nothing else be begun before t has ended, and reports whether
// nothing else runs.
func (m *transition) claimExclusive(t *store.Task) (free bool, err error) {
	if err := store.Save(m.tx, store.ExclusiveKey(), store.Ref{ID: t.ID, Pos: t.Pos}); err != nil {
		return false, err
	}
	free = true
	err = m.eachHead(func(other *store.Task) error {
		free = free && (other.ID == t.ID || !m.claimed(other))
		return nil
	})
	return free, err
}

// waitsForExclusive reports whether no task of queue starts because one of another queue runs
// exclusively, or is about to: then that queue is looked at.
func (m *transition) waitsForExclusive(queue string) (bool, error) {
	ref, ok, err := store.Load[store.Ref](m.tx, store.ExclusiveKey())
	if err != nil || !ok || ref.Pos.Queue == queue {
		return false, err
	}
	if err := m.saveTop(); err != nil {
		return false, err
	}
	t, err := exclusiveTask(m.tx)
	if t == nil || err != nil {
		return false, err
	}
	if !m.claimed(t) {
		m.touch(t.Queue)
	}
	return true, nil
}

// endExclusive lets others be begun again, if t was the one that ran alone, or was
// to.
func (m *transition) endExclusive(t *store.Task) error {
	if t.Claim == nil || !t.Claim.Exclusive && t.Claim.Crashes+1 < exclusiveAfter {
		return nil
	}
	ref, ok, err := store.Load[store.Ref](m.tx, store.ExclusiveKey())
	if err != nil || !ok || ref.ID != t.ID {
		return err
	}
	m.tx.Delete(store.ExclusiveKey())
	if err := m.touchOpenLanes(); err != nil { // of queues that hold nothing else
		return err
	}
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return err
		}
		m.touch(queue)
	}
	return nil
}
