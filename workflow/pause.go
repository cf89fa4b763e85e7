package workflow

import (
	"errors"
	"fmt"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// ErrPaused is returned by Pause if the work is paused already.
var ErrPaused = errors.New("is paused already")

// ErrNotPaused is returned by Resume if the work is not paused.
var ErrNotPaused = errors.New("is not paused")

// A PauseTarget is the work that a person pauses: everything, a queue, a module, or a hook. At most
// one of its fields is set. If no field is set, the target is all work. A subject has a module, a
// hook, or both.
type PauseTarget struct {
	Queue   string
	Subject graph.Subject
}

// String names the work: "all work", or for example "module web".
func (target PauseTarget) String() string {
	if target == (PauseTarget{}) {
		return "all work"
	}
	q := store.QuarantinedItem{Queue: target.Queue, Subject: target.Subject}
	return strings.Join(q.What(), " ")
}

// matches reports whether q is the pause of target.
func (target PauseTarget) matches(q *store.QuarantinedItem) bool {
	return q.Paused != nil && q.Queue == target.Queue && q.Subject == target.Subject
}

// Pause keeps the work of target from starting until Resume, even after a restart. Pause does not
// interrupt running attempts. Triggers still record events and schedule ticks. The tasks of a
// paused module or hook leave their queues, so that the tasks behind them continue. A run of a
// paused module ends with its running attempt, even if other hooks of the same step have yet to
// run, and starts over after Resume. For the hook of a module, only events and schedule ticks are
// paused, because the run of the module needs the other bindings of the hook. The parameter
// graphName is the name of the graph to which the module or the hook belongs. The errors are
// ErrPaused and those of the store.
func (e *Engine) Pause(graphName string, target PauseTarget, by, reason string) error {
	return e.update(func(m *transition) error {
		if q, err := pauseOf(m.tx, target); q != nil || err != nil {
			if err == nil {
				err = fmt.Errorf("%s %w, by %s", target, ErrPaused, q.Paused.By)
			}
			return err
		}
		q := store.QuarantinedItem{
			ID: m.newID(), Graph: graphName, Subject: target.Subject, Queue: target.Queue, At: m.now,
			Paused: &store.Pause{By: by, Reason: reason, At: m.now},
		}
		if f := m.observer.Paused; f != nil {
			m.tx.OnCommit(func() { f(q, by, true) })
		}
		return errors.Join(addPauseAction(m.tx, "pause", &q, by, reason), store.Save(m.tx, store.QuarantineKey(q.ID), q))
	})
}

// Resume ends the pause of target, so that its work can start again. The reason can be empty. The
// errors are ErrNotPaused and those of the store.
func (e *Engine) Resume(target PauseTarget, by, reason string) error {
	return e.update(func(m *transition) error {
		q, err := pauseOf(m.tx, target)
		if err != nil {
			return err
		}
		if q == nil {
			return fmt.Errorf("%s %w", target, ErrNotPaused)
		}
		if err := addPauseAction(m.tx, "resume", q, by, reason); err != nil {
			return err
		}
		m.tx.Delete(store.QuarantineKey(q.ID))
		if f := m.observer.Paused; f != nil {
			m.tx.OnCommit(func() { f(*q, by, false) })
		}
		if target.Subject == (graph.Subject{}) {
			return m.lanes.touchAll()
		}
		return m.quarantines.freeHeld(q)
	})
}

// addPauseAction records that a person paused or resumed the work of q.
func addPauseAction(tx *store.Tx, verb string, q *store.QuarantinedItem, by, reason string) error {
	return store.AddAction(tx, store.Action{
		Verb: verb, What: strings.Join(q.What(), " "), By: by, Reason: reason, Subject: q.Subject, Queue: q.Queue,
	})
}

// pauseOf returns the pause of target; nil if target is not paused.
func pauseOf(tx *store.Tx, target PauseTarget) (*store.QuarantinedItem, error) {
	for q, err := range store.QuarantinedItems(tx) {
		if err != nil {
			return nil, err
		}
		if target.matches(&q) {
			return &q, nil
		}
	}
	return nil, nil
}
