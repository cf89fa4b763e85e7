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

// An arrow leads from a file to another file of the same package whose declarations the first file uses.
type arrow struct{ from, to string }

// arrows returns the arrows between the files of p. The value of an arrow is a name that the one file uses and the
// other file declares: the first such name in alphabetical order.
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

// declaredIn reports whether object is declared in pkg, and visible in all files of pkg: as a name in package scope,
// or as a method.
func declaredIn(object types.Object, pkg *types.Package) bool {
	if object.Pkg() != pkg || !object.Pos().IsValid() {
		return false
	}
	if f, ok := object.(*types.Func); ok && f.Signature().Recv() != nil {
		return true
	}
	return object.Parent() == pkg.Scope()
}

// backwardArrows returns the row for the share of arrows that run backwards, in the packages below dirs.
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

// backward returns the arrows that run backwards in the best order of files that it finds. To find the best order of
// all is NP-hard, because its backward arrows are the smallest set of arrows whose removal breaks all cycles. So the
// search begins with the greedy order of Eades, Lin and Smyth. Then it moves single files as long as a move improves
// the order.
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

// greedy orders files so that most files are above the files that they use. It fills the order from the top and from
// the bottom, one file at a time. A file that uses none of the remaining files goes to the bottom part, above the files
// that are already there. If there is no such file, a file that none of the remaining files uses goes to the top part,
// below the files that are already there. If there is no such file either, the file for which the number of used files
// minus the number of users is greatest goes to the top part.
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

// rank returns the rank of a file. uses is the number of remaining files that the file uses, and users is the number of
// remaining files that use it. greedy places the file with the lowest rank next.
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

// settle moves file to the position in order at which the fewest of its arrows run backwards. settle reports whether
// fewer arrows run backwards than before.
func settle(order []string, file string, arrows []arrow) bool {
	was := slices.Index(order, file)
	others := slices.Delete(slices.Clone(order), was, was+1)
	at := positions(others)
	// change[i] is the increase in the number of backward arrows if file moves from directly above others[i] to
	// directly below it.
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
