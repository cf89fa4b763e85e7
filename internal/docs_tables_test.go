package internal_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(path)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// makeTarget matches a code span with a make command in a Markdown page.
var makeTarget = regexp.MustCompile("`make ([a-z-]+)`")

func TestMakeTargetsInDocumentsExist(t *testing.T) {
	t.Parallel()
	rules := read(t, "Makefile")
	named := 0
	for name := range documents(t) {
		for _, found := range makeTarget.FindAllStringSubmatch(read(t, name), -1) {
			if named++; !strings.Contains(rules, "\n"+found[1]+":") {
				t.Errorf("%s names the target %q, which the Makefile does not have", name, found[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d targets were found", named)
	}
}

// A countInTable is a number in a table of docs/reliability.md that must equal a number in the source.
type countInTable struct {
	text   string // regular expression for the text in the table; its group is the number
	file   string
	source string // regular expression for the text in file; its group is the number
}

func TestCountsInTheTableOfTechniquesAreThoseOfTheTests(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/reliability.md")
	for _, c := range []countInTable{
		{`\| ([\d,]+) days, in CI`, "e2e/simulate/simulate_test.go", `daysOfTest += (\d+)`},
		{`days, in CI ([\d,]+) \|`, ".ci/run", `SIMULATE_DAYS=(\d+)`},
		{`kills up to (ten) processes`, "e2e/crash/chain_test.go", `killsOfAChain = (\d+)`},
		{`\| (\d+) rounds of the samples`, "e2e/samples/every_step_test.go", `--rounds (\d+) `},
		{`is killed before the configuration that has the ID releases it \|[^|]*\| (\d+) rounds`, "e2e/addons/competition_test.go", `rounds := (\d+)`},
		{`none; ([\d,]+) tasks in`, "e2e/bench/main.go", `"soak-tasks", ([\d_]+),`},
		{`\| one in (\d+) \|`, "e2e/breakages/breakages_test.go", `sampled = (\d+)`},
	} {
		want := number(t, c.source, read(t, c.file))
		if got := number(t, c.text, page); got != want {
			t.Errorf("docs/reliability.md has %d for %q, %s has %d", got, c.text, c.file, want)
		}
	}
	rounds, tests := 0, 0
	for _, found := range regexp.MustCompile(`killedConverge\(t, \w+, (\d+)\)`).FindAllStringSubmatch(read(t, "e2e/crash/kill_test.go"), -1) {
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		rounds, tests = rounds+n, tests+1
	}
	if got := number(t, `\| (\d+) rounds of a converge`, page); got != rounds {
		t.Errorf("docs/reliability.md has %d rounds of a converge, the tests have %d", got, rounds)
	}
	// Each call of killedConverge calls killedInChains once.
	chains := tests * number(t, `killsInChains = (\d+)`, read(t, "e2e/crash/chain_test.go"))
	if got := number(t, `converges until there are (\d+) kills`, page); got != chains {
		t.Errorf("docs/reliability.md has %d kills in chains, the tests have %d", got, chains)
	}
	breakages, err := filepath.Glob(filepath.Join("..", "e2e", "breakages", "testdata", "*.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	if got := number(t, `(?m)^\| breakages in .* \| (\d+) \|$`, page); got != len(breakages) {
		t.Errorf("docs/reliability.md has %d breakages, there are %d", got, len(breakages))
	}
}

// number returns the number that the first group of the regular expression pattern matches in text.
func number(t *testing.T, pattern, text string) int {
	t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("%q is not found", pattern)
	}
	if found[1] == "ten" {
		return 10
	}
	n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestArchitectureNamesEachPackage(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/architecture.md")
	packages := 0
	for _, root := range []string{"cmd/addon-operator", "internal", "sdk", "steps", "store", "triggers", "workflow"} {
		top := filepath.Join("..", filepath.FromSlash(root))
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return err
			}
			if d.Name() == "testdata" || d.Name() == "inspecttest" || d.Name() == "scantest" || path != top && root == "internal" && filepath.Dir(path) != top {
				return filepath.SkipDir
			}
			files, err := filepath.Glob(filepath.Join(path, "*.go"))
			if err != nil || !slices.ContainsFunc(files, func(f string) bool { return !strings.HasSuffix(f, "_test.go") }) {
				return err
			}
			packages++
			name := strings.TrimPrefix(filepath.ToSlash(path), "../")
			shown := regexp.MustCompile(`(?m)^ *(` + regexp.QuoteMeta(name) + `|` + regexp.QuoteMeta(d.Name()) + `) |` + "`" + regexp.QuoteMeta(name) + "`")
			if !shown.MatchString(page) {
				t.Errorf("docs/architecture.md does not name package %s", name)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if packages < 60 {
		t.Errorf("only %d packages were found", packages)
	}
}
