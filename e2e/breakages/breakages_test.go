package main

import (
	"path/filepath"
	"testing"
)

// root is the root of the repository.
var root = filepath.Join("..", "..")

// sampled is the number of breakages of which one is tested here. The target breakages tests all of them.
const sampled = 6

func TestEveryBreakageChangesTheCodeAndASampleIsCaught(t *testing.T) {
	all, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 50 {
		t.Errorf("%d breakages are found", len(all))
	}
	for i, b := range all {
		t.Run(b.name, func(t *testing.T) {
			text, err := b.broken(root)
			if err != nil {
				t.Fatal(err)
			}
			if text == "" || b.new == b.old {
				t.Errorf("it does not change %s", b.file)
			}
			if i%sampled != 0 {
				return
			}
			caught, err := b.test(t.Context(), root)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("caught by %s", caught)
		})
	}
}

func TestBreakageThatChangesNothingOfNoteIsReported(t *testing.T) {
	harmless := breakage{
		name: "harmless", about: "Nothing is broken.", file: "store/lifetime.go", pkg: "./store", tests: "TestDroppingWorkKeepsPauses",
		old: "import \"sync\"\n", new: "import \"sync\" // as before\n",
	}
	if caught, err := harmless.test(t.Context(), root); err == nil {
		t.Errorf("caught by %s", caught)
	}
	senseless := harmless
	senseless.new = "import \"sync\"\nsenseless\n"
	if caught, err := senseless.test(t.Context(), root); err == nil {
		t.Errorf("code that does not compile is caught by %s", caught)
	}
}
