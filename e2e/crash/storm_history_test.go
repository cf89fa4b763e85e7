package crash_test

import (
	"fmt"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/lifecycle"
)

// A history has the runs and their history records after a storm test, read from the store of the stopped operator.
// The keys are numbers of runs.
type history struct {
	runs    map[uint64]store.Run
	records map[uint64][]store.Record
}

// readHistory reads all runs. wrong has a line for each problem: tasks that are pending, held, deferred or quarantined,
// damaged records, runs that have not ended, and runs that neither have a record in the history nor have joined another
// run. stopped is the time at which the operator was stopped.
func readHistory(tx *store.Tx, stopped time.Time) (h history, wrong []string, err error) {
	h = history{runs: map[uint64]store.Run{}, records: map[uint64][]store.Record{}}
	note := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	// A schedule tick of the last seconds may still be pending, because the operator stopped before it was processed.
	young := func(t *store.Task) bool {
		return strings.Contains(t.Node, "schedule") && stopped.Sub(t.Queued) < 5*time.Second
	}
	ticks := map[uint64]bool{}
	for what, tasks := range map[string]func(func(*store.Task, error) bool){
		"pending": store.AllTasks(tx), "held": store.AllHeldTasks(tx), "due later": store.DeferredTasks(tx),
	} {
		for t, err := range tasks {
			if err != nil {
				return h, wrong, err
			}
			if young(t) {
				ticks[t.Run] = true
				continue
			}
			note("task %s at node %s (%v, %v) of run %d is still %s", t.ID, t.Node, t.Subject, t.Object, t.Run, what)
		}
	}
	for q, err := range store.QuarantinedItems(tx) {
		if err != nil {
			return h, wrong, err
		}
		note("task %s at node %s (%v) is in quarantine", q.ID, q.Node, q.Subject)
	}
	for d, err := range store.AllDamaged(tx) {
		if err != nil {
			return h, wrong, err
		}
		note("%s was damaged: %s", d, d.Error)
	}
	for run, err := range store.RunsBackwards(tx) {
		if err != nil {
			return h, wrong, err
		}
		if ticks[run.ID] {
			continue
		}
		h.runs[run.ID] = run
		if run.Open != 0 || run.Ended.IsZero() {
			note("run %d (%s, %+v) has not ended; %d tasks are open", run.ID, run.Trigger, run.Cause, run.Open)
		}
		for r, err := range store.RecordsOf(tx, run.ID) {
			if err != nil {
				return h, wrong, err
			}
			h.records[run.ID] = append(h.records[run.ID], r)
		}
		if len(h.records[run.ID]) == 0 && run.Joined == 0 {
			note("run %d (%s, %+v) has ended without a word in the history", run.ID, run.Trigger, run.Cause)
		}
	}
	return h, wrong, nil
}

// attempt returns the last record of an attempt to deliver the event of run. If run has no such record because its
// event was joined to that of another run, attempt looks in the other run, and so on.
func (h history) attempt(run store.Run) (last store.Record, err error) {
	for range len(h.runs) + 1 {
		for _, r := range h.records[run.ID] {
			if isEvent(r) && r.State != store.Joined {
				last = r
			}
		}
		if last.Node != "" {
			return last, nil
		}
		next, ok := h.runs[run.Joined]
		if !ok {
			return last, fmt.Errorf("the history of run %d has no attempt, and run %d, which continues it, is not in the history", run.ID, run.Joined)
		}
		run = next
	}
	return last, fmt.Errorf("run %d continues itself", run.ID)
}

// absorbed is the detail in the history record of an event that was dropped because a Synchronization had delivered
// its object.
const absorbed = "the Synchronization of its binding delivered the object"

// isEvent reports whether the task of r delivers a Kubernetes event to a hook.
func isEvent(r store.Record) bool {
	return r.Node == string(lifecycle.ModuleKubernetesEvent) || r.Node == string(lifecycle.GlobalKubernetesEvent)
}

// coalesced returns the number of events that were coalesced into another event of the same object.
func (h history) coalesced() (n int) {
	for _, records := range h.records {
		for _, r := range records {
			if isEvent(r) && r.State == store.Joined {
				n++
			}
		}
	}
	return n
}

