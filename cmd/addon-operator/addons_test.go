package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"addon-operator/internal/catalog"
	"addon-operator/internal/catalog/author"
)

const addonsPage = "../../docs/addons.md"

func TestStepsOfTheAddonsPageMakeARepository(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(addonsPage)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(home, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(home, "bin", "addon-operator")); err != nil {
		t.Fatal(err)
	}
	var output []byte
	author, _, found := strings.Cut(string(page), "\n## On a cluster") // this section needs a cluster: e2e/samples runs its commands
	if !found {
		t.Fatal("the page does not tell how to use the repository on a cluster")
	}
	blocks := regexp.MustCompile("(?s)```sh test\n(.*?)```").FindAllStringSubmatch(author, -1)
	for _, block := range blocks {
		shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", block[1])
		shell.Dir = home
		if output, err = shell.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s%s", err, block[1], output)
		}
	}
	want := "repository/index.yaml: 1 entry\ngreeter-0.1.0: OK\n"
	if len(blocks) < 6 || string(output) != want {
		t.Errorf("%d blocks, the last one wrote:\n%s", len(blocks), output)
	}
}

func TestAddonsPageNamesTheLimits(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(addonsPage)
	if err != nil {
		t.Fatal(err)
	}
	limits := catalog.DefaultLimits
	for _, row := range []string{
		fmt.Sprintf("| an index | %d MiB, %d entries |", catalog.MaxIndexSize>>20, catalog.MaxIndexEntries),
		fmt.Sprintf("| a file of an addon | %d MiB;", limits.File>>20),
		fmt.Sprintf("| all files of an addon, unpacked | %d MiB, %d files and directories,", limits.Total>>20, limits.Entries),
	} {
		if !strings.Contains(string(page), row) {
			t.Errorf("the page does not have the row %s", row)
		}
	}
}

func TestAddonsLintReportsProblemsAsDataAndExitsWithCode1(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "broken-1.0.0", "plans"), 0o755); err != nil {
		t.Fatal(err)
	}
	output, err := process(t, "addons", "lint", dir, "-o", "json").Output()
	exit, isExit := err.(*exec.ExitError) //nolint:errorlint // exec.Cmd.Output does not wrap its *exec.ExitError
	if !isExit || exit.ExitCode() != exitFailed || !strings.Contains(string(exit.Stderr), "1 of 1 addons have problems") {
		t.Errorf("%v: %s", err, output)
	}
	var report author.Report
	if err := json.Unmarshal(output, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Addons) != 1 || report.Addons[0].Path != "broken-1.0.0" || len(report.Addons[0].Problems) != 1 {
		t.Errorf("%+v", report)
	}
	for _, verb := range []string{"index", "package"} {
		text, err := process(t, "addons", verb, dir).CombinedOutput()
		if err == nil || !strings.Contains(string(text), "addon broken-1.0.0 is invalid: while loading chart: ") {
			t.Errorf("%s: %v: %s", verb, err, text)
		}
	}
}

func TestAddonsCommandsCompleteDirectories(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"index", "lint", "package"} {
		text, err := process(t, "__complete", "addons", verb, "").Output()
		if err != nil || string(text) != ":16\n" { // ShellCompDirectiveFilterDirs
			t.Errorf("%s: %v: %s", verb, err, text)
		}
	}
}
