package addons

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/internal/metrics"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// register stores addons with their contents, as addons of the configuration "c" in a scope.
func register(t *testing.T, db *store.DB, scope registry.Scope, contents ...catalog.Addon) {
	t.Helper()
	var round store.ID
	if err := db.Update(func(tx *store.Tx) (err error) {
		round, _, err = registry.Begin(tx, registry.Owner{Scope: scope, Name: "c", UID: "u", Generation: 1})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var results []store.AddonResult
	for _, a := range contents {
		content := fmt.Sprintf("1-%s-%s", scope, a.ID)
		parsed := registry.Parsed{Name: content, Loaded: &catalog.Loaded{Addon: a, Archive: []byte("archive"), Advice: []string{"no icon"}}}
		if err := registry.Put(t.Context(), db, store.RoundHolder(round), parsed); err != nil {
			t.Fatal(err)
		}
		results = append(results, store.AddonResult{Content: content, ID: a.ID, Name: a.Name, Version: a.Version})
	}
	if err := db.Update(func(tx *store.Tx) error {
		if err := registry.SaveResult(tx, scope, "c", round, 0, store.RepositoryResult{URL: "https://h/index.yaml", Addons: results}); err != nil {
			return err
		}
		r, err := registry.Open(tx, scope, "c", round)
		if err != nil {
			return err
		}
		_, conflicts, err := r.Register()
		if len(conflicts) > 0 {
			t.Errorf("conflicts: %+v", conflicts)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// addon returns an addon with a chart.
func addon(id, name, version string) catalog.Addon {
	return catalog.Addon{ID: id, Name: name, Version: version, Chart: catalog.Chart{Name: name, Version: version, Digest: "digest of " + id}}
}

func TestACatalogHasWhatABrokerMustKnowAndNoValues(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	a := addon("b-2", "redis", "1.0.0")
	a.Description, a.DisplayName, a.ProviderDisplayName, a.LongDescription = "a store", "Redis", "Redis Ltd.", "a store of keys"
	a.DocumentationURL, a.SupportURL, a.ImageURL = "https://h/docs", "https://h/support", "https://h/icon"
	a.Tags, a.Requires, a.Bindable, a.PlanUpdatable = []string{"db"}, []string{"syslog_drain"}, true, &no
	a.Labels = map[string]string{"team": "a", "local": "forged", "provisionOnlyOnce": "forged"}
	a.Plans = []catalog.Plan{
		{
			ID: "p1", Name: "micro", Description: "small", DisplayName: "Micro", Bindable: &yes, Free: &no, Values: json.RawMessage(`{"password":"hunter2"}`),
			CreateSchema: json.RawMessage(`{"a":1}`), UpdateSchema: json.RawMessage(`{"b":2}`), BindSchema: json.RawMessage(`{"c":3}`),
		},
		{ID: "p2", Name: "bare"},
	}
	db := storetest.Memory(t)
	register(t, db, registry.Cluster, a, addon("a-1", "mysql", "2.0.0"))
	register(t, db, "stage", addon("c-3", "redis", "3.0.0"))
	got, err := CatalogOf(db, registry.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	want := Catalog{Services: []service{
		{ID: "a-1", Name: "mysql", BindingsRetrievable: true, Plans: []plan{}, Metadata: metadata{Labels: map[string]string{"local": "true"}}},
		{
			ID: "b-2", Name: "redis", Description: "a store", Bindable: true, BindingsRetrievable: true, PlanUpdatable: &no, Requires: []string{"syslog_drain"}, Tags: []string{"db"},
			Metadata: metadata{
				DisplayName: "Redis", ProviderDisplayName: "Redis Ltd.", LongDescription: "a store of keys", DocumentationURL: "https://h/docs", SupportURL: "https://h/support",
				ImageURL: "https://h/icon", Labels: map[string]string{"team": "a", "local": "true", "provisionOnlyOnce": "forged"},
			},
			Plans: []plan{
				{
					ID: "p1", Name: "micro", Description: "small", Bindable: &yes, Free: &no, Metadata: map[string]string{"displayName": "Micro"},
					Schemas: &schemas{
						Instance: map[string]parameters{"create": {json.RawMessage(`{"a":1}`)}, "update": {json.RawMessage(`{"b":2}`)}}, Binding: map[string]parameters{"create": {json.RawMessage(`{"c":3}`)}},
					},
				},
				{ID: "p2", Name: "bare", Metadata: map[string]string{"displayName": ""}},
			},
		},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	text, err := json.Marshal(got)
	if err != nil || strings.Contains(string(text), "hunter2") || !strings.Contains(string(text), `"plan_updateable":false`) || strings.Contains(string(text), `"service_binding":{}`) {
		t.Errorf("error %v: %s", err, text)
	}
	for scope, ids := range map[registry.Scope][]string{"stage": {"c-3"}, "other": nil} {
		c, err := CatalogOf(db, scope)
		var found []string
		for _, s := range c.Services {
			found = append(found, s.ID)
		}
		if diff := cmp.Diff(ids, found); err != nil || diff != "" || c.Services == nil {
			t.Errorf("scope %s: error %v (-want +got):\n%s", scope, err, diff)
		}
	}
}

func TestAddonsAreSortedByScopeNameAndVersion(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "stage", addon("i", "redis", "1.0.0"))
	register(t, db, registry.Cluster, addon("z", "redis", "1.10.0"), addon("y", "redis", "1.9.0"), addon("x", "redis", "1.9.0-rc.1"), addon("w", "mysql", "2.0.0"))
	if err := db.Update(func(tx *store.Tx) error {
		if _, err := store.SaveProblem(tx, store.Problem{Kind: store.OrphanedModule, Subject: graph.Subject{Module: "left"}, Error: "not offered"}); err != nil {
			return err
		}
		return errors.Join(
			store.Save(tx, store.AddonModuleKey("left"), store.AddonModule{Content: "1--z"}), store.Save(tx, store.AddonModuleKey("mysql"), store.AddonModule{Content: "1--w"}),
			store.Save(tx, store.AddonModuleKey("other"), store.AddonModule{Content: "1-stage-i"}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	var list List
	if err := db.View(func(tx *store.Tx) (err error) {
		if list, err = Registered(tx); err != nil {
			return err
		}
		for _, line := range list.Addons {
			one, err := Get(tx, api.Identity{Namespace: line.Namespace, Name: line.ID}.String())
			if err != nil {
				return err
			}
			if diff := cmp.Diff(line, one.Line); diff != "" {
				t.Errorf("addon %s is not as in the list (-list +addon):\n%s", line.ID, diff)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range list.Addons {
		got = append(got, fmt.Sprintf("%s %s %s %s %t", a.Namespace, a.Name, a.Version, a.Module, a.Orphaned))
	}
	want := []string{" mysql 2.0.0 mysql false", " redis 1.9.0-rc.1  false", " redis 1.9.0  false", " redis 1.10.0 left true", "stage redis 1.0.0  false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var rows []string
	for line := range strings.Lines(ListText(&list, inspect.Layout{Width: inspect.Unlimited})) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	table := []string{
		"NAMESPACE CONFIGURATION PHASE GENERATION", "(cluster) c Ready 1", "stage c Ready 1", "", "NAMESPACE ADDON VERSION CONFIGURATION ID MODULE", "(cluster) mysql 2.0.0 c w mysql",
		"(cluster) redis 1.9.0-rc.1 c x -", "(cluster) redis 1.9.0 c y -", "(cluster) redis 1.10.0 c z left (orphaned)", "stage redis 1.0.0 c i -",
	}
	if diff := cmp.Diff(table, rows); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestAnAddonIsFoundByItsIDInItsScope(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, registry.Cluster, addon("x", "redis", "1.0.0"), addon("y", "redis", "2.0.0"))
	register(t, db, "stage", addon("x", "mysql", "3.0.0"))
	for name, want := range map[string]string{
		"x": "redis 1.0.0", "y": "redis 2.0.0", "stage/x": "mysql 3.0.0",
		"stage/y":     `no registered addon has the ID "stage/y"; see addon-operator addons list, and write NAMESPACE/ID for one of a namespace`,
		"redis":       `"redis" is the name of an addon, not an ID; ask for one of x, y`,
		"stage/mysql": `"stage/mysql" is the name of an addon, not an ID; ask for one of stage/x`,
		"mysql":       `"mysql" is the name of an addon, not an ID; ask for one of stage/x`,
		"":            `no registered addon has the ID ""; see addon-operator addons list, and write NAMESPACE/ID for one of a namespace`,
	} {
		if err := db.View(func(tx *store.Tx) error {
			a, err := Get(tx, name)
			if unknown := (*UnknownError)(nil); err != nil && !errors.As(err, &unknown) {
				return err
			}
			var got string
			if err != nil {
				got = err.Error()
			} else {
				got = a.Addon.Name + " " + a.Version
				if diff := cmp.Diff([]string{"no icon"}, a.Advice); diff != "" || a.Configuration != "c" {
					t.Errorf("%s: configuration %q, advice (-want +got):\n%s", name, a.Configuration, diff)
				}
			}
			if got != want {
				t.Errorf("%q is %q, want %q", name, got, want)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAConfigurationIsExplainedByItsPhase(t *testing.T) {
	t.Parallel()
	due := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	configuration := func(namespace string, phase api.Phase, retry time.Time) Configuration {
		return Configuration{Namespace: namespace, Name: "c", Phase: string(phase), Generation: 4, Retry: retry}
	}
	for want, why := range map[string]Why{
		"c is Ready (generation 4).\nAll its addons are registered.\n":                                                                                        {Configuration: configuration("", api.Ready, time.Time{}), Registered: true},
		"stage/c is Pending (generation 4).\nIt is being processed.\n":                                                                                        {Configuration: configuration("stage", api.Pending, time.Time{})},
		"c is Pending (generation 4).\nIt is being processed. Its old addons stay registered until the processing ends.\n":                                    {Configuration: configuration("", api.Pending, time.Time{}), Registered: true},
		"c is Failed (generation 4).\nNone of its addons is registered: all of them must be ready.\nThe next retry is due at 2030-01-02T03:04:05Z.\nThe x.\n": {Configuration: configuration("", api.Failed, due), Notice: "x"},
		"c is Failed (generation 4).\nNone of its addons is registered: all of them must be ready.\nThe next retry is due at 2030-01-02T03:04:05Z (attempt 6).\n" +
			"\nRepository \"u\" could not be read.\n  FetchingIndexError: no answer\n  To do: wait.\n\nRepository \"v\": 1 addon is ready, 1 failed.\n  a 1: LoadingError: no chart\n    To do: correct it.\n": {
			Configuration: configuration("", api.Failed, due), Attempts: 5, Repositories: []Repository{
				{URL: "u", Problem: &Problem{Reason: api.FetchingIndexError, Message: "no answer", Remedy: "wait"}},
				{URL: "v", Good: 1, Addons: []Problem{{Addon: "a", Version: "1", Reason: api.LoadingError, Message: "no chart", Remedy: "correct it"}}},
			},
		},
	} {
		if diff := cmp.Diff(want, WhyText(&why, inspect.Layout{Zone: time.UTC})); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestAScopeWithoutAddonsIsCountedAsZero(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "empty")
	register(t, db, registry.Cluster, addon("x", "redis", "1.0.0"))
	var state metrics.State
	if err := db.View(func(tx *store.Tx) error { return AddState(tx, &state) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"cluster": 1, "ns/empty": 0}, state.Addons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
