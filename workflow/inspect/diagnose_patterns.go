package inspect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// mostChangesSearched bounds the findings for which changes before the first failure are searched.
const mostChangesSearched = 3

// failures finds steps that fail. Those that fail for one known reason are one finding.
func (d *diagnostician) failures() (out []Finding, _ error) {
	at := map[string]int{} // of the finding, by its reason
	count := map[string]int{}
	for i := range d.problems {
		p := &d.problems[i]
		if p.Kind != KindFailing {
			continue
		}
		reason, m := p.Task.String(), meaningOf(p.Error)
		if m != nil {
			reason = m.what
		}
		if n := count[reason]; n > 0 {
			count[reason]++
			if n < mostNamed {
				f := &out[at[reason]]
				f.Evidence = slices.Insert(f.Evidence, n, failure(p))
			}
			continue
		}
		f, err := d.failure(p, m)
		if err != nil {
			return nil, err
		}
		at[reason], count[reason] = len(out), 1
		out = append(out, f)
	}
	for reason, i := range at {
		f, n := &out[i], count[reason]
		if n > mostNamed {
			f.Evidence = slices.Insert(f.Evidence, mostNamed, CauseStep{Text: "and " + plural(n-mostNamed, "more step", "more steps")})
		}
		if f.Pattern != Pattern(KindFailing) {
			f.Text = plural(n, "step fails", "steps fail") + ": " + f.Text
		}
	}
	return out, nil
}

// failure returns a failing step as evidence.
func failure(p *Problem) CauseStep {
	text := strings.TrimSpace(p.Node+" "+p.Subject.String()) + " failed " + plural(max(p.Try, 1), "time", "times") + ": " + flat(p.Error)
	if b := p.Behind; b != nil {
		text += "; " + plural(b.Run+b.Tasks, "step waits", "steps wait") + " behind it"
	}
	return CauseStep{At: p.Since, Run: p.Run, Task: p.Task, Text: text, Next: p.Due}
}

// failure returns the finding about a failing step, the error of which has a meaning or not.
func (d *diagnostician) failure(p *Problem, m *meaning) (Finding, error) {
	name := strings.TrimSpace(p.Node + " " + p.Subject.String())
	f := Finding{Pattern: Pattern(KindFailing), Text: name + " fails", Evidence: []CauseStep{failure(p)}}
	if !d.reader.Live {
		f.Evidence[0].Next = time.Time{}
	}
	if m != nil {
		f.Pattern, f.Text, f.Fix = m.is, m.what, m.todo
	}
	if d.searched++; d.searched <= mostChangesSearched {
		changes, err := d.changesBefore(p.Since, p.Node, p.Subject)
		if err != nil {
			return f, err
		}
		success := changes[len(changes)-1]
		changes = changes[:len(changes)-1]
		if m == nil && len(changes) > 0 {
			f.Text += " since a change: " + changes[0].Text
		}
		for _, c := range changes {
			c.Text = "changed before: " + c.Text
			f.Evidence = append(f.Evidence, c)
		}
		if !success.At.IsZero() {
			f.Evidence = append(f.Evidence, success)
		}
	}
	subject := p.Task.String()
	if s := (graph.Subject{Module: p.Subject.Module, Hook: p.Subject.Hook}); s != (graph.Subject{}) {
		subject = s.String()
	}
	f.Advice = []Advice{{Args: []string{"why", subject}, Why: "the chain of causes"}}
	if p.Subject.Hook != "" {
		f.Advice = append(f.Advice, Advice{Args: []string{"logs", p.Task.String()}, Why: "what it printed"})
	}
	if d.reader.Live && !p.Due.IsZero() {
		f.Advice = append(f.Advice, Advice{Args: []string{"task", "retry", p.Task.String()}, Why: "once it is mended"})
	}
	return f, nil
}

// leastLoops is how often in a row a run must have closed a loop to be delayed.
const leastLoops = 3

