package moduledelete

import (
	"context"
	"encoding/json"
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

// An Observer is notified of releases that are not purged, to log and count them.
type Observer interface {
	// DeletionBlocked reports releases that were not deleted.
	DeletionBlocked(releases []string, why string)
}

// mostPurges is the maximum number of attempts to purge a release in one converge.
const mostPurges = 3

// A purgeStep deletes a Helm release that belongs to no module.
type purgeStep struct {
	state    *scan.State
	releases Releases
	observer Observer
}

// Do uninstalls the release. If a module with its name is on disk again, or if a directory of modules has become empty,
// Do does nothing, and the outcome has the fact [lifecycle.Restored]. After the last attempt has failed, Do returns an
// outcome with a problem instead of an error, because retries would delay all modules. The next converge tries again.
func (s *purgeStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	out, err := s.purge(ctx, t)
	if err == nil || ctx.Err() != nil || t.Try < mostPurges {
		return out, err
	}
	name := t.Subject.Module
	p := store.Problem{
		Kind: store.BlockedDeletion, Object: "release " + name, Error: fmt.Sprintf("release %s belongs to no module and cannot be uninstalled: %v", name, err),
		Fix: "remove the cause, then run addon-operator reload",
	}
	why := p.Error + "; " + p.Fix
	s.state.Log.Error().Str("release", name).Msg(why)
	s.observer.DeletionBlocked([]string{name}, why)
	out = workflow.Outcome{Detail: "not purged: " + err.Error()}
	out.Data, err = json.Marshal(p)
	return out, err
}

// purge makes one attempt to uninstall the release. It reads the directories of modules again, because they may have
// changed while the task waited. It does not replace the modules of the last scan.
func (s *purgeStep) purge(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
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
// uninstalled, the records stay, and Apply saves the problem of the outcome, if there is one.
func (s *purgeStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	if len(o.Data) > 0 {
		var p store.Problem
		if err := json.Unmarshal(o.Data, &p); err != nil {
			return nil, err
		}
		_, err := store.SaveProblem(tx, p)
		return nil, err
	}
	if slices.Contains(o.Facts, lifecycle.Restored) {
		return nil, nil
	}
	tx.Delete(store.ModuleKey(t.Subject.Module))
	return nil, bindings.Forget(tx, t.Subject.Module)
}
