package module_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/module"
)

func TestNamesOfModulesAreThoseOfAScanAndNoFileIsRead(t *testing.T) {
	t.Parallel()
	one := tree(t, map[string]string{
		"001-foo/": "", "007-foo/": "", "bar/": "", "020-Bad_Name/": "", "003-broken/values.yaml": "broken: [",
		"030-unmounted": "-> nowhere", ".git/": "", "README.md": "", "values.yaml": "a: [",
	})
	two := tree(t, map[string]string{"005-foo/": "", "006-more/": "", "007-linked": "-> 006-more"})
	empty := tree(t, map[string]string{"values.yaml": "", ".hidden/": "", "file": "", "lost+found/": ""})
	paths, without, err := module.Names([]string{one, empty, two})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"foo": one + "/001-foo", "bar": one + "/bar", "Bad_Name": one + "/020-Bad_Name", "broken": one + "/003-broken",
		"unmounted": one + "/030-unmounted", "more": two + "/006-more", "linked": two + "/007-linked",
	}
	if diff := cmp.Diff(want, paths); diff != "" {
		t.Errorf("paths (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{empty}, without); diff != "" {
		t.Errorf("directories without modules (-want +got):\n%s", diff)
	}
	if err := os.Remove(filepath.Join(one, "values.yaml")); err != nil { // Scan reads this file
		t.Fatal(err)
	}
	set := scan(t, one, empty, two)
	scanned := map[string]string{}
	for _, m := range set.Modules {
		scanned[m.Name] = m.Path
	}
	if diff := cmp.Diff(scanned, paths); diff != "" {
		t.Errorf("paths (-scan +names):\n%s", diff)
	}
	if diff := cmp.Diff(set.Empty, without); diff != "" {
		t.Errorf("directories without modules (-scan +names):\n%s", diff)
	}
}

func TestNamesOfADirectoryThatCannotBeReadAreAnError(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	paths, without, err := module.Names([]string{tree(t, map[string]string{"a/": ""}), missing})
	if err == nil || !strings.HasPrefix(err.Error(), "modules directory cannot be read: open "+missing) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("error %v", err)
	}
	if paths != nil || without != nil {
		t.Errorf("paths %v and empty directories %v with an error", paths, without)
	}
}

func TestAModuleIsBrokenByItsFilesFirstAndThenByItsHooks(t *testing.T) {
	t.Parallel()
	files, hooks := errors.New("values.yaml: bad"), errors.New("hook a.sh: exit status 1")
	byName := map[string]error{"web": hooks, "fine": nil}
	for name, c := range map[string]struct {
		module module.Module
		want   string
		is     error
	}{
		"files and hooks are broken": {module.Module{Name: "web", Broken: files}, "values.yaml: bad", files},
		"only its hooks are broken":  {module.Module{Name: "web"}, "module web: hook a.sh: exit status 1", hooks},
		"hooks of another module":    {module.Module{Name: "db"}, "", nil},
		"its hooks are fine":         {module.Module{Name: "fine"}, "", nil},
	} {
		err := c.module.BrokenBy(byName)
		if (err == nil) != (c.want == "") || err != nil && (err.Error() != c.want || !errors.Is(err, c.is)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

func TestCRDsOfAModuleAreADirectory(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"001-with/crds/a.yaml": "", "002-file/crds": "", "003-linked/crds": "-> ../001-with/crds", "004-without/": ""})
	set := scan(t, dir)
	for name, want := range map[string]string{"with": dir + "/001-with/crds", "file": "", "linked": dir + "/003-linked/crds", "without": ""} {
		if m := find(t, set, name); m.CRDs != want || m.Broken != nil {
			t.Errorf("CRDs of module %s are in %q, want %q; broken by %v", name, m.CRDs, want, m.Broken)
		}
	}
	want := []string{dir + "/002-file/crds is not a directory: the module installs no CustomResourceDefinitions"}
	if diff := cmp.Diff(want, set.Warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestDigestOfCRDsChangesWithAllFilesOfTheirDirectoryAndNoOther(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"crds/a.yaml": "a", "crds/sub/b.yaml": "b", "values.yaml": "", "hooks/a.sh": "x"})
	m := module.Module{Path: dir, CRDs: filepath.Join(dir, "crds")}
	var digests module.Digests
	sum := func() string {
		t.Helper()
		text, err := digests.CRDs(m)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := sum()
	for _, c := range []struct {
		file, text string
		changes    bool
	}{
		{"values.yaml", "a: 1", false},
		{"hooks/a.sh", "y", false},
		{"crds/a.yaml", "a2", true},
		{"crds/sub/b.yaml", "b2", true},
		{"crds/.hidden/c.yaml", "c", true},
	} {
		write(t, dir, map[string]string{c.file: c.text})
		after := sum()
		if (after != before) != c.changes {
			t.Errorf("%s: the digest changes: %t, want %t", c.file, after != before, c.changes)
		}
		before = after
	}
	if none, err := digests.CRDs(module.Module{Path: dir}); none != "" || err != nil {
		t.Errorf("the digest of no directory is %q, %v", none, err)
	}
	if err := os.RemoveAll(m.CRDs); err != nil {
		t.Fatal(err)
	}
	if _, err := digests.CRDs(m); !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "cannot tell whether code changed: ") {
		t.Errorf("of a directory that has vanished: %v", err)
	}
}

func TestADirectoryOfAddonsThatCannotBeReadIsAnErrorOfAllModules(t *testing.T) {
	t.Parallel()
	image := tree(t, map[string]string{"001-web/": "", "file": ""})
	missing := filepath.Join(image, "missing")
	set, err := module.Scan([]string{image, missing}, filepath.Join(image, "file"), 1)
	if err == nil || !strings.Contains(err.Error(), "/file: not a directory") || !strings.Contains(err.Error(), missing) {
		t.Errorf("error %v, want one that names both directories", err)
	}
	if diff := cmp.Diff(module.Set{}, set); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
