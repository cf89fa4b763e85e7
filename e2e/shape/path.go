package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/callgraph/cha"
	"golang.org/x/tools/go/callgraph/vta"
	"golang.org/x/tools/go/ssa"
	"golang.org/x/tools/go/ssa/ssautil"
)

// path measures the number of files that a reader must open to follow the path from one function to another. A function
// is on the path if calls lead from the first function to it, and from it to the last function. The reader opens the
// files of the functions on the path. The reader also opens the files of the functions that these functions, except the
// last one, call by name. Of the methods that a call of an interface method may reach, the reader opens only those on
// the path. The arguments from and to are names as Go prints them, but without the path of the module, such as
// (*internal/kube.watch).applyFrames.
func (t *tree) path(from, to string) (row, error) {
	g := t.calls()
	for _, name := range []string{from, to} {
		if g.named[name] == nil {
			return row{}, fmt.Errorf("measure the path from %s to %s: no function %s; name its successor in main.go", from, to, name)
		}
	}
	leading := reach(g.named[to], g.callers)
	if !leading[g.named[from]] {
		return row{}, fmt.Errorf("measure the path from %s to %s: the call graph has no such path", from, to)
	}
	files, functions := map[string]bool{}, 0
	for f := range reach(g.named[from], g.callees) {
		if !leading[f] {
			continue
		}
		if f.Synthetic == "" {
			functions++
		}
		opened := []*ssa.Function{f}
		if f != g.named[to] {
			opened = append(opened, g.direct[f]...)
		}
		for _, o := range opened {
			if file, ours := strings.CutPrefix(t.fset.Position(o.Pos()).Filename, t.dir+string(filepath.Separator)); ours {
				files[filepath.ToSlash(file)] = true
			}
		}
	}
	return row{
		Name: "files from a cluster event to the Helm upgrade", AtMost: 60,
		Value:   float64(len(files)),
		Where:   fmt.Sprintf("%d functions on the path", functions),
		Details: slices.Sorted(maps.Keys(files)),
	}, nil
}

// A callGraph has the calls between the functions of the module. named has the functions by name.
type callGraph struct {
	named            map[string]*ssa.Function
	callees, callers map[*ssa.Function][]*ssa.Function
	direct           map[*ssa.Function][]*ssa.Function // the callees that the source names at the call
}

// calls returns the call graph, as a reader would follow it. A function that is used as a value, such as a literal or
// a method value, is treated as called at the place where it is written, whoever calls it. A call of an interface
// method leads to all methods that it may call.
func (t *tree) calls() *callGraph {
	program, _ := ssautil.Packages(t.packages, ssa.InstantiateGenerics)
	program.Build()
	all := ssautil.AllFunctions(program)
	g := &callGraph{
		map[string]*ssa.Function{}, map[*ssa.Function][]*ssa.Function{}, map[*ssa.Function][]*ssa.Function{}, map[*ssa.Function][]*ssa.Function{},
	}
	add := func(caller, callee *ssa.Function, direct bool) {
		caller, callee = written(caller), written(callee)
		g.callees[caller] = append(g.callees[caller], callee)
		g.callers[callee] = append(g.callers[callee], caller)
		if direct {
			g.direct[caller] = append(g.direct[caller], callee)
		}
	}
	for f := range all {
		g.named[strings.ReplaceAll(f.RelString(nil), t.module+"/", "")] = f
		for _, b := range f.Blocks {
			for _, i := range b.Instrs {
				for _, used := range i.Operands(nil) {
					if callee, ok := (*used).(*ssa.Function); ok {
						add(f, callee, true)
					}
				}
			}
		}
	}
	for f, node := range vta.CallGraph(all, cha.CallGraph(program)).Nodes {
		for _, edge := range node.Out {
			if edge.Site != nil && edge.Site.Common().IsInvoke() {
				add(f, edge.Callee.Func, false)
			}
		}
	}
	return g
}

// written returns the declared function in which f is written. If f is not a literal, written returns f.
func written(f *ssa.Function) *ssa.Function {
	for f.Parent() != nil {
		f = f.Parent()
	}
	return f
}

// reach returns the given function, and all functions that can be reached from it in the map next, which has the direct
// successors of each function.
func reach(from *ssa.Function, next map[*ssa.Function][]*ssa.Function) map[*ssa.Function]bool {
	reached := map[*ssa.Function]bool{from: true}
	for ahead := []*ssa.Function{from}; len(ahead) > 0; {
		f := ahead[len(ahead)-1]
		ahead = ahead[:len(ahead)-1]
		for _, n := range next[f] {
			if !reached[n] {
				reached[n] = true
				ahead = append(ahead, n)
			}
		}
	}
	return reached
}
