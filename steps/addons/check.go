package addons

import (
	"context"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
)

// lintStep finds the fetched addons that could not be loaded.
type lintStep struct{ *Runtime }

// Do reads what was found when the addons were parsed.
func (s *lintStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		return s.DB.View(func(tx *store.Tx) error { return loadAddons(tx, results) })
	}, api.LoadingError)
}

// duplicatesStep finds addons of the configuration with the same ID.
type duplicatesStep struct{ *Runtime }

// Do marks all but the first addon with an ID.
func (s *duplicatesStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		markDuplicates(results)
		return nil
	}, api.ConflictInSpecifiedRepositories)
}

// conflictsStep finds conflicts with other configurations.
type conflictsStep struct{ *Runtime }

// Do marks the addons that another configuration holds. It may be another when the addons are
// registered: that step looks again.
func (s *conflictsStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	id := identityOf(t)
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		return s.DB.View(func(tx *store.Tx) error {
			known, _, err := registry.Lookup(tx, scopeOf(id), id.Name)
			if err != nil {
				return err
			}
			conflicts, err := registry.Conflicts(tx, scopeOf(id), id.Name, known.Round)
			markConflicts(results, conflicts)
			return err
		})
	}, api.ConflictWithAlreadyRegisteredAddon)
}
