package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"math"
	"slices"
)

// shown is the maximum number of entries in the details of a row.
const shown = 10

// methods returns the row for the type with the most methods.
func (t *tree) methods() row {
	of := map[string]int{}
	for _, f := range t.functions() {
		if recv := receiver(f.decl); recv != "" {
			of[f.pkg+"."+recv]++
		}
	}
	return row{Name: "methods on the largest type", AtMost: 25}.most(of)
}

// most returns r with the greatest count as its value, and the name of this count as the place. The details of the row
// are the greatest counts with their names. The constant named shown is the maximum number of these details.
func (r row) most(counts map[string]int) row {
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	for i, name := range names[:min(shown, len(names))] {
		if i == 0 {
			r.Value, r.Where = float64(counts[name]), name
		}
		r.Details = append(r.Details, fmt.Sprintf("%4d  %s", counts[name], name))
	}
	return r
}

// simple is the maximum cyclomatic complexity of a function that is not counted as complex.
const simple = 15

// complexity returns the row for the share of functions whose cyclomatic complexity is above simple.
func (t *tree) complexity() row {
	all, over := 0, map[string]int{}
	for _, f := range t.functions() {
		all++
		if c := cyclomatic(f.decl); c > simple {
			over[f.name()] = c
		}
	}
	r := row{Name: fmt.Sprintf("functions with a cyclomatic complexity above %d", simple), Unit: " %", AtMost: 0.5}.most(over)
	r.Value = percent(len(over), all)
	r.Where = fmt.Sprintf("%d of %d", len(over), all)
	return r
}

// percent returns part as a percentage of all, rounded to two digits after the point.
func percent(part, all int) float64 {
	if all == 0 {
		return 0
	}
	return math.Round(10000*float64(part)/float64(all)) / 100
}

// cyclomatic returns the cyclomatic complexity of a function, including the function literals inside it: one, plus one
// for each if, loop, case, && and ||.
func cyclomatic(decl *ast.FuncDecl) int {
	paths := 1
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			paths++
		case *ast.CaseClause:
			if n.List != nil { // nil for default, which adds no path
				paths++
			}
		case *ast.CommClause:
			if n.Comm != nil {
				paths++
			}
		case *ast.BinaryExpr:
			if n.Op == token.LAND || n.Op == token.LOR {
				paths++
			}
		}
		return true
	})
	return paths
}

// fanOut returns the row for the package that imports the most packages of the module. It leaves out packages below
// cmd and e2e, which must import many packages.
func (t *tree) fanOut() row {
	of := map[string]int{}
	for _, p := range t.packages {
		name := t.short(p.PkgPath)
		if below(name, "cmd", "e2e") {
			continue
		}
		for path := range p.Imports {
			if below(path, t.module) {
				of[name]++
			}
		}
	}
	return row{Name: "imports of the package with the most imports, outside cmd and e2e", AtMost: 10}.most(of)
}
