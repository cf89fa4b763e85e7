package discover

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/steps/crds"
	"addon-operator/steps/decide"
	"addon-operator/steps/safety"
	"addon-operator/steps/scan"
	"addon-operator/steps/stale"
	"addon-operator/steps/survey"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// Changes is notified after commits that may have caused or solved a problem.
type Changes = survey.Changes

// A step discovers modules. It returns the modules to run, the modules to delete, and the releases to purge.
type step struct {
	state   *scan.State
	decider *decide.Decider
	crds    *crds.Definitions
	safety  *safety.Checks
	stale   *stale.Bindings
	survey  *survey.Survey
	changes Changes

	parallelModules int
}

// discovered is the data of the outcome of the step.
type discovered struct {
	decide.Decisions

	// Left names the modules and releases whose deletion the first converge with a new store postpones to the next
	// converge.
	Left []string `json:"left,omitempty"`
	// Stale are attached bindings that their hooks no longer have.
	Stale []stale.Binding `json:"outlived,omitempty"`
	// Conversions are attached conversion bindings that their hooks no longer have, and the bindings that replace them.
	Conversions stale.Conversions `json:"conversions,omitzero"`

	// Blocked are the problems of releases whose deletion a safety check blocked.
	Blocked []store.Problem `json:"withheld,omitempty"`
	// Allowed is the time at which a person allowed the deletions of this discovery; zero if nobody has allowed them.
	Allowed time.Time `json:"allowed,omitzero"`
}

// Do scans the directories, merges the enabled flags, runs the enabled scripts, and compares the
// modules with the existing releases.
func (s *step) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) {
	set, err := s.state.Scan()
	if err != nil {
		return workflow.Outcome{}, err
	}
	var k *decide.Known
	var permission safety.Permission
	if err := s.state.DB.View(func(tx *store.Tx) (err error) {
		if k, err = s.decider.Load(tx, set); err != nil {
			return err
		}
		permission, err = safety.Load(tx)
		return err
	}); err != nil {
		return workflow.Outcome{}, err
	}
	found := discovered{Allowed: permission.Allowed.At}
	if found.Decisions, err = s.decider.Check(ctx, k); err != nil {
		return workflow.Outcome{}, err
	}
	if found.Stale, err = s.stale.Find(ctx); err != nil {
		return workflow.Outcome{}, err
	}
	releases, err := s.safety.Begin(ctx, set, permission)
	if err != nil {
		return workflow.Outcome{}, err
	}
	items, err := s.decide(ctx, t, k, releases, &found)
	if err != nil {
		return workflow.Outcome{}, err
	}
	if found.Conversions, err = s.stale.FindConversions(ctx, found.Runnable(), found.removesConversions(k)); err != nil {
		return workflow.Outcome{}, err
	}
	return s.outcome(&found, k, items)
}

// decide adds the decisions about modules to the argument found. It returns the modules to run and to delete, and the
// releases to purge. It finds the releases to purge first, because the enabled scripts get the names of the modules
// that stay as they are.
func (s *step) decide(ctx context.Context, t workflow.Task, k *decide.Known, releases *safety.Discovery, found *discovered) (map[graph.FanOut][]graph.Item, error) {
	purged := found.findPurges(k, releases)
	if err := s.decider.Decide(ctx, t, k, &found.Decisions); err != nil {
		return nil, err
	}
	return s.lists(found, k, releases, purged), nil
}

// removesConversions reports whether the step removes a stale conversion binding even if no hook of the modules to run
// replaces it. The step does so only until the current start has converged: if a later converge removed the binding,
// the operator would at once set the conversion strategy of the CustomResourceDefinition to None. The step keeps the
// binding as long as it is possible that another hook converts the objects: if an enabled module cannot be loaded, if a
// directory of modules is empty, or if modules without a directory stay as they are.
func (d *discovered) removesConversions(k *decide.Known) bool {
	return d.Whole && len(k.Kept) == 0 && len(d.Runnable()) == len(d.Enabled) && !k.Startup.HasConverged()
}

// outcome returns the outcome of a discovery. The argument items has the modules to run and to delete, and the releases
// to purge.
func (s *step) outcome(found *discovered, k *decide.Known, items map[graph.FanOut][]graph.Item) (workflow.Outcome, error) {
	out := workflow.Outcome{Items: items}
	var err error
	if out.Items[lifecycle.Defining], err = s.defining(found, k); err != nil {
		return workflow.Outcome{}, err
	}
	out.Detail = fmt.Sprintf("%d enabled, %d to delete, %d to purge",
		len(found.Enabled), len(out.Items[lifecycle.Disabled]), len(out.Items[lifecycle.Unknown]))
	if n := found.Broken(); n > 0 {
		out.Detail += fmt.Sprintf(", %d broken", n)
	}
	// The webhooks of a module without a directory stay until its release is purged. If they were deleted now and the
	// directory existed again later, the module would not attach them again in a start in which it has already run.
	found.Stale = slices.DeleteFunc(found.Stale, func(b stale.Binding) bool { return slices.Contains(found.Missing, b.Subject.Module) })
	if len(k.Kept) > 0 {
		found.KeepUnseen(k)
		out.Detail += fmt.Sprintf(", %d kept without a directory", len(k.Kept))
	}
	if !found.Whole {
		found.KeepUnseen(k)
		out.Detail += ", some modules cannot be seen: " + strings.Join(k.Set.Empty, ", ") + " holds no module"
	}
	out.Detail += found.Dropped.Note()
	if len(found.Left) > 0 {
		out.Facts = []graph.Fact{lifecycle.LeftOver}
	}
	out.Data, err = json.Marshal(found)
	return out, err
}

