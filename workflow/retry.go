package workflow

import (
	"cmp"
	"errors"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// retries schedules the next attempts of failed tasks. A failed task, or its run from RetryFrom on, is tried again
// until it succeeds. It stays in its slot, unless ContinueOnFailure moves it to a retry queue, or the rate limit of its
// hook defers the task. The task records the number of consecutive failures of each failed step, and the time of the
// next attempt. The delay depends on the failures of all steps, so that it does not become shorter if another step
// fails.
type retries struct {
	*txn
	history   *history
	queues    *queues
	parents   *parents
	exclusive *exclusive
	remover   *remover
	arrivals  *arrivals
	lagging   *lagging
	limits    *limits
}

// retryLater retries t, or its run from RetryFrom on, after a delay. f is the failure of the
// attempt, and out is its output.
func (rt *retries) retryLater(b *bound, n *graph.Node, t *store.Task, f failure, out *output) error {
	if err := rt.exclusive.endExclusive(t); err != nil {
		return err
	}
	step, count, since := store.StepRef{Node: t.Node, Subject: f.subject}, 1, rt.now
	if last := t.Failed.Of(step); last != nil {
		count, since = last.Count+1, cmp.Or(last.Since, last.At)
	}
	if n.Batch && !f.resume {
		if err := rt.limits.limitAgain(t); err != nil {
			return err
		}
	}
	r := recordOf(t, store.Failed)
	r.Subject, r.Try, r.Error, r.Output = f.subject, count, f.text(), out.text()
	if err := rt.history.record(r); err != nil {
		return err
	}
	t.Failed = &store.Failure{
		Node: step.Node, Subject: step.Subject, Count: count, Error: r.Error, At: rt.now, Since: since,
		Before: t.Failed.WithoutStep(step),
	}
	t.Due = rt.now.Add(retryDelay(n, t.Failed.Total()))
	if f.resume && t.Claim != nil {
		t.Claim = &store.Claim{End: t.Claim.End} // the next attempt needs the same batch, because the journal belongs to exactly these tasks
	} else {
		t.Claim = nil
	}
	if n.RetryFrom == "" || f.resume || t.OwnQueue {
		if err := rt.queues.save(t); err != nil {
			return err
		}
		if err := rt.letPass(t); err != nil {
			return err
		}
		return rt.lagging.lagBehind(b, t)
	}
	back := rt.backTo(b, n.RetryFrom, t)
	if err := rt.remover.remove(t); err != nil {
		return err
	}
	if err := rt.arrivals.enqueue(back); err != nil {
		return err
	}
	return rt.lagging.lagBehind(b, back)
}

// letPass moves the task behind t to the front of the main queue, if t has a journal and both tasks were put at the
// front. finishFirst puts tasks with a journal there, and an edge puts the first task of a start run there. The effects
// of t have failed, and the start run may remove the cause, for example by installing a CRD.
func (rt *retries) letPass(t *store.Task) error {
	if t.Queue != Main || t.Slot >= store.FirstSlot || !t.Journal || t.Abandoned {
		return nil
	}
	for next, err := range store.TasksFrom(rt.tx, Main, t.Slot) {
		if err != nil {
			return err
		}
		if next.Journal || covers(t, next) {
			continue
		}
		if next.Slot >= store.FirstSlot || next.Depth > 0 || next.Claim != nil {
			return nil // the run was not put at the front, or has begun
		}
		slot, err := store.FrontSlot(rt.tx, Main)
		if err != nil {
			return err
		}
		rt.queues.touch(Main)
		return rt.parents.relocate(next, store.Pos{Queue: Main, Slot: slot}, "")
	}
	return nil
}

// wakeFailed retries the failing tasks at once.
func (rt *retries) wakeFailed() error {
	err := eachHead(rt.tx, func(t *store.Task) error {
		if t.Failed == nil || !rt.now.Before(t.Due) {
			return nil
		}
		if !rt.fits(costOf(t)) {
			rt.later(followUp{work: wakeFailedTasks, queue: Main})
			return errEnough
		}
		t.Due = rt.now
		rt.queues.touch(t.Queue)
		return rt.queues.save(t)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// backTo returns a task at node that replaces t, so that the run of t starts over there. The new
// task is not in a queue yet.
func (x *txn) backTo(b *bound, node graph.NodeID, t *store.Task) *store.Task {
	back := x.follow(b, graph.Edge{To: node}, t.Run, t.Subject)
	inheritID(back, t)
	back.Pos, back.HomeQueue, back.Parent, back.Past, back.Loop = t.Pos, t.HomeQueue, t.Parent, t.Past, t.Loop
	back.Rewinds, back.Failed, back.Due = t.Rewinds, t.Failed, t.Due
	back.Skips = t.Skips
	return back
}

// inheritID gives next, which replaces t, the ID of t. If items of t still run, next keeps its own
// ID: with the ID of t, it would become their parent.
func inheritID(next, t *store.Task) {
	if t.FanOut == nil || t.FanOut.Open == 0 {
		next.ID = t.ID
	}
}
