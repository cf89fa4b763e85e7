package inspect

import (
	"bytes"
	"cmp"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow"
)

// mostChangesSearched is the maximum number of findings for which the changes before the first
// failure are searched.
const mostChangesSearched = 3

// failures finds steps that fail. Steps that fail for the same reason are one finding.
func (d *diagnostician) failures() (out []Finding, _ error) {
	for _, group := range sameCause(d.problems) {
		if group[0].Kind != KindFailing {
			continue
		}
		f, err := d.failure(group)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	return out, nil
}

// failure returns the finding about a group of failing steps.
func (d *diagnostician) failure(all []*Problem) (Finding, error) {
	p, m := all[0], all[0].Meaning
	f := Finding{Pattern: Pattern(KindFailing), Text: p.name() + " fails"}
	f.Fix = p.fix()
	switch {
	case m != nil:
		f.Pattern, f.Text = m.Pattern, plural(len(all), "step fails", "steps fail")+": "+m.What
	case len(all) > 1:
		f.Text = alikeText(all) + ": " + flat(p.Error)
	}
	for _, p := range all[:min(len(all), mostNamed)] {
		f.Evidence = append(f.Evidence, d.attempts(p))
	}
	if more := len(all) - mostNamed; more > 0 {
		f.Evidence = append(f.Evidence, CauseStep{Text: "and " + plural(more, "more step", "more steps")})
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
		f.Fix = p.fixAfter(changes)
		for _, c := range changes {
			c.Text = "changed before: " + c.Text
			f.Evidence = append(f.Evidence, c)
		}
		if !success.At.IsZero() {
			f.Evidence = append(f.Evidence, success)
		}
	}
	f.Advice = []Advice{{Args: []string{"why", p.about()}, Why: "the chain of causes"}}
	if p.Subject.Hook != "" {
		f.Advice = append(f.Advice, Advice{Args: []string{"logs", p.Task.String()}, Why: "what it printed"})
	}
	if d.reader.Live {
		f.Advice = append(f.Advice, p.commands()...)
	}
	return f, nil
}

// attempts describes the failed attempts of a step in one piece of evidence.
func (d *diagnostician) attempts(p *Problem) CauseStep {
	c := CauseStep{
		At: p.Since, Run: p.Run, Task: p.Task, Text: p.name() + " " + failedTimes(p.Try) + ": " + flat(p.Error),
	}
	if b := p.Behind; b != nil {
		c.Text += "; " + plural(b.Run+b.Tasks, "step waits", "steps wait") + " behind it"
	}
	if d.reader.Live {
		c.Next = p.Due
	}
	return c
}

// loops finds runs whose next pass the engine delays, because hooks change values in each pass and so start the next
// one.
func (d *diagnostician) loops() (out []Finding, _ error) {
	loop := []byte(`"loop":{`)
	for t, err := range d.scan.tasks(store.Deferred, func(_ store.Key, text []byte) bool { return bytes.Contains(text, loop) }) {
		if err != nil {
			return nil, err
		}
		if t.Loop == nil {
			continue
		}
		reason, err := workflow.BlockedBy(d.scan.tx, t)
		if err = d.scan.unreadable.pass(err); err != nil {
			return nil, err
		}
		if reason == nil || reason.Kind != store.AwaitsDelay {
			continue
		}
		f := Finding{
			Pattern:  ValueLoop,
			Evidence: []CauseStep{{At: t.Queued, Until: t.Due, Run: t.Run, Task: t.ID, Text: "repeated " + plural(t.Loop.N, "time", "times") + "; the next one is delayed"}},
			Fix:      "find the hook that writes a timestamp, a random value or a list without order. Let it write a timestamp or a random value only if the value is missing, and sort lists",
			Advice:   []Advice{{Args: []string{"global", "patches"}, Why: "which hook wrote what, and when"}},
		}
		changed, err := d.changedValues(t)
		if err != nil {
			return nil, err
		}
		for i := range changed {
			f.Evidence = append(f.Evidence, attemptCause(&changed[i]))
		}
		who := onlyHook(changed)
		if module := t.Subject.Module; module != "" {
			f.Text = "module " + module + " runs again and again: " + cmp.Or(who, "its hooks change") + " values of the module at each run"
			f.Advice = []Advice{{Args: []string{"module", "patches", module}, Why: "which hook wrote what, and when"}}
		} else {
			f.Text = "all modules converge again and again: " + cmp.Or(who, "hooks change") + " global values at each converge"
		}
		out = append(out, f)
	}
	return out, nil
}

// changedValues returns the last attempts that changed values in the run of t, at most mostNamed, newest first. If t is
// a task of a module, only attempts of that module are returned.
func (d *diagnostician) changedValues(t *store.Task) (out []store.Record, _ error) {
	for a, err := range readable(d.scan.unreadable, store.RecordsOf(d.scan.tx, t.Run)) {
		if err != nil {
			return nil, err
		}
		if changesValues(&a) && (t.Subject.Module == "" || a.Subject.Module == t.Subject.Module) {
			out = append(out, a)
		}
	}
	slices.Reverse(out)
	return out[:min(len(out), mostNamed)], nil
}

// onlyHook returns the beginning of a sentence about the hook of all attempts; empty if the attempts are of several
// hooks, or if there are none.
func onlyHook(attempts []store.Record) string {
	if len(attempts) == 0 {
		return ""
	}
	hook := attempts[0].Subject.OfHook()
	if slices.ContainsFunc(attempts, func(a store.Record) bool { return a.Subject.OfHook() != hook }) {
		return ""
	}
	return "hook " + hook.String() + " changes"
}

// stormFrom is the minimum number of waiting events of one binding in one queue that is reported as
// an event storm.
const stormFrom = 500

// storms finds bindings with many waiting events in one queue.
func (d *diagnostician) storms() (out []Finding, _ error) {
	for _, name := range d.scan.names {
		if d.scan.queues[name].tasks() < stormFrom {
			continue
		}
		for group, err := range store.QueuedEvents(d.scan.tx, name) {
			if err != nil {
				return nil, err
			}
			if group.Count < stormFrom {
				continue
			}
			f, err := d.storm(name, &group)
			if err != nil {
				return nil, err
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// storm returns the finding about the waiting events of a binding, with the newest and the oldest of
// them as evidence.
func (d *diagnostician) storm(queue string, group *store.BindingEvents) (Finding, error) {
	s := group.Subject
	f := Finding{
		Pattern: EventStorm, Text: plural(group.Count, "event", "events") + " of " + s.String() + " wait in queue " + queue,
		Fix:    "narrow the binding by namespace, labelSelector or fieldSelector, or by a jqFilter without the fields that change; or run the hook less often with settings.executionMinInterval",
		Advice: []Advice{{Args: []string{"why", queue}, Why: "what the queue waits for"}},
	}
	if d.reader.Live {
		f.Advice = append(f.Advice, Advice{
			Args: []string{"pause", "hook", s.OfHook().String(), "--reason", "TEXT"}, Why: "keep the hook from starting; its events stay",
		})
	}
	for _, which := range []struct {
		name string
		key  store.Key
	}{{"newest", group.Last}, {"oldest", group.First}} {
		t, _, err := store.LoadAt(d.scan.tx, which.key)
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
