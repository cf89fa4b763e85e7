package converge

import (
	"encoding/json"

	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Changes is notified after each commit that ends a converge.
type Changes interface {
	// Converged is called after the commit that ends a converge.
	Converged()
}

// An endStep runs the afterAll hooks of a converge and records its end.
type endStep struct {
	workflow.ItemStep
	values  *desired.Values
	changes Changes
}

// Items lists the hooks. The note is a fingerprint of the global values before the hooks run. End uses it to find out
// whether the hooks have changed the values.
func (s *endStep) Items(tx *store.Tx, t workflow.Task) (items []graph.Item, note json.RawMessage, err error) {
	if items, _, err = s.ItemStep.Items(tx, t); err != nil {
		return nil, nil, err
	}
	note, err = s.values.Note(tx, t.Subject.Module)
	return items, note, err
}

// End records the end of the converge. It returns the fact [lifecycle.GlobalChanged] if the afterAll hooks have
// changed the global values.
func (s *endStep) End(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
	l, err := store.LoadStartup(tx)
	if err != nil {
		return nil, err
	}
	l.Converged, l.ConvergedAt, l.ConvergedIn = t.Run, tx.Now(), tx.Epoch()
	if err := store.Save(tx, store.StartupKey(), l); err != nil {
		return nil, err
	}
	tx.OnCommit(s.changes.Converged)
	changed, err := s.values.ChangedSince(tx, t.FanOut.Note, t.Subject.Module)
	if err != nil || !changed {
		return nil, err
	}
	return []graph.Fact{lifecycle.GlobalChanged}, nil
}
