package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// ErrUnknownSubject is the error of [Reader.Why] for a subject that the store does not know.
var ErrUnknownSubject = errors.New("the store has nothing about the subject")

// A Why explains one subject.
type Why struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"` // time of the snapshot
	Live   bool      `json:"live"`
	// Subject is the requested subject.
	Subject string   `json:"subject"`
	Answers []Answer `json:"answers"`
	// Fix says what a person must do first; empty if this is not known. Advice has commands that show more, and
	// commands to use after the fix or instead of it.
	Fix    string   `json:"fix,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
}

// An Answer is a question, with a chain of causes as the answer.
type Answer struct {
	Question string `json:"question"`
	// Causes begins with the nearest cause and ends with the root cause.
	Causes []CauseStep `json:"causes"`
}

// Why explains the subject with the given name. The subject can be a module, a hook as MODULE/HOOK, a global hook, an
// addons configuration, a queue, the ID of a task, or the number of a run. If several subjects have the name, Why
// explains all of them. If no subject has the name, the error is [ErrUnknownSubject].
func (r *Reader) Why(tx *store.Tx, name string) (*Why, error) {
	found, err := r.newEvidence(tx)
	if err != nil {
		return nil, err
	}
	e := explainer{
		chains: chains{evidence: found}, name: name,
		out: &Why{Schema: Schema, At: found.scan.now, Live: r.Live, Subject: name, Answers: []Answer{}},
	}
	if err := e.explain(); err != nil {
		return nil, err
	}
	if err := e.failure(); err != nil {
		return nil, err
	}
	if len(e.out.Answers) == 0 {
		return nil, fmt.Errorf("%w %q: name a module, a hook as MODULE/HOOK, a global hook, an addons configuration, a queue, the ID of a task, or the number of a run",
			ErrUnknownSubject, name)
	}
	e.advise()
	return e.out, nil
}

// An explainer collects the answers about one subject.
type explainer struct {
	chains

	name  string
	root  uint64 // run of the last cause in the first answer that has a run
	first *Step  // the failing step in the chain of the first answer; nil if there is none
	// item is the item in quarantine that the first answer explains; nil if it explains something else.
	item *Problem
	// changes has the changes before the failure of the step in the field first, and after them the
	// last success of this step.
	changes []CauseStep
	out     *Why
}

func (e *explainer) explain() error {
	if run, err := strconv.ParseUint(e.name, 10, 64); err == nil {
		return e.run(run)
	}
	if id, err := store.ParseID(e.name); err == nil {
		return e.task(id)
	}
	if _, known := e.states[e.name]; known {
		if err := e.module(e.name); err != nil {
			return err
		}
	}
	if err := e.queue(); err != nil {
		return err
	}
	if err := e.hook(); err != nil || len(e.out.Answers) > 0 {
		return err
	}
	return e.unrecorded()
}

// answer adds an answer, if there are causes.
func (e *explainer) answer(question string, causes []CauseStep) {
	if len(causes) == 0 {
		return
	}
	if len(e.out.Answers) == 0 {
		for _, c := range causes {
			e.root = cmp.Or(c.Run, e.root)
		}
		e.first = e.failing
	}
	e.out.Answers = append(e.out.Answers, Answer{question, causes})
}

// run explains a run.
func (e *explainer) run(id uint64) error {
	w, err := e.read(id)
	if err != nil || w == nil {
		return err
	}
	began, err := e.runCauses(id)
	if err != nil {
		return err
	}
	number := strconv.FormatUint(id, 10)
	if w.Open > 0 {
		causes, _, err := e.chain(w, w.blocking())
		if err != nil {
			return err
		}
		e.answer("Why has run "+number+" not ended?", causes)
	}
	e.answer("Why did run "+number+" begin?", began)
	return nil
}

// task explains a pending or ended task, or an item in quarantine.
func (e *explainer) task(id store.ID) error {
	if e.problem(func(p *Problem) bool { return p.Kind == KindQuarantined && p.Task == id }) != nil {
		return e.items("task "+id.String(), func(p *Problem) bool { return p.Task == id })
	}
	run, queue, err := e.runOf(id)
	if err != nil || run == 0 {
		return err
	}
	w, err := e.read(run)
	if err != nil || w == nil {
		return err
	}
	step := w.step(func(s *Step) bool { return s.Task == id })
	question := "What does task " + id.String() + " do?"
	if step != nil && (step.State == Backoff || step.State == Failed) {
		question = "Why " + step.verb("task "+id.String()) + "?"
	}
	switch {
	case step == nil:
		ended, err := e.attemptOf(id)
		if err != nil || ended == nil {
			return err
		}
		e.answer("What became of task "+id.String()+"?", []CauseStep{attemptCause(ended)})
	case step.State == Waiting:
		question = "Why does task " + id.String() + " wait?"
		fallthrough
	default:
		causes, _, err := e.chain(w, step)
		if err != nil {
			return err
		}
		e.answer(question, causes)
	}
	began, err := e.runCauses(run)
	question = "Why is there task " + id.String()
	if queue != "" {
		question += " in queue " + queue
	}
	e.answer(question+"?", began)
	return err
}

// hook explains the hook, or the addons configuration, with the requested name.
func (e *explainer) hook() error {
	hook := func(s graph.Subject) bool {
		return s.Configuration != "" && s.Configuration == e.name ||
			s.Hook != "" && (s.OfHook().String() == e.name || s.String() == e.name)
	}
	w, step, err := e.pending(e.name, hook)
	if err != nil {
		return err
	}
	if step != nil {
		causes, err := e.rooted(w, step)
		if err != nil {
			return err
		}
		e.answer("Why "+step.verb(e.name)+"?", causes)
	} else if err := e.items(e.name, func(p *Problem) bool { return hook(p.Subject) }); err != nil {
		return err
	}
	module, attached, err := e.bindings(hook)
	if err != nil || attached == 0 && step == nil && len(e.out.Answers) > 0 {
		return err // the name is that of a module or a queue, not of a hook
	}
	last, err := e.newest(hook, func(a *store.Record) bool { return !a.Began.IsZero() })
	if err != nil {
		return err
	}
	missed := e.problem(func(p *Problem) bool { return p.Kind == KindMissedTick && hook(p.Subject) }) != nil
	switch {
	case missed && last == nil && step == nil:
		e.standing("Why has "+e.name+" not run?", func(p *Problem) bool { return hook(p.Subject) })
	default:
		e.standing("What is wrong with hook "+e.name+"?", func(p *Problem) bool { return hook(p.Subject) })
	}
	switch {
	case last != nil:
		began, err := e.runCauses(last.Run)
		if err != nil {
			return err
		}
		e.answer("Why did "+e.name+" run last?", append([]CauseStep{attemptCause(last)}, began...))
		module = last.Subject.Module
	case attached > 0 && step == nil && !missed:
		e.answer("Why has "+e.name+" not run?", []CauseStep{{
			Text: plural(attached, "binding of it is", "bindings of it are") + " attached, and the history has no event or tick for " + pronoun(attached),
		}})
	}
	if last == nil && attached == 0 {
		module, _, _ = strings.Cut(e.name, "/")
	}
	switch e.states[module].State {
	case ModuleOff:
		return e.enabled(module)
	case ModulePending, ModuleBroken, ModuleBlocked:
		return e.state(module)
	default:
		return nil
	}
}

// items explains the pauses and the items in quarantine for which wanted returns true. The parameter subject names
// their subject.
func (e *explainer) items(subject string, wanted func(*Problem) bool) error {
	for i := range e.problems {
		p := &e.problems[i]
		switch {
		case !wanted(p):
		case p.Kind == KindPaused:
			e.answer("Why is "+subject+" paused?", []CauseStep{{At: p.At, Text: p.Error, Advice: p.command()}})
		case p.Kind == KindQuarantined:
			began, err := e.runCauses(p.Run)
			if err != nil {
				return err
			}
			if len(e.out.Answers) == 0 {
				e.item = p
			}
			e.answer("Why is "+subject+" in quarantine?", append([]CauseStep{{At: p.At, Run: p.Run, Task: p.Task, Text: p.name() + ": " + p.Error}}, began...))
		}
	}
	return nil
}

func pronoun(n int) string {
	if n == 1 {
		return "it"
	}
	return "them"
}

// queue explains the queue with the requested name.
func (e *explainer) queue() error {
	q := e.scan.queues[e.name]
	if q == nil {
		used, err := e.usesQueue()
		if used {
			e.answer("What does queue "+e.name+" do?", []CauseStep{{Text: "nothing: it has no tasks"}})
		}
		return err
	}
	t := cmp.Or(q.busy, q.head)
	w, err := e.read(t.Run)
	if err != nil || w == nil {
		return err
	}
	causes, err := e.rooted(w, w.step(func(s *Step) bool { return s.Task == t.ID }))
	e.answer("What does queue "+e.name+" do?", causes)
	return err
}

// usesQueue reports whether the requested name is that of the main queue or of the queue of a binding. Other queues,
// such as those of addons configurations, are known only while they have tasks.
func (e *explainer) usesQueue() (bool, error) {
	if e.name == workflow.Main {
		return true, nil
	}
	for k := range e.scan.tx.Range(store.At(store.Bindings)) {
		b, _, err := load[store.Binding](e.scan.unreadable, k)
		if err != nil || b.Queue == e.name {
			return err == nil, err
		}
	}
	return false, nil
}

// advise adds commands that show more and change nothing. If the subject has a problem, advise also adds the fix and, if
// an operator runs, commands to use after the fix or instead of it.
func (e *explainer) advise() {
	p := e.item
	if p == nil {
		p = e.problem(func(p *Problem) bool { return e.first != nil && p.Task == e.first.Task && e.first.Task != (store.ID{}) })
	}
	if p == nil {
		p = e.problem(func(p *Problem) bool {
			return p.Run == e.root && e.root != 0 && (p.Kind == KindFailing || p.Kind == KindSlow || p.Kind == KindQuarantined)
		})
	}
	if p != nil && p.Subject.Hook != "" && p.Kind != KindSlow { // a slow step still runs, and its output is stored when it ends
		e.show("what it printed", "logs", p.Task.String())
	}
	if e.root != 0 && e.name != id(e.root) && (p == nil || p.Subject.Hook == "") {
		e.show("its run, with errors in full", "workflow", "inspect", id(e.root))
	}
	e.show("what happened before", "timeline", e.name)
	if p == nil {
		return
	}
	if len(e.problems) > 1 {
		e.show("everything that is wrong", "diagnose")
	}
	e.out.Fix = p.fixAfter(e.changes)
	if e.reader.Live {
		e.out.Advice = append(e.out.Advice, p.commands()...)
	}
}

// show adds a command that changes nothing. why is the purpose of the command.
func (e *explainer) show(why string, args ...string) {
	e.out.Advice = append(e.out.Advice, Advice{Args: args, Why: why})
}

// failure adds answers about the failing step in the first answer. The answers name the changes before the failure, the
// meaning of the error, and the state of the cluster until the step succeeds.
func (e *explainer) failure() error {
	s := e.first
	if s == nil || len(e.out.Answers) == 0 {
		return nil
	}
	p := e.problem(func(p *Problem) bool { return p.Kind == KindFailing && p.Task == s.Task })
	var more []Answer
	m, err := ownWebhooks{e.scan.tx, e.scan.unreadable}.meaning(s.Error)
	if err != nil {
		return err
	}
	if p != nil && p.Meaning != nil {
		m = p.Meaning
	}
	if m != nil {
		more = append(more, Answer{"What does the error mean?", []CauseStep{{Text: m.What}}})
	}
	if p != nil && p.Leaves != "" {
		more = append(more, Answer{stateQuestion, []CauseStep{{Text: p.Leaves}}})
	}
	if p != nil {
		if e.changes, err = e.changesBefore(p.Since, p.Node, p.Subject); err != nil {
			return err
		}
		at := len(more)
		if len(e.changes) > 1 { // the last element is not a change: it is the last success, or says that there is none
			at = 0
		}
		more = slices.Insert(more, at, Answer{changedQuestion, e.changes})
	}
	e.out.Answers = slices.Insert(e.out.Answers, 1, more...)
	return nil
}

const (
	stateQuestion   = "What is the state meanwhile?"
	changedQuestion = "What changed before it failed?"
)
