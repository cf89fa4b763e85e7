package workflow

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"addon-operator/workflow/graph"
)

// longestError is the length in bytes above which the error of an attempt is shortened.
const longestError = 4 << 10

// A failure describes why an attempt failed.
type failure struct {
	err     error
	subject graph.Subject // of the task or item that failed
	// resume is set if the next attempt executes the journal again and does not call the step.
	resume bool
	// strict is set if the allowFailure of the binding does not apply, because the work of the step
	// has not begun, or because the transition that should have recorded the failure failed as well.
	strict bool
}

// text returns the error. An error that is longer than longestError bytes is shortened to
// approximately this length. Of a long error, text keeps the beginning, which says what failed, and
// the end, which has the cause. text cuts between characters.
func (f failure) text() string {
	s := f.err.Error()
	if len(s) <= longestError {
		return s
	}
	whole := func(part string) string { return strings.ToValidUTF8(part, "") }
	return whole(s[:longestError/4]) + " … " + whole(s[len(s)-longestError*3/4:])
}

// A Cancellation is the reason why an attempt is canceled. If the step then returns an error, the
// attempt fails with this reason, unless Skip is set. If the step succeeds nevertheless, the
// attempt succeeds.
type Cancellation struct {
	// By is the name of the person or component that canceled the attempt.
	By     string
	Reason string
	// Skip makes the step end as if it had succeeded without facts.
	Skip bool
}

// A canceledError is the cause with which the context of an attempt is canceled.
type canceledError struct{ Cancellation }

// Error returns the cancellation as a short clause: "canceled by mia: it hangs".
func (c *canceledError) Error() string {
	text := "canceled by " + c.By
	if c.Reason != "" {
		text += ": " + c.Reason
	}
	return text
}

// canceled returns the Cancellation that ended ctx, the context of an attempt; nil if there is
// none.
func canceled(ctx context.Context) *canceledError {
	why := (*canceledError)(nil)
	if errors.As(context.Cause(ctx), &why) {
		return why
	}
	return nil
}

// attempts are the running attempts. Each can be canceled from the commit of its claim until its
// step and the effects of the step have ended.
type attempts struct {
	ctx    context.Context //nolint:containedctx // parent of the attempts' contexts; set by start
	loaded atomic.Int64    // payload bytes of the batches of running attempts

	mu      sync.Mutex
	running map[*claim]struct{} // guarded by mu
}

// start allows attempts to begin. The contexts of attempts end with ctx.
func (a *attempts) start(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ctx, a.running = ctx, map[*claim]struct{}{}
}

// begin sets the context and the output of the attempt of c, after the commit of the claim. From
// then on, other goroutines can call the method cancel, which reads c.task and ends the context.
func (a *attempts) begin(c *claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.ctx, c.cancel = context.WithCancelCause(a.ctx)
	c.task.output = new(output)
	a.running[c] = struct{}{}
}

// end is called when the step of c and its effects have ended. Afterwards the attempt cannot be
// canceled.
func (a *attempts) end(c *claim) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.running, c)
	a.loaded.Add(-int64(c.size))
	c.cancel(nil)
}

// cancel cancels the attempts for whose claims the function match returns true, and returns their number.
func (a *attempts) cancel(match func(*claim) bool, why Cancellation) (n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.running {
		if match(c) {
			c.cancel(&canceledError{why})
			n++
		}
	}
	return n
}
