package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Run returns a snapshot of the run that req names. The error is ErrNoRun if the store does not
// have that run, or has no runs.
func (r *Reader) Run(tx *store.Tx, req Request) (*Run, error) {
	s, err := r.scan(tx)
	if err != nil {
		return nil, err
	}
	problems, err := r.problems(s)
	if err != nil {
		return nil, err
	}
	if req.Run == 0 {
		if req.Run, err = choose(s, problems); err != nil {
			return nil, err
		}
	}
	return r.run(s, req.Run, problems)
}

// run returns a snapshot of the run with the given number. problems has the problems of all runs.
func (r *Reader) run(s *scan, number uint64, problems []Problem) (*Run, error) {
	s, err := s.of(number)
	if err != nil {
		return nil, err
	}
	record, ok, err := load[store.Run](s.unreadable, store.RunKey(number))
	if err != nil {
		return nil, err
	}
	if !ok && s.tx.Get(store.RunKey(number)) != nil {
		record, ok = withoutRecord(number, s.mine), true
	}
	if !ok {
		return nil, fmt.Errorf("run %d: %w: it never existed, or its history was deleted", number, ErrNoRun)
	}
	return r.snapshot(s, &record, problems)
}

// snapshot returns the data of the run with the given record. s must have the tasks of this run.
func (r *Reader) snapshot(s *scan, record *store.Run, problems []Problem) (*Run, error) {
	w := &Run{
		Schema: Schema, At: s.now, Epoch: s.epoch, Live: r.Live,
		ID: record.ID, Graph: record.Graph, Trigger: record.Trigger, Subject: record.Subject.String(),
		Cause: record.Cause, Began: record.Began, Ended: record.Ended, Open: record.Open, Joined: record.Joined,
		Warning: record.Warning,
	}
	lines, unread, err := s.history(record.ID)
	if err != nil {
		return nil, err
	}
	w.Unread = unread
	if w.Restarts, err = restarts(record, lines, s); err != nil {
		return nil, err
	}
	t := &tree{scan: s, graph: r.graph(record.Graph), passes: 1}
	for _, l := range lines {
		t.record(l)
	}
	for _, at := range s.order() {
		if err := t.task(at); err != nil {
			return nil, err
		}
	}
	if s.more() {
		w.Unfound = max(record.Open-len(s.mine), 0)
	}
	w.Passes, w.Cut, w.Counts = t.passes, t.cut, map[State]int{}
	w.Ahead = t.to()
	for _, p := range problems {
		if p.Kind == KindRefused && p.Run == w.ID {
			t.refuse(p)
		}
	}
	for _, top := range t.rows.list {
		w.Steps = append(w.Steps, top.finish(w.Counts))
		if n := t.node(top.Node); n.Scope == graph.ScopeModule {
			w.count(top)
		}
	}
	if w.Lost, err = lostSpan(s.unreadable, s.now); err != nil {
		return nil, err
	}
	damage, err := s.damage()
	if err != nil {
		return nil, err
	}
	w.Problems = mineFirst(slices.Concat(problems, damage), w.ID)
	w.State = runState(record, w.Steps, w.Problems)
	w.Advice = w.advise()
	return w, nil
}

// withoutRecord returns a substitute for the record of a run, made from the tasks of the run. The substitute is used if
// the record cannot be read.
func withoutRecord(run uint64, tasks []*pendingTask) store.Run {
	record := store.Run{ID: run, Open: len(tasks)}
	if len(tasks) > 0 {
		record.Graph = tasks[0].Graph
	}
	return record
}

// count adds the modules below the given row to the progress of the run.
func (w *Run) count(list *row) {
	if len(list.rows.list) == 0 {
		return
	}
	if w.Progress == nil {
		w.Progress = &Progress{}
	}
	for _, m := range list.rows.list {
		w.Progress.Of++
		if m.State.ended() {
			w.Progress.Done++
		}
	}
}

// ended reports whether work in state s has ended.
func (s State) ended() bool {
	switch s {
	case Done, Allowed, Skipped, Dropped, Superseded, Joined, Refused, Quarantined:
		return true
	default:
		return false
	}
}

// to returns the nodes to which the run's pending tasks at nodes with the scope [graph.ScopeAll] may lead. The result
// leaves out nodes that have a row.
func (t *tree) to() []Ahead {
	var out []Ahead
	for _, at := range t.scan.order() {
		n := t.node(at.Node)
		if n.Scope != graph.ScopeAll || at.above > 0 || at.later {
			continue
		}
		for _, a := range t.ahead(n.ID, n.Scope) {
			known := func(r *row) bool { return r.Node == a.Node }
			if !slices.ContainsFunc(t.rows.list, known) && !slices.Contains(out, a) {
				out = append(out, a)
			}
		}
	}
	return out
}

// refuse marks the step that read an invalid ConfigMap. p is the problem of the ConfigMap.
func (t *tree) refuse(p Problem) {
	for _, r := range t.rows.list {
		if n := t.node(r.Node); n.WakesFailed && r.State == Done {
			r.State, r.last, r.Error, r.Detail = Refused, Refused, p.Error, ""
		}
	}
}

