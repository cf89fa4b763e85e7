package addons

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/failure"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/workflow"
)

// find calls the function change with the results of the latest round of the configuration of task t, and stores the
// results that change has modified. It replaces results that have become too large; see [registry.Budget.Fit]. The
// detail of the outcome has the number of addons that failed for a reason in the argument reasons.
func (r *Runtime) find(ctx context.Context, t workflow.Task, change func([]store.RepositoryResult) error, reasons ...api.Reason) (out workflow.Outcome, err error) {
	id := identityOf(t)
	known, results, err := r.results(id)
	if err != nil {
		return out, err
	}
	before := copyOf(results)
	if err := change(results); err != nil {
		return out, err
	}
	budget := registry.Budget{}
	for i := range results {
		if results[i], err = budget.Fit(results[i]); err != nil {
			return out, err
		}
	}
	for next := 0; next < len(results); {
		if err := r.DB.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
			next, err = saveChanged(tx, id, known.Round, before, results, next)
			return err
		}); err != nil {
			return out, err
		}
	}
	n := 0
	for _, result := range results {
		for _, addon := range result.Addons {
			if slices.Contains(reasons, api.Reason(addon.Reason)) {
				n++
			}
		}
	}
	out.Detail = fmt.Sprintf("addons that failed: %d", n)
	return out, nil
}

func copyOf(results []store.RepositoryResult) []store.RepositoryResult {
	all := slices.Clone(results)
	for i := range all {
		all[i].Addons = slices.Clone(all[i].Addons)
	}
	return all
}

// saveChanged compares each result with the earlier result at the same index in the argument before, and stores the
// results that differ. It starts at the index next, and stops when the budget of tx is spent. It returns the index of
// the first result that it has not processed.
func saveChanged(tx *store.Tx, id api.Identity, round store.ID, before, results []store.RepositoryResult, next int) (int, error) {
	for ; next < len(results) && !tx.Spent(); next++ {
		if reflect.DeepEqual(before[next], results[next]) {
			continue
		}
		if err := registry.SaveResult(tx, scopeOf(id), id.Name, round, next, results[next]); err != nil {
			return next, err
		}
	}
	return next, nil
}

// loadAddons adds data from the store to the result of each fetched addon: its ID, name and version, or the reason why
// it could not be loaded.
func loadAddons(tx *store.Tx, results []store.RepositoryResult) error {
	for i := range results {
		for j := range results[i].Addons {
			addon := &results[i].Addons[j]
			if addon.Content == "" {
				continue
			}
			content, ok, err := registry.LoadContent(tx, addon.Content)
			switch {
			case err != nil:
				return err
			case !ok:
				return fmt.Errorf("content %s of addon %s is not in the store", addon.Content, addon.Entry)
			case content.Addon == nil:
				addon.ID, addon.Name, addon.Version = "", "", ""
				failure.Set(addon, api.LoadingError, api.LoadingError.Message(errors.New(loading(addon.Entry, addon.EntryVersion)+content.Error)))
			default:
				a := content.Addon
				addon.ID, addon.Name, addon.Version = registry.CutText(a.ID), registry.CutText(a.Name), registry.CutText(a.Version)
				addon.Reason, addon.Message = "", ""
			}
		}
	}
	return nil
}

// isUnchecked reports whether [loadAddons] has not been called for the fetched addons of r.
func isUnchecked(r store.RepositoryResult) bool {
	return slices.ContainsFunc(r.Addons, func(a store.AddonResult) bool { return a.Content != "" && a.ID == "" && a.Reason == "" })
}

// loading returns the beginning of the error message for an addon that cannot be loaded. Clients parse this text.
func loading(entry, version string) string {
	return fmt.Sprintf("while loading addon %s: while loading addon and charts for addon [%s] and version [%s]: ", entry, entry, version)
}

// markDuplicates marks an addon as failed if an earlier addon of the configuration has the same ID, or the same name
// and version. From all other addons with an ID, it removes the result of an earlier check: the reason, the message and
// the field ImageModule.
func markDuplicates(results []store.RepositoryResult) {
	type place struct{ repository, addon int }
	ids, names := map[string]place{}, map[[2]string]place{}
	for i := range results {
		for j := range results[i].Addons {
			addon := &results[i].Addons[j]
			if addon.ID == "" {
				continue
			}
			addon.Reason, addon.Message, addon.ImageModule = "", "", ""
			name := [2]string{addon.Name, catalog.NormalizeVersion(addon.Version)}
			holder, held := ids[addon.ID]
			if !held {
				holder, held = names[name]
			}
			if !held {
				ids[addon.ID], names[name] = place{i, j}, place{i, j}
				continue
			}
			repository := results[holder.repository]
			earlier := repository.Addons[holder.addon]
			failure.Set(addon, api.ConflictInSpecifiedRepositories, api.DuplicateMessage(repository.URL, earlier.Name, earlier.Version))
		}
	}
}

// markConflicts marks the addons in conflicts as failed.
func markConflicts(results []store.RepositoryResult, conflicts []registry.Conflict) {
	for _, c := range conflicts {
		failure.Set(&results[c.At.Repository].Addons[c.At.Addon], api.ConflictWithAlreadyRegisteredAddon,
			api.ConflictMessage(c.With.Configuration, c.With.URL, c.With.Name, c.With.Version))
	}
}

// markLimits marks the addons that exceed a limit of the registry as failed, unless they have failed for another
// reason.
func markLimits(results []store.RepositoryResult, limits []*registry.LimitError) {
	for _, limit := range limits {
		if addon := &results[limit.At.Repository].Addons[limit.At.Addon]; addon.Reason == "" {
			failure.Set(addon, api.RegisteringError, api.RegisteringError.Message(limit.Err))
		}
	}
}

// hasProblems reports whether a repository or an addon failed.
func hasProblems(results []store.RepositoryResult) bool {
	return slices.ContainsFunc(results, isFailed)
}

func isFailed(r store.RepositoryResult) bool {
	return r.Reason != "" || slices.ContainsFunc(r.Addons, func(a store.AddonResult) bool { return a.Reason != "" })
}

// statusOf returns the status of a configuration from the results of its latest round.
func statusOf(c store.Configuration, results []store.RepositoryResult) api.Status {
	status := api.Status{Phase: api.Phase(c.Phase), ObservedGeneration: c.Generation}
	for _, result := range results {
		repository := api.RepositoryStatus{
			URL: result.URL, Status: condition(isFailed(result)),
			Reason: api.Reason(result.Reason), Message: result.Message, Addons: []api.AddonStatus{},
		}
		for _, addon := range result.Addons {
			repository.Addons = append(repository.Addons, api.AddonStatus{
				Name: cmp.Or(addon.Name, addon.Entry), Version: cmp.Or(addon.Version, addon.EntryVersion),
				Status: condition(addon.Reason != ""), Reason: api.Reason(addon.Reason), Message: addon.Message,
			})
		}
		status.Repositories = append(status.Repositories, repository)
	}
	return status
}

func condition(failed bool) api.Condition {
	if failed {
		return api.ConditionFailed
	}
	return api.ConditionReady
}
