package moduledelete

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"addon-operator/steps/bindings"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A purgeStep deletes a Helm release that belongs to no module.
type purgeStep struct {
	state    *scan.State
	releases Releases
}

// Do uninstalls the release. If a module with its name is on disk again, or if a directory of modules has become empty,
// Do does nothing, and the outcome has the fact [lifecycle.Restored]. Do reads the directories of modules again, because
// they may have changed while the task waited. It does not replace the modules of the last scan.
func (s *purgeStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	set, err := s.state.Modules.List()
	if err != nil {
		return workflow.Outcome{}, err
	}
	restored := workflow.Outcome{Facts: []graph.Fact{lifecycle.Restored}}
	if m, onDisk := set.Find(t.Subject.Module); onDisk {
		restored.Detail = "not purged: " + m.Title() + " exists again"
		return restored, nil
	}
	if len(set.Empty) > 0 {
		restored.Detail = fmt.Sprintf("not purged: %s holds no module", strings.Join(set.Empty, ", "))
		return restored, nil
	}
	return s.releases.Uninstall(ctx, t)
}

// Apply deletes the records that the store has of the release and of a module with its name. If the release was not
// uninstalled, the records stay.
func (s *purgeStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	if slices.Contains(o.Facts, lifecycle.Restored) {
		return nil, nil
	}
	tx.Delete(store.ModuleKey(t.Subject.Module))
	return nil, bindings.Forget(tx, t.Subject.Module)
}