// loops finds runs that hooks cause again and again, because they change values each time.
func (d *diagnostician) loops() (out []Finding, _ error) {
	searched := 0
	for t, err := range readable(d.scan.unreadable, store.LaterTasks(d.scan.tx)) {
		if err != nil {
			return nil, err
		}
		if searched++; searched > mostCounted {
			break
		}
		if t.Loop == nil || t.Loop.N < leastLoops {
			continue
		}
		f := Finding{
			Pattern: ValueLoop, Text: "all modules converge again and again: hooks change global values at each converge",
			Evidence: []CauseStep{{At: t.Queued, Until: t.Due, Run: t.Run, Task: t.ID, Text: "repeated " + plural(t.Loop.N, "time", "times") + "; the next one is delayed"}},
			Fix:      "find the hook that writes a timestamp, a random value or a list without order, and let it write only if the value is missing or differs",
			Advice:   []Advice{{Args: []string{"global", "patches"}, Why: "which hook wrote what, and when"}},
		}
		if module := t.Subject.Module; module != "" {
			f.Text = "module " + module + " runs again and again: its hooks change its values at each run"
			f.Advice = []Advice{{Args: []string{"module", "patches", module}, Why: "which hook wrote what, and when"}}
		}
		changed, err := d.changedValues(t)
		if err != nil {
			return nil, err
		}
		f.Evidence = append(f.Evidence, changed...)
		out = append(out, f)
	}
	return out, nil
}

// changedValues returns the last attempts that changed values in the run of t, newest first.
func (d *diagnostician) changedValues(t *store.Task) (out []CauseStep, _ error) {
	for a, err := range readable(d.scan.unreadable, store.RecordsOf(d.scan.tx, t.Run)) {
		if err != nil {
			return nil, err
		}
		if a.Subject.Hook != "" && (t.Subject.Module == "" || a.Subject.Module == t.Subject.Module) && strings.Contains(a.Detail, "values ") {
			out = append(out, attemptCause(&a))
		}
	}
	slices.Reverse(out)
	return out[:min(len(out), mostNamed)], nil
}

// stormFrom is the number of waiting events of one binding from which on they are a storm.
const stormFrom = 500

// A crowd is what waits of one binding in a queue.
type crowd struct {
	n           int
	first, last store.Key
}

// storms finds queues in which many events of one binding wait.
func (d *diagnostician) storms() (out []Finding, _ error) {
	for _, name := range d.scan.names {
		if d.scan.queues[name].tasks < stormFrom {
			continue
		}
		crowds, order := map[string]*crowd{}, []string(nil)
		counted := 0
		for k, v := range d.scan.tx.Range(store.At(store.Queues).Str(name)) {
			if counted++; counted > mostCounted {
				break
			}
			subject := subjectText(v)
			c := crowds[string(subject)]
			if c == nil {
				c = &crowd{first: slices.Clone(k)}
				crowds[string(subject)] = c
				order = append(order, string(subject))
			}
			c.n++
			c.last = append(c.last[:0], k...)
		}
		for _, subject := range order {
			var s graph.Subject
			if crowds[subject].n < stormFrom || json.Unmarshal([]byte(subject), &s) != nil || s.Binding == "" {
				continue
			}
			f, err := d.storm(name, s, crowds[subject])
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// subjectText returns the subject in the text of a task, nothing if it has none.
func subjectText(task []byte) []byte {
	_, rest, found := bytes.Cut(task, []byte(`"subject":`))
	end := bytes.IndexByte(rest, '}')
	if !found || end < 0 {
		return nil
	}
	return rest[:end+1]
}

// storm returns the finding about the waiting events of a binding.
func (d *diagnostician) storm(queue string, s graph.Subject, c *crowd) (Finding, error) {
	f := Finding{
		Pattern: EventStorm, Text: plural(c.n, "event", "events") + " of " + s.String() + " wait in queue " + queue,
		Fix: "narrow the binding by namespace, labelSelector or fieldSelector, or by a jqFilter without the fields that change; or run the hook less often with settings.executionMinInterval",
		Advice: []Advice{
			{Args: []string{"why", queue}, Why: "what the queue waits for"},
			{Args: []string{"pause", "hook", graph.Subject{Module: s.Module, Hook: s.Hook}.String(), "--reason", "TEXT"}, Why: "stop the hook; its events stay"},
		},
	}
	for _, which := range []struct {
		name string
		key  store.Key
	}{{"newest", c.last}, {"oldest", c.first}} {
		pos, err := store.ParsePos(which.key)
		if err != nil {
			return f, err
		}
		t, _, err := store.LoadTask(d.scan.tx, pos)
		if err = d.scan.unreadable.pass(err); err != nil {
			return f, err
		}
		if t == nil {
			continue
		}
		w, _, err := load[store.Run](d.scan.unreadable, store.RunKey(t.Run))
		if err != nil {
			return f, err
		}
		f.Evidence = append(f.Evidence, CauseStep{At: cmp.Or(t.Queued, w.Began), Run: t.Run, Task: t.ID, Text: "the " + which.name + ": " + runText(&w)})
	}
	return f, nil
}
