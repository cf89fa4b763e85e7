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
		"a module whose release is purged keeps its records until then": {
			found: discovered{
				Decisions: decide.Decisions{Whole: true, Enabled: []string{"z"}, Modules: []decide.Module{{Name: "z", Enabled: true}}},
				Stale:     []stale.Binding{{Subject: graph.Subject{Module: "x"}}},
			},
			known:   decide.Known{Startup: store.Startup{Converged: 1, Enabled: []string{"idle", "x", "z"}}, Modules: map[string]store.Module{"idle": on, "x": on, "z": on}},
			unknown: []string{"x"}, detail: "1 enabled, 0 to delete, 1 to purge", enabled: []string{"z"}, missing: []string{"x"}, stale: []string{"x"},
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
