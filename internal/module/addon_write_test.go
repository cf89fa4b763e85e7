package module

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// versionOf returns a module made from an addon of the given version. The chart has as many templates as the argument
// templates says, and each template contains the version.
func versionOf(name, version string, templates int) AddonModule {
	files := fstest.MapFS{"Chart.yaml": {Data: []byte("apiVersion: v2\nname: " + name + "\nversion: " + version + "\n")}}
	for i := range templates {
		files[fmt.Sprintf("templates/%d.yaml", i)] = &fstest.MapFile{Data: []byte(strings.Repeat("# "+version+"\n", 100))}
	}
	return AddonModule{
		Name: name, Addon: Addon{ID: name, Name: name, Version: version, Content: version, Plans: []AddonPlan{{Name: "default"}}},
		Chart: func() (fs.FS, error) { return files, nil },
	}
}

// foundVersions scans root and returns the modules as "name version". It fails the test if a module lacks a part of
// its files.
func foundVersions(t *testing.T, root string, templates int) string {
	t.Helper()
	image := t.TempDir()
	if err := os.Mkdir(filepath.Join(image, "web"), 0o700); err != nil {
		t.Fatal(err)
	}
	set, err := Scan([]string{image}, root, 1)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, m := range set.Modules {
		if m.Name == "web" {
			continue
		}
		if m.Broken != nil || m.Addon == nil {
			t.Errorf("module %s is broken: %v", m.Name, m.Broken)
			continue
		}
		found = append(found, m.Name+" "+m.Addon.Version)
		for i := range templates {
			text, err := os.ReadFile(filepath.Join(m.ChartDir(), "templates", fmt.Sprintf("%d.yaml", i)))
			if want := strings.Repeat("# "+m.Addon.Version+"\n", 100); err != nil || string(text) != want {
				t.Errorf("module %s %s has template %d with %d bytes: %v", m.Name, m.Addon.Version, i, len(text), err)
			}
		}
	}
	return strings.Join(found, ", ")
}

func TestKillInTheMiddleOfWritingLeavesTheOldModuleOrTheNewOne(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"redis", "removing-redis"} {
		t.Run(name, func(t *testing.T) { t.Parallel(); killInTheMiddleOfWriting(t, name) })
	}
}

// killInTheMiddleOfWriting simulates a kill at each change while a module with this name is written or removed.
func killInTheMiddleOfWriting(t *testing.T, name string) {
	t.Helper()
	killed := errors.New("killed")
	for _, c := range []struct {
		about    string
		next     []AddonModule
		allowed  []string // the results that are allowed after the kill
		expected string   // the result of the next call without a kill
	}{
		{"upgraded", []AddonModule{versionOf(name, "2.0.0", 3)}, []string{name + " 1.0.0", name + " 2.0.0"}, name + " 2.0.0"},
		{"unregistered", nil, []string{name + " 1.0.0", ""}, ""},
		{"joined", []AddonModule{versionOf("acc", "1.0.0", 3), versionOf(name, "1.0.0", 3)}, []string{name + " 1.0.0", "acc 1.0.0, " + name + " 1.0.0"}, "acc 1.0.0, " + name + " 1.0.0"},
	} {
		for at := 1; ; at++ {
			root := t.TempDir()
			if err := WriteAddonModules(root, []AddonModule{versionOf(name, "1.0.0", 3)}); err != nil {
				t.Fatal(err)
			}
			n := 0
			w := addonWriter{root: root, step: func(change, path string) error {
				if info, err := os.Lstat(path); change == "remove" && err == nil && info.IsDir() && strings.HasPrefix(filepath.Base(path), "."+name+".") {
					t.Errorf("%s: the files of %s are removed before it is renamed", c.about, path)
				}
				if n++; n < at {
					return nil
				}
				if n == at {
					halve(t, change, path)
				}
				return killed
			}}
			err := w.run(c.next, nil)
			if err == nil {
				if at < 3 {
					t.Errorf("%s: only %d changes", c.about, at)
				}
				break
			}
			if !errors.Is(err, killed) {
				t.Fatal(err)
			}
			found := foundVersions(t, root, 3)
			if allowed := strings.Join(c.allowed, "; "); !strings.Contains("; "+allowed+"; ", "; "+found+"; ") {
				t.Errorf("%s, killed at change %d: found %q, want one of %s", c.about, at, found, allowed)
			}
			if err := WriteAddonModules(root, c.next); err != nil {
				t.Fatal(err)
			}
			if found := foundVersions(t, root, 3); found != c.expected {
				t.Errorf("%s, after a kill at change %d and a start: found %q, want %q", c.about, at, found, c.expected)
			}
			if entries, err := os.ReadDir(root); err != nil || len(entries) != 2*len(c.next) {
				t.Errorf("%s, after a kill at change %d and a start: entries %v, %v", c.about, at, entries, err)
			}
		}
	}
}

