package desired_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/hook"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
)

func TestModuleIsGoneOnlyWhereDirectoriesHoldModules(t *testing.T) {
	o, mounted, unmounted := scantest.Options(t)
	s := scan.New(o, nil)
	scantest.Scan(t, s)
	for name, want := range map[string]bool{"web": false, "old": true} {
		if gone, err := s.Modules.Gone(name); err != nil || gone != want {
			t.Errorf("gone(%s) = %t, %v", name, gone, err)
		}
	}
	o.ModulesDirs = []string{mounted, unmounted}
	s = scan.New(o, nil)
	scantest.Scan(t, s)
	gone, err := s.Modules.Gone("old")
	if gone || err == nil || !strings.Contains(err.Error(), unmounted) {
		t.Errorf("gone(old) = %t, %v; want an error that names %s", gone, err, unmounted)
	}
}

func TestHookIsFoundWhereItsModuleLiesNow(t *testing.T) {
	t.Parallel()
	modules, global := t.TempDir(), t.TempDir()
	for _, path := range []string{
		filepath.Join(modules, "020-moved/hooks/x.sh"), filepath.Join(modules, "030-other/hooks/y.sh"), filepath.Join(global, "hooks/g.sh"),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil { //nolint:gosec // hooks are executed
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/nowhere", filepath.Join(modules, "040-broken")); err != nil {
		t.Fatal(err)
	}
	s := scan.New(scan.Options{ModulesDirs: []string{modules}, GlobalHooksDir: global}, nil)
	for _, name := range []string{"060-renamed", "070-away", "080-spoiled"} {
		if err := os.MkdirAll(filepath.Join(modules, name, "hooks"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	scantest.Scan(t, s)
	rename(t, modules, "060-renamed", "061-renamed")
	scantest.Program(t, modules, "061-renamed/hooks/x.sh", "#!/bin/sh\n")
	rename(t, modules, "070-away", ".away")
	rename(t, modules, "080-spoiled", "081-spoiled")
	scantest.Write(t, modules, "081-spoiled/values.yaml", "spoiled: [")
	for _, test := range []struct {
		module, name, was string
		now               string // empty if the file does not exist
		gone              bool
	}{
		{"renamed", "hooks/x.sh", modules + "/060-renamed/hooks/x.sh", modules + "/061-renamed/hooks/x.sh", false},
		{"renamed", "hooks/removed.sh", modules + "/060-renamed/hooks/removed.sh", "", true},
		{"away", "hooks/x.sh", modules + "/070-away/hooks/x.sh", "", false},
		{"spoiled", "hooks/x.sh", modules + "/080-spoiled/hooks/x.sh", "", false},
		{"moved", "hooks/x.sh", modules + "/020-moved/hooks/x.sh", modules + "/020-moved/hooks/x.sh", false},
		{"moved", "hooks/x.sh", modules + "/010-moved/hooks/x.sh", modules + "/020-moved/hooks/x.sh", false},
		{"moved", "hooks/removed.sh", modules + "/020-moved/hooks/removed.sh", "", true},
		{"removed", "hooks/x.sh", modules + "/050-removed/hooks/x.sh", "", true},
		{"broken", "hooks/x.sh", modules + "/040-broken/hooks/x.sh", "", false},
		{"", "hooks/g.sh", global + "/hooks/g.sh", global + "/hooks/g.sh", false},
		{"", "hooks/removed.sh", global + "/hooks/removed.sh", "", true},
	} {
		file, err := s.Modules.Locate(test.module, hook.File{Name: test.name, Path: test.was})
		if errors.Is(err, hook.ErrGone) != test.gone || (err == nil) != (test.now != "") || err == nil && file.Path != test.now {
			t.Errorf("%s/%s: %s, %v; want %q, gone %t", test.module, test.name, file.Path, err, test.now, test.gone)
		}
	}
}
