package addons

import (
	"context"
	"errors"

	"addon-operator/internal/api"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
)

// lintStep finds fetched addons that could not be loaded because their files are invalid.
type lintStep struct{ *Runtime }

// Do copies the ID, name and version of each fetched addon, or the error of parsing it, from the store to the results
// of the configuration.
func (s *lintStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.lint(ctx, t)
}

// lint implements lintStep.
func (r *Runtime) lint(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return r.find(ctx, t, func(results []store.RepositoryResult) error {
		return r.DB.View(func(tx *store.Tx) error { return loadAddons(tx, results) })
	}, api.LoadingError)
}

// duplicatesStep finds addons of one configuration that have the same ID, or the same name and version.
type duplicatesStep struct{ *Runtime }

// Do marks an addon as failed if an earlier addon of the configuration has the same ID, or the same name and version.
func (s *duplicatesStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	return s.find(ctx, t, func(results []store.RepositoryResult) error {
		markDuplicates(results)
		return nil
	}, api.ConflictInSpecifiedRepositories)
}

// conflictsStep finds addons that conflict with addons of other configurations or with modules of the image.
type conflictsStep struct{ *Runtime }

// Do marks an addon as failed if another configuration of the scope has registered an addon with the same ID, or with
// the same name and version. If the addons of the configuration can be used as modules, Do also marks an addon as
// failed if its module would have the name of a module of the image. The registered addons and the modules of the image
// can change before this configuration is registered, so registerStep makes the same comparison again.
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
			if errors.Is(err, registry.ErrReplaced) {
				return nil // the record of the configuration is lost, so statusStep begins another round
			}
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
