package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Bounds of what is searched for causes.
const (
	mostCauses   = 8 // of one chain
	mostSearched = 8 // runs with pending tasks
)

// read returns a snapshot of run; nil if the store does not have it.
func (e *explainer) read(run uint64) (*Run, error) {
	if w, known := e.runs[run]; known {
		return w, nil
	}
	w, err := e.reader.Run(e.scan.tx, Request{Run: run})
	if errors.Is(err, ErrNoRun) {
		w, err = nil, nil
	}
	if err == nil {
		e.runs[run] = w
	}
	return w, err
}

// pending returns the pending step about a wanted subject that needs attention most, and its run; nil if there is none.
func (e *explainer) pending(wanted func(graph.Subject) bool) (of *Run, found *Step, err error) {
	runs, err := e.pendingRuns(wanted)
	if err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		w, err := e.read(run)
		if err != nil {
			return nil, nil, err
		}
		if w == nil {
			continue
		}
		if found != nil && found.State != Waiting {
			break
		}
		if s := w.step(func(s *Step) bool { return wanted(s.Subject) }); s != nil && (found == nil || graver(found.State, s.State) != found.State) {
			of, found = w, s
		}
	}
	return of, found, nil
}

// pendingRuns returns the runs of failing tasks about a wanted subject, of the first task about one in each queue, and of the
// heads of queues, whose fan-out tasks can have items about it.
func (e *explainer) pendingRuns(wanted func(graph.Subject) bool) (runs []uint64, err error) {
	add := func(run uint64) {
		if !slices.Contains(runs, run) && len(runs) < mostSearched {
			runs = append(runs, run)
		}
	}
	for i := range e.problems {
		if p := &e.problems[i]; p.Kind == KindFailing && wanted(p.Subject) {
			add(p.Run)
		}
	}
	sign, found := []byte(signOf(e.name)), map[string]bool{}
	for t, err := range e.queued(func(queue string, task []byte) bool { return !found[queue] && bytes.Contains(task, sign) }) {
		if err != nil {
			return nil, err
		}
		if wanted(t.Subject) {
			found[t.Queue] = true
			add(t.Run)
		}
	}
	for _, name := range e.scan.names {
		q := e.scan.queues[name]
		add(cmp.Or(q.busy, q.head).Run)
	}
	for _, tasks := range e.outOfQueues() {
		searched := 0
		for t, err := range tasks {
			if err != nil {
				return nil, err
			}
			if searched++; searched > mostCounted {
				break
			}
			if wanted(t.Subject) {
				add(t.Run)
			}
		}
	}
	return runs, nil
}

