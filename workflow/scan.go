package workflow

import (
	"iter"

	"addon-operator/store"
)

// heads yields the tasks of queue that may have been begun: those on its front
// places, and the first of those behind.
func (m *transition) heads(queue string) iter.Seq2[*store.Task, error] {
	return func(yield func(*store.Task, error) bool) {
		for t, err := range store.Tasks(m.tx, queue) {
			if !yield(t, err) || err != nil || t.Slot >= store.FirstSlot {
				return
			}
		}
	}
}

// eachHead calls fn for the tasks of all queues that may have been begun, until
// it fails.
func (m *transition) eachHead(fn func(*store.Task) error) error {
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return err
		}
		for t, err := range m.heads(queue) {
			if err != nil {
				return err
			}
			if err := fn(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// each calls fn for the tasks of all queues, in order, until it fails. The holder is the task whose attempt that runs, or
// whose journal that goes on, covers t; it may be t itself. It is nil for a
// task that can be taken away.
func (m *transition) each(fn func(t, holder *store.Task) error) error {
	var holder *store.Task
	for t, err := range store.AllTasks(m.tx) {
		if err != nil {
			return err
		}
		if m.claimed(t) || t.Journal {
			holder = t
		}
		if holder != nil && !covers(holder, t) {
			holder = nil
		}
		if err := fn(t, holder); err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether t stands on the places that the claim on holder covers.
func covers(holder, t *store.Task) bool {
	last := holder.Slot
	if holder.Claim != nil {
		last = max(last, holder.Claim.End)
	}
	return t.Queue == holder.Queue && holder.Slot <= t.Slot && t.Slot <= last
}
