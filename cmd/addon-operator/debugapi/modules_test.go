package debugapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/inspect"
)

// save stores records by key. save stores a string unchanged, for example as a record that cannot be read.
func save(t *testing.T, db *store.DB, records map[string]any) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		for key, record := range records {
			if raw, isRaw := record.(string); isRaw {
				tx.Put(store.Key(key), []byte(raw))
				continue
			}
			if err := store.Save(tx, store.Key(key), record); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// valuesOfStore returns the routes for a store whose values come from the ConfigMap and from hooks only.
func valuesOfStore(t *testing.T, records map[string]any) http.Handler {
	t.Helper()
	db := storetest.Memory(t)
	save(t, db, records)
	of := scan.New(scan.Options{DB: db}, nil).Values
	return (&API{DB: db, Now: time.Now, Values: func() (*desired.Values, error) { return of, nil }}).Routes()
}

// decoded requests a path from h, and returns the decoded JSON of the answer.
func decoded(t *testing.T, h http.Handler, path string) (answer any) {
	t.Helper()
	status, body := ask(h, path)
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != http.StatusOK {
		t.Fatalf("%s: status %d, %v: %s", path, status, err, body)
	}
	return answer
}

func TestValuesOfASectionAreShownAloneOrWithTheGlobalOnes(t *testing.T) {
	t.Parallel()
	saved, err := json.Marshal([]values.Saved{{Op: values.Op{Op: "add", Path: "/myWeb/port", Value: json.RawMessage("8080")}, Hook: "my-web/hooks/a.sh"}})
	if err != nil {
		t.Fatal(err)
	}
	h := valuesOfStore(t, map[string]any{
		string(store.ModuleKey("my-web")): store.Module{Enabled: true, State: store.On},
		string(store.StartupKey()):        store.Startup{Enabled: []string{"db", "my-web"}},
		string(store.AppliedConfigKey()):  store.AppliedConfig{Config: []byte(`{"sections":{"myWeb":{"port":80,"size":3},"global":{"domain":"example.com"}}}`)},
		string(store.SavedKey("myWeb")):   string(saved),
	})
	type object = map[string]any
	enabled := []any{"db", "my-web"}
	for path, want := range map[string]any{
		"/module/my-web/values.json":             object{"port": 8080.0, "size": 3.0},
		"/module/my-web/config.json":             object{"port": 80.0, "size": 3.0},
		"/module/my-web/values.json?global=true": object{"myWeb": object{"port": 8080.0, "size": 3.0}, "global": object{"domain": "example.com", "enabledModules": enabled}},
		"/module/my-web/config.json?global=true": object{"myWeb": object{"port": 80.0, "size": 3.0}, "global": object{"domain": "example.com"}},
		"/module/my-web/values.json?global=yes":  object{"port": 8080.0, "size": 3.0},
		"/global/values.json":                    object{"domain": "example.com", "enabledModules": enabled},
		"/global/config.json":                    object{"domain": "example.com"},
		"/global/patches.json":                   []any{},
	} {
		if diff := cmp.Diff(want, decoded(t, h, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	patches, _ := decoded(t, h, "/module/my-web/patches.json").([]any)
	if len(patches) != 1 || !strings.Contains(toJSON(t, patches[0]), `"path":"/myWeb/port"`) {
		t.Errorf("the patches are %v", patches)
	}
	origins, _ := decoded(t, h, "/module/my-web/origins.json").([]any)
	var paths []string
	for _, o := range origins {
		if one, ok := o.(object); ok {
			path, _ := one["path"].(string)
			layer, _ := one["layer"].(string)
			paths = append(paths, path+" "+layer)
		}
	}
	if diff := cmp.Diff([]string{"/myWeb/port hook", "/myWeb/port ConfigMap", "/myWeb/size ConfigMap"}, paths); diff != "" {
		t.Errorf("origins (-want +got):\n%s", diff)
	}
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAModuleWithoutValuesHasAnEmptySection(t *testing.T) {
	t.Parallel()
	h := valuesOfStore(t, map[string]any{string(store.ModuleKey("web")): store.Module{}})
	for _, path := range []string{"/module/web/values.json", "/module/web/config.json", "/global/config.json"} {
		if diff := cmp.Diff(map[string]any{}, decoded(t, h, path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	if diff := cmp.Diff(map[string]any{"enabledModules": []any{}}, decoded(t, h, "/global/values.json")); diff != "" {
		t.Errorf("global values (-want +got):\n%s", diff)
	}
}

func TestSecretsInValuesAreMaskedUnlessTheyAreAskedFor(t *testing.T) {
	t.Parallel()
	h := valuesOfStore(t, map[string]any{
		string(store.ModuleKey("web")):   store.Module{},
		string(store.AppliedConfigKey()): store.AppliedConfig{Config: []byte(`{"sections":{"web":{"password":"hunter2","port":80},"global":{"token":"hunter3"}}}`)},
	})
	for _, path := range []string{"/module/web/values", "/module/web/config", "/module/web/origins", "/module/web/values?global=true", "/global/values", "/global/config"} {
		and := "?"
		if strings.Contains(path, "?") {
			and = "&"
		}
		if _, text := ask(h, path); strings.Contains(text, "hunter") || !strings.Contains(text, "redacted") {
			t.Errorf("%s is not masked:\n%s", path, text)
		}
		if _, text := ask(h, path+and+"show-secrets=true"); !strings.Contains(text, "hunter") || strings.Contains(text, "redacted") {
			t.Errorf("%s with secrets is\n%s", path, text)
		}
	}
}

func TestValuesThatCannotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	save(t, db, map[string]any{string(store.ModuleKey("web")): store.Module{}})
	h := (&API{DB: db, Now: time.Now, Values: func() (*desired.Values, error) { return nil, errors.New("modules/values.yaml: line 3: bad") }}).Routes()
	if status, text := ask(h, "/module/web/values"); status != http.StatusInternalServerError || text != "modules/values.yaml: line 3: bad\n" {
		t.Errorf("%d %q", status, text)
	}
}

func TestAListOfModulesShowsEvenModulesWhoseRecordsAreDamaged(t *testing.T) {
	t.Parallel()
	db := queued(t, func(*queueWriter) {}) // unlike storetest.Memory, queued does not check the store when the test ends
	save(t, db, map[string]any{
		string(store.ModuleKey("late")):    store.Module{Enabled: true, State: store.On, Order: 30},
		string(store.ModuleKey("b")):       store.Module{Enabled: true, State: store.On, Order: 20, Why: "enabled by values.yaml"},
		string(store.ModuleKey("a")):       store.Module{Enabled: true, State: store.On, Order: 20},
		string(store.ModuleKey("broken")):  store.Module{Order: 40, Broken: "values.yaml: line 3"},
		string(store.ModuleKey("damaged")): "not a record",
		string(store.ReleaseKey("a")):      store.Release{Revision: 4},
		string(store.ReleaseKey("b")):      "not a record",
		string(store.AppliedConfigKey()):   "not a record",
	})
	h := (&API{DB: db, Now: time.Now}).Routes()
	var list ModuleList
	_, body := ask(h, "/module/list.json")
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var got []string
	for _, m := range list.Modules {
		got = append(got, m.Name+" "+m.Why+m.Broken)
	}
	if diff := cmp.Diff([]string{"damaged ", "a ", "b enabled by values.yaml", "late ", "broken values.yaml: line 3"}, got); diff != "" {
		t.Errorf("modules in order (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"a", "b", "late"}, list.EnabledModules); diff != "" {
		t.Errorf("enabled modules (-want +got):\n%s", diff)
	}
	if a := list.Modules[1]; a.Revision != 4 || a.Order != 20 || !a.Enabled {
		t.Errorf("module a is %+v", a)
	}
}

func TestEnabledModulesAreThoseOfTheLastDiscoveryOrOfTheModulesThemselves(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		startup any
		want    []string
	}{
		"no discovery yet":             {store.Startup{}, []string{}},
		"a discovery":                  {store.Startup{Enabled: []string{"z", "a"}}, []string{"z", "a"}},
		"a record that cannot be read": {"damaged", []string{"second", "first"}},
	} {
		db := queued(t, func(*queueWriter) {})
		save(t, db, map[string]any{
			string(store.StartupKey()): c.startup, string(store.ModuleKey("first")): store.Module{Enabled: true, Order: 20},
			string(store.ModuleKey("second")): store.Module{Enabled: true, Order: 10}, string(store.ModuleKey("off")): store.Module{Order: 5},
		})
		if err := db.View(func(tx *store.Tx) error {
			got, err := enabledModules(tx)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			return err
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestARowOfAModuleSaysWhySinceWhenAndFromWhichAddon(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	layout := inspect.Layout{Width: inspect.Unlimited, Now: now, Zone: time.UTC}
	for want, line := range map[string]moduleLine{
		"m false off - nobody enables it":                       {State: "off", Why: "nobody enables it"},
		"m true failing 7 no such host since 11:59:00Z":         {Enabled: true, State: "failing", Reason: "no such host", Why: "w", Since: now.Add(-time.Minute), Revision: 7},
		"m false on 1 w; addon redis 1.0.0, plan micro":         {State: "on", Why: "w", Revision: 1, Addon: &modules.Made{Addon: "redis", Version: "1.0.0", Plan: "micro"}},
		"m false on - w; addon r 2 of c, plan micro by default": {State: "on", Why: "w", Addon: &modules.Made{Addon: "r", Version: "2", Configuration: "c", Plan: "micro", PlanByDefault: true}},
	} {
		line.Name = "m"
		text := ModuleList{Modules: []moduleLine{line}}.Text(layout)
		_, row, _ := strings.Cut(text, "\n")
		if got := strings.Join(strings.Fields(row), " "); got != want {
			t.Errorf("the row is %q, want %q", got, want)
		}
	}
}

func TestColorsOfTheModuleGraphShowStates(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	save(t, db, map[string]any{
		string(store.ModuleKey("one")):   store.Module{Enabled: true, State: store.On, RanInStart: 1, Order: 1, Why: `enabled by "x"`},
		string(store.ModuleKey("two")):   store.Module{Order: 2, State: store.Off},
		string(store.ModuleKey("three")): store.Module{Order: 3, Enabled: true, State: store.On, Broken: "no Chart.yaml"},
		string(store.ModuleKey("four")):  store.Module{Order: 4, Enabled: true, State: store.Off},
	})
	_, text := ask((&API{DB: db, Now: time.Now}).Routes(), "/graph?format=dot")
	want := "digraph modules {\n\trankdir=LR\n\tnode [shape=box, style=filled]\n" +
		"\t\"one\" [label=\"1 one\\nenabled by \\\"x\\\"\", fillcolor=palegreen]\n" +
		"\t\"two\" [label=\"2 two\\n\", fillcolor=lightgrey]\n\t\"one\" -> \"two\"\n" +
		"\t\"three\" [label=\"3 three\\nno Chart.yaml\", fillcolor=salmon]\n\t\"two\" -> \"three\"\n" +
		"\t\"four\" [label=\"4 four\\n\", fillcolor=khaki]\n\t\"three\" -> \"four\"\n}\n"
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMonitoredObjectsAreThoseOfTheReleasesOfEnabledModules(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	save(t, db, map[string]any{
		string(store.ModuleKey("web")): store.Module{Enabled: true}, string(store.ModuleKey("db")): store.Module{Enabled: true},
		string(store.ModuleKey("empty")): store.Module{Enabled: true}, string(store.ModuleKey("off")): store.Module{},
		string(store.ReleaseKey("web")):   store.Release{Objects: []store.Object{{Kind: "Service", Namespace: "shop", Name: "web"}, {Kind: "ClusterRole", Name: "web"}}},
		string(store.ReleaseKey("empty")): store.Release{Revision: 1},
		string(store.ReleaseKey("off")):   store.Release{Objects: []store.Object{{Kind: "Service", Name: "off"}}},
	})
	want := map[string]any{"web": []any{"shop/Service/web", "ClusterRole/web"}, "db": "No monitor", "empty": []any{}}
	if diff := cmp.Diff(want, decoded(t, (&API{DB: db, Now: time.Now}).Routes(), "/module/resource-monitor.json")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestGlobalHooksAreListedByName(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	save(t, db, map[string]any{
		string(store.HookKey("", "b.sh")): store.Hook{Config: json.RawMessage(`{"a":1}`)}, string(store.HookKey("", "a/c.sh")): store.Hook{Config: json.RawMessage(`{}`)},
		string(store.HookKey("web", "hooks/x.sh")): store.Hook{Config: json.RawMessage(`{}`)},
	})
	h := (&API{DB: db, Now: time.Now}).Routes()
	if _, text := ask(h, "/global/list"); text != "a/c.sh\nb.sh\n" {
		t.Errorf("the list is %q", text)
	}
	want := map[string]any{"globalHooks": []any{map[string]any{"name": "a/c.sh", "config": map[string]any{}}, map[string]any{"name": "b.sh", "config": map[string]any{"a": 1.0}}}}
	if diff := cmp.Diff(want, decoded(t, h, "/global/list.json")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
