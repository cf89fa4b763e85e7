package debugapi

import (
	"maps"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
)

// ChangeFeed wakes the watchers of a run when a commit has changed the run, and the watchers of the store after each commit.
// It knows the queues that the engine cannot process, and why. Its zero value is ready to use.
type ChangeFeed struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	commits  map[chan struct{}]bool
	stalled  map[string]string // by queue, why
}

// A watcher is one reader of the feed.
type watcher struct {
	wake chan struct{} // has room for one signal, so several changes can be one signal
	run  uint64        // zero is every run

	// A watcher that collects changes has those that it has not taken yet, and the number of those that did not fit.
	collects bool
	changes  []inspect.Change
	lost     int
}

// mostChanges is the maximum number of changes that a watcher has not taken yet.
const mostChanges = 1000

// Observe returns observer with the change feed called before its own functions.
func (n *ChangeFeed) Observe(observer workflow.Observer) workflow.Observer {
	then := observer
	observer.Began = func(t workflow.Task) {
		n.goesOn(t.Queue)
		for _, task := range t.Batch {
			n.Notify(task.Run)
		}
		n.Notify(t.Run)
		then.Began(t)
	}
	observer.Recorded = func(r store.Record) {
		n.publish(inspect.Change{Record: &r})
		if n.Notify(r.Run); r.State == store.Failed {
			n.Notify(0)
		}
		then.Recorded(r)
	}
	observer.Raised = func(w store.Run) {
		n.publish(inspect.Change{Began: &w})
		n.Notify(w.ID)
	}
	observer.Ended = func(w store.Run) {
		n.publish(inspect.Change{Ended: &w})
		n.Notify(w.ID)
		then.Ended(w)
	}
	observer.Broken = func(queue string, err error) {
		n.standsStill(queue, err)
		then.Broken(queue, err)
	}
	return observer
}

// Notify wakes those who watch run, or with zero all.
func (n *ChangeFeed) Notify(run uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		if run != 0 && w.run != 0 && w.run != run {
			continue
		}
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
}

// publish passes a change to the watchers that collect changes.
func (n *ChangeFeed) publish(change inspect.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		switch {
		case !w.collects:
		case len(w.changes) < mostChanges:
			w.changes = append(w.changes, change)
		default:
			w.lost++
		}
	}
}

// take returns the changes that w has collected since the last call, oldest first, and how many later ones are lost.
func (n *ChangeFeed) take(w *watcher) (changes []inspect.Change, lost int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changes, lost = w.changes, w.lost
	w.changes, w.lost = nil, 0
	return changes, lost
}

// Committed wakes those who watch the store.
func (n *ChangeFeed) Committed() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for wake := range n.commits {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
}

// Commits returns a channel that receives after commits, until stop is called: once after all commits since it was last
// received from.
func (n *ChangeFeed) Commits() (wake <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.commits == nil {
		n.commits = map[chan struct{}]bool{}
	}
	n.commits[c] = true
	return c, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.commits, c)
	}
}

// watch returns a watcher of every run, until stop is called. It collects changes only if collects is set.
func (n *ChangeFeed) watch(collects bool) (w *watcher, stop func()) {
	w = &watcher{wake: make(chan struct{}, 1), collects: collects}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.watchers == nil {
		n.watchers = map[*watcher]bool{}
	}
	n.watchers[w] = true
	return w, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.watchers, w)
	}
}

// follow has w woken by changes of run only, or with zero by all.
func (n *ChangeFeed) follow(w *watcher, run uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.run = run
}

func (n *ChangeFeed) standsStill(queue string, err error) {
	n.mu.Lock()
	if n.stalled == nil {
		n.stalled = map[string]string{}
	}
	n.stalled[queue] = err.Error()
	n.mu.Unlock()
	n.Notify(0)
}

func (n *ChangeFeed) goesOn(queue string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.stalled, queue)
}

// standing returns the queues that the engine cannot go on with, each with why.
func (n *ChangeFeed) standing() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.stalled)
}
