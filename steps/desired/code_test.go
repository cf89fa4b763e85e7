package desired_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/internal/module"
	"addon-operator/steps/scan"
	"addon-operator/steps/scan/scantest"
)

// codeState returns the scanned state of the modules web and other, with hooks, and the directory of the modules.
func codeState(t *testing.T) (s *scan.State, mounted string) {
	t.Helper()
	o, mounted, _ := scantest.Options(t)
	o.GlobalHooksDir = t.TempDir()
	scantest.Program(t, o.GlobalHooksDir, "hooks/g.sh", "#!/bin/sh\n")
	scantest.Program(t, mounted, "010-web/hooks/x.sh", "#!/bin/sh\n")
	scantest.Write(t, mounted, "010-web/values.yaml", "web: {size: 1}\nwebEnabled: true\n")
	scantest.Write(t, mounted, "020-other/values.yaml", "other: {}\n")
	s = scan.New(o, nil)
	scantest.Scan(t, s)
	return s, mounted
}

// codeOf returns the checksum of all code after another scan.
func codeOf(t *testing.T, s *scan.State, more ...string) string {
	t.Helper()
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	code, err := s.Modules.Code(set, more...)
	if err != nil {
		t.Fatal(err)
	}
	return code
}

func TestTheChecksumOfAllCodeChangesWithEachOfItsParts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change  func(t *testing.T, s *scan.State, mounted string)
		changed bool
	}{
		"nothing": {func(*testing.T, *scan.State, string) {}, false},
		"global hook": {func(t *testing.T, s *scan.State, _ string) {
			t.Helper()
			scantest.Program(t, s.Modules.GlobalHooks(), "hooks/g.sh", "#!/bin/sh\n:\n")
		}, true},
		"module's hook": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Program(t, mounted, "010-web/hooks/x.sh", "#!/bin/sh\n:\n")
		}, true},
		"new hook": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Program(t, mounted, "020-other/hooks/y.sh", "#!/bin/sh\n")
		}, true},
		"CustomResourceDefinition": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "010-web/crds/x.yaml", "kind: CustomResourceDefinition\n")
		}, true},
		"values of the module": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "020-other/values.yaml", "other: {a: 1}\n")
		}, true},
		"values of the directory": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "values.yaml", "global: {a: 1}\n")
		}, true},
		"enabled flag": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "020-other/values.yaml", "other: {}\notherEnabled: true\n")
		}, true},
		"another order": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			rename(t, mounted, "020-other", "005-other")
		}, true},
		"new module": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "030-new/values.yaml", "")
		}, true},
		"file beside the modules": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "README.md", "x")
		}, false},
		"module that gets broken": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "020-other/values.yaml", "other: [")
		}, true},
		"comment in a values file": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			scantest.Write(t, mounted, "values.yaml", "# nothing\n")
		}, false},
		"module that is taken away": {func(t *testing.T, _ *scan.State, mounted string) {
			t.Helper()
			rename(t, mounted, "020-other", "../other")
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, mounted := codeState(t)
			before := codeOf(t, s)
			test.change(t, s, mounted)
			if changed := codeOf(t, s) != before; changed != test.changed {
				t.Errorf("changed %t, want %t", changed, test.changed)
			}
		})
	}
	s, _ := codeState(t)
	first, second, other := codeOf(t, s, "a"), codeOf(t, s, "a"), codeOf(t, s, "b")
	if first != second || first == other {
		t.Error("the checksum does not depend on the texts of the caller")
	}
}

func rename(t *testing.T, dir, from, to string) {
	t.Helper()
	if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
		t.Fatal(err)
	}
}

