package webhook

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newRetry returns the delays between attempts at requests to the API server. The delays grow from
// 100 ms to 30 s, with jitter.
func newRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0),
	)
}

// pause waits as long as the argument wait says, and returns true. If ctx ends first, it returns false.
func pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// repeat calls reconcile() at the start and for each element that it receives from wake, until ctx
// ends. If a call returns a delay greater than zero, the next call is made after this delay at the
// latest.
func repeat(ctx context.Context, wake <-chan struct{}, reconcile func() time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if wait := reconcile(); wait > 0 {
			timer.Reset(wait)
		}
		select {
		case <-ctx.Done():
			return
		case <-wake:
		case <-timer.C:
		}
	}
}
