package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declared returns the first function in a source text.
func declared(t *testing.T, text string) *ast.FuncDecl {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			return f
		}
	}
	t.Fatalf("no function in %s", text)
	return nil
}

func TestAGoalIsReachedAtItsLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		row           row
		goal, reached string
	}{
		"no goal":          {row{Value: 3}, "", ""},
		"at most, below":   {row{Value: 4.9, AtMost: 5, Unit: " %"}, "≤ 5 %", "yes"},
		"at most, equal":   {row{Value: 5, AtMost: 5}, "≤ 5", "yes"},
		"at most, above":   {row{Value: 5.01, AtMost: 5}, "≤ 5", "no"},
		"at least, above":  {row{Value: 1.2, AtLeast: 1}, "≥ 1", "yes"},
		"at least, equal":  {row{Value: 0.5, AtLeast: 0.5}, "≥ 0.5", "yes"},
		"at least, below":  {row{Value: 0.99, AtLeast: 1}, "≥ 1", "no"},
		"nothing, at most": {row{AtMost: 10}, "≤ 10", "yes"},
	} {
		if goal, reached := c.row.goal(), c.row.reached(); goal != c.goal || reached != c.reached {
			t.Errorf("%s: goal %q, reached %q, want %q and %q", name, goal, reached, c.goal, c.reached)
		}
	}
}

func TestComplexityCountsBranchesAndConditions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{
		"func f() {}": 1,
		"func f() { if a {} else if b {} else {} }":               3,
		"func f() { for {}; for range x {} }":                     3,
		"func f() { if a && b || c {} }":                          4,
		"func f() { switch { case a, b: case c: default: } }":     3,
		"func f() { switch x.(type) { case int: default: } }":     2,
		"func f() { select { case <-a: case b <- 1: default: } }": 3,
		"func f() { go func() { if a {} }() }":                    2,
		"func f() bool { return a == b && !c }":                   2,
		"func f() { x := a | b &^ c }":                            1,
	} {
		if got := cyclomatic(declared(t, text)); got != want {
			t.Errorf("%s has the complexity %d, want %d", text, got, want)
		}
	}
}

func TestTheReceiverOfAMethodIsNamedWithoutPointersAndParameters(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"func f() {}": "", "func (T) f() {}": "T", "func (t *T) f() {}": "T", "func (t (*T)) f() {}": "T", "func (t *T[K]) f() {}": "T", "func (t T[K, V]) f() {}": "T",
	} {
		if got := receiver(declared(t, text)); got != want {
			t.Errorf("the receiver of %s is %q, want %q", text, got, want)
		}
	}
	for want, f := range map[string]function{"a/b.T.f": {"a/b", declared(t, "func (t *T) f() {}")}, "a/b.f": {"a/b", declared(t, "func f() {}")}} {
		if got := f.name(); got != want {
			t.Errorf("the function is named %q, want %q", got, want)
		}
	}
}

func TestTheGreatestCountsAreTheDetails(t *testing.T) {
	t.Parallel()
	counts := map[string]int{"z": 3, "b": 7, "a": 7}
	for i := range 20 {
		counts[fmt.Sprintf("n%02d", i)] = 1
	}
	got := row{Name: "x", AtMost: 5}.most(counts)
	want := row{Name: "x", AtMost: 5, Value: 7, Where: "a", Details: []string{
		"   7  a", "   7  b", "   3  z", "   1  n00", "   1  n01", "   1  n02", "   1  n03", "   1  n04", "   1  n05", "   1  n06",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(row{Name: "x"}, row{Name: "x"}.most(nil)); diff != "" {
		t.Errorf("no counts (-want +got):\n%s", diff)
	}
}

func TestAShareIsAPercentageWithTwoDigits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		part, all int
		want      float64
	}{{0, 0, 0}, {0, 7, 0}, {1, 3, 33.33}, {2, 3, 66.67}, {7, 7, 100}, {1, 20000, 0.01}} {
		if got := percent(c.part, c.all); got != c.want {
			t.Errorf("%d of %d is %v %%, want %v %%", c.part, c.all, got, c.want)
		}
	}
}

func TestADirectoryIsBelowItselfAndNotBelowItsNamesake(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"cmd": true, "cmd/x": true, "e2e/a/b": true, "cmds": false, "x/cmd": false, "": false} {
		if got := below(path, "cmd", "e2e"); got != want {
			t.Errorf("%q is below cmd or e2e: %t", path, got)
		}
	}
	if below("cmd") {
		t.Error("cmd is below no directory")
	}
}

func TestLinesOfTestsAndOfE2EAreCountedApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, lines := range map[string]int{
		"a.go": 3, "sub/b.go": 4, "sub/b_test.go": 10, "e2e/c.go": 20, "e2e/c_test.go": 100, "e2extra/d.go": 5, "README.md": 1000,
		"testdata/x.go": 1000, "sub/vendor/x.go": 1000, ".git/x.go": 1000, "sub/.hidden/x_test.go": 1000,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.Repeat("x\n", lines)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := (&tree{dir: dir}).lines()
	if want := (count{code: 32, test: 110, codeOutsideE2E: 12}); got != want || err != nil {
		t.Errorf("%+v, error %v, want %+v", got, err, want)
	}
	if r := testRatio(got); r.Value != 3.44 || r.Where != "110 to 32" || r.reached() != "yes" {
		t.Errorf("the ratio is %+v", r)
	}
	if r := codeLines(got); r.Value != 12 || r.goal() != "" {
		t.Errorf("the lines of code are %+v", r)
	}
	if r := testRatio(count{test: 5}); r.Value != 0 {
		t.Errorf("without code, the ratio is %+v", r)
	}
}

func TestTheTableHasItsDetailsOnRequest(t *testing.T) {
	t.Parallel()
	rows := []row{{Name: "methods", Value: 26, AtMost: 25, Where: "a.T", Details: []string{"26 a.T", "3 b.U"}}, {Name: "share", Unit: " %", Value: 0.5}}
	const table = "MEASURE  VALUE  GOAL  REACHED  WHERE\nmethods  26     ≤ 25  no       a.T\nshare    0.5 %                 \n"
	for details, want := range map[bool]string{false: table, true: table + "\nmethods\n  26 a.T\n  3 b.U\n"} {
		var out bytes.Buffer
		err := write(&out, rows, details)
		if diff := cmp.Diff(want, out.String()); err != nil || diff != "" {
			t.Errorf("details %t: error %v (-want +got):\n%s", details, err, diff)
		}
	}
}

func TestOneDirectoryIsMeasuredAtATime(t *testing.T) {
	t.Parallel()
	if err := run([]string{"a", "b"}, new(bytes.Buffer)); err == nil || err.Error() != "more than one directory given; name one" {
		t.Errorf("error %v", err)
	}
}
