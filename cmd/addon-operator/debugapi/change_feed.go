package debugapi

import (
	"maps"
	"slices"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
)

// ChangeFeed wakes its readers after commits of the store. ChangeFeed wakes a busy reader once for several commits.
// Some readers collect changes: they receive the changes that the engine has committed. The feed also records the
// queues that the engine cannot process, with their errors. If a queue is added to this record or removed from it,
// ChangeFeed wakes the readers that collect no changes. The zero value is ready to use.
type ChangeFeed struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	stalled  map[string]string // errors by queue
}

// A watcher is one reader of the feed.
type watcher struct {
	wake chan struct{} // buffers one signal, which can be for several commits

	// collects is set if the watcher collects changes. The watcher collects the changes for which the function wants
	// returns true, or all changes if wants is nil. The field changes has the collected changes that were not drained
	// yet, and the field lost is the number of newer changes that exceeded mostChanges.
	collects bool
	wants    func(inspect.Change) bool
	changes  []inspect.Change
	lost     int
}

// mostChanges is the maximum number of changes that the feed collects for one watcher.
const mostChanges = 1000

// Observe returns an observer whose functions Began, Recorded, Raised, Ended and Broken first notify the change feed,
// and then call the same function of the given observer, unless it is nil. The caller must pass the returned observer
// to the engine, so that the feed collects the changes of a commit before [store.Options.Committed] is called.
func (n *ChangeFeed) Observe(observer workflow.Observer) workflow.Observer {
	observer.Began = before(observer.Began, func(t workflow.Task) { n.noteProcessing(t.Queue) })
	observer.Recorded = before(observer.Recorded, func(r store.Record) { n.publish(inspect.Change{Record: &r}) })
	observer.Raised = before(observer.Raised, func(run store.Run) { n.publish(inspect.Change{Began: &run}) })
	observer.Ended = before(observer.Ended, func(run store.Run) { n.publish(inspect.Change{Ended: &run}) })
	broken := observer.Broken
	observer.Broken = func(queue string, err error) {
		n.noteStuck(queue, err)
		if broken != nil {
			broken(queue, err)
		}
	}
	return observer
}

// before combines two functions: the returned function calls first(v), and afterwards then(v). If the function then is
// nil, the returned function calls only first(v).
func before[T any](then, first func(T)) func(T) {
	return func(v T) {
		first(v)
		if then != nil {
			then(v)
		}
	}
}

// Committed wakes the readers after the commit c. It must be called as [store.Options.Committed]. A reader that
// collects changes is woken only if the feed has collected changes for it, or if the commit has actions of people.
// Other readers are woken after each commit.
func (n *ChangeFeed) Committed(c store.Commit) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		if !w.collects || c.Actions || len(w.changes) > 0 || w.lost > 0 {
			w.signal()
		}
	}
}

// wake wakes the readers that collect no changes. The caller holds mu.
func (n *ChangeFeed) wake() {
	for w := range n.watchers {
		if !w.collects {
			w.signal()
		}
	}
}

// signal wakes the reader. signal does nothing if the reader has not received the previous signal
// yet.
func (w *watcher) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// narrow makes w collect only changes for which the function wants returns true. narrow also calls wants for each
// change that w has collected already, in their order, and removes the changes for which wants returns false.
func (n *ChangeFeed) narrow(w *watcher, wants func(inspect.Change) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.wants = wants
	w.changes = slices.DeleteFunc(w.changes, func(change inspect.Change) bool { return !wants(change) })
}

// publish passes a change to the watchers that collect changes.
func (n *ChangeFeed) publish(change inspect.Change) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		switch {
		case !w.collects, w.wants != nil && !w.wants(change):
		case len(w.changes) < mostChanges:
			w.changes = append(w.changes, change)
		default:
			w.lost++
		}
	}
}

// drain removes the changes that w has collected, and returns them, oldest first. drain also returns the number of
// newer changes that were lost.
func (n *ChangeFeed) drain(w *watcher) (changes []inspect.Change, lost int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	changes, lost = w.changes, w.lost
	w.changes, w.lost = nil, 0
	return changes, lost
}

// Commits returns a channel that receives a value after commits, until stop is called. One value can be
// for several commits.
func (n *ChangeFeed) Commits() (wake <-chan struct{}, stop func()) {
	w, stop := n.watch(false)
	return w.wake, stop
}

// watch adds a watcher to the feed until stop is called. The watcher collects changes only if the argument
// collects is true.
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

// noteStuck records that the engine cannot process a queue. It wakes the readers that collect no changes, because no
// commit wakes them.
func (n *ChangeFeed) noteStuck(queue string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stalled == nil {
		n.stalled = map[string]string{}
	}
	n.stalled[queue] = err.Error()
	n.wake()
}

// noteProcessing records that the engine processes a queue. If the engine could not process the queue before,
// noteProcessing wakes the readers that collect no changes.
func (n *ChangeFeed) noteProcessing(queue string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.stalled[queue] != "" {
		delete(n.stalled, queue)
		n.wake()
	}
}

// standing returns the queues that the engine cannot process, with their errors.
func (n *ChangeFeed) standing() map[string]string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return maps.Clone(n.stalled)
}
