package inspect

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// evidence has the data of a snapshot in which causes are searched: the tasks, the history, and the
// problems.
type evidence struct {
	reader   *Reader
	scan     *scan
	problems []Problem
	states   map[string]ModuleStatus
	runs     map[uint64]*Run // the runs that were read, by number; nil for a run that the store does not have
	history  *historyIndex   // nil until [evidence.index] is called
}

// newEvidence returns the evidence in the state of the store that tx reads.
func (r *Reader) newEvidence(tx *store.Tx) (*evidence, error) {
	s, err := r.scan(tx)
	if err != nil {
		return nil, err
	}
	problems, err := r.problems(s)
	if err != nil {
		return nil, err
	}
	states, err := s.modules(problems)
	if err != nil {
		return nil, err
	}
	return &evidence{reader: r, scan: s, problems: problems, states: states.Modules, runs: map[uint64]*Run{}}, nil
}

// problem returns the first problem for which the function wanted returns true; nil if there is
// none.
func (e *evidence) problem(wanted func(*Problem) bool) *Problem {
	for i := range e.problems {
		if p := &e.problems[i]; wanted(p) {
			return p
		}
	}
	return nil
}

// pausedAt returns the start of the pause that reason describes; zero if reason is not a pause.
func (e *evidence) pausedAt(reason *store.Reason) (at time.Time) {
	if reason.Kind != store.AwaitsResume && reason.Kind != store.AwaitsQueue {
		return at
	}
	p := e.problem(func(p *Problem) bool { return p.Kind == KindPaused && p.Error == reason.Detail })
	if p != nil {
		at = p.At
	}
	return at
}

// read returns a snapshot of run; nil if the store does not have the run.
func (e *evidence) read(run uint64) (*Run, error) {
	if w, known := e.runs[run]; known {
		return w, nil
	}
	w, err := e.reader.run(e.scan, run, e.problems)
	if errors.Is(err, ErrNoRun) {
		w, err = nil, nil
	}
	if err == nil {
		e.runs[run] = w
	}
	return w, err
}

// runOf returns the run of a task and, if the task is pending, its queue. The run is 0 if the store does
// not know the task.
func (e *evidence) runOf(task store.ID) (run uint64, queue string, err error) {
	sign := []byte(`"` + task.String() + `"`)
	for _, table := range []store.Table{store.Deferred, store.Held, store.Queues} {
		for t, err := range e.scan.tasks(table, func(_ store.Key, text []byte) bool { return bytes.Contains(aboutTask(text), sign) }) {
			if err != nil {
				return 0, "", err
			}
			if t.ID == task {
				return t.Run, t.Queue, nil
			}
		}
	}
	ended, err := e.attemptOf(task)
	if err != nil || ended == nil {
		return 0, "", err
	}
	return ended.Run, "", nil
}

// attemptOf returns the last attempt of a task that the history has; nil if there is none.
func (e *evidence) attemptOf(task store.ID) (*store.Record, error) {
	sign := []byte(`"` + task.String() + `"`)
	for k, v := range e.scan.tx.SkimBackwards(store.At(store.History)) {
		if !bytes.Contains(about(v), sign) {
			continue
		}
		if a, err := e.attempt(k); err != nil || a != nil && a.Task == task {
			return a, err
		}
	}
	return nil, nil
}

// attempt reads the attempt with the key k; nil if the record cannot be read.
func (e *evidence) attempt(k store.Key) (*store.Record, error) {
	l, err := loadLine(e.scan.tx, k)
	if err != nil {
		return nil, e.scan.unreadable.pass(err)
	}
	return &l.Record, nil
}

// A historyIndex has the keys and the subjects of all attempts. The attempts of the newest run are first,
// and within a run the newest attempt is first.
type historyIndex struct {
	subjects subjects
	attempts []indexedAttempt
}

type indexedAttempt struct {
	key     store.Key
	subject int32 // index of the subject in [historyIndex.subjects]
}

