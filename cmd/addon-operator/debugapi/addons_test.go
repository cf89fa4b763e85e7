package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"addon-operator/cmd/addon-operator/debugapi/addons"
	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/internal/metrics"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// addonsStore returns a store with three configurations: the addon redis of c1 is registered, and c2 and c3
// have failed.
func addonsStore(t *testing.T) *store.DB {
	t.Helper()
	db := storetest.Memory(t)
	a := catalog.Addon{
		ID: "X", Name: "redis", Version: "0.0.1", Description: "d", DisplayName: "Redis", ProvisionOnlyOnce: true,
		Labels: map[string]string{"local": "forged"},
		Plans: []catalog.Plan{{
			ID: "p", Name: "micro", DisplayName: "Micro", Values: json.RawMessage(`{"password":"secret value"}`), CreateSchema: json.RawMessage(`{"type":"object"}`),
		}},
		Chart: catalog.Chart{Name: "redis", Version: "1.0.0", Digest: "abc"},
	}
	for name, result := range map[string]store.RepositoryResult{
		"c1": {URL: "https://h/{token}/index.yaml", Addons: []store.AddonResult{{Content: "1-x", ID: "X", Name: "redis", Version: "0.0.1"}}},
		"c2": {URL: "https://h/index.yaml", Addons: []store.AddonResult{
			{Entry: "acc", EntryVersion: "1.0.0", Reason: string(api.FetchingError), Message: "bad response code: 404"},
		}},
		"c3": {URL: "foo://h/index.yaml", Reason: string(api.FetchingIndexError), Permanent: true, Message: "unsupported scheme"},
	} {
		var round store.ID
		if err := db.Update(func(tx *store.Tx) (err error) {
			round, _, err = registry.Begin(tx, registry.Owner{Name: name, UID: name, Generation: 3})
			return err
		}); err != nil {
			t.Fatal(err)
		}
		parsed := registry.Parsed{Name: "1-x", Loaded: &catalog.Loaded{Addon: a, Archive: []byte("archive")}}
		if err := registry.Put(context.Background(), db, store.RoundHolder(round), parsed); err != nil {
			t.Fatal(err)
		}
		if err := db.Update(func(tx *store.Tx) error {
			if err := registry.SaveResult(tx, registry.Cluster, name, round, 0, result); err != nil {
				return err
			}
			if name == "c1" {
				_, _, err := registerRound(tx, registry.Cluster, name, round)
				return err
			}
			if _, err := registry.Reject(tx, registry.Cluster, name, round); err != nil {
				return err
			}
			_, err := registry.NoteFailure(tx, registry.Cluster, name, round, registry.Failure{
				Reasons: "some", Attempts: 2, Due: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC),
			})
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	return db
}

// ask sends a GET request for path to a handler, and returns the status and the body of the answer.
func ask(h http.Handler, path string) (status int, body string) {
	request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	request.Host = "localhost"
	w := httptest.NewRecorder()
	h.ServeHTTP(w, request)
	return w.Code, w.Body.String()
}

func TestAddonsAreListedAndExplained(t *testing.T) {
	t.Parallel()
	l := &API{DB: addonsStore(t), Now: time.Now}
	socket := l.Routes()
	status, body := ask(socket, "/addons/list.json")
	var list addons.List
	if err := json.Unmarshal([]byte(body), &list); err != nil || status != http.StatusOK {
		t.Fatalf("%d %s: %v", status, body, err)
	}
	if diff := cmp.Diff([]addons.Line{{ID: "X", Name: "redis", Version: "0.0.1", Configuration: "c1", URL: "https://h/{token}/index.yaml"}}, list.Addons); diff != "" {
		t.Errorf("addons (-want +got):\n%s", diff)
	}
	if len(list.Configurations) != 3 || list.Configurations[0].Phase != "Ready" || list.Configurations[1].Phase != "Failed" {
		t.Errorf("configurations: %+v", list.Configurations)
	}
	for path, wants := range map[string][]string{
		"/addons/list.text":        {"(cluster)  c2", "Failed", "redis", "0.0.1"},
		"/addons/get.yaml?name=X":  {"displayName: Redis", "name: micro", "configuration: c1"},
		"/addons/why.text?name=c1": {"c1 is Ready (generation 3).\nAll its addons are registered.", "1 addon is ready, 0 failed"},
		"/addons/why.text?name=c2": {
			"c2 is Failed (generation 3).\nNone of its addons is registered", "due at 2030-01-02T03:04:05Z (attempt 3)",
			"acc 1.0.0: FetchingError: bad response code: 404", "To do: " + api.FetchingError.Remedy(),
		},
		"/addons/why.text?name=c3": {"Repository \"foo://h/index.yaml\" could not be read.\n  FetchingIndexError: unsupported scheme", "To do: correct the URL; or correct its Secret, and then increment spec.reprocessRequest, because Secrets are not watched; a retry alone fails in the same way."},
	} {
		status, body := ask(socket, path)
		for _, want := range wants {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: status %d, no %q in:\n%s", path, status, want, body)
			}
		}
	}
	for _, path := range []string{"/addons/why.json?name=c4", "/addons/why.json?name=ns/c1", "/addons/get.json?name=redis", "/addons/other.json"} {
		if status, body := ask(socket, path); status != http.StatusNotFound {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
}

func TestWhySaysWhatToDoAboutEachProblem(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process := func(scope registry.Scope, results ...store.RepositoryResult) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			round, _, err := registry.Begin(tx, registry.Owner{Scope: scope, Name: "c", UID: "u", Generation: 1, Modules: true})
			for i, r := range results {
				err = errors.Join(err, registry.SaveResult(tx, scope, "c", round, i, r))
			}
			_, rejected := registry.Reject(tx, scope, "c", round)
			return errors.Join(err, rejected)
		}); err != nil {
			t.Fatal(err)
		}
	}
	process(registry.Cluster,
		store.RepositoryResult{URL: "https://h/one", Reason: string(api.TemplatingURLError), Message: "no namespace", Fix: "set the namespace"},
		store.RepositoryResult{URL: "https://h/two", Addons: []store.AddonResult{
			{Entry: "acc", EntryVersion: "first", EntryError: "no version", Reason: string(api.LoadingError), Message: "no version"},
			{Entry: "web", EntryVersion: "1.0.0", ImageModule: "web", Reason: string(api.ConflictWithAlreadyRegisteredAddon), Message: "taken"},
		}})
	process("stage")
	routes := (&API{DB: db, Now: time.Now}).Routes()
	for path, wants := range map[string][]string{
		"/addons/why.text?name=c": {
			"Repository \"https://h/one\" could not be read.\n  TemplatingURLError: no namespace\n  To do: set the namespace.",
			"Repository \"https://h/two\": 0 addons are ready, 2 failed.",
			`To do: correct the entry of "acc" with version "first" in the index of the repository.`,
			"To do: rename the addon, or remove annotation addons.kyma-project.io/modules from the configuration (this has no effect with --addons-modules): the image already has a module web.",
		},
		"/addons/why.text?name=stage/c": {"The annotation addons.kyma-project.io/modules has no effect: only addons of a ClusterAddonsConfiguration"},
	} {
		status, body := ask(routes, path)
		for _, want := range wants {
			if status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s: status %d, no %q in:\n%s", path, status, want, body)
			}
		}
	}
	if _, body := ask(routes, "/addons/why.text?name=c"); strings.Contains(body, "modules has no effect") {
		t.Errorf("the annotation of a ClusterAddonsConfiguration has no effect:\n%s", body)
	}
}

