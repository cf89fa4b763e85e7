package webhook

import (
	"context"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newRetry returns the backoff of requests to the API server: 100 ms, growing to 30 s, with jitter.
func newRetry() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(30*time.Second), backoff.WithMaxElapsedTime(0),
	)
}

// pause waits, and returns false if ctx ends first.
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

// repeat calls turn at the start, after each wake, and after the delay that turn returns if it is
// not zero, until ctx ends.
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
