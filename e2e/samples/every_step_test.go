package samples_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSamplesBearAKillAtEveryStep runs the command "test --crash-every-step" as shown in writing-hooks.md, but kills
// the operator only at 4 steps, which are spread over the run. The results must be the same as without kills. The
// command "make every-step" kills it at each step.
func TestSamplesBearAKillAtEveryStep(t *testing.T) {
	dir := shortDir(t)
	linkPrograms(t, dir)
	copySamples(t, dir)
	absolute, err := filepath.Abs(filepath.Join(root, "e2e", "sample"))
	if err == nil {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "e2e"), 0o755), os.Symlink(absolute, filepath.Join(dir, "e2e", "sample")))
	}
	if err != nil {
		t.Fatal(err)
	}
	shown := blockOf(t, "docs/writing-hooks.md", "bin/addon-operator test").text
	command := exec.CommandContext(t.Context(), "bash", "-euc", strings.TrimSuffix(shown, "\n")+" --rounds 4 --parallel 2 --work-dir work")
	command.Dir = dir
	// The results of the hooks depend on the clock: the office opens and closes, and at midnight each certificate has
	// one day less until it expires. So all runs must get the same time.
	date, err := exec.LookPath("date")
	clock := filepath.Join(dir, "clock")
	if err := errors.Join(err, os.Mkdir(clock, 0o755), os.WriteFile(filepath.Join(clock, "date"),
		[]byte("#!/bin/sh\nexec "+date+" --date=2026-01-15T12:00:00Z \"$@\"\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	command.Env = append(os.Environ(), "PATH="+clock+":"+os.Getenv("PATH"))
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, output)
	}
	for _, text := range []string{"round 4 of 4: kill ", "4 kills in ", "All tested rounds had the same results as the undisturbed runs."} {
		if !strings.Contains(string(output), text) {
			t.Errorf("it does not print %q:\n%s", text, output)
		}
	}
}
