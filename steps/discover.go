package steps

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/sections"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Do scans the directories, merges the enabled flags, runs the enabled scripts, and compares the
// modules with the existing releases.
func (s *discoverStep) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	set, err := s.directories.scan()
	if err != nil {
		return workflow.Outcome{}, err
	}
	k, err := s.known(set)
	if err != nil {
		return workflow.Outcome{}, err
	}
	if k.hooks, err = s.hooks.CheckHooks(ctx, set); err != nil {
		return workflow.Outcome{}, err
	}
	found := discovered{Whole: len(set.Empty) == 0, Dropped: s.values.Unfit(k.layers), Allowed: k.allowed.At}
	if found.Stale, err = s.stale.Find(ctx); err != nil {
		return workflow.Outcome{}, err
	}
	var errs []error
	for _, m := range set.Modules {
		d, err := s.decide(ctx, t, m, k, found.Enabled)
		if err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", m.Name, err))
			continue
		}
		found.Modules = append(found.Modules, d)
		if d.Enabled {
			found.Enabled = append(found.Enabled, m.Name)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return workflow.Outcome{}, err
	}
	releases, err := s.helm.List(ctx)
	if err != nil {
		return workflow.Outcome{}, err
	}
	unknown, err := s.unknown(ctx, set, releases, &found)
	if err != nil {
		return workflow.Outcome{}, err
	}
	out := workflow.Outcome{Items: s.lists(unknown, &found, k, releases)}
	if out.Items[lifecycle.Defining], err = s.defining(&found, set, k); err != nil {
		return workflow.Outcome{}, err
	}
	out.Detail = fmt.Sprintf("%d enabled, %d to delete, %d to purge",
		len(found.Enabled), len(out.Items[lifecycle.Disabled]), len(out.Items[lifecycle.Unknown]))
	if n := found.broken(); n > 0 {
		out.Detail += fmt.Sprintf(", %d broken", n)
	}
	if !found.Whole {
		found.Enabled = withUnseen(k.startup.Enabled, found.Enabled, set)
		out.Detail += ", some cannot be seen: " + strings.Join(set.Empty, ", ") + " holds no module"
	}
	out.Detail += found.Dropped.Note()
	if len(found.Left) > 0 {
		out.Facts = []graph.Fact{lifecycle.LeftOver}
	}
	out.Data, err = json.Marshal(found)
	return out, err
}

func (s *discoverStep) known(set module.Set) (k known, err error) {
	var keys []string
	for _, m := range set.Modules {
		if m.Key != "" {
			keys = append(keys, m.Key)
		}
	}
	err = s.db.View(func(tx *store.Tx) error {
		if k.layers, err = s.values.LayersOf(tx, keys...); err != nil {
			return err
		}
		if k.enabledOverrides, err = sections.Overrides(tx); err != nil {
			return err
		}
		if k.startup, err = store.LoadStartup(tx); err != nil {
			return err
		}
		if _, k.config, err = sections.LoadApplied(tx); err != nil {
			return err
		}
		if k.allowed, _, err = store.Load[store.AllowedPurge](tx, store.AllowedPurgeKey()); err != nil {
			return err
		}
		k.modules, err = store.LoadModules(tx)
		return err
	})
	return k, err
}

// lists returns the modules to enable in order, the modules to delete in reverse order, and the
// unknown releases to purge.
func (s *discoverStep) lists(unknown []string, found *discovered, k known, releases []helm.Summary) map[graph.FanOut][]graph.Item {
	released := map[string]bool{}
	for _, r := range releases {
		released[r.Name] = true
	}
	if !found.Whole {
		unknown = nil
	}
	var disabled []string
	deletes := 0
	for _, d := range slices.Backward(found.Modules) {
		state := k.modules[d.Name].State
		if d.Enabled || d.Broken != "" || !released[d.Name] && (state == store.Off || state == "") {
			continue
		}
		disabled = append(disabled, d.Name)
		if released[d.Name] {
			deletes++
		}
	}
	if k.startup.Converged == 0 && len(disabled)+len(unknown) > 0 {
		found.Left = append(disabled, unknown...)
		disabled, unknown = nil, nil
	}
	unknown = s.checkSafety(deletion{
		unknown, len(unknown), "purged", "restore or mount the module directories of the releases, then run addon-operator reload",
	}, len(releases), found, k.allowed.Releases)
	if k.config.ResourceVersion == "" {
		disabled = s.checkSafety(deletion{
			disabled, deletes, "deleted because there is no " + s.config.Name(), "create the ConfigMap",
		}, len(releases), found, k.allowed.Releases)
	}
	return map[graph.FanOut][]graph.Item{
		lifecycle.Enabled: s.enabled(found, k), lifecycle.Disabled: items(disabled), lifecycle.Unknown: items(unknown),
	}
}

