package inspect

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Problems returns all problems, for metrics and alerts. The result includes the problems of hooks that answer
// webhooks, even if [Reader.Status] shows such a problem only as part of a failing step.
func (r *Reader) Problems(tx *store.Tx) ([]Problem, error) {
	s, err := r.scan(tx)
	if err != nil {
		return nil, err
	}
	problems, err := r.problems(s)
	if err != nil {
		return nil, err
	}
	others, err := r.others(s)
	return append(problems, others...), err
}

// withoutReviews removes each problem of a hook that answers a webhook, if the last error of the
// hook explains a failing step. The failing step and the hook are then one problem.
func withoutReviews(problems []Problem) []Problem {
	var explained []*Meaning
	for i := range problems {
		if m := problems[i].Meaning; m != nil && m.explained {
			explained = append(explained, m)
		}
	}
	return slices.DeleteFunc(slices.Clone(problems), func(p Problem) bool {
		return p.Kind == KindReview && slices.ContainsFunc(explained, func(m *Meaning) bool { return m.answers(&p) })
	})
}

// others returns a problem for each record that s could not read, and one for failing or slow requests
// to the API server.
func (r *Reader) others(s *scan) ([]Problem, error) {
	out, err := s.damage()
	if p := r.Requests.problem(); p != nil {
		out = append(out, *p)
	}
	return out, err
}

