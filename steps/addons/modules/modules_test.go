package modules_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
	"addon-operator/internal/values"
	"addon-operator/steps/addons/modules"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// register makes a ClusterAddonsConfiguration offer exactly these addons. Each addon has the form
// "name version" or "name version content".
func register(t *testing.T, db *store.DB, configuration string, asModules bool, addons ...string) {
	t.Helper()
	owner := registry.Owner{Scope: registry.Cluster, Name: configuration, UID: "u-" + configuration}
	var round store.ID
	update(t, db, func(tx *store.Tx) (err error) {
		round, _, err = registry.Begin(tx, owner)
		return err
	})
	result := store.RepositoryResult{URL: "https://h/index.yaml"}
	for _, text := range addons {
		var name, version string
		_, _ = fmt.Sscan(text, &name, &version)
		loaded := load(t, name, version)
		p := registry.Parsed{Name: registry.ContentName(strings.ReplaceAll(text, " ", "-")), Loaded: loaded}
		if err := registry.Put(t.Context(), db, store.RoundHolder(round), p); err != nil {
			t.Fatal(err)
		}
		result.Addons = append(result.Addons, store.AddonResult{
			Entry: name, EntryVersion: version, Content: p.Name, ID: "id-" + name + version, Name: name, Version: version,
		})
	}
	update(t, db, func(tx *store.Tx) error {
		if err := registry.SaveResult(tx, owner.Scope, owner.Name, round, 0, result); err != nil {
			return err
		}
		if _, conflicts, err := registerRound(tx, owner.Scope, owner.Name, round); err != nil || len(conflicts) > 0 {
			return fmt.Errorf("conflicts %v: %w", conflicts, err)
		}
		k := store.ConfigurationKey("", configuration)
		c, _, err := store.Load[store.Configuration](tx, k)
		if err != nil {
			return err
		}
		c.Modules = asModules
		return store.Save(tx, k, c)
	})
	if err := registry.Sweep(t.Context(), db); err != nil {
		t.Fatal(err)
	}
}

// load returns a loaded addon. Its chart has the version of the addon.
func load(t *testing.T, name, version string) *catalog.Loaded {
	t.Helper()
	text := fmt.Sprintf("apiVersion: v2\nname: %s\nversion: %s\n", name, version)
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	archive := tar.NewWriter(zipped)
	err := archive.WriteHeader(&tar.Header{Name: "chart/Chart.yaml", Mode: 0o644, Size: int64(len(text)), Typeflag: tar.TypeReg})
	_, err2 := archive.Write([]byte(text))
	if err := errors.Join(err, err2, archive.Close(), zipped.Close()); err != nil {
		t.Fatal(err)
	}
	return &catalog.Loaded{Archive: packed.Bytes(), Addon: catalog.Addon{
		ID: "id-" + name + version, Name: name, Version: version, Chart: catalog.Chart{Name: name, Version: version, Digest: name + version},
		Plans: []catalog.Plan{{Name: "default", Values: []byte(`{"replicas":1}`)}},
	}}
}

func update(t *testing.T, db *store.DB, change func(*store.Tx) error) {
	t.Helper()
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
}

// selected returns the selected modules in the form "module version", and the errors of the
// problems.
func selected(t *testing.T, db *store.DB, all bool, sections values.Values) (found, problems []string) {
	t.Helper()
	s, err := modules.Select(db, all, sections, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range s.Modules {
		found = append(found, m.Name+" "+m.Addon.Version)
		files, err := m.Chart()
		if err != nil {
			t.Fatal(err)
		}
		if text, err := fs.ReadFile(files, "Chart.yaml"); err != nil || !strings.Contains(string(text), m.Addon.Version) {
			t.Errorf("chart of %s %s: %q, %v", m.Name, m.Addon.Version, text, err)
		}
	}
	for _, p := range s.Problems {
		problems = append(problems, p.Error)
	}
	return found, problems
}

// use saves the selection. It records only the named modules as in use.
func use(t *testing.T, db *store.DB, names ...string) {
	t.Helper()
	s, err := modules.Select(db, false, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := strings.Join(names, " ")
	update(t, db, func(tx *store.Tx) error {
		return modules.Save(tx, s.Contents(), func(name string) bool { return strings.Contains(used, name) })
	})
}

func TestOnlyMarkedConfigurationsProvideModules(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "marked", true, "redis 1.0.0")
	register(t, db, "plain", false, "acc 1.0.0")
	for all, want := range map[bool][]string{false: {"redis 1.0.0"}, true: {"acc 1.0.0", "redis 1.0.0"}} {
		got, _ := selected(t, db, all, nil)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("all is %t: %s", all, diff)
		}
	}
}

