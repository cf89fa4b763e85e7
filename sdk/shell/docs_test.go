package shell_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"addon-operator/sdk/shell"
)

const page = "../../docs/reference/shell-framework.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// declared returns the names of the functions of the framework that hooks may call.
func declared(t *testing.T) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(shell.Framework, ".", func(file string, _ fs.DirEntry, err error) error {
		if err != nil || path.Ext(file) != ".sh" || path.Dir(file) == "." {
			return err
		}
		text, err := fs.ReadFile(shell.Framework, file)
		for _, match := range regexp.MustCompile(`(?m)^([\w:]+)\(\)`).FindAllStringSubmatch(string(text), -1) {
			if name := match[1]; !strings.HasPrefix(name, "_") && !strings.Contains(name, "::_") {
				names = append(names, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestPageTellsOfEveryFunctionAndOfNoOther(t *testing.T) {
	t.Parallel()
	names := declared(t)
	if len(names) < 30 {
		t.Fatalf("found %d functions only", len(names))
	}
	text := readPage(t)
	told := map[string]bool{}
	for _, name := range regexp.MustCompile(`\b(?:hook|context|values|kubernetes)::[\w:]+`).FindAllString(text, -1) {
		told[name] = true
		if !slices.Contains(names, name) {
			t.Errorf("the page tells of %s, which does not exist", name)
		}
	}
	for _, name := range names {
		if !told[name] {
			t.Errorf("the page does not tell of %s", name)
		}
	}
}

func TestPagesExampleRuns(t *testing.T) {
	t.Parallel()
	example := regexp.MustCompile("(?s)```bash\n(#!.*?)```").FindStringSubmatch(readPage(t))
	if example == nil {
		t.Fatal("the page has no script")
	}
	for h := range each(t) {
		needsAbsent(t)
		h.script = example[1]
		h.files = map[string]string{"BINDING_CONTEXT_PATH": `[
			{"binding":"beforeHelm","snapshots":{"pods":[{"filterResult":{"name":"web-0"}}]}},
			{"binding":"pods","type":"Event","watchEvent":"Deleted","object":{"metadata":{"name":"web-0"}}},
			{"binding":"pods","type":"Event","watchEvent":"Added","object":{"metadata":{"name":"web-1"}}}
		]`}
		r := h.want(t, "pod web-0 is gone\nnothing to do for pods\n")
		sameJSON(t, `{"op":"add","path":"/web/pods","value":["web-0"]}`, r.files["VALUES_JSON_PATCH_PATH"])
	}
}
