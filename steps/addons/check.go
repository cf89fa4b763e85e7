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

// Do reports the errors that were found when the addons were parsed.
func (s *lintStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		return s.DB.View(func(tx *store.Tx) error { return loadAddons(tx, results) })
	}, api.LoadingError)
}

// duplicatesStep finds addons of the configuration with the same ID.
type duplicatesStep struct{ *Runtime }

// Do marks each addon whose ID an earlier addon of the configuration has.
func (s *duplicatesStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		markDuplicates(results)
		return nil
	}, api.ConflictInSpecifiedRepositories)
}

// conflictsStep finds conflicts with other configurations.
type conflictsStep struct{ *Runtime }

// Do marks the addons that another configuration has registered, and those with the name of a module of the image.
// Registered addons and modules of the image can change before this configuration is registered, so registerStep
// compares again.
func (s *conflictsStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	id := identityOf(t)
	known, err := s.record(id)
	if err != nil {
		return workflow.Outcome{}, err
	}
	image, err := s.imageModules(id, known.Modules)
	if err != nil {
		return workflow.Outcome{}, err
	}
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		return s.DB.View(func(tx *store.Tx) error {
			round, err := registry.Open(tx, scopeOf(id), id.Name, known.Round)
			if err != nil {
				return err
			}
			conflicts, err := round.Conflicts()
			markConflicts(results, conflicts)
			image.Mark(results)
			return err
		})
	}, api.ConflictWithAlreadyRegisteredAddon)
}
