package sdk_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../docs/reference/go-hooks.md"

func readPage(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPageQuotesCodeThatCompiles(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```go\n// ([^\n]*)\n(.*?)```").FindAllStringSubmatch(readPage(t), -1)
	if len(blocks) != strings.Count(readPage(t), "```go") || len(blocks) < 2 {
		t.Fatalf("%d blocks of Go begin with the file they are from", len(blocks))
	}
	for _, block := range blocks {
		text, err := os.ReadFile(filepath.Join("..", block[1]))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), block[2]) {
			t.Errorf("%s does not say:\n%s", block[1], block[2])
		}
	}
}

// exported returns the exported functions and methods that the package in a directory declares for users.
func exported(t *testing.T, dir string) []string {
	t.Helper()
	files := token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var parsed []*ast.File
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(files, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, file)
	}
	declared, err := doc.NewFromFiles(files, parsed, "addon-operator/sdk")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	add := func(functions []*doc.Func) {
		for _, f := range functions {
			all = append(all, f.Name)
		}
	}
	add(declared.Funcs)
	for _, t := range declared.Types {
		add(t.Funcs)
		add(t.Methods)
	}
	return slices.DeleteFunc(all, func(name string) bool {
		// These methods are called by encoders and by package sdktest, not by users.
		return slices.Contains([]string{"String", "MarshalJSON", "UnmarshalJSON", "Execute", "ValuesOf"}, name)
	})
}

func TestPageTellsOfEveryFunction(t *testing.T) {
	t.Parallel()
	text := readPage(t)
	for _, dir := range []string{".", "sdktest"} {
		for _, name := range exported(t, dir) {
			if !regexp.MustCompile(`\b` + name + `\b`).MatchString(text) {
				t.Errorf("the page does not tell of %s of %s", name, dir)
			}
		}
	}
}