// finish returns r as a step, with the rows below it. finish adds the steps that have no steps below them to counts, by
// their state.
func (r *row) finish(counts map[State]int) Step {
	active, pending := r.finishBelow(counts)
	r.pending = pending
	if r.failed > 0 && !pending && r.State.ended() {
		r.Failures, r.LastError = r.failed, r.lastError
	}
	switch {
	case len(r.Steps) == 0:
		counts[r.State]++
	case pending:
		r.State, r.Ended = active, time.Time{}
		if active != Backoff && !r.Wait.untilDue() {
			r.Due = time.Time{}
		}
	case r.State != Skipped || r.last != Skipped:
		r.State = whole(r.last)
	}
	r.Ahead = slices.DeleteFunc(r.Ahead, func(a Ahead) bool {
		return slices.ContainsFunc(r.Steps, func(s Step) bool { return s.Node == a.Node })
	})
	return r.Step
}

// finishBelow finishes the rows below r. The result active is the gravest state of the unfinished work in r and in
// these rows. The result pending says whether r or one of these rows has a pending task.
func (r *row) finishBelow(counts map[State]int) (active State, pending bool) {
	if pending = r.pending; pending {
		active = r.State
	}
	slices.SortStableFunc(r.rows.list, func(a, b *row) int { return cmp.Compare(a.order, b.order) })
	for _, below := range r.rows.list {
		step := below.finish(counts)
		r.Steps = append(r.Steps, step)
		r.Again = r.Again || step.Again
		if r.Began.IsZero() {
			r.Began = step.Began
		}
		if !step.State.ended() {
			pending = pending || below.pending
			active = graver(active, step.State)
		}
	}
	return active, pending
}

// untilDue reports whether the task of w starts at its due time, although its last attempt has not
// failed.
func (w *Wait) untilDue() bool { return w != nil && (w.For == ForTime || w.For == ForLimit) }

// graver returns the state that is shown for two pieces of pending work with the states a and b.
func graver(a, b State) State {
	for _, s := range []State{Backoff, Running, Interrupted, Failed, Waiting} {
		if a == s || b == s {
			return s
		}
	}
	return b
}

// whole returns the state of a group of ended steps. s is the state in which the last of them ended; it
// is empty if all failed.
func whole(s State) State {
	switch s {
	case "":
		return Failed
	case Dropped, Superseded, Quarantined:
		return s
	default:
		return Done
	}
}

// runState returns the state of the run as a whole.
func runState(record *store.Run, steps []Step, problems []Problem) State {
	mine := func(k Kind) bool {
		return slices.ContainsFunc(problems, func(p Problem) bool { return p.Kind == k && p.Run == record.ID })
	}
	state := State("")
	for i := range steps {
		if !steps[i].State.ended() {
			state = graver(state, steps[i].State)
		}
	}
	switch {
	case mine(KindFailing):
		return Failing
	case mine(KindRefused):
		return Refused
	case record.Open > 0 && state == "":
		return Waiting
	case record.Open > 0:
		return state
	case record.Joined != 0 && len(steps) == 0:
		return Joined
	case record.Joined != 0 && whole(steps[len(steps)-1].State) != Done:
		return steps[len(steps)-1].State
	case record.Joined != 0:
		return Joined
	default:
		return Done
	}
}

// Runs returns the newest runs, newest first. The argument limit is their maximum number.
func (r *Reader) Runs(tx *store.Tx, limit int) ([]Summary, error) {
	l, err := r.newLister(tx)
	if err != nil {
		return nil, err
	}
	runs := []Summary{}
	for w, err := range readable(l.scan.unreadable, store.RunsBackwards(tx)) {
		if err != nil {
			return nil, err
		}
		if len(runs) == limit {
			break
		}
		runs = append(runs, l.summary(&w))
	}
	return runs, nil
}

// A runLister makes summaries of runs.
type runLister struct {
	scan     *scan
	problems map[uint64][]Problem // by run
	under    map[uint64]State     // by run: the gravest state of its running tasks and of its tasks at the heads of queues
}

func (r *Reader) newLister(tx *store.Tx) (*runLister, error) {
	s, err := r.scan(tx)
	if err != nil {
		return nil, err
	}
	problems, err := r.problems(s)
	if err != nil {
		return nil, err
	}
	l := &runLister{scan: s, problems: map[uint64][]Problem{}, under: map[uint64]State{}}
	for _, p := range problems {
		l.problems[p.Run] = append(l.problems[p.Run], p)
	}
	for _, q := range s.queues {
		l.under[q.head.Run] = graver(l.under[q.head.Run], s.state(q.head))
		if q.busy != nil {
			l.under[q.busy.Run] = graver(l.under[q.busy.Run], Running)
		}
	}
	return l, nil
}

// summary returns the summary of a run.
func (l *runLister) summary(w *store.Run) Summary {
	var steps []Step
	if state := l.under[w.ID]; state != "" {
		steps = []Step{{State: state}}
	}
	return Summary{
		ID: w.ID, Graph: w.Graph, Trigger: w.Trigger, Subject: w.Subject.String(), Cause: w.Cause,
		State: runState(w, steps, l.problems[w.ID]), Began: w.Began, Ended: w.Ended, Open: w.Open, Joined: w.Joined,
		Warning: w.Warning,
	}
}
