package workflow

import (
	"context"
	"sync"
)

// workers are the goroutines of the engine. After close, no goroutine starts. wait returns when no
// goroutine runs.
type workers struct {
	ctx    context.Context //nolint:containedctx // canceled by stop
	cancel context.CancelFunc

	mu      sync.Mutex
	idle    sync.Cond // signaled when working becomes 0
	open    bool      // whether goroutines can begin; guarded by mu
	working int       // number of goroutines; guarded by mu
}

// start allows goroutines to begin. start returns the context of their work.
func (w *workers) start() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.idle.L = &w.mu
	w.ctx, w.cancel = context.WithCancel(context.Background()) //nolint:forbidigo // the context must not end with that of the caller, because stop cancels it after a grace period
	w.open = true
	return w.ctx
}

// close keeps new goroutines from starting. close reports whether the workers were open before.
func (w *workers) close() (was bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	was, w.open = w.open, false
	return was
}

// stop cancels the context of the work.
func (w *workers) stop() {
	w.mu.Lock()
	cancel := w.cancel
	w.mu.Unlock()
	if cancel != nil {
		cancel()
	}
}

// wait returns when no goroutine runs.
func (w *workers) wait() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.working > 0 {
		w.idle.Wait()
	}
}

// run calls fn in a goroutine and returns true. If the workers are closed, run does nothing and
// returns false.
func (w *workers) run(fn func()) (runs bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.open {
		return false
	}
	w.working++
	go func() {
		defer w.done()
		fn()
	}()
	return true
}

func (w *workers) done() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.working--; w.working == 0 {
		w.idle.Broadcast()
	}
}

// isOpen reports whether goroutines can begin, so that tasks can be claimed.
func (w *workers) isOpen() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open
}