func TestTheHighestVersionIsUsedUnlessTheSectionNamesAnother(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis-cache 1.9.0", "redis-cache 1.10.0", "redis-cache 1.2.0")
	for version, want := range map[any]string{nil: "1.10.0", "1.2.0": "1.2.0", "v1.9": "1.9.0"} {
		got, _ := selected(t, db, false, values.Values{"redisCache": map[string]any{"addonVersion": version}})
		if diff := cmp.Diff([]string{"redis-cache " + want}, got); diff != "" {
			t.Errorf("version %v: %s", version, diff)
		}
	}
	got, problems := selected(t, db, false, values.Values{"redisCache": map[string]any{"addonVersion": "2.0.0"}})
	if len(got) != 0 || len(problems) != 1 || !strings.Contains(problems[0], "addon redis-cache has no registered version 2.0.0") {
		t.Errorf("%v, %v", got, problems)
	}
}

func TestAModuleInUseOutlivesTheRegistrationOfItsAddon(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis 1.0.0", "acc 1.0.0")
	use(t, db, "redis")
	register(t, db, "c", true) // it offers no addons
	got, problems := selected(t, db, false, nil)
	if diff := cmp.Diff([]string{"redis 1.0.0"}, got); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 1 || !strings.Contains(problems[0], "module redis still uses addon redis 1.0.0, which is not registered for modules any more") {
		t.Errorf("problems %q", problems)
	}
	use(t, db) // the module is disabled
	if got, problems := selected(t, db, false, nil); len(got)+len(problems) != 0 {
		t.Errorf("%v, %v after the module was switched off", got, problems)
	}
	if err := registry.Sweep(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Contents)) {
			t.Errorf("content %s is kept for nobody", k)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestModuleWhoseAddonAnUnmarkedConfigurationHoldsNamesThatConfiguration(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c1", true, "redis 1.0.0")
	use(t, db, "redis")
	register(t, db, "c1", true)
	register(t, db, "c2", false, "redis 1.0.0")
	selected, err := modules.Select(db, false, nil, nil)
	if err != nil || len(selected.Problems) != 1 {
		t.Fatalf("problems %v, %v", selected.Problems, err)
	}
	want := `set annotation addons.kyma-project.io/modules: "true" of ClusterAddonsConfiguration c2, or set redisEnabled to "false" to uninstall the module`
	if got := selected.Problems[0].Fix; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestMarkOfAnAddonsConfigurationIsAProblem(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	update(t, db, func(tx *store.Tx) error {
		_, _, err := registry.Begin(tx, registry.Owner{Scope: "stage", Name: "c", UID: "u", Modules: true})
		return err
	})
	selected, err := modules.Select(db, false, nil, nil)
	if err != nil || len(selected.Problems) != 1 || selected.Problems[0].Subject.Configuration != "stage/c" {
		t.Errorf("problems %v, %v", selected.Problems, err)
	}
}

func TestAModuleKeepsARegisteredVersionIfItsSectionNamesNone(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis 1.0.0")
	use(t, db, "redis")
	got, problems := selected(t, db, false, values.Values{"redis": map[string]any{"addonVersion": "2.0.0"}})
	if diff := cmp.Diff([]string{"redis 1.0.0"}, got); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 1 || !strings.Contains(problems[0], "addon redis has no registered version 2.0.0; module redis still uses 1.0.0") {
		t.Errorf("problems %q", problems)
	}
}

func TestANewVersionReplacesTheOneInUse(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis 1.0.0")
	use(t, db, "redis")
	register(t, db, "c", true, "redis 1.1.0")
	if got, _ := selected(t, db, false, nil); len(got) != 1 || got[0] != "redis 1.1.0" {
		t.Errorf("%v, want redis 1.1.0", got)
	}
	// A module keeps an old version if its section names this version.
	got, problems := selected(t, db, false, values.Values{"redis": map[string]any{"addonVersion": "1.0.0"}})
	if len(got) != 1 || got[0] != "redis 1.0.0" || len(problems) != 1 {
		t.Errorf("%v, %v; want redis 1.0.0 and one problem", got, problems)
	}
}

// made returns the modules of [List] in the form "module version configuration".
func made(t *testing.T, db *store.DB) (all []string) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		found, err := modules.List(tx, nil)
		for name, m := range found {
			all = append(all, name+" "+m.Version+" "+m.Configuration)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

func TestTheHighestVersionOfAllConfigurationsIsTheModule(t *testing.T) {
	t.Parallel()
	for _, order := range [][]string{{"a", "b"}, {"b", "a"}} {
		db := storetest.Memory(t)
		versions := map[string]string{"a": "redis 1.2.0", "b": "redis 1.10.0"}
		for _, configuration := range order {
			register(t, db, configuration, true, versions[configuration])
			use(t, db, "redis")
		}
		if diff := cmp.Diff([]string{"redis 1.10.0 b"}, made(t, db)); diff != "" {
			t.Errorf("registered in the order %v (-want +got):\n%s", order, diff)
		}
		register(t, db, "b", false, versions["b"])
		if got, _ := selected(t, db, false, nil); len(got) != 1 || got[0] != "redis 1.2.0" {
			t.Errorf("without the modules of b: %v, want redis 1.2.0", got)
		}
	}
}

// reject ends a round of a ClusterAddonsConfiguration that provides modules. The round has found one repository with
// this result, and has failed.
func reject(t *testing.T, db *store.DB, configuration string, result store.RepositoryResult) {
	t.Helper()
	update(t, db, func(tx *store.Tx) error {
		round, _, err := registry.Begin(tx, registry.Owner{Name: configuration, UID: "u-" + configuration, Modules: true})
		if err != nil {
			return err
		}
		if err := registry.SaveResult(tx, registry.Cluster, configuration, round, 0, result); err != nil {
			return err
		}
		_, err = registry.Reject(tx, registry.Cluster, configuration, round)
		return err
	})
}

// If one failed request to a repository downgraded the module, the module would have the lower version until the next
// attempt.
func TestAModuleIsNotDowngradedWhileTheConfigurationOfItsVersionHasFailed(t *testing.T) {
	t.Parallel()
	entry := store.AddonResult{Entry: "redis", EntryVersion: "v1.10"}
	refused := entry
	refused.Reason = "FetchingError"
	other := store.AddonResult{Entry: "acc", EntryVersion: "1.0.0", Reason: "LoadingError"}
	for name, test := range map[string]struct {
		result store.RepositoryResult
		want   string
	}{
		"the index cannot be fetched":       {store.RepositoryResult{Reason: "FetchingIndexError", Known: []store.AddonResult{entry}}, "1.10.0"},
		"the addon cannot be fetched":       {store.RepositoryResult{Addons: []store.AddonResult{refused}}, "1.10.0"},
		"another addon cannot be loaded":    {store.RepositoryResult{Addons: []store.AddonResult{entry, other}}, "1.10.0"},
		"the index has the version no more": {store.RepositoryResult{Addons: []store.AddonResult{other}}, "1.2.0"},
	} {
		db := storetest.Memory(t)
		register(t, db, "a", true, "redis 1.2.0")
		register(t, db, "b", true, "redis 1.10.0")
		use(t, db, "redis")
		reject(t, db, "b", test.result)
		expect := func(state string, sections values.Values, want string) {
			t.Helper()
			got, problems := selected(t, db, false, sections)
			if diff := cmp.Diff([]string{"redis " + want}, got); diff != "" {
				t.Errorf("%s: %s: %s", name, state, diff)
			}
			if kept := want == "1.10.0"; kept != (len(problems) == 1) {
				t.Errorf("%s: %s: problems %q", name, state, problems)
			}
		}
		expect("failed", nil, test.want)
		expect("another version is chosen", values.Values{"redis": map[string]any{"addonVersion": "1.2.0"}}, "1.2.0")
		update(t, db, func(tx *store.Tx) error {
			_, _, err := registry.Begin(tx, registry.Owner{Name: "b", UID: "u-b", Modules: true})
			return err
		})
		expect("the next attempt", nil, test.want)
		register(t, db, "c", true, "redis 1.11.0")
		expect("a higher version is registered", nil, "1.11.0")
	}
}

func TestModuleInUseIsNotMadeFromAnotherAddonThatLeadsToItsName(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "first", true, "redis_cache 1.0.0")
	use(t, db, "redis-cache")
	register(t, db, "second", true, "redis-cache 2.0.0") // its round has a higher ID than the round of "first"
	for range 2 {
		s, err := modules.Select(db, false, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Modules) != 1 || s.Modules[0].Addon.Name != "redis_cache" {
			t.Errorf("modules %+v, want redis-cache made from redis_cache", s.Modules)
		}
		if len(s.Problems) != 1 || !strings.Contains(s.Problems[0].Error, "module redis-cache is made from addon redis_cache") {
			t.Errorf("problems %+v", s.Problems)
		}
		use(t, db, "redis-cache")
	}
}

func TestAddonsThatCannotBeModulesAreProblems(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "global 1.0.0", "redis_cache 1.0.0", "redis-cache 1.0.0", "acc 1.0.0")
	got, problems := selected(t, db, false, nil)
	if diff := cmp.Diff([]string{"acc 1.0.0", "redis-cache 1.0.0"}, got); diff != "" {
		t.Error(diff)
	}
	if len(problems) != 2 {
		t.Errorf("problems %q, want one for global and one for redis_cache or redis-cache", problems)
	}
}

func TestAddonWithTheNameOfAModuleOfTheImageIsNoModule(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	register(t, db, "c", true, "redis 1.0.0", "acc 1.0.0")
	use(t, db, "redis")
	s, err := modules.Select(db, false, nil, map[string]string{"redis": "/modules/010-redis"})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Modules) != 1 || s.Modules[0].Name != "acc" {
		t.Errorf("modules %+v, want acc alone", s.Modules)
	}
	want := "addon redis 1.0.0 cannot be used as a module: module redis of the image (/modules/010-redis) has the same name"
	if len(s.Problems) != 1 || s.Problems[0].Kind != store.UnusableAddon || s.Problems[0].Error != want {
		t.Errorf("problems %+v", s.Problems)
	}
}