// problems returns the problems of s, newest run first. problems omits the problems that
// [Reader.others] returns.
func (r *Reader) problems(s *scan) ([]Problem, error) {
	var out []Problem
	for _, source := range []func(*scan) ([]Problem, error){
		failing, r.standing, quarantined, refused, unusable, r.recorded,
	} {
		found, err := source(s)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	r.explainReviews(out)
	slices.SortStableFunc(out, func(a, b Problem) int { return cmp.Compare(b.Run, a.Run) })
	return out, nil
}

// explainReviews explains steps that fail because of a webhook that a hook answers. It adds the
// last error of the hook to the meaning of the errors of these steps. The API server does not
// return the last error of the hook to the steps.
func (r *Reader) explainReviews(problems []Problem) {
	for i := range problems {
		m := problems[i].Meaning
		if m == nil {
			continue
		}
		for j := range r.Webhooks {
			review := &r.Webhooks[j]
			if review.Last == "" || !m.answers(review) {
				continue
			}
			m.What, m.explained = m.known+", failed: "+review.Last, true
			if len(review.Command) > 0 && !strings.HasSuffix(m.Fix, withdrawn) {
				m.Fix += withdrawn
			}
		}
	}
}

// answers reports whether review, a problem of a webhook, is about the hook and the binding of m.
func (m *Meaning) answers(review *Problem) bool {
	hook := review.Subject.OfHook()
	return m.hook != "" && hook.String() == m.hook && (m.binding == "" || m.binding == review.Subject.Binding)
}

// failing returns a problem for each task whose last attempt failed.
func failing(s *scan) (out []Problem, err error) {
	for _, at := range s.failed {
		f := at.Failed
		p := Problem{
			Kind: KindFailing, Run: at.Run, Task: at.ID, Queue: at.Queue, Node: f.Node, Subject: f.Subject,
			Try: f.Count, At: f.At, Since: cmp.Or(f.Since, f.At), Error: f.Error,
		}
		if p.Behind, err = s.behind(at); err != nil {
			return nil, err
		}
		if p.Meaning, err = (ownWebhooks{s.tx, s.unreadable}).meaning(p.Error); err != nil {
			return nil, err
		}
		if p.Subject.Hook == "" {
			p.Meaning.ofOperator(p.Error)
		}
		if p.Leaves, err = leavesOf(s.unreadable, f.Node, f.Subject); err != nil {
			return nil, err
		}
		if s.state(at.Task) == Backoff {
			p.Due = at.Due
		}
		out = append(out, p)
	}
	return out, nil
}

// leaves describes, for some nodes, the state of the cluster until the failing step succeeds. If neither leaves nor
// leavesOf has a text for a node, the error of its step shows the state of the cluster.
var leaves = map[string]string{
	configMapChanged:      "the last accepted content of the ConfigMap stays in force",
	discoverModules:       "no converge installs, upgrades or deletes a module until this step succeeds",
	releaseDelete:         "the release is not deleted in full: some of its objects can be gone",
	moduleAfterDeleteHelm: "the release and its objects are deleted",
}

// leavesOf describes the state of the cluster until the failing step succeeds. If the step deletes the release of a
// module, or runs an afterDeleteHelm hook, the text has the reason of the deletion.
func leavesOf(u *unreadable, node string, subject graph.Subject) (string, error) {
	text, module := leaves[node], subject.Module
	switch node {
	case releaseCheck, releaseUpgrade:
		release, _, err := load[store.Release](u, store.ReleaseKey(module))
		if err == nil && release.Revision > 0 {
			text = "revision " + strconv.Itoa(release.Revision) + " is the last one that was installed in full"
		}
		return text, err
	case releaseDelete, moduleAfterDeleteHelm:
	default:
		return text, nil
	}
	m, _, err := load[store.Module](u, store.ModuleKey(module))
	if why := whyDeleted(&m); err == nil && why != "" {
		text += ". Module " + module + " is being deleted: " + why
	}
	return text, err
}

// brokenLeaves is [Problem.Leaves] for a module that cannot be loaded.
const brokenLeaves = "the release of the module stays as it is; other modules go on"

// standing returns the problems that only the running operator knows: a full disk, stalled queues, slow
// tasks, problems of webhooks and missed ticks.
func (r *Reader) standing(s *scan) (out []Problem, _ error) {
	if r.Full != nil {
		out = append(out, Problem{Kind: KindFull, At: r.Full.Since, Error: r.Full.Err.Error()})
	}
	for _, queue := range slices.Sorted(maps.Keys(r.Stalled)) {
		p := Problem{Kind: KindStalled, Queue: queue, Error: r.Stalled[queue]}
		if q := s.queues[queue]; q != nil {
			p.Run, p.Task, p.Node, p.Subject = q.head.Run, q.head.ID, q.head.Node, q.head.Subject
		}
		out = append(out, p)
	}
	out = append(append(out, r.Slow...), r.Webhooks...)
	if r.Missed == nil {
		return out, nil
	}
	missed, err := r.Missed(s.tx)
	if record, ok := errors.AsType[*store.RecordError](err); ok {
		return out, s.unreadable.pass(record)
	}
	return append(out, missed...), err
}

// quarantined returns a problem for each item in quarantine, and for each pause.
func quarantined(s *scan) (out []Problem, _ error) {
	for q, err := range readable(s.unreadable, store.QuarantinedItems(s.tx)) {
		if err != nil {
			return nil, err
		}
		if q.Paused != nil {
			out = append(out, Problem{
				Kind: KindPaused, Queue: q.Queue, Subject: q.Subject, At: q.At, Error: q.Reason().Detail,
				Command: append([]string{"resume"}, q.What()...), Held: s.kept[q.ID],
				Effect: "starts the work that waits: first ask whether the reason of the pause still holds",
			})
			continue
		}
		out = append(out, Problem{
			Kind: KindQuarantined, Run: q.Run, Task: q.ID, Queue: q.Queue, Node: q.Node, Subject: q.Subject, At: q.At, Try: q.Crashes,
			Error: "the operator died each time the task ran, the last time while no other task ran", Held: s.kept[q.ID],
		})
	}
	return out, nil
}

// refused returns a problem if the ConfigMap is invalid.
func refused(s *scan) ([]Problem, error) {
	config, ok, err := load[store.RefusedConfig](s.unreadable, store.RefusedConfigKey())
	if err != nil || !ok {
		return nil, err
	}
	return []Problem{{Kind: KindRefused, Run: config.Run, At: config.At, Error: config.Error, Fix: config.Fix}}, nil
}

// unusable returns a problem for each module that cannot be loaded, or whose CRDs cannot be installed.
func unusable(s *scan) (out []Problem, _ error) {
	for k := range s.tx.Range(store.At(store.Modules)) {
		m, _, err := load[store.Module](s.unreadable, k)
		if err != nil {
			return nil, err
		}
		if m.Broken == "" && m.Undefined == "" {
			continue
		}
		parts, err := k.Parts()
		if err != nil {
			return nil, err
		}
		p := Problem{Kind: KindBroken, Subject: graph.Subject{Module: parts.Str()}, Error: m.Broken, At: m.BrokenSince, Leaves: brokenLeaves}
		if m.Broken == "" {
			p.Kind, p.Error, p.At, p.Leaves = KindNoCRDs, m.Undefined, time.Time{}, ""
		}
		out = append(out, p)
	}
	return out, nil
}

// recorded returns the problems that have records in the store.
func (r *Reader) recorded(s *scan) ([]Problem, error) {
	var stored []store.Problem
	for p, err := range readable(s.unreadable, store.EachProblem(s.tx)) {
		if err != nil {
			return nil, err
		}
		if p.Kind == store.StaleWebhook && r.Live {
			continue // no problem, because the running operator answers the webhook
		}
		stored = append(stored, p)
	}
	stopped, err := r.stopped(s)
	if err != nil {
		return nil, err
	}
	for i := range stored {
		if p := &stored[i]; p.Kind == store.StaleWebhook && p.Since.Before(stopped) {
			p.Since = stopped // the operator answered the webhook until it stopped
		}
	}
	slices.SortStableFunc(stored, store.Problem.Compare)
	out := make([]Problem, len(stored))
	for i, p := range stored {
		out[i] = storedProblem(p)
	}
	return out, nil
}

// damage returns a problem for each record that cannot be read. Besides the records that s has read, it
// checks the records about the whole store and the record of the ConfigMap in force.
func (s *scan) damage() ([]Problem, error) {
	whole, err := store.UnreadableRecords(s.tx)
	for _, record := range whole {
		err = errors.Join(err, s.unreadable.pass(record))
	}
	_, _, unread := load[store.AppliedConfig](s.unreadable, store.AppliedConfigKey())
	err = errors.Join(err, unread)
	var out []Problem
	for _, record := range s.unreadable.records {
		out = append(out, storedProblem(store.Problem{
			Kind: store.DamagedRecord, Object: record.Key.String(), Error: record.Error(), Fix: repair(record, s.live), Since: s.now,
		}))
	}
	return out, err
}

// repair says what to do about an unreadable record. The parameter live says whether an operator runs.
func repair(record *store.RecordError, live bool) string {
	switch table := record.Key.Table(); {
	case workflow.Repairable(record) && live:
		return "wait: the operator moves the record to the table of damaged records when it needs it, and goes on without it"
	case workflow.Repairable(record):
		return "start the operator: it moves the record to the table of damaged records and goes on without it"
	case bytes.Equal(record.Key, store.RefusedConfigKey()) && !live:
		return "start the operator: it then reads the ConfigMap and replaces or deletes the record"
	case bytes.Equal(record.Key, store.RefusedConfigKey()):
		return "change the ConfigMap: the operator then replaces or deletes the record"
	case bytes.Equal(record.Key, store.AppliedConfigKey()) && live:
		return "change the ConfigMap, or start the operator again: it then reads the ConfigMap and writes the record again"
	case bytes.Equal(record.Key, store.AppliedConfigKey()):
		return "start the operator again: it then reads the ConfigMap and writes the record again"
	case table == store.Problems && !live:
		return "start the operator: it writes the record again when it finds the problem again"
	case table == store.Problems:
		return "wait: the operator writes the record again when it finds the problem again"
	case table == store.History:
		return "nothing to do: the record is deleted with the history of its run"
	default:
		return "restore a snapshot of the store: docs/operations.md says how"
	}
}

// storedProblem returns the [Problem] for a problem in the store.
func storedProblem(p store.Problem) Problem {
	return Problem{
		Kind: Kind(p.Kind), Subject: p.Subject, Object: p.Object, At: p.Since, Error: p.Error, More: p.More, Fix: p.Fix, Command: p.Command, Effect: p.Effect,
	}
}

// stored reports whether p names an object, a fix or a command, as the problems with records in the
// store do. The Error of such a problem is a sentence that needs no title. stored returns false for
// problems of an invalid ConfigMap and of the API server, which have a title.
func (p *Problem) stored() bool {
	return p.Kind != KindRefused && p.Kind != KindAPIServer && (p.Object != "" || p.Fix != "" || len(p.Command) > 0)
}

// about returns the argument with which the command why explains the step of p. The argument is the name of the hook or
// the module of the step or, if the step has neither, the ID of its task. An enabled script has no step of its own.
func (p *Problem) about() string {
	if s := p.Subject.OfHook(); s != (graph.Subject{}) && p.Node != discoverModules {
		return s.String()
	}
	return p.Task.String()
}

// mineFirst returns a copy of problems that begins with the problems of run.
func mineFirst(problems []Problem, run uint64) []Problem {
	out := slices.Clone(problems)
	slices.SortStableFunc(out, func(a, b Problem) int {
		switch {
		case a.Run == run && b.Run != run:
			return -1
		case b.Run == run && a.Run != run:
			return 1
		}
		return 0
	})
	return out
}

// advise returns the commands that a user of w can run next.
func (w *Run) advise() []Advice {
	out := w.commands()
	shown := map[uint64]bool{w.ID: true, 0: true}
	// other adds a command that inspects a run. other returns false if the command was added before, or if run is 0 or
	// the number of w itself.
	other := func(run uint64, why string) bool {
		if shown[run] {
			return false
		}
		shown[run] = true
		out = append(out, Advice{Args: []string{"workflow", "inspect", id(run)}, Why: why})
		return true
	}
	blocked, unusable := false, false
	for i := range w.Problems {
		p := &w.Problems[i]
		switch {
		case p.Kind == KindBroken || p.Kind == KindNoCRDs:
			unusable = true
		case p.Kind == KindStalled || p.Run == w.ID && p.blocksTasks():
			blocked = true
		case len(shown) < 5:
			other(p.Run, "it needs attention, too")
		}
	}
	for _, r := range w.holders() {
		if other(r.Run, "this run waits behind it") {
			blocked = true
		}
	}
	other(w.Joined, "the run that continues this work")
	if blocked && w.Live {
		out = append(out, Advice{Args: []string{"queue", "list"}, Why: "the tasks of all queues"})
	}
	if unusable {
		out = append(out, Advice{Args: []string{"module", "list"}, Why: "which modules are not run, and why"})
	}
	return out
}

// commands returns the commands for the tasks of w that have problems. Only a running operator
// executes these commands.
func (w *Run) commands() (out []Advice) {
	if !w.Live {
		return nil
	}
	for i := range w.Problems {
		if p := &w.Problems[i]; p.Run == w.ID {
			out = append(out, p.commands()...)
		}
	}
	return out
}

// commands returns the commands for the task of p.
func (p *Problem) commands() []Advice {
	task := p.Task.String()
	var skip []Advice
	if why := p.skips(); why != "" {
		skip = []Advice{{Args: []string{"task", "skip", task, "--reason", "TEXT"}, Why: why, Instead: true}}
	}
	switch {
	case p.Kind == KindFailing && !p.Due.IsZero():
		return append([]Advice{{Args: []string{"task", "retry", task}, Why: "once it is mended"}}, skip...)
	case p.Kind == KindSlow:
		return []Advice{{Args: []string{"task", "cancel", task, "--reason", "TEXT"}, Why: "end it as a failure; it is then retried"}}
	case p.Kind == KindQuarantined:
		return append([]Advice{{Args: []string{"task", "release", task}, Why: "once the cause is removed; otherwise the operator crashes again"}}, skip...)
	default:
		return nil
	}
}

// skips describes the effect of skipping the step of p. The result is empty for steps that nobody should skip, because
// the steps after them depend on them.
func (p *Problem) skips() string {
	switch {
	case p.Subject.Hook != "":
		return "give up this hook run"
	case p.Node == releaseCheck || p.Node == releaseUpgrade:
		return "leave it to the next run"
	default:
		return ""
	}
}

// blocksTasks reports whether p is a failing task with other tasks behind it in its queue.
func (p *Problem) blocksTasks() bool {
	return p.Kind == KindFailing && p.Behind != nil && p.Behind.Tasks > 0
}

// holders returns the tasks of other runs for which the steps of w wait: tasks before the steps in
// their queues, and items of fan-outs.
func (w *Run) holders() []Ref {
	var out []Ref
	var visit func([]Step)
	visit = func(steps []Step) {
		for i := range steps {
			if wait := steps[i].Wait; wait != nil && (wait.For == ForQueue || wait.For == ForRunning || wait.For == ForItems) {
				out = append(out, wait.On...)
			}
			visit(steps[i].Steps)
		}
	}
	visit(w.Steps)
	return slices.DeleteFunc(out, func(r Ref) bool { return r.Run == w.ID })
}
