package inspect

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Limits for the search of causes.
const (
	mostCauses   = 8 // number of causes after which a chain is not continued to another step
	mostSearched = 8 // maximum number of runs that are searched for a pending step
)

// chains finds the chains of causes of pending steps.
type chains struct {
	*evidence

	failing *Step // the first failing step that was found in a chain; nil if there is none
}

// pending returns a pending step of a subject, and the run of this step; nil if there is none. The runs are searched in
// the order of pendingRuns, which begins with failing tasks. In the first run with a step of the subject that does not
// wait, pending selects the step with the gravest state. If all steps of the subject wait, pending returns the first of
// them. The parameter name is the name of the subject, and the function wanted reports whether a subject is the right
// one.
func (c *chains) pending(name string, wanted func(graph.Subject) bool) (of *Run, found *Step, err error) {
	runs, err := c.pendingRuns(name, wanted)
	if err != nil {
		return nil, nil, err
	}
	for _, run := range runs {
		w, err := c.read(run)
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

// pendingRuns returns up to mostSearched runs that may have a pending step about a wanted subject. The runs are those
// of failing tasks about the subject, of the first task about it in each queue, and of deferred and held tasks about
// it. The runs at the heads of queues are included, because a fan-out task there can have an item about the subject.
func (c *chains) pendingRuns(name string, wanted func(graph.Subject) bool) (runs []uint64, err error) {
	add := func(run uint64) {
		if !slices.Contains(runs, run) && len(runs) < mostSearched {
			runs = append(runs, run)
		}
	}
	for i := range c.problems {
		if p := &c.problems[i]; p.Kind == KindFailing && wanted(p.Subject) {
			add(p.Run)
		}
	}
	signs := signsOf(name)
	tells := func(task []byte) bool { return containsAll(aboutTask(task), signs) }
	for t, err := range firstAbout(c.scan, wanted, tells) {
		if err != nil {
			return nil, err
		}
		add(t.Run)
	}
	for _, name := range c.scan.names {
		q := c.scan.queues[name]
		add(cmp.Or(q.busy, q.head).Run)
	}
	for _, table := range []store.Table{store.Deferred, store.Held} {
		for t, err := range c.scan.tasks(table, func(_ store.Key, task []byte) bool { return tells(task) }) {
			if err != nil {
				return nil, err
			}
			if wanted(t.Subject) {
				add(t.Run)
			}
			if len(runs) == mostSearched {
				break
			}
		}
	}
	return runs, nil
}

// signsOf returns texts that appear in the record of each task about the subject with the given name.
func signsOf(name string) (signs [][]byte) {
	for _, sign := range (&timelineReader{req: TimelineRequest{Subject: name}}).signs() {
		signs = append(signs, bytes.Trim(sign, `"`))
	}
	return signs
}

// step returns a pending step for which wanted returns true; nil if there is none. If there are several, step
// returns the one with the gravest state. If this step and a step below it have the same state, step returns the
// lower step.
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

// blocking returns the step for which the other pending steps of w wait; nil if there is none.
func (w *Run) blocking() *Step {
	return w.step(func(s *Step) bool {
		return s.Wait == nil && len(s.Steps) == 0 || s.Wait != nil && s.Wait.For != ForStep
	})
}

// rooted returns the chain of causes of a pending step of w. If the chain ends with a step that does not
// wait, the causes of the run of that step follow.
func (c *chains) rooted(w *Run, s *Step) ([]CauseStep, error) {
	causes, last, err := c.chain(w, s)
	if err != nil || last == nil {
		return causes, err
	}
	began, err := c.runCauses(last.ID)
	return append(causes, began...), err
}

// chain explains the state of the pending step s of w. The first cause describes s, the second the step for which s
// waits, and so on. If the last step of the chain does not wait, the result last is the run of that step; otherwise the
// result last is nil.
func (c *chains) chain(w *Run, s *Step) (causes []CauseStep, last *Run, err error) {
	seen := map[*Step]bool{}
	for w != nil && s != nil && !seen[s] && len(causes) < mostCauses {
		seen[s] = true
		causes = append(causes, c.stepCause(w, s))
		if s.Failures > 0 && !s.State.ended() && c.failing == nil {
			c.failing = s
		}
		if s.State != Waiting || s.Wait == nil {
			return causes, w, nil
		}
		switch s.Wait.For {
		case ForStep:
			s = w.blocking()
		case ForQueue, ForRunning, ForItems, ForExclusive:
			wait := s.Wait
			if w, s, err = c.follow(w, wait); err != nil {
				return nil, nil, err
			}
			if s == nil && len(wait.On) > 0 {
				on := &wait.On[0]
				causes = append(causes, CauseStep{Run: on.Run, Task: on.Task, Text: on.name() + ", " + badges[on.State].word})
			}
		case ForWorker:
			return append(causes, c.standstill(s.Queue)...), nil, nil
		default:
			return append(causes, c.heldBy(s.Wait)...), nil, nil
		}
	}
	return causes, nil, nil
}

// follow returns the step of the first task to which wait refers, and its run; nil if there is none.
func (c *chains) follow(w *Run, wait *Wait) (*Run, *Step, error) {
	var task store.ID
	run := w.ID
	switch {
	case len(wait.On) > 0:
		task, run = wait.On[0].Task, wait.On[0].Run
	case wait.Held != nil:
		task = wait.Held.By
		found, _, err := c.runOf(task)
		if err != nil {
			return nil, nil, err
		}
		run = found
	}
	if task.IsZero() || run == 0 {
		return nil, nil, nil
	}
	other, err := c.read(run)
	if err != nil || other == nil {
		return nil, nil, err
	}
	return other, other.step(func(s *Step) bool { return s.Task == task }), nil
}

// standstill returns the cause if the engine does not start the task at the head of a queue, although
// nothing blocks the task. The cause is a full disk, or an error because of which the engine cannot process
// the queue. standstill returns nil if there is no such cause.
func (c *chains) standstill(queue string) []CauseStep {
	p := c.problem(func(p *Problem) bool { return p.Kind == KindFull || p.Kind == KindStalled && p.Queue == queue })
	switch {
	case p == nil:
		return nil
	case p.Kind == KindFull:
		return []CauseStep{{At: p.At, Text: "the disk of the store is full: " + p.Error}}
	default:
		return []CauseStep{{At: p.At, Text: "queue " + queue + " stands still: " + p.Error}}
	}
}

// heldBy returns the item in quarantine that holds a step, as a cause; nil if there is none. If a pause holds the step,
// heldBy returns nil, because the text of the waiting step describes the pause.
func (c *chains) heldBy(wait *Wait) []CauseStep {
	if wait.Held == nil || wait.Held.By.IsZero() {
		return nil
	}
	p := c.problem(func(p *Problem) bool { return p.Task == wait.Held.By })
	if p == nil {
		return nil
	}
	return []CauseStep{{At: p.At, Run: p.Run, Task: p.Task, Text: p.name() + ": " + p.Error}}
}

// stepCause describes the state of a step and, if the step waits, the reason.
func (c *chains) stepCause(w *Run, s *Step) CauseStep {
	cause := CauseStep{Run: w.ID, Task: s.Task}
	name := strings.TrimSpace(s.Node + " " + s.Subject.String())
	switch {
	case s.State == Backoff, s.State == Failed:
		cause.At, cause.Next = s.Ended, s.Due
		if p := c.problem(func(p *Problem) bool { return p.Kind == KindFailing && p.Task == s.Task }); p != nil {
			cause.At = p.Since
		}
		cause.Text = name + " " + failedTimes(s.Failures) + ": " + strings.TrimSpace(s.Error)
		if !c.reader.Live {
			cause.Next, cause.Text = time.Time{}, cause.Text+"; it is tried again when an operator starts"
		}
	case s.State == Running:
		cause.At, cause.Text = s.Began, name+" runs"
		if c.reader.isSlow(s.Task) {
			cause.Text += ", and takes long"
		}
		if s.Failures > 0 {
			cause.Text += ", after " + plural(s.Failures, "failure", "failures") + ": " + s.Error
		}
	case s.State == Interrupted:
		cause.At, cause.Text = s.Began, name+" was interrupted when the operator ended, and starts again "+turn(c.reader.Live)
	case s.Wait == nil:
		cause.Text = name + " waits"
	default:
		cause.Text = name + " " + s.Wait.text(s.Queue)
		if held := s.Wait.Held; held != nil {
			cause.At, cause.Until = c.pausedAt(held), held.Until
		}
	}
	return cause
}

// failedTimes says how often a step has failed. The callers show this text behind the time of the
// first failure.
func failedTimes(n int) string {
	if n <= 1 {
		return "failed"
	}
	return "failed " + strconv.Itoa(n) + " times since then"
}

// text returns a clause without a subject that says why a step waits, such as "is about to begin".
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

// verb returns the state of a pending step as part of a question, such as "does NAME wait".
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
