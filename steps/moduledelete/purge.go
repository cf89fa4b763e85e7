package moduledelete

import (
	"context"

	"addon-operator/steps/bindings"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A purgeStep deletes a Helm release that belongs to no module.
type purgeStep struct {
	releases Releases
}

// Do uninstalls the release.
func (s *purgeStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.releases.Uninstall(ctx, t)
}

// Apply deletes the records that the store has of the release and of a module with its name.
func (s *purgeStep) Apply(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
	tx.Delete(store.ModuleKey(t.Subject.Module))
	return nil, bindings.Forget(tx, t.Subject.Module)
}
