package debugapi

import (
	"maps"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow"
)

// ChangeFeed wakes those who watch a run when a commit has touched it, and keeps
// which queues the engine cannot go on with. Its zero value is ready.
type ChangeFeed struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	stalled  map[string]string // by queue, why
}

// A watcher is one who watches.
type watcher struct {
	wake chan struct{} // holds one: what happens meanwhile is one piece of news
	run  uint64        // zero is every run
}

// Observe returns observer with news told first of all that it is told.
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
		if n.Notify(r.Run); r.State == store.Failed {
			n.Notify(0)
		}
		then.Recorded(r)
	}
	observer.Raised = func(w store.Run) { n.Notify(w.ID) }
	observer.Ended = func(w store.Run) {
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

// watch returns a watcher of every run, until stop is called.
func (n *ChangeFeed) watch() (w *watcher, stop func()) {
	w = &watcher{wake: make(chan struct{}, 1)}
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

// follow has w woken by news of run only, or with zero by all.
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
