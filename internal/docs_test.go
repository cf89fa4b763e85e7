package internal_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// A document has the links in a Markdown page, and the anchors of its headings.
type document struct {
	links   []string
	anchors map[string]bool // without the leading #
}

var (
	codeSpan = regexp.MustCompile("`[^`]*`")
	linkTo   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	linkText = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)
)

// documents returns the Markdown pages in the root of the repository, and all pages in docs, by path relative to the
// root.
func documents(t *testing.T) map[string]document {
	t.Helper()
	names := []string{"README.md", "CONTRIBUTING.md", "SECURITY.md"}
	err := filepath.WalkDir(filepath.Join("..", "docs"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && filepath.Ext(path) == ".md" {
			names = append(names, strings.TrimPrefix(filepath.ToSlash(path), "../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]document{}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if out[name] = readDocument(string(text)); len(out[name].anchors) == 0 {
			t.Errorf("%s has no heading", name)
		}
	}
	if len(out) < 20 {
		t.Fatalf("found %d pages only", len(out))
	}
	return out
}

func readDocument(text string) document {
	d := document{anchors: map[string]bool{}}
	code := false
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "```"):
			code = !code
		case code:
		case strings.HasPrefix(line, "#"):
			d.anchors[d.anchor(strings.TrimSpace(strings.TrimLeft(line, "#")))] = true
		default:
			for _, found := range linkTo.FindAllStringSubmatch(codeSpan.ReplaceAllString(line, "`"), -1) {
				d.links = append(d.links, found[1])
			}
		}
	}
	return d
}

// anchor returns the anchor that GitHub makes for a heading: the heading in lower case, with dashes instead of blanks,
// and without punctuation except dashes and underscores. If an earlier heading of the page has the same anchor, a
// number is appended.
func (d document) anchor(heading string) string {
	var out strings.Builder
	for _, r := range strings.ToLower(linkText.ReplaceAllString(heading, "$1")) {
		switch {
		case r == ' ':
			out.WriteByte('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			out.WriteRune(r)
		}
	}
	name := out.String()
	for i := 1; d.anchors[name]; i++ {
		name = fmt.Sprintf("%s-%d", out.String(), i)
	}
	return name
}

func TestLinksOfDocumentsLeadSomewhere(t *testing.T) {
	t.Parallel()
	all := documents(t)
	for name, d := range all {
		for _, link := range d.links {
			if strings.Contains(link, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(link, "#")
			target := name
			if path != "" {
				target = filepath.ToSlash(filepath.Join(filepath.Dir(name), path))
			}
			if _, err := os.Stat(filepath.Join("..", target)); err != nil {
				t.Errorf("%s links to %s: %v", name, link, err)
			} else if page, ok := all[target]; anchor != "" && (!ok || !page.anchors[anchor]) {
				t.Errorf("%s links to %s, and %s has no such heading", name, link, target)
			}
		}
	}
}

func TestEveryDocumentIsLinkedFromTheReadmeOrFromTheReference(t *testing.T) {
	t.Parallel()
	all := documents(t)
	linked := map[string]bool{"README.md": true}
	for _, from := range []string{"README.md", "docs/reference/README.md"} {
		for _, link := range all[from].links {
			path, _, _ := strings.Cut(link, "#")
			linked[filepath.ToSlash(filepath.Join(filepath.Dir(from), path))] = true
		}
	}
	for name := range all {
		if !linked[name] {
			t.Errorf("neither README.md nor docs/reference/README.md links to %s", name)
		}
	}
}

// ours matches a code span with a path in this repository.
var ours = regexp.MustCompile("`((?:cmd|triggers|workflow|store|steps|internal|sdk|deploy|e2e|docs)/[A-Za-z0-9_./-]+)`")

func TestPathsInDocumentsExist(t *testing.T) {
	t.Parallel()
	shown := 0
	for name := range documents(t) {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range ours.FindAllStringSubmatch(string(text), -1) {
			shown++
			if _, err := os.Stat(filepath.Join("..", found[1])); err != nil {
				t.Errorf("%s names %s: %v", name, found[1], err)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d paths were found", shown)
	}
}

// testName matches a code span with the name of a test.
var testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")

func TestTestsNamedInDocumentsExist(t *testing.T) {
	t.Parallel()
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	exist := map[string]bool{}
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range declared.FindAllStringSubmatch(string(text), -1) {
			exist[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for name := range documents(t) {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range testName.FindAllStringSubmatch(string(text), -1) {
			if named++; !exist[found[1]] {
				t.Errorf("%s names %s, which does not exist", name, found[1])
			}
		}
	}
	if named < 20 {
		t.Errorf("only %d names were found", named)
	}
}
