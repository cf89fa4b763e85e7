package workflow

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// BlockedBy returns the reason why t cannot start; nil if there is none. BlockedBy ignores the tasks
// before t in the queue of t. BlockedBy also ignores an incomplete preparation, during which no task
// of the main queue or of a parallel queue is claimed. BlockedBy only reads records, so every reader
// of a store finds the reason that the engine acts on, even if no engine runs.
//
// Two kinds of reasons are known only to the implementation of a step: the answer of a [Gater], and
// the rate limit of a [RateLimiter]. The engine asks the step for them when the task reaches the
// head of its queue. If such a reason blocks the task, the engine takes the task out of the queue,
// and records the reason with the lane that holds the task, or with the deferred task.
func BlockedBy(tx *store.Tx, t *store.Task) (*store.Reason, error) {
	switch {
	case t.IsHeld():
		return heldReason(tx, t)
	case t.IsOutOfQueue():
		return deferredReason(tx, t), nil
	}
	if reason, err := pauseReason(tx, homeQueue(t)); reason != nil || err != nil {
		return reason, err
	}
	if reason, err := exclusiveReason(tx, t.Queue); reason != nil || err != nil {
		return reason, err
	}
	if reason := retryReason(tx, t); reason != nil {
		return reason, nil
	}
	if reason, err := quarantineReason(tx, t); reason != nil || err != nil {
		return reason, err
	}
	if reason, err := modulesReason(tx, t); reason != nil || err != nil {
		return reason, err
	}
	return itemsReason(t), nil
}

// heldReason returns the reason why the lane of t is shut; nil if it is open.
func heldReason(tx *store.Tx, t *store.Task) (*store.Reason, error) {
	lane, ok, err := store.LoadLane(tx, t.LaneKey())
	if err != nil || !ok || lane.Open {
		return nil, err
	}
	return &lane.Reason, nil
}

// deferredReason returns the reason why t, which is in no queue, is not due yet; nil if it is due.
func deferredReason(tx *store.Tx, t *store.Task) *store.Reason {
	due := dueAt(t, tx.Now())
	switch {
	case !tx.Now().Before(due):
		return nil
	case t.Every > 0:
		return limitReason(t.Every, due)
	default:
		return &store.Reason{Kind: store.AwaitsDelay, Detail: "its run changes values repeatedly", Until: due}
	}
}

// limitReason returns the reason of a task that a rate limit defers until due. The parameter every
// is the interval in which the limit allows one run of the hook on average.
func limitReason(every time.Duration, due time.Time) *store.Reason {
	return &store.Reason{Kind: store.AwaitsLimit, Detail: fmt.Sprintf("its hook may run once in %s", every), Until: due}
}

// exclusiveReason returns the reason why no task of the given queue starts: a task of another queue
// runs exclusively, or will run exclusively next. If there is no such task, exclusiveReason returns
// nil. While the exclusive task waits behind other tasks of its queue, no queue is blocked, because
// these tasks may wait for work in other queues.
func exclusiveReason(tx *store.Tx, queue string) (*store.Reason, error) {
	ref, ok, err := store.Load[store.Ref](tx, store.ExclusiveKey())
	if err != nil || !ok || ref.Pos.Queue == queue {
		return nil, err
	}
	t, err := exclusiveTask(tx)
	if t == nil || err != nil {
		return nil, err
	}
	what := strings.TrimSpace(t.Node + " " + t.Subject.String())
	return &store.Reason{
		Kind: store.AwaitsExclusive, By: t.ID,
		Detail: fmt.Sprintf("waits for task %s (%s), which must run while no other task runs, because the operator has died at least twice while that task ran", t.ID, what),
	}, nil
}

