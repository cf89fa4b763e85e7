package workflow

import (
	"fmt"
	"slices"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// skips ends steps that a person has skipped, as if they had succeeded without facts. A run that starts over after a
// failure passes over its skipped steps: the task records them until its run ends, returns to a node at which runs
// begin, or is joined by another request.
type skips struct {
	*txn
	queues    *queues
	parents   *parents
	exclusive *exclusive
	remover   *remover
	routes    *routes
	openings  *openings
}

// stepToSkip returns the step that a person who skips t means: the step that has failed last, or the current step of t
// if none has failed. The result ahead is true if the run of t starts over after a failure, and has yet to reach the
// failed step again.
func (sk *skips) stepToSkip(t *store.Task) (step store.StepRef, ahead bool, err error) {
	s, err := itemOf(sk.tx, t)
	step = store.StepRef{Node: t.Node, Subject: s}
	b := sk.graphs.named[t.Graph]
	if err != nil || t.Failed == nil || b == nil || waitsForItems(t) {
		return step, false, err
	}
	failed := t.Failed.Step()
	if failed == step || !b.Graph.Leads(graph.NodeID(t.Node), graph.NodeID(failed.Node)) {
		return step, false, nil
	}
	return failed, true, nil
}

// skipLater makes the run of t pass over step, which the run has yet to reach. The run continues at once.
func (sk *skips) skipLater(t *store.Task, step store.StepRef) error {
	addSkip(t, step)
	t.Failed = t.Failed.WithoutStep(step)
	if !t.IsOutOfQueue() {
		t.Due = sk.now
		sk.queues.touch(t.Queue)
	}
	return sk.queues.save(t)
}

// addSkip records that a person has skipped the given step of t's run.
func addSkip(t *store.Task, step store.StepRef) {
	if !slices.Contains(t.Skips, step) {
		t.Skips = append(slices.Clip(t.Skips), step) // copies of a task share the array
	}
}

// fansOutEdge reports whether t is the fan-out task of an edge. Such a task has no step of its own: it starts a task
// for each item.
func fansOutEdge(t *store.Task) bool { return t.FanOut != nil && t.FanOut.Edge }

// dropSkips must be called when other joins kept, an equal task, because the run of kept then also does the work of
// other. It removes the skips of kept that other does not have, so that the run does all steps that other needs. If
// dropSkips returns true, it has changed kept, and the caller must save kept.
func dropSkips(kept, other *store.Task) (changed bool) {
	n := len(kept.Skips)
	kept.Skips = slices.DeleteFunc(slices.Clone(kept.Skips), func(s store.StepRef) bool { return !slices.Contains(other.Skips, s) })
	return len(kept.Skips) < n
}

// endIfSkipped ends the current step of t without facts if a person has skipped this step before the run reached it.
// endIfSkipped reports whether it has ended the step.
func (sk *skips) endIfSkipped(t *store.Task) (skipped bool, err error) {
	if len(t.Skips) == 0 || t.Journal || waitsForItems(t) || fansOutEdge(t) {
		return false, nil
	}
	s, err := itemOf(sk.tx, t)
	if err != nil || !slices.Contains(t.Skips, store.StepRef{Node: t.Node, Subject: s}) {
		return false, err
	}
	return true, sk.skip(t)
}

// skip ends t without facts. If t is a fan-out task, skip ends only the current item.
func (sk *skips) skip(t *store.Task) error {
	b, n, err := sk.graphs.boundTo(t)
	if err != nil {
		return err
	}
	if waitsForItems(t) {
		return fmt.Errorf("task %s: %w", t.ID, ErrWaitsForItems)
	}
	s, err := itemOf(sk.tx, t)
	if err != nil {
		return err
	}
	if t.Journal {
		store.DropJournal(sk.tx, t.ID)
		t.Journal = false
	}
	if err := sk.exclusive.endExclusive(t); err != nil {
		return err
	}
	step := store.StepRef{Node: t.Node, Subject: s}
	if !fansOutEdge(t) { // its item is skipped now, and does not come again
		addSkip(t, step)
	}
	t.Failed = t.Failed.WithoutStep(step)
	t.Claim, t.Due = nil, sk.now
	sk.queues.touch(t.Queue)
	sk.openings.mayUnblock(t.Subject)
	if err := forgetInterruptions(sk.tx, n, t); err != nil {
		return err
	}
	return sk.endSkipped(b, n, t)
}

// skipOut ends t, which is held or deferred, without facts.
func (sk *skips) skipOut(t *store.Task) error {
	if err := forgetInterruptions(sk.tx, nil, t); err != nil {
		return err
	}
	if b, n, err := sk.graphs.boundTo(t); err == nil { // the step of an unknown node cannot be notified
		if err := b.notifySkipped(sk.tx, n, t); err != nil {
			return err
		}
	}
	sk.openings.mayUnblock(t.Subject)
	return sk.remover.removeLast(t, nil)
}

// endSkipped ends t, or the current item of a fan-out task, as if its step had succeeded without
// facts, and notifies the step.
func (sk *skips) endSkipped(b *bound, n *graph.Node, t *store.Task) error {
	if err := b.notifySkipped(sk.tx, n, t); err != nil {
		return err
	}
	if t.FanOut != nil {
		sk.parents.itemDone(t, nil)
		return nil
	}
	return sk.routes.complete(b, n, t, nil, nil)
}