func TestTheCodeOfAModuleIsKnownIfItCanBeRead(t *testing.T) {
	t.Parallel()
	s, mounted := codeState(t)
	codes := map[string]string{}
	for _, name := range []string{"", "web", "other"} {
		code, err := s.Modules.CodeOf(name)
		if err != nil || code == "" && name != "other" {
			t.Errorf("%q: got %q, %v", name, code, err)
		}
		codes[name] = code
	}
	if codes[""] == codes["web"] {
		t.Error("the global hooks and the module have the same code")
	}
	scantest.Program(t, mounted, "010-web/hooks/x.sh", "#!/bin/sh\n:\n")
	if code, err := s.Modules.CodeOf("web"); err != nil || code == codes["web"] {
		t.Errorf("after a change of its hook, the module has the code %q, %v", code, err)
	}
	scantest.Write(t, mounted, "010-web/values.yaml", "web: [")
	scantest.Scan(t, s)
	for _, name := range []string{"web", "gone"} {
		if _, err := s.Modules.CodeOf(name); err == nil || err.Error() != "the module cannot be read" {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestADirectoryWithoutFilesHasADigest(t *testing.T) {
	t.Parallel()
	s, mounted := codeState(t)
	digest := func(name string) string {
		m, _ := s.Modules.Disk().Find(name)
		d, err := s.Modules.DirectoryDigest(m)
		if err != nil || d == "" {
			t.Errorf("%s: got %q, %v", name, d, err)
		}
		return d
	}
	web, other := digest("web"), digest("other")
	if web == other {
		t.Error("two modules have the same digest")
	}
	scantest.Write(t, mounted, "010-web/crds/x.yaml", "kind: CustomResourceDefinition\n")
	scantest.Scan(t, s)
	if digest("web") == web {
		t.Error("a new CustomResourceDefinition does not change the digest")
	}
}

func TestAfterAFailedScanTheModulesOfTheLastOneStay(t *testing.T) {
	t.Parallel()
	s, mounted := codeState(t)
	rename(t, mounted, "../a", "../elsewhere")
	if _, err := s.Scan(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, found := s.Modules.Disk().Find("web"); !found {
		t.Error("the module is gone")
	}
	if s.Modules.Schemas()["web"] == nil {
		t.Error("the schemas of the module are gone")
	}
	if gone, err := s.Modules.Gone("web"); gone || err != nil {
		t.Errorf("the module is gone: %t, %v", gone, err)
	}
}

func TestAModuleThatIsNotOnDiskCanBeUsedForItsDeletion(t *testing.T) {
	t.Parallel()
	s, mounted := codeState(t)
	scantest.Write(t, mounted, "020-other/values.yaml", "other: [")
	set, err := s.Scan()
	if err != nil {
		t.Fatal(err)
	}
	broken, _ := set.Find("other")
	for name, want := range map[string]error{"": nil, "web": nil, "gone": nil, "other": broken.Broken} {
		if got := s.Modules.Usable(name); !errors.Is(got, want) {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
	if broken.Broken == nil {
		t.Error("a module with a damaged values file is not broken")
	}
}

func TestModulesOfTheRegistryAreNoCode(t *testing.T) {
	t.Parallel()
	s, _ := codeState(t)
	set := s.Modules.Disk()
	before, err := s.Modules.Code(set)
	if err != nil {
		t.Fatal(err)
	}
	if s.Modules.MadeFromAddon("web") || s.Modules.MadeFromAddon("gone") || len(s.Modules.AddonDirs()) != 0 {
		t.Error("a module of a directory is made from an addon")
	}
	set.Modules = append(append([]module.Module{}, set.Modules...), module.Module{Name: "redis", Key: "redis", Path: "/nowhere", FromAddon: true, Addon: &module.Addon{}})
	if after, err := s.Modules.Code(set); err != nil || after != before {
		t.Errorf("with a module made from an addon, the checksum is %s, want %s: %v", after, before, err)
	}
}

// A broken module does not run, so a change of its hooks does not change the checksum of the code.
func TestFilesOfABrokenModuleAreNoCode(t *testing.T) {
	t.Parallel()
	s, mounted := codeState(t)
	scantest.Write(t, mounted, "010-web/values.yaml", "web: [")
	before := codeOf(t, s)
	scantest.Program(t, mounted, "010-web/hooks/x.sh", "#!/bin/sh\n:\n")
	if codeOf(t, s) != before {
		t.Error("a changed hook of a broken module changes the checksum")
	}
}

// A link to its own directory makes the files of a module endless. They cannot be read, and neither can a file without
// read permission.
func TestAModuleWithAFileThatCannotBeReadIsBroken(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"templates", "crds"} {
		t.Run(dir, func(t *testing.T) {
			t.Parallel()
			s, mounted := codeState(t)
			scantest.Write(t, mounted, "020-other/"+dir+"/x.yaml", "")
			link := filepath.Join(mounted, "020-other", dir, "loop")
			if err := os.Symlink(".", link); err != nil {
				t.Fatal(err)
			}
			codeOf(t, s)
			web, _ := s.Modules.Disk().Find("web")
			other, _ := s.Modules.Disk().Find("other")
			if web.Broken != nil || other.Broken == nil || !strings.Contains(other.Broken.Error(), link) {
				t.Errorf("web is broken: %v; other is broken: %v", web.Broken, other.Broken)
			}
			if err := os.Remove(link); err != nil {
				t.Fatal(err)
			}
			codeOf(t, s)
			if other, _ = s.Modules.Disk().Find("other"); other.Broken != nil {
				t.Errorf("without the link, the module is broken: %v", other.Broken)
			}
		})
	}
}