func TestOutdatedTellsChangesOfModulesOnly(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	outdated := func(want bool, what string, image ...string) {
		t.Helper()
		paths := map[string]string{}
		for _, name := range image {
			paths[name] = "/modules/" + name
		}
		if err := db.View(func(tx *store.Tx) error {
			got, err := modules.Outdated(tx, false, nil, paths)
			if err == nil && (got != "") != want {
				err = fmt.Errorf("%s: outdated is %q", what, got)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
	}
	outdated(false, "nothing is registered")
	register(t, db, "c", true, "redis 1.0.0")
	outdated(true, "an addon is registered")
	outdated(false, "a module of that name is in the image", "redis")
	use(t, db)
	outdated(false, "the addon is known")
	outdated(true, "the image has the module now", "redis")
	register(t, db, "plain", false, "acc 1.0.0")
	outdated(false, "an addon is registered that is no module")
	register(t, db, "c", true, "redis 1.0.1")
	outdated(true, "a new version is registered")
	use(t, db, "redis")
	register(t, db, "c", true)
	outdated(false, "the addon of a module in use is unregistered")
	use(t, db)
	outdated(true, "the module is not used any more and its directory is still there")
	use(t, db)
	outdated(false, "the directory is gone")
}

// registerRound registers the addons of the latest round of a configuration.
func registerRound(tx *store.Tx, scope registry.Scope, name string, round store.ID) (freed bool, found []registry.Conflict, err error) {
	r, err := registry.Open(tx, scope, name, round)
	if err != nil {
		return false, nil, err
	}
	return r.Register()
}
