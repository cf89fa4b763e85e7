package addons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"addon-operator/steps/addons/failure"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// registerStep registers all addons of a configuration, or none if one of them cannot be registered.
type registerStep struct{ *Runtime }

// Skipped plans another attempt as postpone does. The round does not end, so the registered addons of the configuration
// stay.
func (s *registerStep) Skipped(tx *store.Tx, t workflow.Task) error { return s.postpone(tx, t) }

// Do reads the names of the modules in the operator's image, which Apply needs. If a person has skipped lintStep, Do
// also does the work of that step.
func (s *registerStep) Do(ctx context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	known, results, err := s.results(identityOf(t))
	if err == nil && slices.ContainsFunc(results, isUnchecked) {
		if _, err = s.lint(ctx, t); err == nil {
			known, results, err = s.results(identityOf(t))
		}
	}
	if err != nil {
		return out, err
	}
	image, err := s.imageModules(identityOf(t), known.Modules)
	if err != nil {
		return out, err
	}
	n := 0
	for _, result := range results {
		n += len(result.Addons)
	}
	out.Detail = fmt.Sprintf("addons: %d", n)
	if hasProblems(results) {
		out.Detail = "no addons are registered, because some have problems"
	}
	out.Data, err = json.Marshal(image.Conflicting(results))
	return out, err
}

// Apply looks for conflicts again. If the round has no problems, Apply replaces the registered addons of the
// configuration in the same transaction; otherwise it unregisters them. So Apply also finds conflicts with addons
// that other configurations have registered after conflictsStep.
func (s *registerStep) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	id := identityOf(t)
	var image failure.ImageModules
	if err := json.Unmarshal(out.Data, &image); err != nil {
		return nil, err
	}
	scope := scopeOf(id)
	known, _, err := registry.Lookup(tx, scope, id.Name)
	if err != nil {
		return nil, err
	}
	round, err := registry.Open(tx, scope, id.Name, known.Round)
	if errors.Is(err, registry.ErrReplaced) {
		return nil, nil // the record of the configuration is lost, so statusStep begins another round
	}
	if err != nil {
		return nil, err
	}
	if err := markProblems(round, image); err != nil {
		return nil, err
	}
	freed, ready := false, !hasProblems(round.Results)
	if ready {
		var conflicts []registry.Conflict
		freed, conflicts, err = round.Register()
		if err == nil && len(conflicts) > 0 {
			err = fmt.Errorf("register the addons of configuration %s: %d conflicts that were not found before", id, len(conflicts))
		}
		if err != nil {
			return nil, err
		}
	}
	due := time.Time{}
	if !ready {
		if freed, err = registry.Reject(tx, scope, id.Name, known.Round); err != nil {
			return nil, err
		}
		attempts := failure.NextAttempts(round.Results, known.Attempts)
		due = s.Retry.Next(tx.Now(), attempts)
		f := failure.Of(round.Results)
		changed, err := registry.NoteFailure(tx, scope, id.Name, known.Round, registry.Failure{Reasons: f.Digest(), Attempts: attempts, Due: due})
		if err != nil {
			return nil, err
		}
		if changed && s.Failed != nil {
			tx.OnCommit(func() { s.Failed(id, f.Summary(id), f.Problems) })
		}
	}
	s.settled(tx, id, due)
	if freed {
		return []graph.Fact{addons.IDsFreed}, nil
	}
	return nil, nil
}

// markProblems finds the addons of the round that cannot be registered, and saves the reasons in the results of the
// round.
func markProblems(round *registry.Round, image failure.ImageModules) error {
	conflicts, err := round.Conflicts()
	if err != nil {
		return err
	}
	markDuplicates(round.Results)
	markConflicts(round.Results, conflicts)
	image.Mark(round.Results)
	markLimits(round.Results, round.Limits())
	return round.Save()
}
