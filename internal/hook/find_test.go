package hook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
)

// tree creates files in a new directory, and returns its path. The keys of files are paths. A value is "x" for an
// executable file, "-" for any other file, "dir" for a directory, and "-> TARGET" for a symbolic link.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, kind := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		var err error
		switch {
		case strings.HasPrefix(kind, "-> "):
			err = os.Symlink(strings.TrimPrefix(kind, "-> "), path)
		case kind == "dir":
			err = os.MkdirAll(path, 0o755)
		case kind == "x":
			err = os.WriteFile(path, nil, 0o755)
		default:
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// found calls Find with the directory dir below root. found returns the hooks as "name=path" and the skipped files as
// "path: reason", with paths relative to root.
func found(t *testing.T, scope hook.Scope, root, dir string) (hooks, skipped []string) {
	t.Helper()
	files, left, err := hook.Find(scope, filepath.Join(root, dir))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		path, _ := filepath.Rel(root, file.Path)
		hooks = append(hooks, file.Name+"="+path)
		if file.Scope != scope {
			t.Errorf("%s has scope %s", file.Name, file.Scope)
		}
	}
	for _, s := range left {
		path, _ := filepath.Rel(root, s.Path)
		skipped = append(skipped, path+": "+s.Reason)
	}
	return hooks, skipped
}

func TestHooksOfAModuleAreFoundInOrderOfTheirPaths(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"m/hooks/b.sh": "x", "m/hooks/a/z": "x", "m/hooks/a.sh": "x", "m/hooks/a/hooks/10-x.py": "x", "m/hooks/B": "x",
		"m/hooks/.hidden": "x", "m/hooks/.git/hook": "x", "m/hooks/..data/x": "x",
		"m/hooks/x.yaml": "x", "m/hooks/x.json": "x", "m/hooks/README.md": "x", "m/hooks/x.txt": "-",
		"m/hooks/lib/x": "x", "m/hooks/a/lib/y": "x", "m/hooks/tests/run.sh": "x", "m/hooks/venv/bin/activate": "x",
		"m/hooks/library.sh": "-", "m/hooks/empty": "dir", "m/enabled": "x", "m/templates/x": "x",
	})
	hooks, skipped := found(t, hook.Module, root, "m")
	wantHooks := []string{
		"hooks/B=m/hooks/B", "hooks/a.sh=m/hooks/a.sh", "hooks/a/hooks/10-x.py=m/hooks/a/hooks/10-x.py",
		"hooks/a/z=m/hooks/a/z", "hooks/b.sh=m/hooks/b.sh",
	}
	if diff := cmp.Diff(wantHooks, hooks); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	wantSkipped := []string{
		"m/hooks/a/lib: a directory named lib contains no hooks",
		"m/hooks/lib: a directory named lib contains no hooks",
		"m/hooks/library.sh: is not executable; chmod +x if it is a hook",
		"m/hooks/tests: a directory named tests contains no hooks",
		"m/hooks/venv: the virtual environment of python hooks contains no hooks",
	}
	if diff := cmp.Diff(wantSkipped, skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
}

func TestAnyExecuteBitMakesAHook(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"m/hooks/user": "-", "m/hooks/group": "-", "m/hooks/others": "-", "m/hooks/none": "-"})
	for name, mode := range map[string]os.FileMode{"user": 0o744, "group": 0o654, "others": 0o645} {
		if err := os.Chmod(filepath.Join(root, "m/hooks", name), mode); err != nil {
			t.Fatal(err)
		}
	}
	hooks, skipped := found(t, hook.Module, root, "m")
	if len(hooks) != 3 || len(skipped) != 1 {
		t.Errorf("hooks %v, skipped %v", hooks, skipped)
	}
}

func TestLinksToFilesAreHooksAndLinksToDirectoriesAreNotFollowed(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"elsewhere/x.sh": "x", "elsewhere/y.sh": "-",
		"m/hooks/to-hook": "-> ../../elsewhere/x.sh", "m/hooks/to-text": "-> ../../elsewhere/y.sh",
		"m/hooks/to-dir": "-> ../../elsewhere", "m/hooks/broken": "-> nowhere", "m/hooks/loop": "-> loop",
		"linked": "-> m",
	})
	hooks, skipped := found(t, hook.Module, root, "linked")
	if diff := cmp.Diff([]string{"hooks/to-hook=linked/hooks/to-hook"}, hooks); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
	want := []string{"broken: cannot be read", "loop: cannot be read", "to-dir: links to directories are not followed", "to-text: is not executable"}
	if len(skipped) != len(want) {
		t.Fatalf("skipped %v", skipped)
	}
	for i, w := range want {
		if !strings.HasPrefix(skipped[i], "linked/hooks/"+w) {
			t.Errorf("skipped %q, want %q", skipped[i], w)
		}
	}
}

func TestGlobalHooksLieInTheirDirectoryOrItsHooksDirectory(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{
		"with/hooks/a/x.sh": "x", "with/other.sh": "x", "with/hooks/venv/x": "x",
		"without/a/x.sh": "x", "without/y.sh": "x", "without/lib/z": "x",
		"file/hooks": "x",
	})
	hooks, _ := found(t, hook.Global, root, "with")
	if diff := cmp.Diff([]string{"hooks/a/x.sh=with/hooks/a/x.sh", "hooks/venv/x=with/hooks/venv/x"}, hooks); diff != "" {
		t.Errorf("with a hooks directory (-want +got):\n%s", diff)
	}
	hooks, _ = found(t, hook.Global, root, "without")
	if diff := cmp.Diff([]string{"a/x.sh=without/a/x.sh", "y.sh=without/y.sh"}, hooks); diff != "" {
		t.Errorf("without a hooks directory (-want +got):\n%s", diff)
	}
	hooks, _ = found(t, hook.Global, root, "file")
	if diff := cmp.Diff([]string{"hooks=file/hooks"}, hooks); diff != "" {
		t.Errorf("with a hook of that name (-want +got):\n%s", diff)
	}
}

func TestMissingDirectoriesMatterForGlobalHooksOnly(t *testing.T) {
	t.Parallel()
	root := tree(t, map[string]string{"m/Chart.yaml": "-", "n/hooks": "-"})
	if hooks, skipped := found(t, hook.Module, root, "m"); hooks != nil || skipped != nil {
		t.Errorf("a module without hooks has %v, %v", hooks, skipped)
	}
	if hooks, skipped := found(t, hook.Module, root, "n"); hooks != nil || len(skipped) != 1 {
		t.Errorf("a module with a file named hooks has %v, %v", hooks, skipped)
	}
	if _, _, err := hook.Find(hook.Global, filepath.Join(root, "gone")); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("error for a missing directory of global hooks is %v", err)
	}
}

func TestPathsOfHooksAreAbsolute(t *testing.T) {
	root := tree(t, map[string]string{"m/hooks/x": "x"})
	t.Chdir(root)
	files, _, err := hook.Find(hook.Module, "m")
	if err != nil || len(files) != 1 || !filepath.IsAbs(files[0].Path) {
		t.Errorf("found %v, %v", files, err)
	}
}