// halve carries out only a part of a change of the file or directory at path, as if the process were killed during the
// change. Atomic changes are not carried out.
func halve(t *testing.T, change, path string) {
	t.Helper()
	switch change {
	case "write":
		if err := os.WriteFile(path, []byte("# 2."), 0o600); err != nil {
			t.Error(err)
		}
	case "remove":
		if info, err := os.Lstat(path); err != nil || !info.IsDir() {
			return // removing a link is atomic
		}
		if err := os.RemoveAll(filepath.Join(path, addonChartDir, "templates", "0.yaml")); err != nil {
			t.Error(err)
		}
	}
}

func TestVersionIsOnDiskBeforeALinkLeadsToIt(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	unsynced := map[string]bool{} // files and directories whose changes are not synced
	renamed := 0
	w := addonWriter{root: root, step: func(change, path string) error {
		switch change {
		case "make", "write", "link":
			unsynced[path], unsynced[filepath.Dir(path)] = true, true
		case "sync":
			delete(unsynced, path)
		case "rename":
			renamed++
			isLink := strings.HasPrefix(filepath.Base(path), linkingPrefix)
			for other := range unsynced {
				if strings.HasPrefix(other, path+"/") {
					t.Errorf("%s is renamed before %s is on disk", path, other)
				}
			}
			if isLink && unsynced["name of the version"] {
				t.Error("the link is renamed before the name of the version is on disk")
			}
			unsynced["name of the version"] = !isLink
			unsynced[root] = true
		}
		if change == "sync" && path == root {
			delete(unsynced, "name of the version")
		}
		return nil
	}}
	if err := w.run([]AddonModule{versionOf("redis", "1.0.0", 2)}, nil); err != nil {
		t.Fatal(err)
	}
	if renamed != 2 || unsynced[root] {
		t.Errorf("%d renames, want that of the version and that of the link; the last one is not on disk: %t", renamed, unsynced[root])
	}
}

func TestUpgradeOfAModuleKeepsTheFilesThatAreInUse(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	read := func(dir string) string {
		text, err := os.ReadFile(filepath.Join(dir, addonChartDir, "Chart.yaml"))
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	write := func(version string, inUse ...string) (path string) {
		t.Helper()
		if err := WriteAddonModules(root, []AddonModule{versionOf("redis", version, 1)}, inUse...); err != nil {
			t.Fatal(err)
		}
		link, err := os.Readlink(filepath.Join(root, "redis"))
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Join(root, link)
	}
	first := write("1.0.0")
	second := write("2.0.0", first)
	if text := read(first); !strings.Contains(text, "1.0.0") {
		t.Errorf("a step that began before the upgrade reads %q", text)
	}
	if text := read(second); !strings.Contains(text, "2.0.0") {
		t.Errorf("the next run reads %q", text)
	}
	write("2.0.0", second)
	if _, err := os.Stat(first); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the files of the old version are still there: %v", err)
	}
}

func TestDirectoryOfAnOlderOperatorIsReplaced(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "redis", addonChartDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteAddonModules(root, []AddonModule{versionOf("redis", "1.0.0", 1)}); err != nil {
		t.Fatal(err)
	}
	if found := foundVersions(t, root, 1); found != "redis 1.0.0" {
		t.Errorf("found %q", found)
	}
}

// diskEnv is the environment variable with the path of a directory on a small disk. It is set only in the child
// process of the test.
const diskEnv = "ADDON_OPERATOR_TEST_SMALL_DISK"

func TestModuleThatDoesNotFitOnTheDiskStaysAsItWas(t *testing.T) {
	dir := os.Getenv(diskEnv)
	if dir == "" {
		dir = t.TempDir()
		cmd := exec.CommandContext(t.Context(), "unshare", "--user", "--map-root-user", "--mount", "sh", "-c",
			`mount -t tmpfs -o size=512k none "$1" || exit 77; exec "$2" -test.run="^$3\$"`, "sh", dir, os.Args[0], t.Name())
		cmd.Env = append(os.Environ(), diskEnv+"="+dir)
		out, err := cmd.CombinedOutput()
		if err != nil && !strings.Contains(string(out), "--- FAIL") {
			t.Skipf("no small file system can be mounted here: %v: %s", err, out)
		}
		if err != nil {
			t.Errorf("%v: %s", err, out)
		}
		return
	}
	root := filepath.Join(dir, "addon-modules")
	if err := WriteAddonModules(root, []AddonModule{versionOf("redis", "1.0.0", 3)}); err != nil {
		t.Fatal(err)
	}
	const many = 300 // the templates do not fit, because each needs a page of the disk
	err := WriteAddonModules(root, []AddonModule{versionOf("redis", "2.0.0", many), versionOf("acc", "1.0.0", 3)})
	if err == nil || !strings.Contains(err.Error(), "no space left on device") || !strings.Contains(err.Error(), "module redis from addon redis 2.0.0") {
		t.Errorf("error %v", err)
	}
	if found := foundVersions(t, root, 3); found != "acc 1.0.0, redis 1.0.0" {
		t.Errorf("found %q, want the old redis and acc", found)
	}
	if err := WriteAddonModules(root, []AddonModule{versionOf("redis", "2.0.0", 3)}); err != nil {
		t.Error(err)
	}
	if found := foundVersions(t, root, 3); found != "redis 2.0.0" {
		t.Errorf("with room again, found %q", found)
	}
}
