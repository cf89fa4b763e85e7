package module_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
	"addon-operator/internal/values"
)

// scan returns the modules in directories, which must be readable. Modules without a number in the
// directory's name get order 1.
func scan(t testing.TB, dirs ...string) module.Set {
	t.Helper()
	set, err := module.Scan(dirs, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// find returns the module of set with this name, which must exist.
func find(t testing.TB, set module.Set, name string) module.Module {
	t.Helper()
	m, found := set.Find(name)
	if !found {
		t.Fatalf("there is no module %q in %v", name, listed(set))
	}
	return m
}

// listed returns modules as "order name", and with "!" at the end if the module is broken.
func listed(set module.Set) []string {
	var lines []string
	for _, m := range set.Modules {
		line := fmt.Sprint(m.Order, " ", m.Name)
		if m.Broken != nil {
			line += "!"
		}
		lines = append(lines, line)
	}
	return lines
}

// broken returns the reason why a module is broken. It fails the test if the module is not broken.
func broken(t testing.TB, set module.Set, name string) string {
	t.Helper()
	m := find(t, set, name)
	if m.Broken == nil {
		t.Fatalf("module %q is not broken", name)
	}
	return m.Broken.Error()
}

func document(t testing.TB, text string) values.Values {
	t.Helper()
	var v values.Values
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestModulesAreOrderedByNumberThenName(t *testing.T) {
	t.Parallel()
	one := tree(t, map[string]string{
		"010-zeta/": "", "2-beta/": "", "002-alpha/": "", "unnumbered/": "", "001-first/": "",
		"001-2-module/": "", "12/": "", "99999999999999999999-overflow/": "", "0-zero/": "", "values.yaml": "",
	})
	two := tree(t, map[string]string{"005-five/": "", "1-aaa/": ""})
	set := scan(t, one, two)
	want := []string{"0 zero", "1 12", "1 2-module", "1 aaa", "1 first", "1 overflow", "1 unnumbered", "2 alpha", "2 beta", "5 five", "10 zeta"}
	if diff := cmp.Diff(want, listed(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(set.Warnings)+len(set.Empty) != 0 {
		t.Errorf("warnings %q, empty %q", set.Warnings, set.Empty)
	}
	set, err := module.Scan([]string{one}, "", 500)
	if err != nil {
		t.Fatal(err)
	}
	if got := listed(set)[len(set.Modules)-3:]; !slices.Equal(got, []string{"500 12", "500 overflow", "500 unnumbered"}) {
		t.Errorf("unnumbered modules stand at %q", got)
	}
}

func TestPartsOfAModule(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"001-full/Chart.yaml": "name: full", "001-full/templates/": "", "001-full/hooks/a.sh": "x", "001-full/enabled": "x",
		"002-templates/templates/a.yaml": "", "003-hooks-only/hooks/": "", "004-bare/": "",
		"006-odd/hooks": "", "006-odd/templates": "",
		"007-linked/hooks": "-> ../001-full/hooks", "007-linked/Chart.yaml": "-> ../001-full/Chart.yaml",
		"008-both/Chart.yaml": "name: both", "008-both/chart.yaml": "",
	})
	set := scan(t, dir)
	type parts struct {
		Key, Path, Hooks, Enabled string
		Chart                     module.Chart
	}
	got := map[string]parts{}
	for _, m := range set.Modules {
		if m.Broken != nil {
			t.Errorf("%s is broken: %v", m.Name, m.Broken)
		}
		got[m.Name] = parts{m.Key, m.Path, m.Hooks, m.Enabled, m.Chart}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	want := map[string]parts{
		"full":       {"full", at("001-full"), at("001-full/hooks"), at("001-full/enabled"), module.FullChart},
		"templates":  {"templates", at("002-templates"), "", "", module.TemplatesOnly},
		"hooks-only": {"hooksOnly", at("003-hooks-only"), at("003-hooks-only/hooks"), "", module.NoChart},
		"bare":       {"bare", at("004-bare"), "", "", module.NoChart},
		"odd":        {"odd", at("006-odd"), "", "", module.NoChart},
		"linked":     {"linked", at("007-linked"), at("007-linked/hooks"), "", module.FullChart},
		"both":       {"both", at("008-both"), "", "", module.FullChart},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wantWarnings := []string{
		at("006-odd/hooks") + " is not a directory: the module has no hooks",
	}
	if diff := cmp.Diff(wantWarnings, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestAModuleWhoseEnabledScriptCannotBeExecutedIsBroken(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"005-asleep/enabled": "#!/bin/sh", "006-odd/enabled/": "", "007-good/": ""})
	set := scan(t, dir)
	for name, want := range map[string]string{
		"asleep": filepath.Join(dir, "005-asleep/enabled") + " cannot be executed, so it is unknown whether the module may be enabled: chmod +x it, or remove it",
		"odd":    filepath.Join(dir, "006-odd/enabled") + " is not a file, so it is unknown whether the module may be enabled: replace it by a script, or remove it",
	} {
		if m, _ := set.Find(name); m.Broken == nil || m.Broken.Error() != want {
			t.Errorf("module %s is broken by %v, want %s", name, m.Broken, want)
		}
	}
	if m, _ := set.Find("good"); m.Broken != nil {
		t.Errorf("another module is broken: %v", m.Broken)
	}
}

func TestAChartThatIsWrittenLaterIsFound(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(tree(t, map[string]string{"001-mod/hooks/a.sh": "x"}), "001-mod")
	for _, step := range []struct {
		file string
		want module.Chart
	}{{"", module.NoChart}, {"templates/a.yaml", module.TemplatesOnly}, {"Chart.yaml", module.FullChart}} {
		if step.file != "" {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, step.file)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, step.file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := module.FindChart(dir); got != step.want || err != nil {
			t.Errorf("with %q there is %q, %v; want %q", step.file, got, err, step.want)
		}
	}
	if _, err := module.FindChart(filepath.Join(dir, "none")); err == nil {
		t.Error("a directory that does not exist is accepted")
	}
}

func TestEntriesThatAreNoModules(t *testing.T) {
	t.Parallel()
	elsewhere := tree(t, map[string]string{"src/foo/Chart.yaml": "name: foo", "src/file": ""})
	dir := tree(t, map[string]string{
		".git/": "", ".hidden": "", "values.yaml": "", "README.md": "", "001-real/": "",
		"002-foo":  "-> " + elsewhere + "/src/foo",
		"003-file": "-> " + elsewhere + "/src/file",
		"004-gone": "-> " + elsewhere + "/not-mounted",
	})
	set := scan(t, dir)
	if diff := cmp.Diff([]string{"1 real", "2 foo", "4 gone!"}, listed(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	foo := find(t, set, "foo")
	if want := filepath.Join(dir, "002-foo"); foo.Path != want || foo.Chart != module.FullChart {
		t.Errorf("linked module is at %s with chart %q, want it at %s", foo.Path, foo.Chart, want)
	}
	if gone := find(t, set, "gone"); gone.Key != "gone" || !strings.Contains(broken(t, set, "gone"), dir+"/004-gone") {
		t.Errorf("the module that is not mounted: key %q, broken %v", gone.Key, gone.Broken)
	}
	want := []string{
		dir + "/003-file is not a directory: no module",
		dir + "/004-gone cannot be read: mount its target, or remove it",
		dir + "/README.md is not a directory: no module",
	}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestOfTwoModulesWithOneNameTheFirstWins(t *testing.T) {
	t.Parallel()
	one := tree(t, map[string]string{"005-foo/hooks/": "", "007-foo/": ""})
	two := tree(t, map[string]string{"001-foo/Chart.yaml": "name: foo", "values.yaml": "foo: {from: two}\n"})
	set := scan(t, one, two)
	if diff := cmp.Diff([]string{"5 foo"}, listed(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := find(t, set, "foo").Path; got != filepath.Join(one, "005-foo") {
		t.Errorf("the module is at %s", got)
	}
	if len(set.Warnings) != 2 || !strings.HasPrefix(set.Warnings[0], one+`/007-foo is ignored: module "foo" is already at `+one+"/005-foo") || !strings.HasPrefix(set.Warnings[1], two+"/001-foo is ignored") {
		t.Errorf("warnings %q", set.Warnings)
	}
	if _, has := set.Static["foo"]; has {
		t.Error("the module has values of the directory it does not lie in")
	}
	if len(set.Empty) != 0 {
		t.Errorf("a directory that contains a module is treated as empty: %q", set.Empty)
	}
}

func TestWhatCannotBeLoadedIsBrokenAndTheRestIsNot(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"001-good/values.yaml":    "good: {a: 1}\n",
		"002-Bad_Name/":           "",
		"003-global/":             "",
		"004-no-yaml/values.yaml": "noYaml: [\n",
		"005-scalar/values.yaml":  "scalar: 5\nother: 5\n",
		"006-flag/values.yaml":    "flagEnabled: maybe\n",
		"007-chart/chart.yaml":    "name: chart",
		"008-dangling/hooks":      "-> nowhere",
		"009-dir/Chart.yaml/":     "",
		"010-there/":              "",
		"011-said/":               "",
		"values.yaml":             "there: 5\nsaidEnabled: [yes]\nnobody: 5\ngood: {b: 2}\n",
		"012-foo-enabled/":        "",
		"013-values/values.yaml/": "",
	})
	set := scan(t, dir)
	want := []string{
		"1 good", "2 Bad_Name!", "3 global!", "4 no-yaml!", "5 scalar!", "6 flag!", "7 chart!",
		"8 dangling!", "9 dir!", "10 there!", "11 said!", "12 foo-enabled!", "13 values!",
	}
	if diff := cmp.Diff(want, listed(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for name, reason := range map[string]string{
		"Bad_Name":    dir + `/002-Bad_Name: module name "Bad_Name" is not in kebab-case`,
		"global":      "would be the global ones",
		"no-yaml":     dir + "/004-no-yaml/values.yaml:1: not valid YAML",
		"scalar":      dir + `/005-scalar/values.yaml:1: "scalar" is a number: a section must be a map`,
		"flag":        `"flagEnabled" is a string: write true or false`,
		"chart":       dir + "/007-chart/chart.yaml: the chart file must be named Chart.yaml, with one capital: rename it",
		"dangling":    dir + "/008-dangling/hooks",
		"dir":         dir + "/009-dir/Chart.yaml is not a regular file",
		"there":       dir + `/values.yaml:1: "there" is a number`,
		"said":        dir + `/values.yaml:2: "saidEnabled" is a list`,
		"foo-enabled": `enables or disables module "foo"`,
		"values":      dir + "/013-values/values.yaml is not a regular file",
	} {
		if got := broken(t, set, name); !strings.Contains(got, reason) {
			t.Errorf("%s is broken: %q, want it to say %q", name, got, reason)
		}
	}
	if diff := cmp.Diff(document(t, `{"good":{"a":1,"b":2}}`), set.Static); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if len(set.Warnings) != 1 || !strings.Contains(set.Warnings[0], dir+`/values.yaml:3: "nobody" is a number`) {
		t.Errorf("warnings %q", set.Warnings)
	}
}

func TestModuleThatMayNotBeReadIsBroken(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may read everything")
	}
	dir := tree(t, map[string]string{"001-locked/": "", "002-free/": ""})
	if err := os.Chmod(filepath.Join(dir, "001-locked"), 0); err != nil {
		t.Fatal(err)
	}
	set := scan(t, dir)
	if diff := cmp.Diff([]string{"1 locked!", "2 free"}, listed(set)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatConcernsAllModulesIsAnError(t *testing.T) {
	t.Parallel()
	good := tree(t, map[string]string{"001-good/": ""})
	missing := filepath.Join(good, "missing")
	for _, c := range []struct {
		dir, want string
	}{
		{missing, missing},
		{filepath.Join(tree(t, map[string]string{"file": ""}), "file"), "not a directory"},
		{tree(t, map[string]string{"values.yaml": "a: ["}), "values.yaml:1: not valid YAML"},
		{tree(t, map[string]string{"values.yaml": "global: 5"}), `values.yaml:1: "global" is a number: a section must be a map`},
		{tree(t, map[string]string{"values.yaml/": ""}), "not a regular file"},
		{tree(t, map[string]string{"values.yaml": "-> not-mounted"}), "values.yaml: no such file"},
	} {
		set, err := module.Scan([]string{good, c.dir}, "", 1)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error with %q", c.dir, err, c.want)
		}
		if len(set.Modules) != 0 {
			t.Errorf("%s: modules %v although the scan failed", c.dir, listed(set))
		}
	}
}

func TestDirectoryWithoutModulesIsReported(t *testing.T) {
	t.Parallel()
	full := tree(t, map[string]string{"001-foo/": ""})
	empty := tree(t, map[string]string{"values.yaml": "global: {a: 1}\n", ".git/": "", "README.md": ""})
	onlyBroken := tree(t, map[string]string{"001-Broken/": ""})
	set := scan(t, full, empty, onlyBroken)
	if diff := cmp.Diff([]string{empty}, set.Empty); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(document(t, `{"global":{"a":1}}`), set.Static); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestOnlyAMissingValuesFileOfAnEmptyDirectoryIsLost(t *testing.T) {
	t.Parallel()
	full := tree(t, map[string]string{"001-foo/": ""})
	fullWithFile := tree(t, map[string]string{"001-bar/": "", "values.yaml": "barEnabled: true\n"})
	empty := tree(t, map[string]string{"README.md": ""})
	emptyWithFile := tree(t, map[string]string{"values.yaml": ""})
	var paths []string
	for _, dir := range []string{full, fullWithFile, empty, emptyWithFile, t.TempDir()} {
		paths = append(paths, filepath.Join(dir, "values.yaml"))
	}
	set := scan(t, full, fullWithFile, empty, emptyWithFile)
	if diff := cmp.Diff([]string{paths[1], paths[3]}, set.ValuesFiles); diff != "" {
		t.Errorf("values files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{paths[2]}, set.LostValues(paths)); diff != "" {
		t.Errorf("lost values files (-want +got):\n%s", diff)
	}
}

func TestNoDirectoriesAreAnEmptySet(t *testing.T) {
	t.Parallel()
	set := scan(t)
	if len(set.Modules)+len(set.Empty)+len(set.Warnings) != 0 {
		t.Errorf("got %+v", set)
	}
	if _, found := set.Find("foo"); found {
		t.Error("found a module in nothing")
	}
}

func TestStaticValuesComeFromTheFilesInOrder(t *testing.T) {
	t.Parallel()
	one := tree(t, map[string]string{
		"values.yaml":         "global: {a: 1, b: 1}\nfoo: {x: 1, z: 1, l: [1, 2]}\nbar: {from: one}\n",
		"001-foo/values.yaml": "foo: {z: 2, l: [3]}\nglobal: {c: own}\nreplicas: 3\n",
		"002-only/":           "",
	})
	two := tree(t, map[string]string{
		"values.yaml": "global: {b: 2}\nfoo: {x: two}\n",
		"001-bar/":    "",
	})
	set := scan(t, one, two)
	want := document(t, `{"global":{"a":1,"b":2},"foo":{"x":1,"z":2,"l":[3]}}`)
	if diff := cmp.Diff(want, set.Static); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(set.Warnings) != 0 {
		t.Errorf("warnings %q", set.Warnings)
	}
}

func TestRelativeDirectoriesBecomeAbsolute(t *testing.T) {
	dir := tree(t, map[string]string{"modules/001-foo/hooks/": ""})
	t.Chdir(dir)
	m := find(t, scan(t, "modules"), "foo")
	if !filepath.IsAbs(m.Path) || !filepath.IsAbs(m.Hooks) {
		t.Errorf("paths %s, %s", m.Path, m.Hooks)
	}
}

func BenchmarkScan(b *testing.B) {
	files := map[string]string{"values.yaml": "global: {a: 1}\n"}
	for i := range 1000 {
		name := fmt.Sprintf("%03d-module%d", i, i)
		files[name+"/values.yaml"] = fmt.Sprintf("module%d:\n  a: 1\n  b: [1, 2]\nmodule%dEnabled: true\n", i, i)
		files[name+"/Chart.yaml"] = "name: x\n"
		files[name+"/hooks/a.sh"] = "x"
	}
	dir := tree(b, files)
	var digests module.Digests
	for b.Loop() {
		set := scan(b, dir)
		if len(set.Modules) != 1000 {
			b.Fatal(len(set.Modules))
		}
		for _, m := range set.Modules {
			if _, err := digests.Module(m); err != nil {
				b.Fatal(err)
			}
		}
	}
}
