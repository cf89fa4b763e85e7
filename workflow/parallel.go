package workflow

import (
	"fmt"
	"iter"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// groups chooses the queues of items that run in parallel, and of runs that must wait behind an
// earlier run of their module. At most Width items of a group run at the same time, each in a
// parallel queue of its own. Two runs of one module never run at the same time.
type groups struct {
	*txn
}

// queueForItem returns the parallel queue for item, the next item of the fan-out task t. The result queue is "" if the
// item must run in the queue of t. The result ready is false while the item cannot start: while items of another group
// run, or while its group has the maximum number of running items. If an earlier run of the item's module has not
// ended, the item runs behind it, in the queue of that run. If that queue is not the retry queue of the module, the
// item first waits for the running items of t.
func (g *groups) queueForItem(t *store.Task, item graph.Item) (queue string, ready bool, err error) {
	l := t.FanOut
	grouped := item.Group != "" && item.Width > 1
	if l.Open > 0 && l.Group != item.Group && (l.Group != "" || grouped) {
		return "", false, nil
	}
	if queue, err = g.retried(t, item.Subject.Module); queue != "" || err != nil {
		return queue, err == nil, err
	}
	if queue, err = g.leftOver(t, item.Subject.Module); queue != "" || err != nil {
		if l.Open > 0 {
			return "", false, err
		}
		l.Group = queue // so that the next item waits until this item has ended
		return queue, err == nil, err
	}
	if grouped && l.Group != item.Group {
		if grouped, err = hasFellow(g.tx, t, item); err != nil {
			return "", false, err
		}
	}
	if !grouped {
		l.Group = ""
		return "", true, nil
	}
	if l.Open >= item.Width {
		return "", false, nil
	}
	l.Group = item.Group
	queue, err = freeQueue(g.tx, t, item.Width)
	return queue, err == nil, err
}

// hasFellow reports whether item, the next item of t, is followed by an item of the same group. If the first item of a
// group is the only one, it runs in the queue of t.
func hasFellow(tx *store.Tx, t *store.Task, item graph.Item) (bool, error) {
	if t.FanOut.Next+1 == t.FanOut.Len {
		return false, nil
	}
	next, err := store.LoadItem[graph.Item](tx, t.ID, t.FanOut.Next+1)
	return next.Group == item.Group, err
}

// freeQueue returns a queue without an item of t. The queue is one of the parallel queues with the
// numbers 0 to width-1. freeQueue prefers an empty queue.
func freeQueue(tx *store.Tx, t *store.Task, width int) (free string, err error) {
	for i := range width {
		queue := fmt.Sprint(parallelPrefix, i)
		empty, taken := true, false
		for other, err := range store.Tasks(tx, queue) {
			if err != nil {
				return "", err
			}
			empty, taken = false, taken || other.Parent != nil && other.Parent.ID == t.ID
		}
		if empty {
			return queue, nil
		}
		if free == "" && !taken {
			free = queue
		}
	}
	return free, nil
}

// retried returns the retry queue of module if an earlier run of the module is in it and
// ContinueOnFailure is set; otherwise "". A fan-out task t does not wait for an item in such a queue.
func (g *groups) retried(t *store.Task, module string) (string, error) {
	_, n, err := g.graphs.boundTo(t)
	if err != nil || !n.RetryQueue || !g.continueOnFailure {
		return "", err
	}
	return g.failing(module)
}

// failing returns the retry queue of module if a run of the module is in it; otherwise "".
func (g *groups) failing(module string) (string, error) {
	queue := retryQueue(module)
	_, ok, err := store.Head(g.tx, queue)
	if err != nil || !ok {
		return "", err
	}
	return queue, nil
}

// leftOver returns the parallel queue in which an abandoned task of module has not ended; empty if
// there is none. The new run of the module, which is t or an item of t, must wait behind this task.
// If t's node is Unique, the new run also waits behind every earlier run in a parallel queue, so
// that a module never runs twice at the same time.
func (g *groups) leftOver(t *store.Task, module string) (string, error) {
	_, n, err := g.graphs.boundTo(t)
	if err != nil {
		return "", err
	}
	once := n.Unique
	for queue, err := range g.queuesOf(module) {
		if err != nil {
			return "", err
		}
		if queue == t.Queue {
			continue
		}
		for other, err := range store.Tasks(g.tx, queue) {
			if err != nil {
				return "", err
			}
			if other.HomeQueue == "" || other.Graph != t.Graph || other.Subject.Module != module {
				continue
			}
			if other.Abandoned || once {
				return queue, nil
			}
		}
	}
	return "", nil
}

// queuesOf yields the queues that can have a parallel run of module: the parallel queues, and the
// retry queue of the module. queuesOf does not visit the retry queues of other modules, because
// many modules can fail.
func (g *groups) queuesOf(module string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for queue, err := range store.QueuesFrom(g.tx, parallelPrefix) {
			if err == nil && len(queue) > len(retryPrefix) { // shorter names come first, and parallel queues have short names
				break
			}
			if err == nil && !strings.HasPrefix(queue, parallelPrefix) {
				continue
			}
			if !yield(queue, err) || err != nil {
				return
			}
		}
		yield(retryQueue(module), nil)
	}
}
