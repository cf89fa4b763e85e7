// Package internal_test checks the source of all packages: their imports, the comments of packages and exported
// names, and the language. It also checks the links and names in the Markdown pages.
package internal_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const moduleName = "addon-operator"

// mayImport lists the packages of this project that a package may import, as prefixes of import paths. For a package,
// the first entry whose field from is a prefix of its path is used. If no entry matches, the package may import no
// package of this project.
var mayImport = []struct {
	from string
	to   []string
}{
	{"cmd", []string{""}},
	{"e2e", []string{""}},
	{"steps/hookmetrics", []string{"workflow/graph", "store", "internal/series"}},
	{"steps/objects", []string{"workflow", "store", "internal/kube", "internal/operation"}},
	{"steps/oncelog", nil},
	{"steps/sections", []string{"workflow/graph", "store", "internal/values", "internal/redact", "internal/schema"}},
	{"steps/bindings", []string{"workflow", "store", "internal/hook", "internal/kube", "internal/values", "steps/hookmetrics", "steps/sections"}},
	{"steps/desired", []string{"workflow", "store", "internal", "steps/oncelog", "steps/sections"}},
	{"steps/addons/failure", []string{"store", "internal", "steps/addons/registry"}},
	{"steps/report", []string{"workflow", "store", "internal/hook", "steps/oncelog"}},
	{"steps/charts", []string{"store", "internal", "steps/desired", "steps/oncelog", "steps/sections"}},
	{"steps/scan/scantest", []string{"store", "internal/hook", "internal/values", "steps/scan"}},
	{"steps/scan", []string{"workflow", "store", "internal/kube", "internal/module", "steps/addons/modules", "steps/desired", "steps/oncelog", "steps/sections"}},
	{"steps/releases", []string{"workflow", "store", "internal/helm", "steps/charts", "steps/oncelog", "steps/report", "steps/scan"}},
	{"steps/hooks", []string{"workflow", "store", "internal", "steps/desired", "steps/hookmetrics", "steps/oncelog", "steps/sections"}},
	{"steps/hookio", []string{"workflow", "store", "internal/hook", "internal/values", "steps/bindings", "steps/desired", "steps/hookmetrics", "steps/objects", "steps/sections"}},
	{"steps/hookrun", []string{"workflow", "store", "internal/hook", "steps/bindings", "steps/hookio", "steps/hooks", "steps/report", "steps/scan"}},
	{"steps/review", []string{"workflow", "store", "internal/hook", "internal/webhook", "steps/bindings", "steps/hookio", "steps/oncelog", "steps/report"}},
	{"steps/stale", []string{"workflow/graph", "store", "internal/hook", "steps/bindings", "steps/desired", "steps/oncelog"}},
	{"steps/safety", []string{"store", "internal/helm", "internal/kube", "internal/module", "steps/oncelog", "steps/sections"}},
	{"steps/crds", []string{"workflow", "store", "internal", "steps/desired", "steps/oncelog"}},
	{"steps/decide", []string{"workflow", "store", "internal", "steps/addons/modules", "steps/bindings", "steps/desired", "steps/sections"}},
	{"steps/survey", []string{"workflow/graph", "store", "internal", "steps/addons/modules", "steps/desired", "steps/oncelog", "steps/sections"}},
	{"steps/discover", []string{"workflow", "store", "steps/crds", "steps/decide", "steps/safety", "steps/scan", "steps/stale", "steps/survey"}},
	{"steps/converge", []string{"workflow", "store", "internal/hook", "steps/bindings", "steps/desired", "steps/hooks", "steps/scan", "steps/sections"}},
	{"steps/modulerun", []string{"workflow", "store", "steps/addons/modules", "steps/bindings", "steps/desired", "steps/hooks", "steps/scan", "steps/sections"}},
	{"steps/moduledelete", []string{"workflow", "store", "internal/module", "steps/addons/modules", "steps/bindings", "steps/desired", "steps/hooks", "steps/scan"}},
	{"steps/configmap", []string{"workflow", "store", "internal/module", "internal/values", "steps/charts", "steps/desired", "steps/scan", "steps/sections"}},
	{"steps", []string{"workflow", "store", "internal", "steps"}},
	{"triggers", []string{"workflow", "store", "internal"}},
	{"workflow/graph/graphtest", []string{"workflow/graph"}},
	{"workflow/graph", nil},
	{"workflow/lifecycle", []string{"workflow/graph"}},
	{"workflow/addons", []string{"workflow/graph"}},
	{"workflow/draw", []string{"workflow/graph"}},
	{"workflow/forecast", []string{"workflow", "store"}},
	{"workflow/inspect", []string{"workflow", "store"}},
	{"workflow", []string{"workflow/graph", "store", "internal/failpoint"}},
	{"store/storetest", []string{"store", "workflow/graph"}},
	{"store/crashimage", nil},
	{"store", []string{"workflow/graph"}},
	{"internal", []string{"internal"}},
	{"deploy", []string{"e2e"}},
	{"sdk/sdktest", []string{"sdk", "internal"}},
	{"sdk", nil},
	{"modules", []string{"sdk"}},
}

// internalPackages may import only packages below internal.
var internalPackages = []string{"internal/hook", "internal/values", "internal/module", "internal/crd", "internal/dryrun", "internal/helm", "internal/jq", "internal/kube", "internal/metrics", "internal/operation", "internal/redact", "internal/schema", "internal/series", "internal/span", "internal/tracing", "internal/tree", "internal/webhook"}

// longestChain is the maximum length of a chain of packages of this project in which each package imports the next one.
// Packages in cmd, e2e and deploy have no limit.
const longestChain = 7