// exclusiveTask returns the task that runs exclusively, or that is the head of its queue and will
// run exclusively next; nil if there is none. If the task does not run yet and its queue is paused,
// exclusiveTask returns nil.
func exclusiveTask(tx *store.Tx) (*store.Task, error) {
	ref, ok, err := store.Load[store.Ref](tx, store.ExclusiveKey())
	if err != nil || !ok {
		return nil, err
	}
	t, ok, err := store.LoadTask(tx, ref.Pos)
	if err != nil || !ok || t.ID != ref.ID {
		return nil, err
	}
	if t.Claim != nil && t.Claim.Epoch == tx.Epoch() {
		return t, nil
	}
	head, ok, err := store.Head(tx, ref.Pos.Queue)
	if err != nil || !ok || head.ID != t.ID {
		return nil, err
	}
	if paused, err := store.PauseOfQueue(tx, homeQueue(t)); paused != nil || err != nil {
		return nil, err
	}
	return t, nil
}

// retryReason returns the reason why t is not retried yet; nil if t is due.
func retryReason(tx *store.Tx, t *store.Task) *store.Reason {
	due := dueAt(t, tx.Now())
	if !tx.Now().Before(due) {
		return nil
	}
	reason := &store.Reason{Kind: store.AwaitsRetry, Detail: "waits for its retry", Until: due}
	if t.Failed != nil {
		reason.Detail = fmt.Sprintf("waits for its retry after failure %d", t.Failed.Count)
	}
	return reason
}

// quarantineReason returns the reason why a quarantine or a pause holds t; nil if none does.
// [store.QuarantinedItem.Holds] says which work is held. A task with a journal is not held,
// because its step has run already. An abandoned task is not held, because its step does not run.
func quarantineReason(tx *store.Tx, t *store.Task) (*store.Reason, error) {
	if t.Journal || t.Abandoned {
		return nil, nil
	}
	s := t.Subject
	if t.OwnQueue {
		s = ofRun(s)
	}
	q, err := store.QuarantineOf(tx, t.Graph, t.Node, s)
	if q == nil || err != nil {
		return nil, err
	}
	reason := q.Reason()
	return &reason, nil
}

// ofRun returns the subject of the run to which an item with the subject s belongs: the module of s
// or, if s has no module, s itself. A pause is compared with this subject, because a pause of a
// module's hook holds only events and schedule ticks, and not the items of a run.
func ofRun(s graph.Subject) graph.Subject {
	if s.Module != "" {
		return graph.Subject{Module: s.Module}
	}
	return s
}

// modulesReason returns the reason why t, the last task of its run, does not start: it waits for
// runs of failing modules, which are retried. modulesReason returns nil if t waits for no such run.
func modulesReason(tx *store.Tx, t *store.Task) (*store.Reason, error) {
	if t.Lagging == 0 {
		return nil, nil
	}
	lagging, err := LaggingModules(tx)
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, module := range lagging {
		for other, err := range store.Tasks(tx, retryQueue(module)) {
			if err != nil {
				return nil, err
			}
			if other.Parent != nil && other.Parent.Lags && other.Parent.ID == t.ID && !slices.Contains(modules, module) {
				modules = append(modules, module)
			}
		}
	}
	return &store.Reason{Kind: store.AwaitsModules, Detail: "waits until these failing modules have succeeded: " + strings.Join(modules, ", ")}, nil
}

// itemsReason returns the reason of the fan-out task t if t waits for its items in other queues;
// otherwise nil. While such items run, t waits if no item is left to start, or if the running items
// are in a parallel group.
func itemsReason(t *store.Task) *store.Reason {
	l := t.FanOut
	if l == nil || l.Open == 0 || l.Next < l.Len && l.Group == "" {
		return nil
	}
	text := fmt.Sprintf("waits for %d tasks in other queues", l.Open)
	if l.Open == 1 {
		text = "waits for 1 task in another queue"
	}
	return &store.Reason{Kind: store.AwaitsItems, Detail: text}
}

// pauseReason returns the reason why no task of the given queue starts: a person paused the queue
// or all work. pauseReason returns nil if neither the queue nor all work is paused.
func pauseReason(tx *store.Tx, queue string) (*store.Reason, error) {
	q, err := store.PauseOfQueue(tx, queue)
	if q == nil || err != nil {
		return nil, err
	}
	reason := q.Reason()
	return &reason, nil
}