// findPurges returns the unknown releases to purge. It sets d.Left to the unknown releases whose purge the first
// converge postpones. It also sets d.Missing and k.Kept; see keepMissing.
func (d *discovered) findPurges(k *decide.Known, releases *safety.Discovery) []string {
	if !d.Whole {
		return nil
	}
	unknown := releases.Unknown
	if k.Startup.Converged == 0 {
		d.Left, unknown = unknown, nil
	}
	purged := releases.Purge(unknown)
	d.keepMissing(k, releases, purged)
	return purged
}

// lists returns the modules to run, in their order, the modules to delete, in reverse order, and the releases to purge,
// which are in the argument purged. It sets the fields of found that depend on the releases of disabled modules.
func (s *step) lists(found *discovered, k *decide.Known, releases *safety.Discovery, purged []string) map[graph.FanOut][]graph.Item {
	var disabled []string
	deletes := 0
	for _, d := range slices.Backward(found.Modules) {
		state, released := k.Modules[d.Name].State, releases.Released(d.Name)
		if d.Enabled || d.Broken != "" || !released && (state == store.Off || state == "") {
			continue
		}
		disabled = append(disabled, d.Name)
		if released {
			deletes++
		}
	}
	if k.Startup.Converged == 0 {
		found.Left = append(disabled, found.Left...)
		disabled = nil
	}
	disabled = releases.Delete(disabled, deletes)
	found.Blocked = releases.Blocked
	return map[graph.FanOut][]graph.Item{
		lifecycle.Enabled: s.enabled(found, k), lifecycle.Disabled: graph.ModuleItems(disabled), lifecycle.Unknown: graph.ModuleItems(purged),
	}
}

// keepMissing sets d.Missing to the modules that have a record and were not found, and whose records stay. The argument
// purged has the releases to purge. The records of a module whose release is purged stay until the purge. If the
// deletion of another module's release is blocked or postponed, the directories of modules may be missing by mistake.
// Then the records of all modules that were not found stay, and keepMissing sets k.Kept to those whose release is not
// purged.
func (d *discovered) keepMissing(k *decide.Known, releases *safety.Discovery, purged []string) {
	var going, kept []string
	keeps := false
	for _, name := range slices.Sorted(maps.Keys(k.Modules)) {
		if _, onDisk := k.Set.Find(name); onDisk {
			continue
		}
		if slices.Contains(purged, name) {
			going = append(going, name)
			continue
		}
		kept = append(kept, name)
		keeps = keeps || releases.Blocks(name) || slices.Contains(d.Left, name)
	}
	if keeps {
		k.Kept = kept
	}
	d.Missing = slices.Concat(going, k.Kept)
}

// enabled returns the modules to run; see [decide.Decisions.Runnable]. If parallelModules is at least 2, modules whose
// directories have the same number form a parallel group.
func (s *step) enabled(found *discovered, k *decide.Known) []graph.Item {
	order := map[string]int{}
	for name, m := range k.Modules {
		order[name] = m.Order
	}
	for _, d := range found.Modules {
		order[d.Name] = d.Order
	}
	list := graph.ModuleItems(found.Runnable())
	if s.parallelModules < 2 {
		return list
	}
	for i := range list {
		list[i].Group, list[i].Width = strconv.Itoa(order[list[i].Subject.Module]), s.parallelModules
	}
	return list
}

// defining lists the enabled modules whose CRDs must be installed.
func (s *step) defining(found *discovered, k *decide.Known) ([]graph.Item, error) {
	var items []graph.Item
	for i := range found.Modules {
		d := &found.Modules[i]
		m, _ := k.Set.Find(d.Name)
		if !d.Enabled || d.Broken != "" || m.CRDs == "" {
			continue
		}
		d.Defines = true
		missing, err := s.crds.Missing(m, k.Modules[d.Name], k.Startup)
		if err != nil {
			return nil, err
		}
		if missing {
			items = append(items, graph.Item{Subject: graph.Subject{Module: d.Name}})
		}
	}
	return items, nil
}

// Apply saves the decisions, and deletes the records of modules that no longer exist and have no release.
func (s *step) Apply(tx *store.Tx, t workflow.Task, o workflow.Outcome) ([]graph.Fact, error) {
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
	if err := safety.SaveBlocked(tx, found.Blocked, found.Allowed); err != nil {
		return nil, err
	}
	tx.OnCommit(s.survey.Discovered)
	tx.OnCommit(s.changes.ProblemsChanged)
	before, err := store.LoadModules(tx)
	if err != nil {
		return nil, err
	}
	if err := found.Save(tx, t.Run, before); err != nil {
		return nil, err
	}
	if err := s.stale.Replace(tx, found.Conversions); err != nil {
		return nil, err
	}
	return nil, found.SaveStartup(tx)
}
