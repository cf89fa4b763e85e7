package workflow

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/workflow/graph"
)

// FirstDelay and LongestDelay bound the time between a failed attempt and the
// next one.
const (
	FirstDelay   = 5 * time.Second
	LongestDelay = 30 * time.Second
)

// delay returns how long the n-th failure in a row is waited out: 5 s, doubling
// to 30 s, without jitter, so that people can rely on what they read.
func delay(n int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(FirstDelay),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxInterval(LongestDelay),
		backoff.WithMaxElapsedTime(0),
	)
	d := b.NextBackOff()
	for range min(n, 8) - 1 {
		d = b.NextBackOff()
	}
	return d
}

// retryDelay returns the delay after the n-th failure in a row at node.
func retryDelay(node *graph.Node, n int) time.Duration {
	if node.Steady {
		return FirstDelay
	}
	return delay(n)
}