func TestNameOfAnAddonIsAnsweredWithItsIDs(t *testing.T) {
	t.Parallel()
	routes := (&API{DB: addonsStore(t), Now: time.Now}).Routes()
	status, body := ask(routes, "/addons/get.json?name=redis")
	if status != http.StatusNotFound || !strings.Contains(body, "not an ID; ask for one of X") {
		t.Errorf("status %d: %s", status, body)
	}
}

func TestTextsOfAddonsDoNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	const hostile = "re\x1b[2Jd\u202eis\r\x07"
	layout := inspect.Layout{}
	for name, text := range map[string]string{
		"list": addons.ListText(&addons.List{Addons: []addons.Line{{ID: hostile, Name: hostile, Version: hostile, Configuration: "c"}}}, layout),
		"why": addons.WhyText(&addons.Why{Repositories: []addons.Repository{{
			URL: hostile, Problem: &addons.Problem{Message: hostile}, Addons: []addons.Problem{{Addon: hostile, Version: hostile, Message: hostile}},
		}}}, layout),
	} {
		if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); at >= 0 {
			t.Errorf("%s contains %q", name, text[max(0, at-20):])
		}
	}
}

func TestCatalogsHaveTheShapeOfABroker(t *testing.T) {
	t.Parallel()
	l := &API{DB: addonsStore(t), Now: time.Now}
	for name, handler := range map[string]http.Handler{"socket": l.Routes(), "debug port": l.Pages()} {
		status, body := ask(handler, "/cluster/v2/catalog")
		if status != http.StatusOK || strings.Contains(body, "secret value") {
			t.Errorf("%s: status %d: %s", name, status, body)
		}
		var got any
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{"services": []any{map[string]any{
			"id": "X", "name": "redis", "description": "d", "bindable": false, "bindings_retrievable": true,
			"metadata": map[string]any{"displayName": "Redis", "labels": map[string]any{"local": "true", "provisionOnlyOnce": "true"}},
			"plans": []any{map[string]any{
				"id": "p", "name": "micro", "description": "", "metadata": map[string]any{"displayName": "Micro"},
				"schemas": map[string]any{"service_instance": map[string]any{"create": map[string]any{"parameters": map[string]any{"type": "object"}}}},
			}},
		}}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if status, body := ask(handler, "/ns/stage/v2/catalog"); status != http.StatusOK || strings.TrimSpace(body) != "{\n  \"services\": []\n}" {
			t.Errorf("%s: namespace: status %d: %s", name, status, body)
		}
		if status, body := ask(handler, "/addons"); status != http.StatusOK || !strings.Contains(body, `"configuration": "c1"`) {
			t.Errorf("%s: /addons: status %d: %s", name, status, body)
		}
	}
}

func TestMetricsCountAddonsAndShowPhases(t *testing.T) {
	t.Parallel()
	l := &API{DB: addonsStore(t), Now: time.Now}
	s, err := l.State()
	if err != nil {
		t.Fatal(err)
	}
	want := []metrics.Configuration{{Scope: "cluster", Name: "c1", Phase: "Ready"}, {Scope: "cluster", Name: "c2", Phase: "Failed"}, {Scope: "cluster", Name: "c3", Phase: "Failed"}}
	if diff := cmp.Diff(want, s.Configurations) + cmp.Diff(map[string]int{"cluster": 1}, s.Addons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMetricsNameOrphanedModules(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	if err := db.Update(func(tx *store.Tx) error {
		for _, p := range []store.Problem{
			{Kind: store.OrphanedModule, Subject: graph.Subject{Module: "redis"}, Error: "its addon is not registered any more"},
			{Kind: store.UnusableAddon, Subject: graph.Subject{Module: "mysql"}, Error: "its files are not in the store"},
		} {
			if _, err := store.SaveProblem(tx, p); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	s, err := (&API{DB: db, Now: time.Now}).State()
	if diff := cmp.Diff([]string{"redis"}, s.OrphanedModules); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestListsShowWhatAModuleIsMadeFromAndThePlanThatNobodyChose(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	a := catalog.Addon{
		ID: "X", Name: "redis", Version: "1.0.0", Chart: catalog.Chart{Name: "redis", Version: "1.0.0", Digest: "abc"},
		Plans: []catalog.Plan{{ID: "s", Name: "small"}, {ID: "m", Name: "micro"}},
	}
	var round store.ID
	commit := func(do func(tx *store.Tx) error) {
		t.Helper()
		if err := db.Update(do); err != nil {
			t.Fatal(err)
		}
	}
	commit(func(tx *store.Tx) (err error) {
		round, _, err = registry.Begin(tx, registry.Owner{Name: "c1", UID: "u", Generation: 1, Modules: true})
		return err
	})
	content := registry.Parsed{Name: "1-x", Loaded: &catalog.Loaded{Addon: a, Archive: []byte("archive")}}
	if err := registry.Put(t.Context(), db, store.RoundHolder(round), content); err != nil {
		t.Fatal(err)
	}
	commit(func(tx *store.Tx) error {
		if err := registry.SaveResult(tx, registry.Cluster, "c1", round, 0, store.RepositoryResult{
			Addons: []store.AddonResult{{Content: "1-x", ID: "X", Name: "redis", Version: "1.0.0"}},
		}); err != nil {
			return err
		}
		_, _, err := registerRound(tx, registry.Cluster, "c1", round)
		return errors.Join(err,
			store.Save(tx, store.AddonModuleKey("redis"), store.AddonModule{Content: "1-x"}),
			store.Save(tx, store.ModuleKey("redis"), store.Module{Enabled: true, State: store.On, RanInStart: 1, Why: "enabled by ConfigMap key redisEnabled"}),
		)
	})
	l := &API{DB: db, Now: time.Now}
	routes := l.Routes()
	for _, c := range []struct{ section, addons, modules string }{
		{`{}`, "c1             X   redis", "enabled by ConfigMap key redisEnabled; addon redis 1.0.0 of c1, plan micro by default"},
		{`{"redis":{"plan":"small"}}`, "c1             X   redis", "addon redis 1.0.0 of c1, plan small\n"},
		{`{}`, "c1             X   redis (orphaned)", "addon redis 1.0.0, plan micro by default"},
	} {
		if strings.Contains(c.addons, "orphaned") {
			commit(func(tx *store.Tx) error {
				_, err := store.SaveProblem(tx, store.Problem{Kind: store.OrphanedModule, Subject: graph.Subject{Module: "redis"}, Error: "not offered"})
				return err
			})
		}
		commit(func(tx *store.Tx) error {
			return store.Save(tx, store.AppliedConfigKey(), store.AppliedConfig{Config: []byte(`{"sections":` + c.section + `}`)})
		})
		for path, want := range map[string]string{"/addons/list.text": c.addons, "/module/list.text": c.modules} {
			if status, body := ask(routes, path); status != http.StatusOK || !strings.Contains(body, want) {
				t.Errorf("%s with %s: status %d, no %q in:\n%s", path, c.section, status, want, body)
			}
		}
	}
}

// registerRound registers the addons of a round of the configuration with the given name.
func registerRound(tx *store.Tx, scope registry.Scope, name string, round store.ID) (freed bool, found []registry.Conflict, err error) {
	r, err := registry.Open(tx, scope, name, round)
	if err != nil {
		return false, nil, err
	}
	return r.Register()
}
