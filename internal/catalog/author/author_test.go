package author_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
	"addon-operator/internal/catalog/author"
)

// writeAddon writes a small valid addon to a directory.
func writeAddon(t *testing.T, dir, id, name, version string) {
	t.Helper()
	for file, text := range map[string]string{
		"meta.yaml":                        "id: " + id + "\nname: " + name + "\nversion: " + version + "\ndescription: about " + name + "\ndisplayName: " + name + "\n",
		"chart/c/Chart.yaml":               "apiVersion: v2\nname: c\nversion: 1.0.0\n",
		"chart/c/values.yaml":              "size: 1\n",
		"chart/c/templates/configmap.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {size: \"{{ .Values.size }}\"}\n",
		"plans/micro/meta.yaml":            "{id: " + id + "-micro, name: micro, description: small, displayName: Micro}",
	} {
		writeFile(t, filepath.Join(dir, filepath.FromSlash(file)), text)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, dir string) *author.Repository {
	t.Helper()
	r, err := author.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func lint(t *testing.T, dir string) string {
	t.Helper()
	report, err := open(t, dir).Lint()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(report.Text(), dir, "DIR")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestRepositoryOfTheToolsHasNoProblems(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeAddon(t, filepath.Join(dir, "store-1.0.0"), "a", "store", "1.0.0")
	writeAddon(t, filepath.Join(dir, "store-1.10.0"), "b", "store", "v1.10")
	writeAddon(t, filepath.Join(dir, "alpha-2.0.0"), "c", "alpha", "2.0.0")
	writeFile(t, filepath.Join(dir, ".git/config"), "x")
	writeFile(t, filepath.Join(dir, "docs/page.md"), "x")
	writeFile(t, filepath.Join(dir, "README.md"), "x")
	names, err := open(t, dir).Package(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"alpha-2.0.0.tgz", "store-1.0.0.tgz", "store-1.10.0.tgz"}, names); diff != "" {
		t.Error(diff)
	}
	entries, err := open(t, dir).WriteIndex(dir)
	if err != nil || entries != 3 {
		t.Errorf("%d entries, %v", entries, err)
	}
	want := `apiVersion: v1
entries:
  alpha:
  - description: about alpha
    name: alpha
    version: 2.0.0
  store:
  - description: about store
    name: store
    version: 1.10.0
  - description: about store
    name: store
    version: 1.0.0
`
	if diff := cmp.Diff(want, string(read(t, filepath.Join(dir, "index.yaml")))); diff != "" {
		t.Error(diff)
	}
	want = "alpha-2.0.0: OK\nalpha-2.0.0.tgz: OK\nstore-1.0.0: OK\nstore-1.0.0.tgz: OK\nstore-1.10.0: OK\nstore-1.10.0.tgz: OK\n"
	if diff := cmp.Diff(want, lint(t, dir)); diff != "" {
		t.Error(diff)
	}
	fsys, err := catalog.Unpack(t.Context(), bytes.NewReader(read(t, filepath.Join(dir, "store-1.10.0.tgz"))), catalog.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	if loaded, err := catalog.Load(fsys); err != nil || loaded.Addon.ID != "b" {
		t.Errorf("%v, %v", loaded, err)
	}
}

func TestPackagingAgainWritesTheSameBytes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeAddon(t, filepath.Join(dir, "store-1.0.0"), "a", "store", "1.0.0")
	var archives [][]byte
	for _, to := range []string{filepath.Join(dir, "public"), filepath.Join(dir, "again")} {
		if _, err := open(t, dir).Package(to); err != nil {
			t.Fatal(err)
		}
		archives = append(archives, read(t, filepath.Join(to, "store-1.0.0.tgz")))
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the archives differ")
	}
}

func TestLintTellsAllProblemsOfAllAddons(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeAddon(t, filepath.Join(dir, "a-1.0.0"), "same", "a", "1.0.0")
	writeAddon(t, filepath.Join(dir, "b-1.0.0"), "same", "b", "1.0.0")
	writeAddon(t, filepath.Join(dir, "c"), "c", "a", "v1.0")
	writeFile(t, filepath.Join(dir, "c/plans/large/meta.yaml"), "{id: c-large, name: large, description: big, displayName: Large}")
	writeFile(t, filepath.Join(dir, "c/plans/large/values.yaml"), `size: "\""`)
	writeFile(t, filepath.Join(dir, "d/meta.yaml"), "id: d")
	writeAddon(t, filepath.Join(dir, "e-1.0.0"), "e", "e", "1.0.0")
	writeFile(t, filepath.Join(dir, "e-1.0.0/meta.yaml"), "tags: x")
	writeFile(t, filepath.Join(dir, "f-1.0.0.tgz"), "<html>")
	writeFile(t, filepath.Join(dir, "index.yaml"), "entries:\n  a: [{version: 1.0.0}]\n  zzz: [{version: 1.0.0}, {version: latest}]\n")
	want := `a-1.0.0: OK
b-1.0.0: FAILED
  problem: it has the ID same of a-1.0.0; give each version of an addon an ID of its own
c: FAILED
  problem: it has the name a and version v1.0 of a-1.0.0
  error: [ERROR] templates/configmap.yaml: unable to parse YAML: error converting YAML to JSON: yaml: line 5: found unexpected end of stream (with plan large)
  advice: [WARNING] rename the addon to a-1.0.0: an index refers to an addon by its name and version
d: FAILED
  problem: while loading chart: while discovering the name of the Helm Chart under the "chart" addon directory: addon does not contains "chart" directory
e-1.0.0: FAILED
  problem: while validating form: while validating addon meta: missing ID field, missing Name field, missing Version field, missing Description field, missing displayName field
f-1.0.0.tgz: FAILED
  problem: archive is not in gzip format; pack it with tar -czf
index.yaml: FAILED
  problem: addon zzz, version 1.0.0: there is neither a directory zzz-1.0.0 nor an archive zzz-1.0.0.tgz
  problem: addon zzz, version latest: version of the addon in the index: "latest" is not a semantic version; write it like 1.2.3
  problem: addon b, version 1.0.0 is not listed; run addon-operator addons index DIR
`
	if diff := cmp.Diff(want, lint(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestLintFindsAnArchiveThatIsOlderThanItsDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeAddon(t, filepath.Join(dir, "a-1.0.0"), "a", "a", "1.0.0")
	if _, err := open(t, dir).Package(dir); err != nil {
		t.Fatal(err)
	}
	writeFile(t, filepath.Join(dir, "a-1.0.0/chart/c/values.yaml"), "size: 2")
	want := "a-1.0.0: OK\na-1.0.0.tgz: FAILED\n  problem: it differs from the directory a-1.0.0; run addon-operator addons package DIR\n"
	if diff := cmp.Diff(want, lint(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func TestIndexAndPackageStopAtAnInvalidAddonAndWriteNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		prepare func(t *testing.T, dir string)
		want    string
	}{
		"invalid": {
			func(t *testing.T, dir string) {
				t.Helper()
				writeFile(t, filepath.Join(dir, "b-1.0.0/meta.yaml"), "id: b")
			},
			`addon b-1.0.0 is invalid: while loading chart: while discovering the name of the Helm Chart under the "chart" addon directory: addon does not contains "chart" directory; see addon-operator addons lint DIR`,
		},
		"same ID": {
			func(t *testing.T, dir string) {
				t.Helper()
				writeAddon(t, filepath.Join(dir, "b-1.0.0"), "a", "b", "1.0.0")
			},
			"addon b-1.0.0: it has the ID a of a-1.0.0; give each version of an addon an ID of its own",
		},
	} {
		dir := t.TempDir()
		writeAddon(t, filepath.Join(dir, "a-1.0.0"), "a", "a", "1.0.0")
		c.prepare(t, dir)
		_, indexErr := open(t, dir).WriteIndex(dir)
		_, packErr := open(t, dir).Package(dir)
		for _, err := range []error{indexErr, packErr} {
			if err == nil || strings.ReplaceAll(err.Error(), dir, "DIR") != c.want {
				t.Errorf("%s:\n got %v\nwant %s", name, err, c.want)
			}
		}
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		if i := slices.IndexFunc(entries, func(e os.DirEntry) bool { return !e.IsDir() }); i >= 0 {
			t.Errorf("%s: %s was written", name, entries[i].Name())
		}
	}
}

func TestNameThatCannotBeInAnAddressIsRefusedByTheIndex(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeAddon(t, filepath.Join(dir, "a"), "a", "team/store", "1.0.0")
	if _, err := open(t, dir).WriteIndex(dir); err == nil || !strings.Contains(err.Error(), `addon name "team/store"`) {
		t.Error(err)
	}
	if _, err := open(t, dir).Package(dir); err == nil || !strings.Contains(err.Error(), `addon name "team/store"`) {
		t.Error(err)
	}
	if got := lint(t, dir); !strings.Contains(got, `problem: addon name "team/store"`) {
		t.Error(got)
	}
}

func TestDirectoryWithoutAddonsIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := author.Open(t.Context(), dir); err == nil || !strings.Contains(err.Error(), "has no addons; an addon is a directory with meta.yaml") {
		t.Error(err)
	}
	writeAddon(t, filepath.Join(dir, "a-1.0.0"), "a", "a", "1.0.0")
	if _, err := author.Open(t.Context(), filepath.Join(dir, "a-1.0.0")); err == nil || !strings.Contains(err.Error(), "is an addon, not a directory of addons") {
		t.Error(err)
	}
	if _, err := author.Open(t.Context(), filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
}

func TestLintFailsIfAPlanCannotBeInstalled(t *testing.T) {
	t.Parallel()
	schema := `{"type": "object", "properties": {"size": {"type": "integer"}}, "required": ["size"], "additionalProperties": false}`
	for name, c := range map[string]struct {
		files  map[string]string
		failed int
		want   string
	}{
		"template that does not parse": {
			map[string]string{"chart/c/templates/bad.yaml": "a: {{ if }}\n"}, 1, "error: [ERROR] templates/: parse error",
		},
		"value of a wrong type": {
			map[string]string{"chart/c/values.schema.json": schema, "plans/micro/values.yaml": "size: many\n"}, 1, "error: [ERROR] values.yaml: ",
		},
		"value that users could not set": {
			map[string]string{"plans/micro/create-instance-schema.json": schema, "plans/micro/values.yaml": "size: many\nfixed: true\n"},
			0,
			"advice: [WARNING] plans/micro/values.yaml: size: got string, want integer; create-instance-schema.json does not let users set this value\n",
		},
		"schema that cannot be used": {
			map[string]string{"plans/micro/create-instance-schema.json": `{"type": "thing"}`},
			1,
			"error: [ERROR] plans/micro/create-instance-schema.json: the schema cannot be used: ",
		},
		"value that users must set": {
			map[string]string{"chart/c/values.schema.json": schema, "chart/c/values.yaml": "{}\n"}, 0, "advice: [ERROR] values.yaml: ",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			addon := filepath.Join(dir, "store-1.0.0")
			writeAddon(t, addon, "a", "store", "1.0.0")
			for file, text := range c.files {
				writeFile(t, filepath.Join(addon, filepath.FromSlash(file)), text)
			}
			report, err := open(t, dir).Lint()
			if err != nil || report.Failed() != c.failed || !strings.Contains(report.Text(), c.want) {
				t.Errorf("%d failed, %v; want %d and %q in:\n%s", report.Failed(), err, c.failed, c.want, report.Text())
			}
		})
	}
}