// index returns the index of the history. index reads the history at the first call.
func (e *evidence) index() *historyIndex {
	if e.history != nil {
		return e.history
	}
	e.history = &historyIndex{subjects: subjects{numbers: map[string]int32{}}}
	for k, v := range e.scan.tx.SkimBackwards(store.At(store.History)) {
		text, _, known := subjectOf(v)
		e.history.attempts = append(e.history.attempts, indexedAttempt{k, e.history.subjects.number(text, known)})
	}
	return e.history
}

// newest returns a matching attempt; nil if there is none. An attempt matches if the function wanted returns true for
// it, and the function about returns true for its subject. If several attempts match, newest returns the last one in
// the newest run that has a matching attempt.
func (e *evidence) newest(about func(graph.Subject) bool, wanted func(*store.Record) bool) (*store.Record, error) {
	history := e.index()
	mayBe := history.subjects.mayBe(about)
	for i := range history.attempts {
		if !mayBe[history.attempts[i].subject] {
			continue
		}
		if a, err := e.attempt(history.attempts[i].key); err != nil || a != nil && about(a.Subject) && wanted(a) {
			return a, err
		}
	}
	return nil, nil
}

// bindings returns the module of a hook, and the number of its attached bindings. The function hook
// reports whether a subject belongs to the hook.
func (e *evidence) bindings(hook func(graph.Subject) bool) (module string, n int, err error) {
	for k := range e.scan.tx.Range(store.At(store.Bindings)) {
		parts, err := k.Parts()
		if err != nil {
			return "", 0, err
		}
		s := graph.Subject{Module: parts.Str(), Hook: parts.Str(), Binding: parts.Str()}
		if hook(s) {
			module, n = s.Module, n+1
		}
	}
	return module, n, nil
}

// changesValues reports whether a is an attempt of a hook that has changed values.
func changesValues(a *store.Record) bool {
	return a.Subject.Hook != "" && strings.Contains(a.Detail, "values ")
}

// runCauses returns the causes of the start of a run; nil if the store does not have the run.
func (e *evidence) runCauses(run uint64) ([]CauseStep, error) {
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
	if c.Changes, err = e.configChanges(&w); err != nil {
		return nil, err
	}
	started, err := e.startOf(&w)
	return append([]CauseStep{c}, started...), err
}

