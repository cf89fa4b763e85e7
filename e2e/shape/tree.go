package main

import (
	"cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// A tree is the source of one module.
type tree struct {
	dir      string // root directory of the module
	module   string // module path, as in go.mod
	fset     *token.FileSet
	packages []*packages.Package // without tests, sorted by path
}

// load reads the source of the module in dir. For packages of other modules, it reads only the compiled export data,
// which takes a fraction of the time.
func load(dir string) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	config := &packages.Config{
		Dir:  dir,
		Fset: t.fset,
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedCompiledGoFiles | packages.NeedImports | packages.NeedModule |
			packages.NeedTypes | packages.NeedTypesSizes | packages.NeedSyntax | packages.NeedTypesInfo,
	}
	var err error
	if t.packages, err = packages.Load(config, "./..."); err != nil {
		return nil, fmt.Errorf("load the packages of %s: %w", dir, err)
	}
	for _, p := range t.packages {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("load package %s: %w; see go build ./... for all errors", p.PkgPath, p.Errors[0])
		}
		if p.Module != nil {
			t.dir, t.module = p.Module.Dir, p.Module.Path
		}
	}
	if t.module == "" {
		return nil, fmt.Errorf("load the packages of %s: %w", dir, errors.New("no Go module is there"))
	}
	slices.SortFunc(t.packages, func(a, b *packages.Package) int { return cmp.Compare(a.PkgPath, b.PkgPath) })
	return t, nil
}

// short returns the import path of a package without the module path.
func (t *tree) short(path string) string {
	return strings.TrimPrefix(strings.TrimPrefix(path, t.module), "/")
}

// file returns the path of the file that contains pos, relative to the root of the module.
func (t *tree) file(pos token.Pos) string {
	name := t.fset.Position(pos).Filename
	if below, err := filepath.Rel(t.dir, name); err == nil {
		name = below
	}
	return filepath.ToSlash(name)
}

// below reports whether path is one of dirs, or below one of them.
func below(path string, dirs ...string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") })
}

// A function is one declared function or method of the module.
type function struct {
	pkg  string // path of the package, without the path of the module
	decl *ast.FuncDecl
}

// name returns the name of the function with its package and its receiver type, such as
// internal/kube.watch.applyFrames.
func (f function) name() string {
	if recv := receiver(f.decl); recv != "" {
		return f.pkg + "." + recv + "." + f.decl.Name.Name
	}
	return f.pkg + "." + f.decl.Name.Name
}

// receiver returns the name of the receiver type of decl, or "" if decl is not a method.
func receiver(decl *ast.FuncDecl) string {
	if decl.Recv == nil || len(decl.Recv.List) == 0 {
		return ""
	}
	for of := decl.Recv.List[0].Type; ; {
		switch x := of.(type) {
		case *ast.StarExpr:
			of = x.X
		case *ast.ParenExpr:
			of = x.X
		case *ast.IndexExpr:
			of = x.X
		case *ast.IndexListExpr:
			of = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// functions returns all functions of the module, sorted by package, file and line.
func (t *tree) functions() []function {
	var all []function
	for _, p := range t.packages {
		for _, file := range p.Syntax {
			for _, d := range file.Decls {
				if decl, ok := d.(*ast.FuncDecl); ok {
					all = append(all, function{t.short(p.PkgPath), decl})
				}
			}
		}
	}
	return all
}
