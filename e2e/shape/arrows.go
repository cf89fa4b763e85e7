package main

import (
	"cmp"
	"fmt"
	"go/types"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// An arrow leads from a file to a file that it uses.
type arrow struct{ from, to string }

// arrows returns the arrows between the files of p, each with one name that is
// used.
func (t *tree) arrows(p *packages.Package) map[arrow]string {
	all := map[arrow]string{}
	for ident, object := range p.TypesInfo.Uses {
		if !declaredIn(object, p.Types) {
			continue
		}
		a := arrow{t.file(ident.Pos()), t.file(object.Pos())}
		if name, ok := all[a]; a.from != a.to && (!ok || ident.Name < name) {
			all[a] = ident.Name
		}
	}
	return all
}

// declaredIn reports whether object is a declaration of pkg that files share: a
// name in its scope, or a method of one of its types.
func declaredIn(object types.Object, pkg *types.Package) bool {
	if object.Pkg() != pkg || !object.Pos().IsValid() {
		return false
	}
	if f, ok := object.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return object.Parent() == pkg.Scope()
}

// backwardArrows measures the share of arrows that run backwards in the packages
// below dirs.
func (t *tree) backwardArrows(dirs ...string) row {
	r := row{Name: "backward arrows between files in " + strings.Join(dirs, ", "), Unit: " %", AtMost: 5}
	all := 0
	for _, p := range t.packages {
		if !below(t.short(p.PkgPath), dirs...) {
			continue
		}
		arrows := t.arrows(p)
		all += len(arrows)
		for _, a := range backward(slices.Collect(maps.Keys(arrows))) {
			r.Details = append(r.Details, fmt.Sprintf("%s uses %s of %s", a.from, arrows[a], path.Base(a.to)))
		}
	}
	r.Value = percent(len(r.Details), all)
	r.Where = fmt.Sprintf("%d of %d", len(r.Details), all)
	return r
}

// backward returns the arrows that run backwards in the best order of files that
// is found. The best order of all is hard to find, as it is the smallest set of
// arrows that breaks all circles. So the search begins with the greedy order of
// Eades, Lin and Smyth, and then moves single files for as long as that helps.
func backward(arrows []arrow) []arrow {
	slices.SortFunc(arrows, func(a, b arrow) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	order := greedy(arrows)
	for better := true; better; {
		better = false
		for _, file := range slices.Clone(order) {
			if settle(order, file, arrows) {
				better = true
			}
		}
	}
	at := positions(order)
	return slices.DeleteFunc(slices.Clone(arrows), func(a arrow) bool { return at[a.from] < at[a.to] })
}

func positions(order []string) map[string]int {
	at := make(map[string]int, len(order))
	for i, file := range order {
		at[file] = i
	}
	return at
}

// greedy orders files from users to used ones. It places one file at a time. A file
// that uses no remaining file goes to the bottom. If there is none, a file that no
// remaining file uses goes to the top. Otherwise the file with the greatest number of
// used files minus users goes to the top.
func greedy(arrows []arrow) []string {
	uses, users := map[string]map[string]bool{}, map[string]map[string]bool{}
	for _, a := range arrows {
		for _, file := range []string{a.from, a.to} {
			if uses[file] == nil {
				uses[file], users[file] = map[string]bool{}, map[string]bool{}
			}
		}
		uses[a.from][a.to], users[a.to][a.from] = true, true
	}
	var top, bottom []string
	take := func(file string) {
		for other := range uses[file] {
			delete(users[other], file)
		}
		for other := range users[file] {
			delete(uses[other], file)
		}
		delete(uses, file)
		delete(users, file)
	}
	for len(uses) > 0 {
		best := slices.MinFunc(slices.Sorted(maps.Keys(uses)), func(a, b string) int {
			return cmp.Compare(rank(len(uses[a]), len(users[a])), rank(len(uses[b]), len(users[b])))
		})
		if len(uses[best]) == 0 {
			bottom = append(bottom, best)
		} else {
			top = append(top, best)
		}
		take(best)
	}
	slices.Reverse(bottom)
	return append(top, bottom...)
}

// rank returns the lowest number for the file that greedy takes next.
func rank(uses, users int) int {
	switch {
	case uses == 0:
		return math.MinInt
	case users == 0:
		return math.MinInt + 1
	default:
		return users - uses
	}
}

// settle moves file to the position in order where the fewest of its arrows run
// backwards, and reports whether that is better than before.
func settle(order []string, file string, arrows []arrow) bool {
	was := slices.Index(order, file)
	others := slices.Delete(slices.Clone(order), was, was+1)
	at := positions(others)
	// change[i] is the cost of moving file below others[i].
	change := make([]int, len(others))
	for _, a := range arrows {
		switch file {
		case a.from:
			change[at[a.to]]++
		case a.to:
			change[at[a.from]]--
		}
	}
	best, cost, costs := 0, 0, make([]int, len(order))
	for i := range change {
		cost += change[i]
		costs[i+1] = cost
		if cost < costs[best] {
			best = i + 1
		}
	}
	if costs[best] >= costs[was] {
		return false
	}
	copy(order, slices.Insert(others, best, file))
	return true
}
