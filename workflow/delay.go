package workflow

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// firstDelay and longestDelay are the shortest and the longest delay between a failed attempt and
// the next one.
const (
	firstDelay   = 5 * time.Second
	longestDelay = 30 * time.Second
)

// freeLoops is the minimum number of times in a row that a run must take the same loop edge before
// its next task is delayed. Each further time in a row, the delay is longer, up to longestDelay.
const freeLoops = 3

// dueAt returns when t is due. If the time until the stored due time exceeds the longest delay that t
// can have, the due time was computed with a wrong clock, and t is due now.
func dueAt(t *store.Task, now time.Time) time.Time {
	if t.Due.Sub(now) > max(longestDelay, t.Every) {
		return now
	}
	return t.Due
}

// retryDelay returns the delay after the n-th consecutive failure at node.
func retryDelay(node *graph.Node, n int) time.Duration {
	if node.FixedDelay {
		return firstDelay
	}
	return delay(n)
}

// delay returns the delay after the n-th consecutive failure, or the n-th delay of a run in a loop:
// 5 s, doubled each time up to 30 s. The delay has no jitter, so that people see exact times.
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
