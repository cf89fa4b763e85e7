package modulerun

import (
	"encoding/json"

	"addon-operator/steps/desired"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// An endStep runs the afterHelm hooks of a module, and then ends the module run.
type endStep struct {
	workflow.ItemStep
	values   *desired.Values
	survey   Survey
	observer Observer
}

// Items lists the hooks. The note is a fingerprint of the values of the module before the hooks run. End uses it to
// find out whether the hooks have changed the values.
func (s *endStep) Items(tx *store.Tx, t workflow.Task) (items []graph.Item, note json.RawMessage, err error) {
	if items, _, err = s.ItemStep.Items(tx, t); err != nil {
		return nil, nil, err
	}
	note, err = s.values.Note(tx, t.Subject.Module)
	return items, note, err
}

// End records the end of the run. It returns the fact [lifecycle.ModuleChanged] if the afterHelm hooks have changed
// the values of the module.
func (s *endStep) End(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
	name := t.Subject.Module
	record, _, err := store.Load[store.Module](tx, store.ModuleKey(name))
	if err != nil {
		return nil, err
	}
	l, err := store.LoadStartup(tx)
	if err != nil {
		return nil, err
	}
	record.RanInStart, record.RanIn, record.RanAt = l.StartRun, t.Run, tx.Now()
	if err := store.Save(tx, store.ModuleKey(name), record); err != nil {
		return nil, err
	}
	s.survey.RunEnded(tx, name)
	tx.OnCommit(func() { s.observer.ModuleRan(name) })
	changed, err := s.values.ChangedSince(tx, t.FanOut.Note, name)
	if err != nil || !changed {
		return nil, err
	}
	return []graph.Fact{lifecycle.ModuleChanged}, nil
}
