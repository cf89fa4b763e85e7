package discover

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/helm"
	"addon-operator/internal/module"
	"addon-operator/steps/decide"
	"addon-operator/steps/oncelog"
	"addon-operator/steps/safety"
	"addon-operator/steps/stale"
	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestOutcomeOfADiscoveryCountsModulesAndKeepsUnseenOnes(t *testing.T) {
	t.Parallel()
	on := store.Module{State: store.On}
	for name, c := range map[string]struct {
		found    discovered
		known    decide.Known
		unknown  []string // the unknown releases; the cluster has three releases
		detail   string
		facts    []graph.Fact
		enabled  []string // the modules that the store records as enabled
		left     []string
		problems []string // the blocked deletions
		missing  []string // the modules without a directory whose records stay
		stale    []string // the modules whose webhooks are removed
	}{
		"all modules are seen": {
			found: discovered{Decisions: decide.Decisions{
				Whole: true, Enabled: []string{"a", "c"}, Modules: []decide.Module{{Name: "a", Enabled: true}, {Name: "b"}, {Name: "c", Enabled: true, Broken: "bad"}},
			}},
			known:  decide.Known{Startup: store.Startup{Converged: 1}, Modules: map[string]store.Module{"b": on}},
			detail: "2 enabled, 1 to delete, 1 to purge, 1 broken", unknown: []string{"x"}, enabled: []string{"a", "c"},
		},
		"a directory holds no module": {
			found:  discovered{Decisions: decide.Decisions{Enabled: []string{"a"}, Modules: []decide.Module{{Name: "a", Enabled: true}}}},
			known:  decide.Known{Startup: store.Startup{Converged: 1, Enabled: []string{"unseen", "a"}}, Set: module.Set{Empty: []string{"/b", "/c"}}},
			detail: "1 enabled, 0 to delete, 0 to purge, some modules cannot be seen: /b, /c holds no module", unknown: []string{"x"}, enabled: []string{"unseen", "a"},
		},
		"the first converge leaves deletions to the next one": {
			found:  discovered{Decisions: decide.Decisions{Whole: true, Modules: []decide.Module{{Name: "b"}}}},
			known:  decide.Known{Modules: map[string]store.Module{"b": on}},
			detail: "0 enabled, 0 to delete, 0 to purge", unknown: []string{"x"}, facts: []graph.Fact{lifecycle.LeftOver}, left: []string{"b", "x"},
		},
		"the safety check blocks deletions": {
			found:  discovered{Decisions: decide.Decisions{Whole: true}},
			known:  decide.Known{Startup: store.Startup{Converged: 1}},
			detail: "0 enabled, 0 to delete, 0 to purge", unknown: []string{"x", "y"}, problems: []string{"2 of 3 releases would be purged, so the safety check keeps them: x, y"},
		},
		"modules whose releases stay are kept, with their webhooks": {
			found: discovered{
				Decisions: decide.Decisions{Whole: true, Enabled: []string{"z"}, Modules: []decide.Module{{Name: "z", Enabled: true}}},
				Stale:     []stale.Binding{{Subject: graph.Subject{Module: "x"}}, {Subject: graph.Subject{Module: "z"}}},
			},
			known:   decide.Known{Startup: store.Startup{Converged: 1, Enabled: []string{"idle", "x", "z"}}, Modules: map[string]store.Module{"idle": on, "x": on, "z": on}},
			unknown: []string{"x", "y"}, detail: "1 enabled, 0 to delete, 0 to purge, 2 kept without a directory", enabled: []string{"idle", "x", "z"},
			missing: []string{"idle", "x"}, stale: []string{"z"}, problems: []string{"2 of 3 releases would be purged, so the safety check keeps them: x, y"},
		},
		"a module whose release is purged keeps its records and webhooks until then": {
			found: discovered{
				Decisions: decide.Decisions{Whole: true, Enabled: []string{"z"}, Modules: []decide.Module{{Name: "z", Enabled: true}}},
				Stale:     []stale.Binding{{Subject: graph.Subject{Module: "idle"}}, {Subject: graph.Subject{Module: "x"}}, {Subject: graph.Subject{Module: "z"}}},
			},
			known:   decide.Known{Startup: store.Startup{Converged: 1, Enabled: []string{"idle", "x", "z"}}, Modules: map[string]store.Module{"idle": on, "x": on, "z": on}},
			unknown: []string{"x"}, detail: "1 enabled, 0 to delete, 1 to purge", enabled: []string{"z"}, missing: []string{"x"}, stale: []string{"idle", "z"},
		},
	} {
		checks := safety.New(safety.Options{}, oncelog.New(zerolog.Nop()), nil, silent{})
		releases := checks.Discovery([]helm.Summary{{Name: "x"}, {Name: "y"}, {Name: "z"}}, safety.Permission{Configured: true})
		releases.Unknown = c.unknown
		for _, m := range c.found.Modules {
			c.known.Set.Modules = append(c.known.Set.Modules, module.Module{Name: m.Name})
		}
		step := &step{}
		purged := c.found.findPurges(&c.known, releases)
		out, err := step.outcome(&c.found, &c.known, step.lists(&c.found, &c.known, releases, purged))
		if err != nil || out.Detail != c.detail {
			t.Errorf("%s: %q, %v; want %q", name, out.Detail, err, c.detail)
		}
		var saved discovered
		if err := json.Unmarshal(out.Data, &saved); err != nil {
			t.Fatal(err)
		}
		var problems []string
		for _, p := range saved.Blocked {
			problems = append(problems, p.Error)
		}
		var stale []string
		for _, b := range saved.Stale {
			stale = append(stale, b.Subject.Module)
		}
		if diff := cmp.Diff(
			[]any{c.facts, c.enabled, c.left, c.problems, c.missing, c.stale},
			[]any{out.Facts, saved.Enabled, saved.Left, problems, saved.Missing, stale},
		); diff != "" {
			t.Errorf("%s: facts, enabled, left, problems, missing, stale (-want +got):\n%s", name, diff)
		}
	}
}