// enabled returns the modules to run: the enabled ones that can be loaded. Modules with the same
// number form a parallel group, if that is configured.
func (s *discoverStep) enabled(found *discovered, k known) []graph.Item {
	order := map[string]int{}
	for name, m := range k.modules {
		order[name] = m.Order
	}
	for _, d := range found.Modules {
		order[d.Name] = d.Order
	}
	list := items(slices.DeleteFunc(slices.Clone(found.Enabled), func(name string) bool {
		return slices.ContainsFunc(found.Modules, func(d decided) bool { return d.Name == name && d.Broken != "" })
	}))
	if s.parallelModules < 2 {
		return list
	}
	for i := range list {
		list[i].Group, list[i].Width = strconv.Itoa(order[list[i].Subject.Module]), s.parallelModules
	}
	return list
}

// withUnseen returns the modules that are enabled now, and those that were enabled before and are
// not on disk, in their earlier order.
func withUnseen(before, now []string, set module.Set) []string {
	var all []string
	for _, name := range before {
		if _, seen := set.Find(name); !seen || slices.Contains(now, name) {
			all = append(all, name)
		}
	}
	for _, name := range now {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// Apply saves the decisions, and deletes the state of modules that no longer exist.
func (s *discoverStep) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
	var found discovered
	if err := json.Unmarshal(o.Data, &found); err != nil {
		return nil, err
	}
	if err := found.Dropped.Drop(tx); err != nil {
		return nil, err
	}
	if err := s.stale.Withdraw(tx, found.Stale); err != nil {
		return nil, err
	}
	if err := saveBlocked(tx, found); err != nil {
		return nil, err
	}
	tx.OnCommit(func() { s.survey.discovered.Store(true) })
	tx.OnCommit(s.changes.ProblemsChanged)
	before, err := store.LoadModules(tx)
	if err == nil {
		err = saveAddonModules(tx, found, before)
	}
	if err != nil {
		return nil, err
	}
	if err := saveModules(tx, t.Run, found.Modules, before); err != nil {
		return nil, err
	}
	if found.Whole {
		if err := s.forgetMissing(tx, found.Modules, before); err != nil {
			return nil, err
		}
	}
	l, err := store.LoadStartup(tx)
	if err != nil || slices.Equal(l.Enabled, found.Enabled) {
		return nil, err
	}
	l.Enabled = found.Enabled
	return nil, store.Save(tx, store.StartupKey(), l)
}

// saveModules saves the decisions of run about modules in their records. before has the earlier
// records.
func saveModules(tx *store.Tx, run uint64, modules []decided, before map[string]store.Module) error {
	for _, d := range modules {
		old, known := before[d.Name]
		if !d.Enabled {
			store.DeleteProblems(tx, store.OrphanedModule, d.Name)
		}
		next := old
		next.Order, next.Enabled, next.Why = d.Order, d.Enabled, d.Why
		next.SetBroken(d.Broken, tx.Now())
		if !known || next.Enabled != old.Enabled || next.Why != old.Why {
			next.DecidedIn, next.DecidedAt = run, tx.Now()
		}
		if next.State == "" {
			next.State = store.Off
		}
		if !d.Defines {
			next.Defined, next.Undefined = "", ""
		}
		if known && next == old {
			continue
		}
		if err := store.Save(tx, store.ModuleKey(d.Name), next); err != nil {
			return err
		}
	}
	return nil
}

// forgetMissing deletes the records of the modules in before that were not found.
func (s *discoverStep) forgetMissing(tx *store.Tx, found []decided, before map[string]store.Module) error {
	exists := map[string]bool{}
	for _, d := range found {
		exists[d.Name] = true
	}
	for name := range before {
		if exists[name] {
			continue
		}
		tx.Delete(store.ModuleKey(name))
		if err := s.bindings.Forget(tx, name); err != nil {
			return err
		}
	}
	return nil
}

// saveBlocked replaces the problems of the safety check by those of this discovery. A person's
// permission is valid for one discovery.
func saveBlocked(tx *store.Tx, found discovered) error {
	if _, err := store.ReplaceProblems(tx, store.BlockedDeletion, found.Blocked); err != nil {
		return err
	}
	allowed, ok, err := store.Load[store.AllowedPurge](tx, store.AllowedPurgeKey())
	if ok && err == nil && allowed.At.Equal(found.Allowed) {
		tx.Delete(store.AllowedPurgeKey())
	}
	return err
}

// saveAddonModules saves which modules of a discovery are made from addons. The enabled modules,
// and those that are not deleted yet, keep the files of their addons.
func saveAddonModules(tx *store.Tx, found discovered, before map[string]store.Module) error {
	contents, used := map[string]string{}, map[string]bool{}
	for _, d := range found.Modules {
		if d.Addon == "" {
			continue
		}
		state := before[d.Name].State
		contents[d.Name], used[d.Name] = d.Addon, d.Enabled || state != store.Off && state != ""
	}
	return modules.Save(tx, contents, func(name string) bool { return used[name] })
}
