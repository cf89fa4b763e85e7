package module_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"addon-operator/internal/module"
)

// aModule returns the directory of a module with all parts that belong to its digest, and some files that do not.
func aModule(t *testing.T) string {
	t.Helper()
	return tree(t, map[string]string{
		"Chart.yaml": "name: x", "values.yaml": "x: {}", "values.schema.json": "{}", "enabled": "x",
		"templates/a.yaml": "a", "templates/sub/b.yaml": "b", "charts/dep/Chart.yaml": "c", "openapi/values.yaml": "d",
		"hooks/run.sh": "x", "hooks/sub/run.sh": "x", "hooks/note.txt": "note", "hooks/.git/hook": "x", "README.md": "readme", "crds/a.yaml": "e",
	})
}

// later changes the modification time of a file so much that each file system records the difference.
func later(t *testing.T, path string) {
	t.Helper()
	if err := os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

func TestDigestChangesWithCodeAndNothingElse(t *testing.T) {
	t.Parallel()
	edit := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			path := filepath.Join(dir, name)
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte("changed"), info.Mode()); err != nil {
				t.Fatal(err)
			}
			later(t, path)
		}
	}
	add := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			write(t, dir, map[string]string{name: text})
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		name   string
		change func(*testing.T, string)
		want   bool
	}{
		{"Chart.yaml", edit("Chart.yaml"), true},
		{"values", edit("values.yaml"), true},
		{"schema of the chart", edit("values.schema.json"), true},
		{"schema", edit("openapi/values.yaml"), true},
		{"enabled script", edit("enabled"), true},
		{"template", edit("templates/a.yaml"), true},
		{"template in a directory", edit("templates/sub/b.yaml"), true},
		{"dependency", edit("charts/dep/Chart.yaml"), true},
		{"hook", edit("hooks/run.sh"), true},
		{"hook in a directory", edit("hooks/sub/run.sh"), true},
		{"a hook more", add("hooks/new.sh", "x"), true},
		{"a hook that is a link", add("hooks/link.sh", "-> run.sh"), true},
		{"a hook less", remove("hooks/run.sh"), true},
		{"no hooks", remove("hooks"), true},
		{"a hook moved", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Rename(filepath.Join(dir, "hooks/run.sh"), filepath.Join(dir, "hooks/other.sh")); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"the enabled script is switched off", func(t *testing.T, dir string) {
			t.Helper()
			if err := os.Chmod(filepath.Join(dir, "enabled"), 0o644); err != nil {
				t.Fatal(err)
			}
		}, true},
		{"a linked directory of templates", func(t *testing.T, dir string) {
			t.Helper()
			write(t, dir, map[string]string{"elsewhere/t.yaml": "t", "templates/linked": "-> ../elsewhere"})
		}, true},
		{"nothing", func(*testing.T, string) {}, false},
		{"only the time", func(t *testing.T, dir string) {
			t.Helper()
			later(t, filepath.Join(dir, "hooks/run.sh"))
		}, false},
		{"a file a hook wrote", add("hooks/state.json", "{}"), false},
		{"a file beside hooks", edit("hooks/note.txt"), false},
		{"a hidden directory in hooks", edit("hooks/.git/hook"), false},
		{"a dangling link", add("hooks/dangling", "-> nowhere"), false},
		{"a linked directory of hooks", add("hooks/linked", "-> sub"), false},
		{"the readme", edit("README.md"), false},
		{"a new file beside", add("notes", "x"), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := aModule(t)
			var digests module.Digests
			before := digest(t, &digests, dir)
			c.change(t, dir)
			after := digest(t, &digests, dir)
			if (before != after) != c.want {
				t.Errorf("changed: %v, want %v", before != after, c.want)
			}
			var fresh module.Digests
			if got := digest(t, &fresh, dir); got != after {
				t.Error("the cached digest differs from a new one")
			}
		})
	}
}

func digest(t testing.TB, digests *module.Digests, dir string) string {
	t.Helper()
	sum, err := digests.Module(module.Module{Path: dir})
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestDigestOfChartFilesChangesWithEachFileThatAChartCanRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		chart module.Chart
		files map[string]string
		want  bool
	}{
		"a file beside the templates":  {module.FullChart, map[string]string{"dashboards/a.json": "changed"}, true},
		"a file in a linked directory": {module.FullChart, map[string]string{"hooks/files/b.json": "changed"}, true},
		"a new file":                   {module.FullChart, map[string]string{"notes": "new"}, true},
		"a file that a hook wrote":     {module.FullChart, map[string]string{"hooks/state.json": "{}"}, false},
		"a hidden directory":           {module.FullChart, map[string]string{".git/index": "changed"}, false},
		"a dangling link":              {module.FullChart, map[string]string{"dangling": "-> nowhere"}, false},
		"a link to its directory":      {module.FullChart, map[string]string{"again": "-> .", "dashboards/up": "-> .."}, false},
		"a library":                    {module.FullChart, map[string]string{"sub/lib/__pycache__/a.pyc": "new"}, true},
		"a library of no chart":        {module.TemplatesOnly, map[string]string{"sub/lib/__pycache__/a.pyc": "new"}, false},
		"a file of templates only":     {module.TemplatesOnly, map[string]string{"dashboards/a.json": "changed"}, true},
		"nothing":                      {module.FullChart, nil, false},
	} {
		dir := aModule(t)
		write(t, dir, map[string]string{"dashboards/a.json": "{}", "hooks/files/b.json": "{}", "dashboards/linked": "-> ../hooks/files"})
		modules := []module.Module{
			{Name: "web", Chart: c.chart, Path: filepath.Join(tree(t, map[string]string{"web": "-> " + dir}), "web")},
			{Name: "gone", Chart: module.FullChart, Path: filepath.Join(dir, "gone")},
		}
		before := module.ChartFiles(modules)
		write(t, dir, c.files)
		if after := module.ChartFiles(modules); (after != before) != c.want {
			t.Errorf("%s: changed: %v, want %v", name, after != before, c.want)
		}
	}
	ignored := []module.Module{{Name: "web", Path: aModule(t)}, {Name: "redis", Chart: module.FullChart, Path: aModule(t), FromAddon: true}}
	if module.ChartFiles(nil) != module.ChartFiles(ignored) {
		t.Error("the files of a module without a chart, or of an addon, count")
	}
}

