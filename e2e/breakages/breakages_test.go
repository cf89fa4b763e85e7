package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the root of the repository.
var root = filepath.Join("..", "..")

// sampled selects the breakages whose tests run here: one in 20. The make target breakages runs all of them.
const sampled = 20

// byChance is part of the names of tests that check only some of the files that a power loss can leave. Which files
// they check depends on timing, so these tests do not find a breakage each time. The test below leaves them out. It
// also leaves out simulations, which need minutes. The make target breakages uses both.
const byChance = "LossOfPower"

func TestEveryBreakageChangesTheCodeAndASampleIsCaught(t *testing.T) {
	all, err := load("testdata")
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 130 {
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
			b.tests = slices.DeleteFunc(b.tests, func(t target) bool { return t.pkg == simulation || strings.Contains(t.names, byChance) })
			if i%sampled != 0 || len(b.tests) == 0 {
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
		name: "harmless", about: "Nothing is broken.", file: "store/lifetime.go", tests: []target{{"./store", "TestDroppingWorkKeepsPauses"}},
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

func TestTheFirstFailedTestIsNamed(t *testing.T) {
	for output, want := range map[string]string{
		"=== RUN TestA\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/b (0.00s)\n":                           "TestA",
		"panic: index\n\naddon-operator/workflow.TestB(0x1)\n":                                              "TestB",
		"panic: test timed out\n\nlease_test.TestMain(0x1)\n\nlease_test.TestC.func1()\nFAIL\tlease\t60s\n": "TestC",
		"FAIL\tlease [build failed]\n":                                                                      "",
	} {
		if got, ok := firstFailed([]byte(output)); got != want || ok != (want != "") {
			t.Errorf("%q of %q, want %q", got, output, want)
		}
	}
}

func TestSimulationMustSayWhatDidNotHold(t *testing.T) {
	for output, want := range map[string]string{
		"SIMULATE_SEED=4 violates: calm: a task is left\n--- FAIL: TestSimulated (0.10s)\n":   "the simulation (calm: a task is left)",
		"panic: test timed out\n\nsimulate_test.TestSimulated.func1()\nFAIL\tsimulate\t60s\n": "",
		"--- FAIL: TestSimulated (0.10s)\n    no space left on device\n":                      "",
	} {
		if got, ok := violation([]byte(output)); got != want || ok != (want != "") {
			t.Errorf("%q of %q, want %q", got, output, want)
		}
	}
}