// mostImports is the maximum number of packages of this project that a package may import. Packages in cmd and e2e
// have no limit.
const mostImports = 10

// A pkg describes a package of this project, without its tests.
type pkg struct {
	path    string
	imports []string // imported packages of this project
	doc     bool
	bare    []string // exported names without a comment
	names   int      // number of exported names
	words   []string // exported names with a word that is too general
}

func TestImportsGoOneWay(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.imports {
			if !allowed(p.path, imported) {
				t.Errorf("%s imports %s", p.path, imported)
			}
		}
	}
}

func TestTriggersAndStepsDoNotKnowEachOther(t *testing.T) {
	for _, p := range packages(t) {
		for _, imported := range p.imports {
			if part(p.path) == "triggers" && (part(imported) == "steps" || imported == "internal/helm") {
				t.Errorf("%s imports %s: triggers must import neither steps nor Helm; they raise events, and the graph selects the steps", p.path, imported)
			}
			if slices.Contains(internalPackages, p.path) && !strings.HasPrefix(imported, "internal/") {
				t.Errorf("%s imports %s: internal packages import only each other", p.path, imported)
			}
		}
	}
}

func TestChainsOfImportsAreShort(t *testing.T) {
	all := map[string]pkg{}
	for _, p := range packages(t) {
		all[p.path] = p
	}
	var longest func(string) []string
	longest = func(path string) (chain []string) {
		for _, imported := range all[path].imports {
			if c := longest(imported); len(c) > len(chain) {
				chain = c
			}
		}
		return append([]string{path}, chain...)
	}
	for path := range all {
		if part(path) == "cmd" || part(path) == "e2e" || part(path) == "deploy" {
			continue
		}
		if c := longest(path); len(c) > longestChain {
			t.Errorf("a chain of %d packages is too long: %s", len(c), strings.Join(c, " → "))
		}
	}
}

func TestPackagesKnowFewOthers(t *testing.T) {
	for _, p := range packages(t) {
		if part(p.path) != "cmd" && part(p.path) != "e2e" && len(p.imports) > mostImports {
			t.Errorf("%s imports %d packages, at most %d: %s", p.path, len(p.imports), mostImports, strings.Join(p.imports, " "))
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		if !p.doc {
			t.Errorf("package %s has no doc", p.path)
		}
	}
}

func TestExportedNamesSayWhatTheyAre(t *testing.T) {
	names, bare := 0, []string{}
	for _, p := range packages(t) {
		names += p.names
		for _, name := range p.bare {
			bare = append(bare, p.path+"."+name)
		}
		for _, name := range p.words {
			t.Errorf("the name %s.%s has a word that is too general", p.path, name)
		}
	}
	if 20*len(bare) > names {
		t.Errorf("%d of %d exported names have no doc, at most one in twenty may:\n%s", len(bare), names, strings.Join(bare, "\n"))
	}
}

func part(path string) string {
	first, _, _ := strings.Cut(path, "/")
	return first
}

func allowed(from, to string) bool {
	for _, rule := range mayImport {
		if from != rule.from && !strings.HasPrefix(from, rule.from+"/") {
			continue
		}
		return slices.ContainsFunc(rule.to, func(prefix string) bool {
			return prefix == "" || to == prefix || strings.HasPrefix(to, prefix+"/")
		})
	}
	return false
}

// packages reads the packages of this Go module, without their tests.
func packages(t *testing.T) []pkg {
	t.Helper()
	var dirs []string
	err := filepath.WalkDir("..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		name := d.Name()
		if path != ".." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		if _, err := os.Stat(filepath.Join(path, "go.mod")); err == nil && path != ".." {
			return filepath.SkipDir // another Go module
		}
		dirs = append(dirs, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var out []pkg
	for _, dir := range dirs {
		p, ok, err := readPackage(dir)
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			out = append(out, p)
		}
	}
	if len(out) < 10 {
		t.Fatalf("found %d packages only", len(out))
	}
	return out
}

func readPackage(dir string) (p pkg, ok bool, err error) {
	rel, err := filepath.Rel("..", dir)
	if err != nil {
		return p, false, err
	}
	p.path = filepath.ToSlash(rel)
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return p, false, err
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			return p, false, err
		}
		ok = true
		p.doc = p.doc || f.Doc != nil
		for _, i := range f.Imports {
			path := strings.Trim(i.Path.Value, `"`)
			if ours, found := strings.CutPrefix(path, moduleName+"/"); found && !slices.Contains(p.imports, ours) {
				p.imports = append(p.imports, ours)
			}
		}
		for _, d := range f.Decls {
			p.declare(d)
		}
	}
	return p, ok, nil
}

func (p *pkg) declare(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil || exportedReceiver(d) {
			p.name(d.Name.Name, d.Doc != nil)
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				p.name(s.Name.Name, d.Doc != nil || s.Doc != nil)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					p.name(n.Name, d.Doc != nil || s.Doc != nil || s.Comment != nil)
				}
			}
		}
	}
}

func exportedReceiver(d *ast.FuncDecl) bool {
	name := strings.TrimPrefix(fmt.Sprint(d.Recv.List[0].Type), "&{")
	if star, ok := d.Recv.List[0].Type.(*ast.StarExpr); ok {
		name = fmt.Sprint(star.X)
	}
	return ast.IsExported(name)
}

func (p *pkg) name(name string, doc bool) {
	if !ast.IsExported(name) || part(p.path) == "cmd" {
		return
	}
	p.names++
	if !doc {
		p.bare = append(p.bare, name)
	}
	for _, word := range []string{"Manager", "Handler", "Service", "Util", "Common", "Helper"} {
		if strings.Contains(name, word) {
			p.words = append(p.words, name)
		}
	}
}
