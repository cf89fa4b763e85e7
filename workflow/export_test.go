package workflow

import "addon-operator/store"

// Withdraw removes the events that w names, in the transaction tx and without an attempt of a step.
func (e *Engine) Withdraw(tx *store.Tx, w Withdrawal) error {
	m := e.transition(tx)
	if err := m.remover.withdraw(w); err != nil {
		return err
	}
	return m.end()
}