// startOf returns the start of the operator as a cause, if this start began the run w. If a start began a run, the
// start and the run have the same time. If no start began w, startOf returns nil.
func (e *evidence) startOf(w *store.Run) ([]CauseStep, error) {
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

// reasonOf returns the reason that a person gave with the request that began the run; empty if there is none. Of the
// run's actions that have no task, the request is the oldest. Requests that joined the run later have newer actions,
// and an action with a task, such as a retry, did not begin the run.
func (e *evidence) reasonOf(run uint64) (reason string, _ error) {
	for a, err := range store.ActionsBackwards(e.scan.tx) {
		if err != nil {
			return "", err
		}
		if a.Run == run && a.Task.IsZero() {
			reason = a.Reason
		}
	}
	return reason, nil
}

// attemptCause returns an ended attempt as a cause.
func attemptCause(a *store.Record) CauseStep {
	entry := attemptEntry(&line{Record: *a}, position{})
	text := strings.TrimSpace(a.Node + " " + a.Subject.String())
	if a.State != store.Done {
		text += ", " + string(a.State)
	}
	return CauseStep{At: a.Ended, Run: a.Run, Task: a.Task, Text: strings.TrimSuffix(text+": "+entry.Text, ": ")}
}

// mostChanges is the maximum number of changes before a failure that are shown.
const mostChanges = 3

// changesBefore returns the newest changes between the last success of a step and the given time, at most mostChanges,
// newest first. The last element of the result is always the last success, or says that the history has none.
func (e *evidence) changesBefore(since time.Time, node string, subject graph.Subject) ([]CauseStep, error) {
	success, err := e.newest(func(s graph.Subject) bool { return s == subject },
		func(a *store.Record) bool { return a.Node == node && a.State == store.Done })
	if err != nil {
		return nil, err
	}
	last, from := CauseStep{Text: "the step has not succeeded before, as far as the history goes back"}, time.Time{}
	if success != nil {
		last, from = CauseStep{At: success.Ended, Run: success.Run, Task: success.Task, Text: "the step succeeded last"}, success.Ended
	}
	changes, err := e.changesBetween(from, since)
	if err != nil {
		return nil, err
	}
	if len(changes) == 0 && success != nil {
		last.Text += "; since then, the history has no change"
	}
	return append(changes, last), nil
}

// changesBetween returns the newest changes between two times, at most mostChanges, newest first. The result includes a
// change at the later time, but no change at the earlier time.
func (e *evidence) changesBetween(from, until time.Time) ([]CauseStep, error) {
	changes, err := e.changedRuns(from, until)
	if err != nil {
		return nil, err
	}
	versions, err := e.newVersions(from, until)
	if err != nil {
		return nil, err
	}
	changes = append(changes, versions...)
	slices.SortStableFunc(changes, func(a, b CauseStep) int { return b.At.Compare(a.At) })
	return changes[:min(len(changes), mostChanges)], nil
}

// The triggers of the lifecycle for corrected files of a module, and for changes of addons.
const (
	mendedTrigger = "module mended"
	addonsTrigger = "addons changed"
)

// isChange reports whether a change or a person began the run w.
func isChange(w *store.Run) bool {
	switch w.Trigger {
	case mendedTrigger, addonsTrigger:
		return true
	case configMapTrigger:
		return w.Cause.Object != "" || w.Cause.By != "" // otherwise, the start of the operator is the cause
	default:
		return w.Cause.By != ""
	}
}

// changedRuns returns the newest runs that a change or a person began between two times, at most mostChanges, newest
// first. changedRuns searches only the newest mostRunsRead runs.
func (e *evidence) changedRuns(from, until time.Time) (changes []CauseStep, err error) {
	searched := 0
	for w, err := range readable(e.scan.unreadable, store.RunsBackwards(e.scan.tx)) {
		if err != nil {
			return nil, err
		}
		if searched++; searched > mostRunsRead || len(changes) == mostChanges || !w.Began.After(from) {
			break
		}
		if isChange(&w) && !w.Began.After(until) {
			c := CauseStep{At: w.Began, Run: w.ID, Text: runText(&w)}
			if c.Changes, err = e.configChanges(&w); err != nil {
				return nil, err
			}
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// configChanges returns the changed values if a change of the ConfigMap began w. configChanges returns nil if w began
// for another reason, or if the step that reads the ConfigMap has not ended.
func (e *evidence) configChanges(w *store.Run) (*store.ValueChanges, error) {
	if w.Trigger != configMapTrigger {
		return nil, nil
	}
	read := 0
	for a, err := range readable(e.scan.unreadable, store.RecordsOf(e.scan.tx, w.ID)) {
		if err != nil {
			return nil, err
		}
		if a.Node == configMapChanged && a.State == store.Done {
			return a.Changes, nil
		}
		if read++; read > mostRead {
			break
		}
	}
	return nil, nil
}

// newVersions returns the starts at which the version of the operator differs from that of the previous start. The
// times of the returned starts are after the argument from, and not after the argument until.
func (e *evidence) newVersions(from, until time.Time) (changes []CauseStep, err error) {
	var newer *store.Start
	for s, err := range store.StartsBackwards(e.scan.tx) {
		if err != nil {
			return nil, err
		}
		if newer != nil && newer.Version != s.Version && !newer.Began.After(until) {
			changes = append(changes, CauseStep{At: newer.Began, Text: "start of the " + startText(newer) + "; before it was version " + s.Version})
		}
		if newer = &s; !s.Began.After(from) {
			break
		}
	}
	return changes, nil
}
