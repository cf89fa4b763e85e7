package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

// tree writes files into a new directory, and returns the path of the directory. files maps the path of each file to
// its text. If a text begins with "-> ", the file is a symbolic link to the path after the arrow.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		if to, link := strings.CutPrefix(text, "-> "); link {
			err = os.Symlink(to, path)
		} else {
			err = os.WriteFile(path, []byte(text), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func names(files []*chart.File) []string {
	var n []string
	for _, f := range files {
		n = append(n, f.Name)
	}
	slices.Sort(n)
	return n
}

func TestBareChartHoldsWhatBelongsToAChart(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"templates/a.yaml":        "a",
		"templates/sub/_b.tpl":    "b",
		"templates/lib/_c.tpl":    "left out",
		"templates/link.yaml":     "-> a.yaml",
		"templates/dangling.yaml": "-> nowhere",
		"values.yaml":             "x: 1",
		"dashboards/d.json":       "{}",
		"hooks/start":             "#!/bin/bash",
		"crds/c.yaml":             "c",
		"docs/README.md":          "d",
		"images/i/Dockerfile":     "i",
		"lib/l.sh":                "l",
		".git/HEAD":               "ref",
	})
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600); err != nil {
		t.Fatal(err)
	}
	ch, err := Release{Name: "some-module", ChartDir: dir}.load()
	if err != nil {
		t.Fatal(err)
	}
	if ch.Name() != "some-module" || ch.Metadata.Version != "0.2.0" || ch.Values["x"] != 1.0 {
		t.Errorf("the chart is %+v with values %v", ch.Metadata, ch.Values)
	}
	if got, want := names(ch.Templates), []string{"templates/a.yaml", "templates/link.yaml", "templates/sub/_b.tpl"}; !slices.Equal(got, want) {
		t.Errorf("templates are %v, want %v", got, want)
	}
	if got, want := names(ch.Files), []string{"dashboards/d.json"}; !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
}

// A templates directory that is a link is part of the chart. Without its objects, an upgrade would delete the objects
// of the release.
func TestBareChartFollowsLinksToDirectories(t *testing.T) {
	t.Parallel()
	shared := tree(t, map[string]string{"a.yaml": "a", "sub/b.yaml": "b"})
	dir := tree(t, map[string]string{
		"templates":       "-> " + shared,
		"dashboards/more": "-> " + filepath.Join(shared, "sub"),
		"dashboards/loop": "-> ..",
		"dashboards/self": "-> self",
		"dashboards/file": "-> more/b.yaml/none",
		"docs":            "-> " + shared,
		".cache":          "-> " + shared,
	})
	ch, err := Release{Name: "some-module", ChartDir: dir}.load()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(ch.Templates), []string{"templates/a.yaml", "templates/sub/b.yaml"}; !slices.Equal(got, want) {
		t.Errorf("templates are %v, want %v", got, want)
	}
	if got, want := names(ch.Files), []string{"dashboards/more/b.yaml"}; !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
}

// With or without Chart.yaml, a chart leaves out the files and directories directly in templates whose names begin with
// a dot, but not those in subdirectories of templates. If templates is a volume with a ConfigMap, the files that are
// left out contain each object a second time.
func TestBareChartHasNoHiddenTemplates(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{
		"templates/..2026_11_30/a.yaml": "a",
		"templates/..data":              "-> ..2026_11_30",
		"templates/a.yaml":              "-> ..data/a.yaml",
		"templates/.a.yaml.swp":         "binary",
		"templates/sub/.helpers.tpl":    "b",
	})
	ch, err := Release{Name: "some-module", ChartDir: dir}.load()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := names(ch.Templates), []string{"templates/a.yaml", "templates/sub/.helpers.tpl"}; !slices.Equal(got, want) {
		t.Errorf("templates are %v, want %v", got, want)
	}
}

func TestModuleNameThatIsNoYAMLStringNamesABareChart(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"templates/a.yaml": "a"})
	for _, name := range []string{"123", "on", "null"} {
		ch, err := Release{Name: name, ChartDir: dir}.load()
		if err != nil {
			t.Fatal(err)
		}
		if ch.Name() != name {
			t.Errorf("the chart of module %q is named %q", name, ch.Name())
		}
	}
}

func TestFileTooLargeForAChartIsNamed(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"templates/a.yaml": "a", "tool": ""})
	if err := os.Truncate(filepath.Join(dir, "tool"), 50<<20); err != nil {
		t.Fatal(err)
	}
	_, err := Release{Name: "m", ChartDir: dir}.load()
	if err == nil || !strings.Contains(err.Error(), "tool has 52428800 bytes") {
		t.Errorf("error is %v", err)
	}
}

// TestNumbersOfValuesAreThoseOfAFile checks that numbers in values are passed to templates as floats, as numbers in a
// values file are. Templates print large integers and large floats differently.
func TestNumbersOfValuesAreThoseOfAFile(t *testing.T) {
	t.Parallel()
	given := map[string]any{"n": 10000000, "list": []any{int64(1)}}
	values, err := Release{Name: "m", Values: given}.templateValues()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(chartutil.Values{"n": 1e7, "list": []any{1.0}}, values); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	values["n"] = nil // Helm modifies the values
	if given["n"] != 10000000 {
		t.Error("the given values were changed")
	}
	if _, err := (Release{Name: "m", Values: map[string]any{"f": func() {}}}).templateValues(); err == nil {
		t.Error("a value that JSON cannot represent is accepted")
	}
}

func TestEnabledModulesAreGivenToChartsWhoseValuesTakeThem(t *testing.T) {
	t.Parallel()
	const strict = `{"type": "object", "properties": {"global": {"type": "object", "additionalProperties": false, "properties": {"a": {"type": "number"}}}}}`
	chartOf := func(schema string) map[string]string {
		return map[string]string{"Chart.yaml": "apiVersion: v2\nname: m\nversion: 0.1.0\n", "templates/a.yaml": "a", "values.schema.json": schema}
	}
	sub := chartOf("{}")
	sub["charts/sub/Chart.yaml"], sub["charts/sub/values.schema.json"] = "apiVersion: v2\nname: sub\nversion: 0.1.0\n", strict
	without := chartOf("")
	delete(without, "values.schema.json")
	for name, c := range map[string]struct {
		files map[string]string
		a     any
		given bool
	}{
		"no schema":                    {without, 1.0, true},
		"a schema that takes them":     {chartOf(`{"properties": {"global": {"properties": {"enabledModules": {"type": "array"}}}}}`), 1.0, true},
		"a schema that does not":       {chartOf(strict), 1.0, false},
		"a subchart's schema":          {sub, 1.0, false},
		"other values are wrong, too":  {chartOf(strict), "x", true},
		"templates without Chart.yaml": {map[string]string{"templates/a.yaml": "a"}, 1.0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			given := map[string]any{"global": map[string]any{"a": c.a}}
			_, values, err := Release{Name: "m", ChartDir: tree(t, c.files), Values: given, EnabledModules: []string{"one", "m"}}.prepare()
			if err != nil {
				t.Fatal(err)
			}
			global := map[string]any{"a": c.a}
			if c.given {
				global["enabledModules"] = []any{"one", "m"}
			}
			if diff := cmp.Diff(chartutil.Values{"global": global}, values); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	_, values, err := Release{Name: "m", ChartDir: tree(t, without), EnabledModules: []string{}}.prepare()
	if diff := cmp.Diff(chartutil.Values{"global": map[string]any{"enabledModules": []any{}}}, values); diff != "" || err != nil {
		t.Errorf("without values: %v (-want +got):\n%s", err, diff)
	}
}
