package inspect

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// readRuns is the maximum number of runs that [Reader.RunGroups] reads, unless its parameter limit is larger.
const readRuns = 2000

// fewRuns is the maximum number of runs of a group that are shown in separate lines. The number does not include runs
// that need attention, which are always shown in separate lines.
const fewRuns = 3

// A RunGroup is one run, or several runs of one binding. Between the runs of a group, there are only runs of bindings.
type RunGroup struct {
	// Summary is the summary of the newest run. But State is the gravest state of the unfinished runs, if there are
	// any, and Open is the number of the pending tasks of all runs.
	Summary
	Count int `json:"count"`
	// First is the oldest run, and FirstBegan is its start.
	First      uint64    `json:"first"`
	FirstBegan time.Time `json:"firstBegan"`
	// Failures is the number of failed attempts of all runs. For one run, failed attempts are not counted, and Failures
	// is 0.
	Failures int `json:"failures,omitempty"`
	// More is set if the group may have older runs that were not read.
	More bool `json:"more,omitempty"`
}

// RunGroups returns the newest runs in up to limit groups, newest first.
func (r *Reader) RunGroups(tx *store.Tx, limit int) ([]RunGroup, error) {
	l, err := r.newLister(tx)
	if err != nil {
		return nil, err
	}
	g := runGroups{limit: limit, open: map[boundRuns]*members{}}
	read := 0
	for w, err := range readable(l.scan.unreadable, store.RunsBackwards(tx)) {
		if err != nil {
			return nil, err
		}
		if read++; read > max(limit, readRuns) {
			g.cut()
			break
		}
		if !g.add(&w, l) {
			break
		}
	}
	return g.finish(tx)
}

// runGroups collects groups while runs are read, newest run first. The field open has the groups that can get older
// runs.
type runGroups struct {
	limit int
	open  map[boundRuns]*members
	all   []*members
}

// boundRuns identifies the runs of one binding.
type boundRuns struct {
	graph, trigger string
	subject        graph.Subject
}

// members are the runs of a group, newest first.
type members struct {
	runs []Summary
	more bool
}

// add adds a run to its group. add returns false if the limit of groups is reached and no group can
// get an older run. If add returns false, the caller can stop reading runs.
func (g *runGroups) add(w *store.Run, l *runLister) bool {
	like := boundRuns{w.Graph, w.Trigger, w.Subject}
	group := g.open[like]
	if w.Subject.Binding == "" {
		g.open, group = map[boundRuns]*members{}, nil
	}
	if group == nil {
		if len(g.all) == g.limit {
			return len(g.open) > 0
		}
		group = new(members)
		g.all = append(g.all, group)
		if w.Subject.Binding != "" {
			g.open[like] = group
		}
	}
	group.runs = append(group.runs, l.summary(w))
	return true
}

// cut marks the open groups as possibly incomplete, because no older runs are read.
func (g *runGroups) cut() {
	for _, group := range g.open {
		group.more = true
	}
}

// finish returns the groups. Each run of a small group, and each run that needs attention, is a group of
// its own.
func (g *runGroups) finish(tx *store.Tx) ([]RunGroup, error) {
	groups := []RunGroup{}
	for _, m := range g.all {
		alone := m.split()
		if len(m.runs) > fewRuns {
			groups = append(groups, m.group(tx))
		} else {
			alone = append(alone, m.runs...)
		}
		for _, w := range alone {
			groups = append(groups, RunGroup{Summary: w, Count: 1, First: w.ID, FirstBegan: w.Began})
		}
	}
	slices.SortFunc(groups, func(a, b RunGroup) int { return cmp.Compare(b.ID, a.ID) })
	return groups[:min(len(groups), g.limit)], nil
}

// split removes the runs that need attention from m, and returns them.
func (m *members) split() (alone []Summary) {
	m.runs = slices.DeleteFunc(m.runs, func(w Summary) bool {
		needs := w.State == Failing || w.State == Refused || w.Warning != ""
		if needs {
			alone = append(alone, w)
		}
		return needs
	})
	return alone
}

// group returns the runs as one group.
func (m *members) group(tx *store.Tx) RunGroup {
	oldest := &m.runs[len(m.runs)-1]
	group := RunGroup{Summary: m.runs[0], Count: len(m.runs), First: oldest.ID, FirstBegan: oldest.Began, More: m.more}
	group.Open = 0
	failed := []byte(`"state":"` + string(store.Failed) + `"`)
	for i := range m.runs {
		w := &m.runs[i]
		group.State = graverRun(group.State, w.State)
		group.Open += w.Open
		for _, line := range tx.Skim(store.At(store.History).Uint(w.ID)) {
			if bytes.Contains(line, failed) {
				group.Failures++
			}
		}
	}
	return group
}

// graverRun returns the state that is shown for two runs with the states a and b. If both runs have
// ended, graverRun returns a.
func graverRun(a, b State) State {
	if a.ended() && b.ended() {
		return a
	}
	return graver(a, b)
}
