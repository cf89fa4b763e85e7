package kube

import (
	"context"
	"sync"
)

// workers runs functions, each in its own goroutine, while its run method runs. Functions that are
// started before the call of run begin when run is called. The zero value is ready to use.
type workers struct {
	mu      sync.Mutex
	ctx     func() (context.Context, context.CancelFunc) // derives a context from the context of run; nil while run does not run
	waiting []*job
	running sync.WaitGroup
}

// job is one started function.
type job struct {
	work    func(context.Context)
	cancel  context.CancelFunc // nil until the function runs
	stopped bool
}

// start runs work in a goroutine, now or when run is called. The context of work ends when the
// context of run ends or when stop is called. If stop was called before run, work still runs, with
// an ended context.
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

// begin starts m's goroutine. The caller holds the lock.
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

// run runs all started functions until ctx has ended and all of them have returned.
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