func TestDigestOfHooksChangesWithHooksOnly(t *testing.T) {
	t.Parallel()
	dir := aModule(t)
	var digests module.Digests
	hooks := func() string {
		t.Helper()
		digest(t, &digests, dir) // another digest of the same directory, whose cached checksums Hooks must not use or replace
		sum, err := digests.Hooks(dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := hooks()
	for _, file := range []string{"Chart.yaml", "values.yaml", "openapi/values.yaml", "enabled", "templates/a.yaml", "hooks/note.txt"} {
		write(t, dir, map[string]string{file: "changed"})
		if hooks() != before {
			t.Errorf("a change of %s changes the digest of the hooks", file)
		}
	}
	write(t, dir, map[string]string{"hooks/more.sh": "x"})
	if hooks() == before {
		t.Error("one more hook does not change the digest")
	}
}

func TestDigestDoesNotDependOnWhereTheModuleLies(t *testing.T) {
	t.Parallel()
	var digests module.Digests
	if one, two := digest(t, &digests, aModule(t)), digest(t, &digests, aModule(t)); one != two {
		t.Errorf("%s and %s", one, two)
	}
}

// This test is not parallel, because the kernel counts the bytes that the whole process reads.
func TestUnchangedFilesAreNotReadAgain(t *testing.T) {
	const size = 4 << 20
	dir := aModule(t)
	big := filepath.Join(dir, "templates/big.yaml")
	if err := os.WriteFile(big, make([]byte, size), 0o644); err != nil {
		t.Fatal(err)
	}
	var digests module.Digests
	readBy := func() int64 {
		before := bytesRead(t)
		digest(t, &digests, dir)
		return bytesRead(t) - before
	}
	if got := readBy(); got < size {
		t.Fatalf("the first digest read %d bytes, the count does not work", got)
	}
	if got := readBy(); got > size/10 {
		t.Errorf("the second digest read %d bytes", got)
	}
	later(t, big)
	if got := readBy(); got < size {
		t.Errorf("a file with another time was not read again: %d bytes", got)
	}
}

// bytesRead returns the number of bytes that the process has read.
func bytesRead(t *testing.T) int64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/io")
	if err != nil {
		t.Skip("the kernel does not count: ", err)
	}
	var n int64
	if _, err := fmt.Sscanf(string(text), "rchar: %d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDigestOfGlobalHooks(t *testing.T) {
	t.Parallel()
	var digests module.Digests
	with := tree(t, map[string]string{"hooks/a.sh": "x", "openapi/values.yaml": "a", "tool.sh": "x"})
	without := tree(t, map[string]string{"a.sh": "x", "sub/b.sh": "x", "openapi/values.yaml": "a"})
	for _, c := range []struct {
		dir, file string
		want      bool
	}{
		{with, "hooks/a.sh", true},
		{with, "openapi/values.yaml", true},
		{with, "tool.sh", false},
		{without, "a.sh", true},
		{without, "sub/b.sh", true},
		{without, "openapi/values.yaml", true},
	} {
		before, err := digests.GlobalHooks(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(c.dir, c.file), []byte("changed by "+c.file), 0o755); err != nil {
			t.Fatal(err)
		}
		after, err := digests.GlobalHooks(c.dir)
		if err != nil {
			t.Fatal(err)
		}
		if (before != after) != c.want {
			t.Errorf("%s: changed: %v, want %v", c.file, before != after, c.want)
		}
	}
	missing := filepath.Join(with, "missing")
	if _, err := digests.GlobalHooks(missing); err == nil || !strings.Contains(err.Error(), missing) {
		t.Errorf("of a missing directory: %v", err)
	}
}

func TestLinkThatLeadsBackIsAnError(t *testing.T) {
	t.Parallel()
	dir := tree(t, map[string]string{"templates/loop": "-> ."})
	var digests module.Digests
	if _, err := digests.Module(module.Module{Path: dir}); err == nil || !strings.Contains(err.Error(), "loop") {
		t.Errorf("got %v", err)
	}
}

func TestDigestOfAVanishedModuleIsAnError(t *testing.T) {
	t.Parallel()
	var digests module.Digests
	if _, err := digests.Module(module.Module{Path: filepath.Join(t.TempDir(), "gone")}); err == nil {
		t.Error("no error")
	}
}

func TestDigestsCanBeSharedByGoroutines(t *testing.T) {
	t.Parallel()
	var digests module.Digests
	dirs := []string{aModule(t), aModule(t)}
	want := digest(t, &digests, dirs[0])
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			if got, err := digests.Module(module.Module{Path: dirs[i%2]}); err != nil || got != want {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	all.Wait()
}
