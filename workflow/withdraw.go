package workflow

import (
	"slices"

	"addon-operator/store"
)

// Withdraw removes the waiting events of the hook s in queue that match, as part of
// tx; history says why. It leaves events that an attempt covers or did cover when it
// was interrupted, and those whose effects have begun. Events that do not fit into the
// budget of tx are removed in transactions that follow it: match is called there as
// well and must not use tx. After a crash in between, the events that are left are
// delivered.
func (e *Engine) Withdraw(tx *store.Tx, queue string, s store.Subject, why string, match func(*store.Task) bool) error {
	m := newTransition(e, tx)
	if err := m.withdraw(queue, s, why, match); err != nil {
		return err
	}
	return m.end()
}

func (m *transition) withdraw(queue string, s store.Subject, why string, match func(*store.Task) bool) error {
	holders, err := m.holders(queue)
	if err != nil {
		return err
	}
	for t, err := range store.EventsOf(m.tx, queue, s) {
		if err != nil {
			return err
		}
		covered := slices.ContainsFunc(holders, func(holder *store.Task) bool { return covers(holder, t) })
		if covered || t.Claim != nil || !match(t) {
			continue
		}
		if !m.fits(costOf(t)) {
			m.continueWith(queue, func(m *transition) error { return m.withdraw(queue, s, why, match) })
			return nil
		}
		r := recordOf(t, store.Dropped)
		r.Detail = why
		if err := m.record(r); err != nil {
			return err
		}
		if err := m.remove(t); err != nil {
			return err
		}
	}
	return nil
}

// holders returns the tasks of queue whose attempt runs or whose journal goes on.
func (m *transition) holders(queue string) (holders []*store.Task, err error) {
	for t, err := range m.heads(queue) {
		if err != nil {
			return nil, err
		}
		if m.claimed(t) || t.Journal {
			holders = append(holders, t)
		}
	}
	return holders, nil
}
