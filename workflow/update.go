package workflow

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"addon-operator/internal/failpoint"
	"addon-operator/store"
)

// update runs fn as one transition. After the commit, workers process the tasks that the transition has claimed. If a
// fan-out cannot be created or ended, the transition is rolled back and repeated. The repeated transition does not
// create or end the fan-out, but retries its task later. If a record cannot be read, and the engine can continue
// without the record, the record is moved to the table of damaged records, and the transition is repeated. If an error
// prevents the claim of the next task of a queue, the transition is repeated without this claim, and the queue is
// retried later.
func (e *Engine) update(fn func(*transition) error) error {
	var failing map[fanOutRef]error
	var stuck map[string]error
	var gone store.Key // of an unreadable record that another transition has moved
	for {
		var m *transition
		err := e.db.Update(func(tx *store.Tx) error {
			m = e.transition(tx)
			m.own, m.failing, m.stuck = true, failing, stuck
			if err := fn(m); err != nil {
				return err
			}
			if err := m.end(); err != nil {
				return err
			}
			failpoint.Reach("commit", "before")
			return nil
		})
		if err == nil {
			failpoint.Reach("commit", "after")
		}
		if err != nil && m != nil {
			e.attempts.loaded.Add(-int64(m.batches.loaded))
		}
		if damaged := repairable(err); damaged != nil {
			if gone, err = e.repairUnless(gone, damaged); err != nil {
				return err
			}
			continue
		}
		if failed := (*fanOutError)(nil); errors.As(err, &failed) {
			if failing == nil {
				failing = map[fanOutRef]error{}
			}
			failing[failed.fanOut] = failed.err
			continue
		}
		unclaimed := (*claimError)(nil)
		if !errors.As(err, &unclaimed) || e.db.Err() != nil || stuck[unclaimed.queue] != nil {
			return err
		}
		if stuck == nil {
			stuck = map[string]error{}
		}
		stuck[unclaimed.queue] = unclaimed.err
	}
}

// repairUnless repairs the damaged record, and returns gone. If there is no such record, because another transition has
// moved it, repairUnless returns the key of the record instead. If gone is this key already, the record was also
// missing at an earlier call, and repairUnless returns an error.
func (e *Engine) repairUnless(gone store.Key, damaged *store.RecordError) (store.Key, error) {
	found, err := e.repair(damaged)
	switch {
	case err != nil || found:
		return gone, err
	case bytes.Equal(gone, damaged.Key):
		return gone, fmt.Errorf("move the damaged record: %w", damaged)
	}
	return damaged.Key, nil
}

// Repairable reports whether err is about an unreadable record without which the engine can
// continue. If so, the engine moves the record to the table of damaged records as soon as it needs
// the record.
func Repairable(err error) bool { return repairable(err) != nil }

// repair moves an unreadable record to the table of damaged records, in a transaction of its own,
// and corrects the counts. If repair finds other unreadable records, repair moves these as well. If
// it cannot move the record without reading another unreadable record, it moves the other one first.
// The result found is false if no record was moved, because none of them exists any more.
func (e *Engine) repair(damaged *store.RecordError) (found bool, err error) {
	waiting := []*store.RecordError{damaged}
	for len(waiting) > 0 {
		moved := false
		err := e.db.Update(func(tx *store.Tx) (err error) {
			moved, err = e.transition(tx).repairOne(waiting[len(waiting)-1])
			return err
		})
		other := repairable(err)
		switch {
		case err == nil:
			waiting, found = waiting[:len(waiting)-1], found || moved
		case other == nil || slices.ContainsFunc(waiting, func(r *store.RecordError) bool { return bytes.Equal(r.Key, other.Key) }):
			return found, err
		default:
			waiting = append(waiting, other)
		}
	}
	return found, nil
}

// repairOne moves one record as [Engine.repair] describes. The result found is false if there was nothing to move: a
// repair of another record, or of another transition, has moved it already. If repairOne reads another unreadable
// record, it returns the error of that record, and m must not be committed.
func (m *transition) repairOne(damaged *store.RecordError) (found bool, err error) {
	if found, err = m.repair.moveDamaged(damaged); err != nil || !found {
		return false, err
	}
	if err := m.repair.recount(); err != nil {
		return false, err
	}
	if damaged.Key.Table() == store.Quarantine {
		if err := m.openings.reopenAll(); err != nil {
			return false, err
		}
	}
	if err := m.lanes.touchAll(); err != nil { // because tasks of all queues may have waited for the record
		return false, err
	}
	for _, queue := range m.queues.touched {
		m.claimHeadLater(queue)
	}
	if err := m.history.saveRuns(); err != nil {
		return false, err
	}
	m.publish()
	return true, nil
}

// claimHead claims the next task of queue in a transition of its own.
func (e *Engine) claimHead(queue string) {
	e.dispatch(time.Time{}, followUp{work: claimQueueHead, queue: queue})
}

// doFollowUp does the work of f in a transition of its own. If the disk is full, doFollowUp waits for
// free space. It does not set an alarm for another attempt, because a later alarm for the same queue
// would replace this alarm.
func (e *Engine) doFollowUp(f followUp) {
	_ = e.db.WithRoom(e.workers.ctx, func() error {
		err := e.update(func(m *transition) error { return m.do(f) })
		if err != nil {
			e.observer.broken(f.queue, err)
		}
		return err
	})
}

// dispatch does f in a transition of its own, at once or at the due time of f. dispatch does not
// block.
func (e *Engine) dispatch(now time.Time, f followUp) {
	if f.due.IsZero() {
		e.workers.run(func() { e.doFollowUp(f) })
		return
	}
	e.alarms.arm(now, f)
}

// transition returns a transition in tx.
func (e *Engine) transition(tx *store.Tx) *transition {
	m := &transition{dispatcher: e, workers: &e.workers, attempts: &e.attempts, txn: txn{
		tx: tx, epoch: tx.Epoch(), now: tx.Now(), graphs: &e.graphs, observer: &e.observer, continueOnFailure: e.ContinueOnFailure, sizes: e.sizes,
	}}
	m.connect(&m.txn)
	m.batches.memory = &e.attempts.loaded
	return m
}