func TestOnlyABlockedOrPostponedDeletionKeepsTheModulesWithoutADirectory(t *testing.T) {
	t.Parallel()
	own, old, web := helm.Summary{Name: "own"}, helm.Summary{Name: "old"}, helm.Summary{Name: "web"}
	addon := helm.Summary{Name: "addon", State: helm.State{Addon: true}}
	for name, c := range map[string]struct {
		releases []helm.Summary // the module "idle" has no release
		first    bool           // no converge has ended in this store
		purge    []string
		missing  []string
		enabled  []string
		detail   string
	}{
		"the operator's own release stays": {
			releases: []helm.Summary{own, web}, enabled: []string{"web"}, detail: "1 enabled, 0 to delete, 0 to purge",
		},
		"a release is purged": {
			releases: []helm.Summary{own, old, web}, purge: []string{"old"}, missing: []string{"old"}, enabled: []string{"web"},
			detail: "1 enabled, 0 to delete, 1 to purge",
		},
		"a release is purged, the deletion of another one is blocked": {
			releases: []helm.Summary{addon, old, web}, purge: []string{"old"}, missing: []string{"old", "addon", "idle", "own"},
			enabled: []string{"addon", "idle", "own", "web"}, detail: "1 enabled, 0 to delete, 1 to purge, 3 kept without a directory",
		},
		"too many releases would be purged": {
			releases: []helm.Summary{old}, missing: []string{"addon", "idle", "old", "own"}, enabled: []string{"addon", "idle", "old", "own", "web"},
			detail: "1 enabled, 0 to delete, 0 to purge, 4 kept without a directory",
		},
		"the first converge postpones a purge": {
			releases: []helm.Summary{old, web}, first: true, missing: []string{"addon", "idle", "old", "own"},
			enabled: []string{"addon", "idle", "old", "own", "web"}, detail: "1 enabled, 0 to delete, 0 to purge, 4 kept without a directory",
		},
	} {
		k := &decide.Known{
			Set: module.Set{Modules: []module.Module{{Name: "web"}}}, Modules: map[string]store.Module{},
			Startup: store.Startup{Converged: 1, Enabled: []string{"addon", "idle", "old", "own", "web"}},
		}
		for _, name := range k.Startup.Enabled {
			k.Modules[name] = store.Module{State: store.On, Enabled: true}
		}
		if c.first {
			k.Startup.Converged = 0
		}
		releases := safety.New(safety.Options{IgnoreRelease: "own"}, oncelog.New(zerolog.Nop()), nil, silent{}).Discovery(c.releases, safety.Permission{Configured: true})
		if err := releases.FindUnknown(t.Context(), k.Set, c.releases); err != nil {
			t.Fatal(err)
		}
		found := discovered{Decisions: decide.Decisions{Whole: true, Enabled: []string{"web"}, Modules: []decide.Module{{Name: "web", Enabled: true}}}}
		purge := found.findPurges(k, releases)
		step := &step{}
		out, err := step.outcome(&found, k, step.lists(&found, k, releases, purge))
		if err != nil || out.Detail != c.detail {
			t.Errorf("%s: %q, %v; want %q", name, out.Detail, err, c.detail)
		}
		if diff := cmp.Diff([][]string{c.purge, c.missing, c.enabled}, [][]string{purge, found.Missing, found.Enabled}); diff != "" {
			t.Errorf("%s: to purge, missing, enabled (-want +got):\n%s", name, diff)
		}
	}
}
