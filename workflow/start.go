package workflow

import (
	"errors"

	"addon-operator/store"
)

// Start starts the workers, which resume the pending work. Start calls the function begin, and
// raises the returned events, in the transaction in which the workers claim their first tasks. So
// the order of the events among the pending tasks is defined. If this transaction is repeated,
// begin is called again. The workers end after a call of Drain or Stop, or when the store is
// closed. Start must be called only once for each open store. If the disk is full, Start waits for
// free space until Stop is called. If Start fails, no work starts.
func (e *Engine) Start(begin func(*store.Tx) ([]Event, error)) error {
	ctx := e.workers.start()
	e.attempts.start(ctx)
	e.alarms.open(e.db.Now, func(f followUp) { e.workers.run(func() { e.doFollowUp(f) }) })
	err := e.db.WithRoom(ctx, func() error { return e.start(begin) })
	if err != nil {
		e.Drain()
	}
	return err
}

// start gives the workers their first tasks.
func (e *Engine) start(begin func(*store.Tx) ([]Event, error)) error {
	return e.update(func(m *transition) error {
		if err := beginEpoch(m.tx, e.db.ExitedCleanly); err != nil {
			return err
		}
		if err := m.preparations.continuePreparation(); err != nil {
			return err
		}
		if e.NewContainer {
			if err := m.preparations.prepare(preparation{}); err != nil {
				return err
			}
		}
		events, err := begin(m.tx)
		if err != nil {
			return err
		}
		if err := m.raise(events); err != nil {
			return err
		}
		if err := m.lanes.touchAll(); err != nil {
			return err
		}
		if err := m.openings.reopenAll(); err != nil {
			return err
		}
		if err := m.deferral.enqueueExpedited(); err != nil {
			return err
		}
		// The last process may have been killed before it checked the deferred tasks after a change of a rate limit.
		m.later(followUp{work: recheckDeferred, queue: deferredTasks})
		return m.limits.armDeferred()
	})
}

// Drain stops the engine from claiming tasks. After Drain, running attempts continue to their
// transitions, and no other attempt starts. Drain records the clean exit of this epoch in the store
// or, if the disk is full, in a note beside the store.
func (e *Engine) Drain() {
	was := e.workers.close()
	e.alarms.close()
	if was {
		e.endEpoch()
	}
}

// Stop drains the engine, cancels the context of running steps, and returns when all workers have
// ended. A step that returns an error because its context was canceled is interrupted, and the next
// epoch processes its task again.
func (e *Engine) Stop() {
	e.Drain()
	e.workers.stop()
	e.Wait()
}

// Wait returns when no worker runs. If Wait is called after Drain, it waits for the running
// attempts.
func (e *Engine) Wait() { e.workers.wait() }

// endEpoch records the clean exit of this process in the store or, if the disk is full, in a note
// beside the store.
func (e *Engine) endEpoch() {
	err := e.db.Update(func(tx *store.Tx) error {
		ends, err := loadEnds(tx)
		if err != nil || ends.Begun != tx.Epoch() {
			return err
		}
		ends.Ended = tx.Epoch()
		return errors.Join(store.EndStart(tx), store.Save(tx, store.EndsKey(), ends))
	})
	if errors.Is(err, store.ErrFull) {
		err = e.db.NoteCleanExit()
	}
	if err != nil && e.db.Err() == nil {
		e.observer.broken("", err)
	}
}

// RateLimitsChanged returns deferred tasks to their queues if the rate limits of their hooks have
// changed. If the engine is stopped, RateLimitsChanged does nothing, because the next start checks
// all deferred tasks. If many tasks are deferred, it returns after the first transaction, and later
// transactions return the other tasks.
func (e *Engine) RateLimitsChanged() {
	checked := make(chan struct{})
	if e.workers.run(func() {
		defer close(checked)
		e.doFollowUp(followUp{work: recheckDeferred, queue: deferredTasks})
	}) {
		<-checked
	}
}
