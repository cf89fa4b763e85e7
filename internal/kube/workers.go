package kube

import (
	"context"
	"sync"
)

// workers runs functions, each in its own goroutine. If a function is passed to start before the
// call of run, the function begins when run is called. The zero value is ready to use.
type workers struct {
	mu      sync.Mutex
	ctx     func() (context.Context, context.CancelFunc) // derives a context from the context of the method run; nil while run is not active
	waiting []*job
	running sync.WaitGroup
}

// job is one function that was passed to start.
type job struct {
	work    func(context.Context)
	cancel  context.CancelFunc // cancels the context of the function work; nil until begin is called
	stopped bool
}

// start calls work(ctx) in a goroutine: at once if the method run is active, otherwise when run is
// called. ctx ends when the context of run ends or when stop is called. If stop is called before
// run, work is still called, but its ctx is canceled.
func (c *workers) start(work func(context.Context)) (stop func()) {
	m := &job{work: work}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ctx == nil {
		c.waiting = append(c.waiting, m)
	} else {
		c.begin(m)
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		m.stopped = true
		if m.cancel != nil {
			m.cancel()
		}
	}
}

// begin starts m's goroutine. The caller holds c.mu.
func (c *workers) begin(m *job) {
	ctx, cancel := c.ctx()
	m.cancel = cancel
	if m.stopped {
		cancel()
	}
	c.running.Go(func() {
		defer cancel()
		m.work(ctx)
	})
}

// run runs the functions that are passed to start. It returns when ctx has ended and all these
// functions have returned.
func (c *workers) run(ctx context.Context) {
	c.mu.Lock()
	c.ctx = func() (context.Context, context.CancelFunc) { return context.WithCancel(ctx) }
	for _, m := range c.waiting {
		c.begin(m)
	}
	c.waiting = nil
	c.mu.Unlock()

	<-ctx.Done()
	c.mu.Lock()
	c.ctx = nil
	c.mu.Unlock()
	c.running.Wait()
}
