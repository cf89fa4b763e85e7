package planner

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/internal/dryrun"
	"addon-operator/internal/helm"
	"addon-operator/internal/redact"
	"addon-operator/steps"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/forecast"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// shownAsIs hides nothing.
func shownAsIs(tree any) (any, error) { return tree, nil }

// made returns a planner with an empty copy of a store. The argument before has the modules before the planned
// converge, and the argument releases has the releases in the cluster.
func made(t *testing.T, before map[string]store.Module, releases ...string) *planner {
	t.Helper()
	db := storetest.Memory(t)
	p := &planner{
		Input: Input{Store: db}, session: &dryrun.Session{}, dry: &helm.DryRun{}, db: db, hide: shownAsIs,
		before: before, modules: map[string]*inspect.PlanModule{}, released: map[string]bool{},
	}
	for _, name := range releases {
		p.released[name] = true
	}
	return p
}

func TestModulesThatDoNotRunAreInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	want := strings.Split("abcdefghijkl", "")
	p := made(t, nil)
	if err := p.db.Update(func(tx *store.Tx) error {
		for _, name := range want {
			if err := store.Save(tx, store.ModuleKey(name), store.Module{Broken: "it is broken"}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	plan, err := p.finish()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range plan.Modules {
		got = append(got, m.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
}

// pathsOf returns the paths of changes with their old and new values.
func pathsOf(t *testing.T, before, after map[string]any) (all []string) {
	t.Helper()
	changes, err := FieldChanges(before, after, shownAsIs)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes {
		all = append(all, fmt.Sprintf("%s: %v → %v", c.Path, c.Old, c.New))
	}
	return all
}

func TestEachChangedFieldIsNamedOnce(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	type list = []any
	for name, c := range map[string]struct {
		before, after object
		want          []string
	}{
		"equal trees":                 {object{"a": 1, "b": list{object{"c": nil}}}, object{"b": list{object{"c": nil}}, "a": 1}, nil},
		"no trees":                    {nil, nil, nil},
		"a new tree":                  {nil, object{"a": object{"b": 1}}, []string{": <nil> → map[a:map[b:1]]"}},
		"a new map":                   {object{}, object{"a": object{"b": 1}}, []string{"a: <nil> → map[b:1]"}},
		"a removed field":             {object{"a": object{"b": 1, "c": 2}}, object{"a": object{"c": 2}}, []string{"a.b: 1 → <nil>"}},
		"an empty map is not no map":  {object{"a": object{}}, object{}, []string{"a: map[] → <nil>"}},
		"another type":                {object{"a": "1"}, object{"a": 1}, []string{"a: 1 → 1"}},
		"a map instead of a list":     {object{"a": list{}}, object{"a": object{}}, []string{"a: [] → map[]"}},
		"a longer list":               {object{"a": list{1}}, object{"a": list{1, 2}}, []string{"a: [1] → [1 2]"}},
		"an item of a list":           {object{"a": list{1, list{2, 3}}}, object{"a": list{1, list{2, 4}}}, []string{"a[1][1]: 3 → 4"}},
		"keys that need brackets":     {object{"a.b": object{"c/d": 1}, "[e]": 2}, object{"a.b": object{"c/d": 2}, "[e]": 3}, []string{"[[e]]: 2 → 3", "[a.b][c/d]: 1 → 2"}},
		"named items are matched":     {object{"a": list{object{"name": "x", "v": 1}, object{"name": "y"}}}, object{"a": list{object{"name": "y"}, object{"name": "x", "v": 2}}}, []string{"a[x].v: 1 → 2"}},
		"all named items are removed": {object{"a": list{object{"name": "x"}}}, object{"a": list{}}, []string{"a[x]: map[name:x] → <nil>"}},
		"two items of one name are matched by their places": {
			object{"a": list{object{"name": "x", "v": 1}, object{"name": "x", "v": 2}}}, object{"a": list{object{"name": "x", "v": 1}, object{"name": "x", "v": 3}}}, []string{"a[1].v: 2 → 3"},
		},
		"items of which one has no name": {
			object{"a": list{object{"name": "x"}, object{"v": 1}}}, object{"a": list{object{"name": "x"}}}, []string{"a: [map[name:x] map[v:1]] → [map[name:x]]"},
		},
		"large numbers are exact": {object{"a": int64(9007199254740993)}, object{"a": int64(9007199254740992)}, []string{"a: 9007199254740993 → 9007199254740992"}},
	} {
		if diff := cmp.Diff(c.want, pathsOf(t, c.before, c.after)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// randomTree returns a tree of maps, lists and leaves.
func randomTree(random *rand.Rand, depth int) any {
	switch n := random.IntN(6); {
	case depth > 0 && n < 3:
		m := map[string]any{}
		for range random.IntN(4) {
			m[string(rune('a'+random.IntN(4)))] = randomTree(random, depth-1)
		}
		return m
	case depth > 0 && n == 3:
		list := []any{}
		for range random.IntN(3) {
			list = append(list, randomTree(random, depth-1))
		}
		return list
	default:
		return random.IntN(3)
	}
}

// TestTreesHaveNoChangesOnlyIfTheyAreEqual compares pairs of random trees in both directions. Exactly the pairs of
// equal trees must have no changes, and both directions must have the same number of changes.
func TestTreesHaveNoChangesOnlyIfTheyAreEqual(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 5)) //nolint:gosec // a test with a fixed seed
		a, b := map[string]any{"x": randomTree(random, 3)}, map[string]any{"x": randomTree(random, 3)}
		forth, back := pathsOf(t, a, b), pathsOf(t, b, a)
		if equal := fmt.Sprintf("%#v", a) == fmt.Sprintf("%#v", b); equal != (len(forth) == 0) || len(forth) != len(back) {
			t.Errorf("seed %d: from %v to %v: %q, and back: %q", seed, a, b, forth, back)
		}
		if same := pathsOf(t, a, a); same != nil {
			t.Errorf("seed %d: %v differs from itself in %q", seed, a, same)
		}
		for i, path := range forth {
			path, _, _ = strings.Cut(path, ":")
			if i > 0 && path <= strings.SplitN(forth[i-1], ":", 2)[0] {
				t.Errorf("seed %d: the paths are not sorted, or not unique: %q", seed, forth)
			}
		}
	}
}

func TestAChangeIsNamedEvenIfBothValuesAreHidden(t *testing.T) {
	t.Parallel()
	wrong := errors.New("no key")
	if _, err := FieldChanges(map[string]any{"a": 1}, nil, func(any) (any, error) { return nil, wrong }); !errors.Is(err, wrong) {
		t.Errorf("error %v", err)
	}
	p := &planner{hide: func(any) (any, error) { return nil, wrong }}
	if diff := cmp.Diff([]inspect.FieldChange{{Path: "(not comparable: no key)"}}, p.fieldChanges(map[string]any{"a": 1}, nil)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	p.hide = redact.Redactor{}.Values
	changes := p.fieldChanges(map[string]any{"items": []any{map[string]any{"name": "a", "token": "one"}}}, map[string]any{"items": []any{map[string]any{"name": "a", "token": "two"}}})
	if len(changes) != 1 || changes[0].Path != "items[a].token" || strings.Contains(fmt.Sprint(changes[0].Old, changes[0].New), "one") || strings.Contains(fmt.Sprint(changes[0].New), "two") {
		t.Errorf("the changes are %+v", changes)
	}
}

// configMap returns a ConfigMap with a value. If release is not empty, the ConfigMap belongs to this Helm release.
func configMap(release, value string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "n", "name": "c", "resourceVersion": value}, "data": map[string]any{"a": value},
	}}
	if release != "" {
		o.SetAnnotations(map[string]string{"meta.helm.sh/release-name": release})
	}
	return o
}

func TestAChangedObjectIsCreatedDeletedChangedOrHandedOver(t *testing.T) {
	t.Parallel()
	p := &planner{hide: shownAsIs}
	for name, c := range map[string]struct {
		change       dryrun.Change
		action, from string
		fields       []string
	}{
		"created":                  {dryrun.Change{After: configMap("web", "1")}, inspect.ObjectCreated, "", nil},
		"deleted":                  {dryrun.Change{Before: configMap("web", "1")}, inspect.ObjectDeleted, "", nil},
		"changed":                  {dryrun.Change{Before: configMap("web", "1"), After: configMap("web", "2")}, inspect.ObjectChanged, "", []string{"data.a"}},
		"unchanged but for status": {dryrun.Change{Before: configMap("web", "1"), After: configMap("web", "1")}, inspect.ObjectChanged, "", nil},
		"handed over":              {dryrun.Change{Before: configMap("old", "1"), After: configMap("web", "1")}, inspect.ObjectHandedOver, "old", []string{"metadata.annotations[meta.helm.sh/release-name]"}},
		"adopted":                  {dryrun.Change{Before: configMap("", "1"), After: configMap("web", "1")}, inspect.ObjectChanged, "", []string{"metadata.annotations"}},
		"released":                 {dryrun.Change{Before: configMap("old", "1"), After: configMap("", "1")}, inspect.ObjectHandedOver, "old", []string{"metadata.annotations"}},
	} {
		c.change.Note = "not checked"
		got := p.object(c.change)
		var fields []string
		for _, f := range got.Fields {
			fields = append(fields, f.Path)
		}
		got.Fields = nil
		want := inspect.PlanObject{APIVersion: "v1", Kind: "ConfigMap", Namespace: "n", Name: "c", Action: c.action, From: c.from, Note: "not checked"}
		if diff := cmp.Diff(want, got) + cmp.Diff(c.fields, fields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestAResultOfANodeSetsTheActionOfItsModule(t *testing.T) {
	t.Parallel()
	of := func(id graph.NodeID, facts ...graph.Fact) forecast.Result {
		node, known := lifecycle.Graph.Node(id)
		if !known {
			t.Fatalf("the graph has no node %s", id)
		}
		return forecast.Result{Node: node, Subject: graph.Subject{Module: "web"}, Facts: facts, Outcome: workflow.Outcome{Detail: "values changed"}}
	}
	failed := func(r forecast.Result, text string) forecast.Result {
		r.Err = errors.New(text)
		return r
	}
	on := map[string]store.Module{"web": {Enabled: true}}
	for name, c := range map[string]struct {
		before   map[string]store.Module
		releases []string
		results  []forecast.Result
		want     inspect.PlanModule
	}{
		"a module that was off":          {nil, nil, []forecast.Result{of(lifecycle.ModuleRun)}, inspect.PlanModule{Action: inspect.PlanOn}},
		"a module that was on":           {on, nil, []forecast.Result{of(lifecycle.ModuleRun)}, inspect.PlanModule{Action: inspect.PlanRun}},
		"a release without a record":     {nil, []string{"web"}, []forecast.Result{of(lifecycle.ModuleRun)}, inspect.PlanModule{Action: inspect.PlanRun}},
		"a module that runs twice":       {nil, nil, []forecast.Result{of(lifecycle.ModuleRun), of(lifecycle.ModuleRun)}, inspect.PlanModule{Action: inspect.PlanOn}},
		"an outdated release":            {on, nil, []forecast.Result{of(lifecycle.ModuleRun), of(lifecycle.ReleaseCheck, lifecycle.Outdated)}, inspect.PlanModule{Action: inspect.PlanRun, Release: "values changed"}},
		"a current release":              {on, nil, []forecast.Result{of(lifecycle.ModuleRun), of(lifecycle.ReleaseCheck)}, inspect.PlanModule{Action: inspect.PlanRun}},
		"a disabled module":              {on, nil, []forecast.Result{of(lifecycle.ModuleDelete, lifecycle.Unwanted)}, inspect.PlanModule{Action: inspect.PlanOff, Release: "deleted, with its objects"}},
		"a module that is kept":          {on, nil, []forecast.Result{of(lifecycle.ModuleDelete)}, inspect.PlanModule{Action: inspect.PlanNone}},
		"a release without a module":     {nil, []string{"web"}, []forecast.Result{of(lifecycle.ModulePurge)}, inspect.PlanModule{Action: inspect.PlanPurge, Why: "there is a release, and no module directory", Release: "deleted, with its objects"}},
		"the first error of two is kept": {on, nil, []forecast.Result{failed(of(lifecycle.ModuleRun), "no values"), failed(of(lifecycle.ReleaseCheck), "no chart")}, inspect.PlanModule{Action: inspect.PlanRun, Error: "no values"}},
	} {
		p := made(t, c.before, c.releases...)
		for _, r := range c.results {
			p.done(r)
		}
		c.want.Name = "web"
		if diff := cmp.Diff(&c.want, p.modules["web"]); diff != "" || !slices.Equal(p.order, []string{"web"}) {
			t.Errorf("%s: modules %q (-want +got):\n%s", name, p.order, diff)
		}
	}
}

// TestAPlanWithoutAStoreSwitchesOnOnlyModulesWithAChart plans modules that have no release. Without a store, a release
// is the only sign that a module was enabled before, and a module without a chart never has a release.
func TestAPlanWithoutAStoreSwitchesOnOnlyModulesWithAChart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{"010-web/templates", "020-watcher/hooks"} {
		if err := os.MkdirAll(filepath.Join(dir, path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		isStored bool
		want     inspect.PlanAction
	}{
		"web": {false, inspect.PlanOn}, "watcher": {false, inspect.PlanRun}, "watcher with a store": {true, inspect.PlanOn},
	} {
		p := made(t, nil)
		p.steps = &steps.Lifecycle{State: scan.New(scan.Options{DB: p.db, ModulesDirs: []string{dir}}, nil)}
		if _, err := p.steps.State.Scan(); err != nil {
			t.Fatal(err)
		}
		if !c.isStored {
			p.Store = nil
		}
		module, _, _ := strings.Cut(name, " ")
		if got := p.runs(module); got != c.want {
			t.Errorf("%s: the action is %q, want %q", name, got, c.want)
		}
	}
}

func TestAModuleThatCannotBeLoadedSaysWhyInThePlan(t *testing.T) {
	t.Parallel()
	for want, record := range map[string]store.Module{
		"values.yaml: line 3": {Broken: "values.yaml: line 3", Undefined: "CRD"}, "no CRD widgets": {Undefined: "no CRD widgets"}, "": {},
	} {
		p := made(t, nil)
		if err := p.db.Update(func(tx *store.Tx) error { return store.Save(tx, store.ModuleKey("web"), record) }); err != nil {
			t.Fatal(err)
		}
		// The module does not run, so no step has added it to the plan: finish must add it.
		plan, err := p.finish()
		if err != nil {
			t.Fatal(err)
		}
		if len(plan.Modules) != 1 || plan.Modules[0].Error != want || plan.Failed() != (want != "") {
			t.Errorf("the plan has the modules %+v, want the error %q", plan.Modules, want)
		}
	}
}

func TestAPlanOfSomeModulesLeavesOutTheOthers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		modules []string
		subject graph.Subject
		skips   bool
	}{
		{nil, graph.Subject{Module: "web"}, false},
		{[]string{"web"}, graph.Subject{Module: "web", Hook: "a.sh"}, false},
		{[]string{"web"}, graph.Subject{Module: "db"}, true},
		{[]string{"web"}, graph.Subject{Hook: "global.sh"}, false},
		{[]string{"web"}, graph.Subject{}, false},
	} {
		p := &planner{Input: Input{Modules: c.modules}}
		if got := p.skips("", c.subject); got != c.skips {
			t.Errorf("a plan of %q skips %s: %t", c.modules, c.subject, got)
		}
	}
	p := made(t, nil, "released")
	for name, want := range map[string]string{"web": "", "released": "", "wed": "there is no module wed"} {
		p.Modules = []string{name}
		err := p.known(map[string]store.Module{"web": {}})
		if (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("a plan of %s: error %v, want %q", name, err, want)
		}
	}
}

func TestAPlanSaysWhatItCouldNotCompute(t *testing.T) {
	t.Parallel()
	hooks := []inspect.PlanHook{{Name: "a.sh"}}
	for name, c := range map[string]struct {
		change func(*planner)
		want   []string // the beginnings of the sentences that the plan must have
	}{
		"a store and no hooks": {func(*planner) {}, nil},
		"no store":             {func(p *planner) { p.Store = nil }, []string{"the store of the operator is not known: "}},
		"a global hook":        {func(p *planner) { p.plan.Hooks = hooks }, []string{"hooks are not run: "}},
		"a hook of a module":   {func(p *planner) { p.plan.Modules = []inspect.PlanModule{{}, {Hooks: hooks}} }, []string{"hooks are not run: "}},
		"both":                 {func(p *planner) { p.Store, p.plan.Hooks = nil, hooks }, []string{"the store of the operator is not known: ", "hooks are not run: "}},
	} {
		p := made(t, nil)
		c.change(p)
		p.limits()
		if !slices.EqualFunc(p.plan.Limits, c.want, strings.HasPrefix) {
			t.Errorf("%s: %q, want %q", name, p.plan.Limits, c.want)
		}
	}
}

func TestAGivenConfigMapMustBeTheManifestOfAConfigMap(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"kind: Secret\n": `--config-map: the file must hold the manifest of a ConfigMap (got kind "Secret")`,
		"data: {}\n":     `--config-map: the file must hold the manifest of a ConfigMap (got kind "")`,
		"kind: 3\n":      `--config-map: the file must hold the manifest of a ConfigMap (got kind "")`,
		"":               `--config-map: the file must hold the manifest of a ConfigMap (got kind "")`,
		"kind: [\n":      "--config-map: error converting YAML to JSON: ",
	} {
		p := &planner{Input: Input{Content: []byte(text)}}
		if err := p.present(nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	if err := new(planner).present(nil); err != nil {
		t.Errorf("the ConfigMap of the cluster: %v", err)
	}
}

func TestARefusedConfigMapIsAnErrorOnlyIfItWasGiven(t *testing.T) {
	t.Parallel()
	p := made(t, nil)
	if err := p.refused(); err != nil || p.plan.Problems != nil {
		t.Errorf("without a refused ConfigMap: error %v, problems %q", err, p.plan.Problems)
	}
	if err := p.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{Error: "key web: not YAML"})
	}); err != nil {
		t.Fatal(err)
	}
	if err := p.refused(); err != nil || !slices.Equal(p.plan.Problems, []string{"the ConfigMap is refused, so its last valid content is used: key web: not YAML"}) {
		t.Errorf("the ConfigMap of the cluster: error %v, problems %q", err, p.plan.Problems)
	}
	p.Content = []byte("kind: ConfigMap")
	if err := p.refused(); err == nil || err.Error() != "--config-map: the operator would refuse this content: key web: not YAML" {
		t.Errorf("a given ConfigMap: error %v", err)
	}
}

func TestValuesOfAReleaseAreComparedWithoutTheListOfEnabledModules(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	all := object{"global": object{"enabledModules": []any{"a"}, "domain": "d"}, "myWeb": object{"enabledModules": true, "port": 80}, "other": object{"a": 1}}
	want := object{"global": object{"domain": "d"}, "myWeb": object{"enabledModules": true, "port": 80}}
	if diff := cmp.Diff(want, sections(all, "my-web")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object{"global": object{}, "myWeb": object{}}, sections(nil, "my-web")); diff != "" {
		t.Errorf("no values (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(object{"enabledModules": []any{"a"}, "domain": "d"}, all["global"]); diff != "" {
		t.Errorf("the values of the release are changed (-want +got):\n%s", diff)
	}
}
