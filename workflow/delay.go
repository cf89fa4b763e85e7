package workflow

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// firstDelay and longestDelay bound the time between a failed attempt and the
// next one.
const (
	firstDelay   = 5 * time.Second
	longestDelay = 30 * time.Second
)

// freeLoops is the closing of a circle, counted in a row, from which on it is
// delayed.
const freeLoops = 3

// dueAt returns when t is due. A time further off than its longest delay comes from a clock that
// was wrong, and is now.
func dueAt(t *store.Task, now time.Time) time.Time {
	if t.Due.Sub(now) > max(longestDelay, t.Every) {
		return now
	}
	return t.Due
}

// retryDelay returns the delay after the n-th failure in a row at node.
func retryDelay(node *graph.Node, n int) time.Duration {
	if node.FixedDelay {
		return firstDelay
	}
	return delay(n)
}

// delay returns how long the n-th failure in a row is waited out: 5 s, doubling
// to 30 s, without jitter, so that people can rely on what they read.
func delay(n int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxInterval(longestDelay),
		backoff.WithMaxElapsedTime(0),
	)
	d := b.NextBackOff()
	for range min(n, 8) - 1 {
		d = b.NextBackOff()
	}
	return d
}
