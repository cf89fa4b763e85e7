package workflow

import (
	"bytes"
	"slices"

	"addon-operator/store"
)

// queues writes the headers of tasks. Each save writes the header of a task at once. With setTop,
// the write is delayed, so that several changes are written once. At most one write is delayed at a
// time, and its task must be the first of its queue. A queue whose first task may have changed is
// touched: its next task is claimed before the transition ends, or in a later one.
type queues struct {
	*txn

	top     *store.Task // the task whose write is delayed, the first of its queue; nil if there is none
	touched []string    // queues whose first task may have changed
}

// save writes the header of t.
func (qs *queues) save(t *store.Task) error {
	qs.clearTop(t)
	if t.IsOutOfQueue() {
		return store.SaveOutOfQueue(qs.tx, t)
	}
	return store.SaveTask(qs.tx, t)
}

// setTop records that t, the first task of its queue, has changed. t is saved before another head
// is read, or at the end of the transition.
func (qs *queues) setTop(t *store.Task) { qs.top = t }

// clearTop discards the delayed write of t, because the caller saves or removes t.
func (qs *queues) clearTop(t *store.Task) {
	if qs.top == t {
		qs.top = nil
	}
}

// saveTop saves the task that setTop recorded, if there is one.
func (qs *queues) saveTop() error {
	if qs.top == nil {
		return nil
	}
	return qs.save(qs.top)
}

// head returns the first task of queue, and whether there is one.
func (qs *queues) head(queue string) (t *store.Task, ok bool, err error) {
	if qs.top != nil && qs.top.Queue == queue {
		key := qs.top.Pos.Key()
		first := true
		for k := range qs.tx.Range(store.QueueKey(queue)) {
			first = bytes.Compare(key, k) <= 0
			break
		}
		if first {
			return qs.top, true, nil
		}
	}
	if err := qs.saveTop(); err != nil {
		return nil, false, err
	}
	return store.Head(qs.tx, queue)
}

// touch requests a claim of the next task of queue, at the end of the transition or in a later one.
func (qs *queues) touch(queue string) {
	if !slices.Contains(qs.touched, queue) {
		qs.touched = append(qs.touched, queue)
	}
}

// untouch reverts touch.
func (qs *queues) untouch(queue string) {
	qs.touched = slices.DeleteFunc(qs.touched, func(q string) bool { return q == queue })
}
