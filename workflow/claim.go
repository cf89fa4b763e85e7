package workflow

import (
	"context"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A claim is a task that a worker must process.
type claim struct {
	task    Task
	header  store.Task // header of the task after the claim
	saved   []byte     // the bytes of this header in the store
	bound   *bound
	node    *graph.Node
	outcome *Outcome // outcome in the journal of the task; nil if the task has no journal
	prepare bool     // whether the attempt prepares the fan-out, which is not created yet
	size    int      // bytes of the payloads of the batch; 0 if extendBatch was not called for the claim

	ctx    context.Context //nolint:containedctx // context of the attempt, set at the commit of the claim
	cancel context.CancelCauseFunc
}

// copyTask returns a copy of the header of c's task after the claim. The caller can change the
// copy.
func (c *claim) copyTask() *store.Task {
	t := c.header
	if t.FanOut != nil {
		l := *t.FanOut
		l.Facts = slices.Clip(l.Facts)
		t.FanOut = &l
	}
	return &t
}

// covers reports whether the attempt of c processes the task with the given id, alone or in a
// batch.
func (c *claim) covers(id store.ID) bool {
	return slices.ContainsFunc(c.task.Batch, func(t *store.Task) bool { return t.ID == id })
}

// find returns the header of c's task, and whether the task still exists. find searches the whole
// slot, because a rewind that is committed while the task runs can increase the depth of the task.
func (c *claim) find(tx *store.Tx) (*store.Task, bool, error) {
	for t, err := range store.Slot(tx, c.task.Queue, c.task.Slot) {
		if err != nil {
			return nil, false, err
		}
		if t.ID == c.task.ID {
			return t, true, nil
		}
	}
	return nil, false, nil
}

// allowsFailure reports whether the bindings of all tasks of c allow failures.
func (c *claim) allowsFailure() bool {
	for _, t := range c.task.Batch[1:] {
		if !t.AllowFailure {
			return false
		}
	}
	return c.task.AllowFailure
}
