package addons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
)

// registerStep registers the addons of a configuration, all or none.
type registerStep struct{ *Runtime }

// Do reads the names of the modules of the image.
func (s *registerStep) Do(_ context.Context, t workflow.Task) (out workflow.Outcome, err error) {
	known, results, err := s.results(identityOf(t))
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
		out.Detail = "none, as there are problems"
	}
	out.Data, err = json.Marshal(image.conflicting(results))
	return out, err
}

// Apply looks for conflicts again and replaces the registered addons of the configuration, in one
// transaction: what another configuration has registered or unregistered since the last step counts.
func (s *registerStep) Apply(tx *store.Tx, t workflow.Task, out workflow.Outcome) ([]graph.Fact, error) {
	id := identityOf(t)
	var image imageModules
	if err := json.Unmarshal(out.Data, &image); err != nil {
		return nil, err
	}
	scope := scopeOf(id)
	known, _, err := registry.Lookup(tx, scope, id.Name)
	if err != nil {
		return nil, err
	}
	results, err := registry.Results(tx, known.Round)
	if err != nil {
		return nil, err
	}
	before := copyOf(results)
	conflicts, err := registry.Conflicts(tx, scope, id.Name, known.Round)
	if err != nil {
		return nil, err
	}
	markDuplicates(results)
	markConflicts(results, conflicts)
	image.mark(results)
	if err := saveAllChanged(tx, id, known.Round, before, results); err != nil {
		return nil, err
	}
	freed, ready := false, !hasProblems(results)
	if ready {
		freed, conflicts, err = registry.Register(tx, scope, id.Name, known.Round)
		limit := (*registry.LimitError)(nil)
		switch {
		case errors.As(err, &limit):
			before = copyOf(results)
			fail(&results[limit.At.Repository].Addons[limit.At.Addon], api.RegisteringError, api.RegisteringError.Message(limit.Err))
			ready, err = false, saveAllChanged(tx, id, known.Round, before, results)
		case err == nil && len(conflicts) > 0:
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
		var attempts int
		due, attempts = s.Retry.next(tx.Now(), results, known.Attempts)
		if err := registry.PlanRetry(tx, scope, id.Name, known.Round, attempts, due); err != nil {
			return nil, err
		}
	}
	s.settled(tx, id, due)
	if freed {
		return []graph.Fact{addons.IDsFreed}, nil
	}
	return nil, nil
}

// saveAllChanged stores the results that differ from before.
func saveAllChanged(tx *store.Tx, id api.Identity, round store.ID, before, results []store.RepositoryResult) error {
	next, err := saveChanged(tx, id, round, before, results, 0)
	if err == nil && next < len(results) {
		err = fmt.Errorf("store the problems of configuration %s: %w", id, store.ErrTooLarge)
	}
	return err
}
