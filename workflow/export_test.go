package workflow

import "addon-operator/store"

// LowerSizes makes e coalesce the events of a binding if at least three of them wait, limits batches
// to three tasks, and lets a transition write few keys before it leaves the rest to a later one. It
// must be called before Start.
func (e *Engine) LowerSizes() { e.sizes = sizes{backlog: 3, batch: 3, keys: 24} }

// Repair moves the unreadable record that err is about, and reports whether there was one.
func (e *Engine) Repair(err error) (found bool, _ error) { return e.repair(repairable(err)) }

// Withdraw removes the events that w names, in the transaction tx and without an attempt of a step.
func (e *Engine) Withdraw(tx *store.Tx, w Withdrawal) error {
	m := e.transition(tx)
	if err := m.remover.withdraw(w); err != nil {
		return err
	}
	return m.end()
}
