package crd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// definition returns the YAML text of a CustomResourceDefinition called PLURAL.example.com, with these versions. All
// versions are served, and the last is the storage version.
func definition(plural, kind string, versions ...string) string {
	text := "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: " + plural +
		".example.com\nspec:\n  group: example.com\n  scope: Namespaced\n  names: {plural: " + plural + ", kind: " + kind + "}\n  versions:\n"
	for i, version := range versions {
		stored := "false"
		if i == len(versions)-1 {
			stored = "true"
		}
		text += "  - {name: " + version + ", served: true, storage: " + stored +
			", schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}\n"
	}
	return text
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDefinitionsAreFoundInAllFilesButThoseToBePassedOver(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, b, c, d := definition("as", "A", "v1"), definition("bs", "B", "v1"), definition("cs", "C", "v1"), definition("ds", "D", "v1")
	write(t, dir, map[string]string{
		"a.yaml":            a,
		"deep/er/bc.yaml":   "# two of them\n---\n" + b + "--- # the other\n" + c,
		"doc-ru-a.yaml":     "not: one",
		"deep/_draft.yaml":  "not: one",
		".hidden/x.yaml":    "not: one",
		".x.yaml":           "not: one",
		"notes.yml":         "not: one",
		"README.md":         "#",
		"list.json":         "{}",
		"deep/er/none.yaml": "# nothing\n---\n\n---\n# still nothing\n",
		"windows.yaml":      strings.ReplaceAll("---\n"+d, "\n", "\r\n"),
	})
	found, err := Read(dir, []string{"doc-", "_", ""})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range found {
		got = append(got, strings.TrimPrefix(d.String(), dir+"/"))
	}
	want := []string{
		"a.yaml, document 1 (line 1), as.example.com",
		"deep/er/bc.yaml, document 2 (line 3), bs.example.com",
		"deep/er/bc.yaml, document 3 (line 13), cs.example.com",
		"windows.yaml, document 1 (line 2), ds.example.com",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDirectoryThatIsNotThereDefinesNothing(t *testing.T) {
	t.Parallel()
	if found, err := Read(filepath.Join(t.TempDir(), "crds"), nil); err != nil || len(found) > 0 {
		t.Errorf("%v, %v", found, err)
	}
}

func TestWhatIsNoDefinitionIsNamedAndTheRestIsTaken(t *testing.T) {
	t.Parallel()
	good := definition("goods", "Good", "v1")
	for name, c := range map[string]struct{ text, want string }{
		"not YAML":        {"a: [", "not valid YAML"},
		"a list":          {"- a\n", "not an object"},
		"another object":  {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n", `it is a "ConfigMap" of "v1": each document in crds must be a CustomResourceDefinition`},
		"an old version":  {strings.Replace(good, "io/v1", "io/v1beta1", 1), "rewrite it for apiextensions.k8s.io/v1"},
		"no name":         {strings.Replace(good, "  name: goods.example.com\n", "  labels: {}\n", 1), "no metadata.name"},
		"no spec":         {good[:strings.Index(good, "spec:")], "spec is not a map"},
		"no group":        {strings.Replace(good, "  group: example.com\n", "", 1), "spec.group is missing"},
		"no versions":     {good[:strings.Index(good, "  versions:")], "spec.versions is missing"},
		"nameless":        {strings.Replace(good, "{name: v1, ", "{", 1), "spec.versions[0].name is missing"},
		"odd version":     {strings.Replace(good, "  - {name: v1, ", "  - 5\n  - {name: v1, ", 1), "spec.versions[0].name is missing"},
		"defined twice":   {definition("lasts", "Last", "v1"), "it is already defined in"},
		"metadata a word": {strings.Replace(good, "metadata:\n  name: goods.example.com\n", "metadata: x\n", 1), "no metadata.name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, dir, map[string]string{"f.yaml": definition("firsts", "First", "v1") + "---\n" + c.text, "l.yaml": definition("lasts", "Last", "v1")})
			found, err := Read(dir, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), ".yaml, document") {
				t.Errorf("error is %v, want one with %q", err, c.want)
			}
			if len(found) < 2 || found[0].Name() != "firsts.example.com" || found[len(found)-1].Name() != "lasts.example.com" {
				t.Errorf("found %v, want the two that are right", found)
			}
		})
	}
}

func TestHugeFileIsNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, map[string]string{"big.yaml": ""})
	if err := os.Truncate(filepath.Join(dir, "big.yaml"), 1<<30); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir, nil); err == nil || !strings.Contains(err.Error(), "big.yaml has more than 8 MiB") {
		t.Errorf("error is %v", err)
	}
}

func TestOnlyTheAuthorsPartOfADocumentIsTaken(t *testing.T) {
	t.Parallel()
	text := definition("as", "A", "v1")
	text = strings.Replace(text, "metadata:\n", "metadata:\n  labels: {a: b}\n  annotations: {c: d}\n  creationTimestamp: null\n  uid: x\n  resourceVersion: '5'\n", 1) +
		"status: {storedVersions: [v0]}\n"
	found, err := Parse("f", []byte(text))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	want := map[string]any{"name": "as.example.com", "labels": map[string]any{"a": "b"}, "annotations": map[string]any{"c": "d"}}
	if diff := cmp.Diff(want, found[0].object.Object["metadata"]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if _, has := found[0].object.Object["status"]; has {
		t.Error("the status is taken from the file")
	}
}

func FuzzParse(f *testing.F) {
	good := definition("as", "A", "v1", "v2")
	for _, seed := range []string{
		"", "---", "--- a", "----", good, good + "---\n" + good, "---\n---\n" + good, "a: &a [*a]", "a: &a [x,x]\nb: &b [*a,*a]\nc: [*b,*b]",
		strings.Replace(good, "spec:", "spec: 5\nx:", 1), "{\"kind\": \"CustomResourceDefinition\"}", "\xff\xfe", "? [a]\n: b", "kind: 1e999",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		found, _ := Parse("f.yaml", text)
		for _, d := range found {
			if d.Name() == "" || d.Document < 1 || d.Line < 1 {
				t.Errorf("%q gives %s", text, d)
			}
			if of, err := shapeOf(d.object); err != nil || of.group == "" || len(of.versions) == 0 {
				t.Errorf("%q gives a definition of %+v (%v)", text, of, err)
			}
		}
	})
}

func TestADirectoryOfDefinitionsCanBeALink(t *testing.T) {
	t.Parallel()
	at := t.TempDir()
	write(t, at, map[string]string{"data/a.yaml": definition("as", "A", "v1"), "data/deep/b.yaml": definition("bs", "B", "v1")})
	for name, target := range map[string]string{"data": "link", "nowhere": "dangling"} {
		if err := os.Symlink(name, filepath.Join(at, target)); err != nil {
			t.Fatal(err)
		}
	}
	found, err := Read(filepath.Join(at, "link"), nil)
	if err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, d := range found {
		files = append(files, d.File)
	}
	want := []string{filepath.Join(at, "link/a.yaml"), filepath.Join(at, "link/deep/b.yaml")}
	if diff := cmp.Diff(want, files); diff != "" {
		t.Errorf("found (-want +got):\n%s", diff)
	}
	if found, err := Read(filepath.Join(at, "dangling"), nil); err == nil || len(found) > 0 {
		t.Errorf("a link to nothing has the definitions %v", found)
	}
	if found, err := Read(filepath.Join(at, "missing"), nil); err != nil || len(found) > 0 {
		t.Errorf("a missing directory has the definitions %v, error %v", found, err)
	}
}
