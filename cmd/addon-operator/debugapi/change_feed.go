package debugapi

import (
	"maps"
	"sync"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
)

// ChangeFeed wakes those who watch a run when a commit has touched it, and those who watch the store after each commit. It
// keeps which queues the engine cannot go on with. Its zero value is ready.
type ChangeFeed struct {
	mu       sync.Mutex
	watchers map[*watcher]bool
	commits  map[chan struct{}]bool
	stalled  map[string]string // by queue, why
}

// A watcher is one who watches.
type watcher struct {
	wake chan struct{} // holds one: what happens meanwhile is one piece of news
	run  uint64        // zero is every run

	// Of a watcher that collects news: those that it has not taken yet, and how many more there were.
	collects bool
	news     []inspect.News
	lost     int
}

// mostNews is how many news a watcher can have that it has not taken.
const mostNews = 1000

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
		n.publish(inspect.News{Record: &r})
		if n.Notify(r.Run); r.State == store.Failed {
			n.Notify(0)
		}
		then.Recorded(r)
	}
	observer.Raised = func(w store.Run) {
		n.publish(inspect.News{Began: &w})
		n.Notify(w.ID)
	}
	observer.Ended = func(w store.Run) {
		n.publish(inspect.News{Ended: &w})
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

// publish passes news to the watchers that collect them.
func (n *ChangeFeed) publish(news inspect.News) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for w := range n.watchers {
		switch {
		case !w.collects:
		case len(w.news) < mostNews:
			w.news = append(w.news, news)
		default:
			w.lost++
		}
	}
}

// take returns the news that w has collected since the last call, oldest first, and how many later ones are lost.
func (n *ChangeFeed) take(w *watcher) (news []inspect.News, lost int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	news, lost = w.news, w.lost
	w.news, w.lost = nil, 0
	return news, lost
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

// watch returns a watcher of every run, until stop is called. It collects news only if collects is set.
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