// events checks the run of each event, and returns what is wrong. Each event must have ended as done, except events of
// the module that the test disables and enables, and events from before the end of the first converge whose objects a
// Synchronization has delivered. For an event that is done, a completed run of the hook must have received the event.
func (h history) events(record *stormRecord, loads []*load) (wrong []string) {
	type made struct {
		change
		by *load
	}
	changes := map[string]made{}
	for _, l := range loads {
		for _, c := range l.changes {
			changes[c.Name+" "+c.Version] = made{c, l}
		}
	}
	deleted := map[string]int{} // number of deletions that are done according to the history, by hook and object
	for _, run := range h.runs {
		if run.Cause.Event == "" || run.Subject.Hook == "" { // the event of the ConfigMap has no hook
			continue
		}
		name := run.Cause.Object[strings.LastIndex(run.Cause.Object, "/")+1:]
		event := fmt.Sprintf("run %d (%s %s at version %s for %v)", run.ID, run.Cause.Event, name, run.Cause.ResourceVersion, run.Subject)
		last, err := h.attempt(run)
		if err != nil {
			wrong = append(wrong, event+": "+err.Error())
			continue
		}
		hook := strings.TrimPrefix(run.Subject.Module+"/"+run.Subject.Hook, "/")
		c, known := changes[name+" "+run.Cause.ResourceVersion]
		switch {
		case last.Detail == absorbed && known && c.by.early(c.change) && record.shown(c.by, c.change):
		case last.State == store.Done && run.Cause.Event == "Deleted":
			deleted[hook+" "+name]++
		case last.State == store.Done:
			if !known || !record.got(c.by, c.change) {
				wrong = append(wrong, fmt.Sprintf("%s is done by task %s of run %d, but no completed run of the hook has received %q", event, last.Task, last.Run, c.key()))
			}
		case run.Subject.Module != toggled:
			wrong = append(wrong, fmt.Sprintf("%s ended as %q in run %d: %s%s", event, last.State, last.Run, last.Detail, last.Error))
		}
	}
	for what, n := range deleted {
		hook, name, _ := strings.Cut(what, " ")
		got := 0
		for key := range record.delivered[hook] {
			if strings.HasPrefix(key, "Deleted "+name+" ") {
				got++
			}
		}
		if got < n {
			wrong = append(wrong, fmt.Sprintf("%d deletions of %s for %s are done, but %d were delivered", n, name, hook, got))
		}
	}
	return wrong
}

// tasks checks the history records of each task, and returns what is wrong. The last record of a task must not say that
// the task failed or is in quarantine. Only tasks of the module that the test disables, and events of objects that a
// Synchronization has delivered, may have been dropped. If the history says that a task of a hook is done, the hook
// must have completed a run for this task. Only tasks of the hook that kills the operator may have been quarantined.
func (h history) tasks(record *stormRecord) (wrong []string) {
	type key struct {
		run  uint64
		task store.ID
	}
	last := map[key]store.Record{}
	done := map[[2]string]int{}
	for id, records := range h.records {
		for _, r := range records {
			last[key{id, r.Task}] = r
			hook := strings.TrimPrefix(r.Subject.Module+"/"+r.Subject.Hook, "/")
			if r.State == store.Done && r.Subject.Hook != "" && !strings.Contains(r.Detail, "executeHookOnSynchronization") {
				done[[2]string{r.Task.String(), hook}]++
			}
			if r.State == store.Quarantined && hook != crashHook {
				wrong = append(wrong, fmt.Sprintf("task %s at node %s of %s was quarantined, but its hook does not kill the operator: %s", r.Task, r.Node, hook, r.Detail))
			}
			// The method events checks the dropped tasks with the detail absorbed.
			if r.State == store.Dropped && r.Subject.Module != toggled && r.Detail != absorbed {
				wrong = append(wrong, fmt.Sprintf("task %s at node %s (%v) of run %d was dropped: %s%s", r.Task, r.Node, r.Subject, id, r.Detail, r.Error))
			}
		}
	}
	for k, r := range last {
		if r.State == store.Failed || r.State == store.Quarantined {
			wrong = append(wrong, fmt.Sprintf("task %s at node %s (%v) of run %d: its last record in the history is %q: %s%s", k.task, r.Node, r.Subject, k.run, r.State, r.Error, r.Detail))
		}
	}
	for what, n := range done {
		if got := record.ends[what]; got < n {
			wrong = append(wrong, fmt.Sprintf("task %s of hook %s is done %d times in the history, by %d runs of the hook", what[0], what[1], n, got))
		}
	}
	return wrong
}
