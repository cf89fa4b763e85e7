package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/tools/txtar"
)

// A breakage is a change of one file that the named tests must catch.
type breakage struct {
	name string // name of its file
	// about says in one sentence what the breakage does.
	about string
	// file is the path of the changed file, relative to the root of the repository. The file contains the text old
	// exactly once, and the breakage replaces it with the text new.
	file     string
	old, new string
	// tests are the targets to run. In each target, a test must fail.
	tests []target
}

// A target selects tests: pkg is their package, and names is the pattern for the flag -run of go test.
type target struct{ pkg, names string }

// load reads the breakages in dir, sorted by name.
func load(dir string) ([]breakage, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.txtar"))
	if err != nil {
		return nil, err
	}
	var all []breakage
	for _, file := range files {
		b, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, b)
	}
	return all, nil
}

// read reads a breakage from a txtar file. The comment of the archive has a sentence about the breakage, a line "file
// PATH", and lines "test PACKAGE PATTERN". The archive has two files: the file named "old" has the text to replace, and
// the file named "new" has the replacement. The last newline of each file is dropped.
func read(path string) (breakage, error) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		return breakage{}, err
	}
	b := breakage{name: strings.TrimSuffix(filepath.Base(path), ".txtar")}
	for line := range strings.Lines(string(archive.Comment)) {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "file":
			b.file = words[1]
		case len(words) == 3 && words[0] == "test":
			b.tests = append(b.tests, target{words[1], words[2]})
		default:
			b.about = strings.TrimSpace(b.about + " " + strings.TrimSpace(line))
		}
	}
	for _, f := range archive.Files {
		switch f.Name {
		case "old":
			b.old = strings.TrimSuffix(string(f.Data), "\n")
		case "new":
			b.new = strings.TrimSuffix(string(f.Data), "\n")
		}
	}
	if b.about == "" || b.file == "" || len(b.tests) == 0 || b.old == "" {
		return b, errors.New("a breakage needs a sentence, a line with file, a line with test, and the texts old and new")
	}
	return b, nil
}

// broken returns the content of the file b.file after the breakage is applied. root is the root of the repository.
func (b *breakage) broken(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, b.file))
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(text), b.old); n != 1 {
		return "", fmt.Errorf("%s has the old text %d times, not once: adapt the breakage to the code", b.file, n)
	}
	return strings.Replace(string(text), b.old, b.new, 1), nil
}

// failedTest matches the name of a test in the output of go test: in the report of a failed test, or in the stack of
// a test that panicked or hung.
var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)|\.(Test\w+)[.(]`)

// firstFailed returns the first test that failed according to the output of go test.
func firstFailed(output []byte) (name string, ok bool) {
	for _, found := range failedTest.FindAllSubmatch(output, -1) {
		if name := string(found[1]) + string(found[2]); name != "TestMain" { // TestMain is in each stack of a package that hung
			return name, true
		}
	}
	return "", false
}

// test runs the tests of the breakage on the broken code. The flag -overlay of the go command replaces the changed
// file, so no file of the repository at root is changed. test returns the first failing test of each target. It returns
// an error if no test of a target fails, or if the broken code does not pass go vet.
func (b *breakage) test(ctx context.Context, root string) (caught string, err error) {
	dir, err := os.MkdirTemp("", "breakage-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // the directory is temporary
	overlay, err := b.overlay(root, dir)
	if err != nil {
		return "", err
	}
	vet := exec.CommandContext(ctx, "go", "vet", "-overlay", overlay, "./"+filepath.Dir(b.file))
	vet.Dir = root
	if output, err := vet.CombinedOutput(); err != nil {
		return "", fmt.Errorf("the broken code does not compile and vet: %w\n%s", err, output)
	}
	var names []string
	for _, t := range b.tests {
		name, err := t.run(ctx, root, overlay)
		if err != nil {
			return "", fmt.Errorf("%s: %w", b.about, err)
		}
		names = append(names, name)
	}
	return strings.Join(names, " and "), nil
}

// simulation is the package whose tests play simulated histories. These tests need minutes.
const simulation = "./e2e/simulate"

// simulated are the environment variables for the tests of the package e2e/simulate. The number of simulated days is
// enough to find each breakage. The failing history is not shortened, because nobody reads it.
var simulated = []string{"SIMULATE_SEED=", "SIMULATE_ACTIONS=", "SIMULATE_DAYS=1000", "SIMULATE_SHORTEST=no"}

// run runs the tests of t with the overlay, and returns the first failed test. run returns an error if no test fails.
func (t target) run(ctx context.Context, root, overlay string) (failed string, err error) {
	args := []string{"test", "-count=1", "-timeout=5m", "-overlay", overlay, "-run", t.names, t.pkg}
	if t.pkg == simulation {
		args[2] = "-timeout=1h"
	}
	drawn, err := t.drawn(ctx, root)
	if err != nil {
		return "", err
	}
	if drawn {
		args = append(args, "-rapid.nofailfile") // otherwise the package rapid would write the failing input to the repository, and all later tests would replay it
	}
	tests := exec.CommandContext(ctx, "go", args...)
	tests.Dir, tests.Env = root, append(os.Environ(), simulated...)
	output, err := tests.CombinedOutput()
	if err == nil {
		return "", fmt.Errorf("no test of %s -run %s fails", t.pkg, t.names)
	}
	failed, ok := firstFailed(output)
	if t.pkg == simulation {
		failed, ok = violation(output)
	}
	if !ok {
		return "", fmt.Errorf("%w, but the output names no failed test:\n%s", err, output)
	}
	return failed, nil
}

// violated matches the report of a simulation that violates a property.
var violated = regexp.MustCompile(`(?m)^SIMULATE_SEED=\d+ violates: (.*)$`)

// violation returns the property that a simulation violated, according to its output. If the simulation only panicked
// or hung, ok is false.
func violation(output []byte) (text string, ok bool) {
	found := violated.FindSubmatch(output)
	if found == nil {
		return "", false
	}
	return "the simulation (" + string(found[1]) + ")", true
}

// drawn reports whether tests of the package t.pkg use the package rapid, which draws their input at random.
func (t target) drawn(ctx context.Context, root string) (bool, error) {
	list := exec.CommandContext(ctx, "go", "list", "-f", "{{.TestImports}} {{.XTestImports}}", t.pkg)
	list.Dir = root
	imports, err := list.Output()
	if err != nil {
		return false, fmt.Errorf("list the imports of the tests of %s: %w", t.pkg, err)
	}
	return strings.Contains(string(imports), "pgregory.net/rapid"), nil
}

// overlay writes the changed file to dir, and a file for the flag -overlay of the go command. overlay returns the path
// of the file for the flag.
func (b *breakage) overlay(root, dir string) (string, error) {
	text, err := b.broken(root)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.Join(root, b.file))
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {original: changed}})
	if err != nil {
		return "", err
	}
	return overlay, errors.Join(os.WriteFile(changed, []byte(text), 0o600), os.WriteFile(overlay, replace, 0o600))
}