// queued yields the tasks in queues that may be wanted by their queue and text. Only these are decoded.
func (e *explainer) queued(mayBe func(queue string, task []byte) bool) iter.Seq2[*store.Task, error] {
	return func(yield func(*store.Task, error) bool) {
		for k, v := range e.scan.tx.Range(store.At(store.Queues)) {
			pos, err := store.ParsePos(k)
			if err == nil && !mayBe(pos.Queue, v) {
				continue
			}
			var t *store.Task
			if err == nil {
				t, _, err = store.LoadTask(e.scan.tx, pos)
			}
			if err = e.scan.unreadable.pass(err); t == nil && err == nil {
				continue
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// outOfQueues returns the tasks that are due later, and the held ones.
func (e *explainer) outOfQueues() []iter.Seq2[*store.Task, error] {
	return []iter.Seq2[*store.Task, error]{
		readable(e.scan.unreadable, store.LaterTasks(e.scan.tx)), readable(e.scan.unreadable, store.AllHeldTasks(e.scan.tx)),
	}
}

// runOf returns the run of a task, and its queue if it is pending; 0 if the store does not have the task.
func (e *explainer) runOf(task store.ID) (run uint64, queue string, err error) {
	sign := []byte(`"` + task.String() + `"`)
	inQueues := e.queued(func(_ string, task []byte) bool { return bytes.Contains(task, sign) })
	for _, tasks := range append(e.outOfQueues(), inQueues) {
		for t, err := range tasks {
			if err != nil {
				return 0, "", err
			}
			if t.ID == task {
				return t.Run, t.Queue, nil
			}
		}
	}
	ended, err := e.newest(containsOne([][]byte{sign}), func(a *store.Record) bool { return a.Task == task })
	if err != nil || ended == nil {
		return 0, "", err
	}
	return ended.Run, "", nil
}

// signOf returns text that the record of a task about name contains.
func signOf(name string) string {
	return string((&timelineReader{req: TimelineRequest{Subject: name}}).sign())
}

// hookSigns returns texts of which the record of an attempt contains one if it is about the hook or the addons configuration
// with the name.
func (e *explainer) hookSigns() (signs [][]byte) {
	module, hook, _ := strings.Cut(e.name, "/")
	subjects := []graph.Subject{{Module: module, Hook: hook}}
	if _, known := e.states[module]; !known {
		subjects = append(subjects, graph.Subject{Hook: e.name}, graph.Subject{Configuration: e.name})
	}
	for _, s := range subjects {
		if text, err := json.Marshal(s); err == nil { // a subject always is JSON
			signs = append(signs, bytes.Trim(text, "{}"))
		}
	}
	return signs
}

// step returns the pending step without steps below that is wanted and needs attention most; nil if there is none.
func (w *Run) step(wanted func(*Step) bool) (found *Step) {
	var visit func([]Step)
	visit = func(steps []Step) {
		for i := range steps {
			s := &steps[i]
			if s.State.ended() {
				continue
			}
			if wanted(s) && (found == nil || graver(found.State, s.State) != found.State || found.isAbove(s)) {
				found = s
			}
			visit(s.Steps)
		}
	}
	visit(w.Steps)
	return found
}

// isAbove reports whether other is a step below s with the same state.
func (s *Step) isAbove(other *Step) bool {
	for i := range s.Steps {
		below := &s.Steps[i]
		if below == other && below.State == s.State || below.isAbove(other) {
			return true
		}
	}
	return false
}

// blocking returns the step that the other pending steps of w wait for; nil if there is none.
func (w *Run) blocking() *Step {
	return w.step(func(s *Step) bool {
		return s.Wait == nil && len(s.Steps) == 0 || s.Wait != nil && s.Wait.For != ForStep
	})
}

// rooted returns the chain of causes of a pending step of w. If the last cause is a step that runs or fails, the beginning of
// its run follows.
func (e *explainer) rooted(w *Run, s *Step) ([]CauseStep, error) {
	causes, last, err := e.chain(w, s)
	if err != nil || last == nil {
		return causes, err
	}
	began, err := e.runCauses(last.ID)
	return append(causes, began...), err
}

// chain returns why a pending step of w is in its state: what it waits for, what that waits for, and so on. If the last of
// these steps runs or fails, it returns the run of that step, too.
func (e *explainer) chain(w *Run, s *Step) (causes []CauseStep, last *Run, err error) {
	seen := map[*Step]bool{}
	for w != nil && s != nil && !seen[s] && len(causes) < mostCauses {
		seen[s] = true
		causes = append(causes, e.stepCause(w, s))
		if s.Failures > 0 && !s.State.ended() && e.failing == nil && len(e.out.Answers) == 0 {
			e.failing = s
		}
		if s.State != Waiting || s.Wait == nil {
			return causes, w, nil
		}
		switch s.Wait.For {
		case ForStep:
			s = w.blocking()
		case ForQueue, ForRunning, ForItems, ForExclusive:
			wait := s.Wait
			if w, s, err = e.follow(w, wait); err != nil {
				return nil, nil, err
			}
			if s == nil && len(wait.On) > 0 {
				on := &wait.On[0]
				causes = append(causes, CauseStep{Run: on.Run, Task: on.Task, Text: on.name() + ", " + looks[on.State].word})
			}
		case ForWorker:
			return append(causes, e.standstill(s.Queue)...), nil, nil
		default:
			return append(causes, e.heldBy(s.Wait)...), nil, nil
		}
	}
	return causes, nil, nil
}

// follow returns the first step that wait names, and its run.
func (e *explainer) follow(w *Run, wait *Wait) (*Run, *Step, error) {
	var task store.ID
	run := w.ID
	switch {
	case len(wait.On) > 0:
		task, run = wait.On[0].Task, wait.On[0].Run
	case wait.Held != nil:
		task = wait.Held.By
		found, _, err := e.runOf(task)
		if err != nil {
			return nil, nil, err
		}
		run = found
	}
	if task.IsZero() || run == 0 {
		return nil, nil, nil
	}
	other, err := e.read(run)
	if err != nil || other == nil {
		return nil, nil, err
	}
	return other, other.step(func(s *Step) bool { return s.Task == task }), nil
}

// standstill returns why the engine does not begin the task at the head of a queue although nothing blocks the task: the disk
// is full, or the engine cannot go on with the queue.
func (e *explainer) standstill(queue string) []CauseStep {
	p := e.problem(func(p *Problem) bool { return p.Kind == KindFull || p.Kind == KindStalled && p.Queue == queue })
	switch {
	case p == nil:
		return nil
	case p.Kind == KindFull:
		return []CauseStep{{At: p.At, Text: "the disk of the store is full: " + p.Error}}
	default:
		return []CauseStep{{At: p.At, Text: "queue " + queue + " stands still: " + p.Error}}
	}
}

// heldBy returns the quarantined item that a wait is for, as a cause.
func (e *explainer) heldBy(wait *Wait) []CauseStep {
	if wait.Held == nil || wait.Held.By.IsZero() {
		return nil
	}
	p := e.problem(func(p *Problem) bool { return p.Task == wait.Held.By })
	if p == nil {
		return nil
	}
	return []CauseStep{{At: p.At, Run: p.Run, Task: p.Task, Text: strings.TrimSpace(p.Node+" "+p.Subject.String()) + ": " + p.Error}}
}

// stepCause says in which state a step is, and what it waits for.
func (e *explainer) stepCause(w *Run, s *Step) CauseStep {
	c := CauseStep{Run: w.ID, Task: s.Task}
	name := strings.TrimSpace(s.Node + " " + s.Subject.String())
	switch {
	case s.State == Backoff, s.State == Failed:
		c.At, c.Next = s.Ended, s.Due
		if p := e.problem(func(p *Problem) bool { return p.Kind == KindFailing && p.Task == s.Task }); p != nil {
			c.At = p.Since
		}
		c.Text = name + " failed " + plural(max(s.Failures, 1), "time", "times") + ": " + s.Error
		if !e.reader.Live {
			c.Next, c.Text = time.Time{}, c.Text+"; it is tried again when an operator starts"
		}
	case s.State == Running:
		c.At, c.Text = s.Began, name+" runs"
		if e.reader.isSlow(s.Task) {
			c.Text += ", far longer than ever"
		}
		if s.Failures > 0 {
			c.Text += ", after " + plural(s.Failures, "failure", "failures") + ": " + s.Error
		}
	case s.State == Interrupted:
		c.At, c.Text = s.Began, name+" was interrupted when the operator ended, and goes on at its turn"
	case s.Wait == nil:
		c.Text = name + " waits"
	default:
		c.Text = name + " " + s.Wait.text(s.Queue)
		if held := s.Wait.Held; held != nil {
			c.At, c.Until = e.pausedAt(held), held.Until
		}
	}
	return c
}

// text says in one clause what a step waits for.
func (w *Wait) text(queue string) string {
	switch {
	case w.For == ForStep:
		return "waits for the steps before it in its run"
	case w.For == ForQueue:
		return "waits behind " + plural(w.Ahead, "task", "tasks") + " in queue " + queue
	case w.For == ForRunning:
		return "is next in queue " + queue
	case w.For == ForStart:
		return "waits for an operator: none runs"
	case w.For == ForWorker:
		return "is about to begin"
	case w.Held == nil:
		return "waits"
	case strings.HasPrefix(w.Held.String(), "held"):
		return "is " + w.Held.String()
	default:
		return w.Held.String()
	}
}

// verb returns what a pending step of name does, as in "does NAME wait".
func (s *Step) verb(name string) string {
	switch s.State {
	case Running:
		return "does " + name + " run"
	case Backoff, Failed:
		return "does " + name + " fail"
	default:
		return "does " + name + " wait"
	}
}

// problem returns the first wanted problem; nil if there is none.
func (e *explainer) problem(wanted func(*Problem) bool) *Problem {
	for i := range e.problems {
		if p := &e.problems[i]; wanted(p) {
			return p
		}
	}
	return nil
}

// pausedAt returns since when there is the pause that is the reason; zero if the reason is no pause.
func (e *explainer) pausedAt(reason *store.Reason) (at time.Time) {
	if reason.Kind != store.AwaitsResume && reason.Kind != store.AwaitsQueue {
		return at
	}
	p := e.problem(func(p *Problem) bool { return p.Kind == KindPaused && p.Error == reason.Detail })
	if p != nil {
		at = p.At
	}
	return at
}

// attemptCause returns an attempt as a cause.
func attemptCause(a *store.Record) CauseStep {
	entry := attemptEntry(&line{Record: *a}, position{})
	text := strings.TrimSpace(a.Node + " " + a.Subject.String())
	if a.State != store.Done {
		text += ", " + string(a.State)
	}
	return CauseStep{At: a.Ended, Run: a.Run, Task: a.Task, Text: strings.TrimSuffix(text+": "+entry.Text, ": ")}
}

// runCauses returns why a run began.
func (e *explainer) runCauses(run uint64) ([]CauseStep, error) {
	if run == 0 {
		return nil, nil
	}
	w, ok, err := load[store.Run](e.scan.unreadable, store.RunKey(run))
	if err != nil || !ok {
		return nil, err
	}
	c := CauseStep{At: w.Began, Run: run, Text: "run " + id(run) + " began: " + runText(&w)}
	if w.Cause.By != "" {
		reason, err := e.reasonOf(run)
		if err != nil {
			return nil, err
		}
		c.Text = strings.TrimSuffix(c.Text+": "+reason, ": ")
	}
	started, err := e.startOf(&w)
	return append([]CauseStep{c}, started...), err
}

// startOf returns the start of the operator that began w, as a cause: the two have the same time. It returns none if
// something else began w.
func (e *explainer) startOf(w *store.Run) ([]CauseStep, error) {
	for s, err := range store.StartsBackwards(e.scan.tx) {
		switch {
		case err != nil:
			return nil, err
		case s.Began.Before(w.Began):
			return nil, nil
		case s.Began.Equal(w.Began):
			return []CauseStep{{At: s.Began, Text: "start of the " + startText(&s)}}, nil
		}
	}
	return nil, nil
}

// reasonOf returns the reason that a person gave for a run, empty if none.
func (e *explainer) reasonOf(run uint64) (string, error) {
	for a, err := range store.ActionsBackwards(e.scan.tx) {
		if err != nil || a.Run == run {
			return a.Reason, err
		}
	}
	return "", nil
}
