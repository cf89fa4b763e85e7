package inspect

import (
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A tree collects the steps of a run. The caller adds the steps in the history first, oldest first, and
// then the pending steps.
type tree struct {
	scan   *scan
	graph  *graph.Graph
	rows   rows
	passes int
	cut    time.Time // the last time at which a step was superseded
}

// rows has the rows of one level of the tree, in the order in which they were added.
type rows struct {
	list []*row
	at   map[place]*row
}

// A place identifies a row of a level.
type place struct {
	node    string
	subject graph.Subject
}

// A row is a step to which data is still added.
type row struct {
	Step
	rows rows
	// order is the key by which the rows of a level are sorted. Rows with equal keys keep the order in
	// which they were added.
	order int
	// pending is set if the row itself has a pending task. The method finish also sets it if a row
	// below has one.
	pending bool
	// last is the state in which the row, or a row below it, has last ended. Failed attempts of
	// rows below it are ignored.
	last State
	// failed is the number of failed attempts of the row in the history, and lastError is the error of
	// the last failed attempt.
	failed    int
	lastError string
}

// row returns the row of node n with the subject s. row adds the row if there is none.
func (l *rows) row(n *graph.Node, s graph.Subject) *row {
	at := place{string(n.ID), s}
	if r := l.at[at]; r != nil {
		return r
	}
	r := &row{Step: Step{Node: string(n.ID), Number: n.Number, Subject: s}}
	if l.at == nil {
		l.at = map[place]*row{}
	}
	l.at[at] = r
	l.list = append(l.list, r)
	return r
}

// drop removes the rows for which unwanted returns true.
func (l *rows) drop(unwanted func(*row) bool) {
	l.list = slices.DeleteFunc(l.list, func(r *row) bool {
		gone := unwanted(r)
		if gone {
			delete(l.at, place{r.Node, r.Subject})
		}
		return gone
	})
}

// path returns the rows from the top of the tree to the row of node n with the subject s. path adds missing rows.
func (t *tree) path(n *graph.Node, s graph.Subject) []*row {
	var path []*row
	level := &t.rows
	down := func(n *graph.Node, s graph.Subject) {
		path = append(path, level.row(n, s))
		level = &path[len(path)-1].rows
	}
	switch n.Scope {
	case graph.ScopeBinding:
		down(n, s)
	case graph.ScopeConfiguration:
		if n.ForEach != "" {
			down(n, graph.Subject{})
		}
		if n.ForEach == "" || s != (graph.Subject{}) {
			down(n, s)
		}
	case graph.ScopeModule:
		entry := t.entry(n)
		down(entry, graph.Subject{})
		if s.Module != "" {
			down(entry, graph.Subject{Module: s.Module})
		}
		if n.ID != entry.ID {
			down(n, graph.Subject{Module: s.Module})
			path[len(path)-1].order = t.order(n)
		}
		if s.Hook != "" {
			down(n, s)
		}
	default:
		down(n, graph.Subject{})
		if s != (graph.Subject{}) {
			down(n, s)
		}
	}
	return path
}

// order returns the index of n among the nodes of the graph.
func (t *tree) order(n *graph.Node) int {
	return slices.IndexFunc(t.graph.Nodes, func(other graph.Node) bool { return other.ID == n.ID })
}

// entry returns the first node of the module run to which n belongs. The first node of the run is the first node with
// the group and the scope of n from which n can be reached.
func (t *tree) entry(n *graph.Node) *graph.Node {
	for i := range t.graph.Nodes {
		if first := &t.graph.Nodes[i]; first.Group == n.Group && first.Scope == n.Scope && t.graph.Leads(first.ID, n.ID) {
			return first
		}
	}
	return n
}

// node returns the node with the given ID. If the graph does not have the node, for example because an older version
// wrote the record, node returns a node with this ID and the scope of a binding, so that each subject has one row.
func (t *tree) node(id string) *graph.Node {
	if n, ok := t.graph.Node(graph.NodeID(id)); ok {
		return n
	}
	return &graph.Node{ID: graph.NodeID(id), Scope: graph.ScopeBinding}
}

// record adds a line of history.
func (t *tree) record(l line) {
	n := t.node(l.Node)
	t.pass(n)
	path := t.path(n, l.Subject)
	r := path[len(path)-1]
	run := n.Scope == graph.ScopeModule && n.ID == t.entry(n).ID && l.Subject.Hook == "" && l.Subject.Module != ""
	if run {
		r.restart()
	}
	for _, above := range path {
		if l.State != store.Failed {
			above.last = State(l.State)
		}
		if !l.Began.IsZero() && (above.Began.IsZero() || above == r && !run) {
			above.Began = l.Began
		}
		above.Ended = l.Ended
	}
	if l.State == store.Superseded {
		t.cut = l.Ended
	}
	r.State, r.last = State(l.State), State(l.State)
	r.Task, r.Queue = l.Task, l.Queue
	r.Try, r.Error, r.Detail, r.Warning = l.Try, l.Error, l.Detail, l.Warning
	r.Again, r.Merged, r.Into = l.Again, l.Merged, l.Into
	if r.Failures = 0; l.State == store.Failed {
		r.Failures = l.Try
		r.failed, r.lastError = max(r.failed+1, l.Try), l.Error
	}
}

// restart drops the steps of a module's run when the run starts again. Failed steps stay, because
// they show why the run starts again. Skipped steps stay too, because the run passes over them.
func (r *row) restart() {
	repeated := func(step *row) bool { return step.State != Failed && step.State != Skipped }
	r.rows.drop(func(step *row) bool {
		step.rows.drop(repeated)
		return repeated(step) && len(step.rows.list) == 0
	})
}

// pass begins a new pass if n has the scope [graph.ScopeAll], and the graph leads from n to another node that has a row
// already. pass then drops the rows of n and of the nodes behind n, because their steps are done again.
func (t *tree) pass(n *graph.Node) {
	if n.Scope != graph.ScopeAll {
		return
	}
	again := func(r *row) bool {
		return r.Node != string(n.ID) && t.graph.Leads(n.ID, graph.NodeID(r.Node))
	}
	if !slices.ContainsFunc(t.rows.list, again) {
		return
	}
	t.passes++
	t.rows.drop(func(r *row) bool { return again(r) || r.Node == string(n.ID) })
}

// task adds a pending task and, for a fan-out task, its items.
func (t *tree) task(at *pendingTask) error {
	n := t.node(at.Node)
	t.pass(n)
	wait, err := t.scan.wait(at)
	if err != nil {
		return err
	}
	path := t.path(n, at.Subject)
	r := path[len(path)-1]
	switch {
	case at.FanOut == nil || at.OwnQueue:
		t.setPending(r, at, wait)
	case at.FanOut.Next == at.FanOut.Len:
		r.pend(at, t.scan.state(at.Task), wait)
	default:
		if err := t.list(n, path, at, wait); err != nil {
			return err
		}
	}
	if r.Behind, err = t.scan.behind(at); err != nil {
		return err
	}
	if n.Scope == graph.ScopeModule && n.ID != t.entry(n).ID && len(path) > 1 {
		path[1].Ahead = t.ahead(n.ID, graph.ScopeModule)
	}
	t.failure(at)
	return nil
}

// setPending marks r as pending, and sets its state, attempt and object to those of the task at.
func (t *tree) setPending(r *row, at *pendingTask, wait *Wait) {
	r.pend(at, t.scan.state(at.Task), wait)
	r.begin(at)
	r.Object = at.Object
}

// pend marks r as pending, with the data of the given task. The data of earlier attempts is
// removed.
func (r *row) pend(at *pendingTask, state State, wait *Wait) {
	r.pending, r.State, r.Wait = true, state, wait
	r.Task, r.Queue, r.Due, r.Ended = at.ID, at.Queue, at.Due, time.Time{}
	r.Try, r.Error, r.Detail, r.Warning = 0, "", "", ""
	if state == Waiting && len(r.rows.list) == 0 {
		r.Began = time.Time{}
	}
}

// begin sets the start and the number of the attempt of r that runs or was interrupted.
func (r *row) begin(at *pendingTask) {
	if at.Claim == nil || at.Claim.Epoch == 0 || r.State != Running && r.State != Interrupted {
		return
	}
	r.Again, r.Try = at.Claim.Again, 1
	if len(r.rows.list) == 0 || r.Began.IsZero() {
		r.Began = at.Claim.Since
	}
	if f := at.Failed.Of(store.StepRef{Node: r.Node, Subject: r.Subject}); f != nil {
		r.Try = f.Count + 1
	}
}

// list adds the unfinished items of the given fan-out task. The first unfinished item is the
// current item.
func (t *tree) list(n *graph.Node, path []*row, at *pendingTask, wait *Wait) error {
	r := path[len(path)-1]
	state := t.scan.state(at.Task)
	for i := at.FanOut.Next; i < at.FanOut.Len; i++ {
		item, err := store.LoadItem[graph.Item](t.scan.tx, at.ID, i)
		if err != nil {
			if err := t.scan.unreadable.pass(err); err != nil {
				return err
			}
			continue
		}
		path := t.path(n, item.Subject)
		m := path[len(path)-1]
		m.pend(at, Waiting, nil)
		if i == at.FanOut.Next {
			m.State, m.Wait = state, wait
			m.begin(at)
			continue
		}
		if at.FanOut.Edge || m == r {
			m.rows = rows{}
		}
		m.Due, m.Wait = time.Time{}, &Wait{For: ForStep, Ahead: i - at.FanOut.Next}
		if m.Began = (time.Time{}); item.Queue != "" {
			m.Queue = item.Queue
		}
	}
	return nil
}

// failure marks the step whose failure is recorded in the given pending task. If the run starts over after a failure,
// the failed step is not the step of the task.
func (t *tree) failure(at *pendingTask) {
	f := at.Failed
	if f == nil {
		return
	}
	path := t.path(t.node(f.Node), f.Subject)
	r := path[len(path)-1]
	state := t.scan.state(at.Task)
	again := f.Node == at.Node && (r.State == Running || r.State == Interrupted) // the same step is being retried
	if again {
		state = r.State
	} else if state != Running && state != Interrupted {
		state = Backoff
		r.Due = at.Due
	} else {
		state = Failed
	}
	r.State, r.Failures, r.Error = state, f.Count, f.Error
	r.Task, r.Queue = at.ID, at.Queue
	if r.Try = f.Count + 1; state == Failed {
		r.Try = f.Count
	}
	if state == Backoff && r.Wait == nil {
		r.Wait = &Wait{For: ForRetry}
	}
	if !again && r.Ended.IsZero() {
		r.Ended = f.At
	}
	r.pending = true
}

// ahead returns the nodes that may follow a task of the given node in the same slot. If the scope of the given node is
// a module, ahead returns only nodes with this scope.
func (t *tree) ahead(from graph.NodeID, of graph.Scope) []Ahead {
	var out []Ahead
	seen := map[graph.NodeID]bool{from: true}
	next := []graph.NodeID{from}
	for len(next) > 0 {
		id := next[0]
		next = next[1:]
		for _, e := range t.graph.Edges {
			n := t.node(string(e.To))
			if e.From != id || e.Loop || e.Place != graph.Stack || n.Junction || of == graph.ScopeModule && n.Scope != of {
				continue
			}
			if seen[e.To] { // several paths lead to the node
				sure(out, e.To)
				continue
			}
			seen[e.To] = true
			out = append(out, Ahead{
				Node: string(e.To), Number: n.Number, If: string(e.When), Unless: string(e.Unless), Each: string(e.ForEach),
			})
			if n.Scope == of {
				next = append(next, e.To)
			}
		}
	}
	return out
}

// sure removes the facts from the entry of node. sure is called if several paths lead to the node, because then the
// facts of one edge do not decide whether the node is reached.
func sure(ahead []Ahead, node graph.NodeID) {
	for i := range ahead {
		if ahead[i].Node == string(node) {
			ahead[i].If, ahead[i].Unless = "", ""
		}
	}
}
