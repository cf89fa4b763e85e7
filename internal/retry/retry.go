// Package retry decides when work that failed is tried again.
package retry

import (
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Delays are the times between two attempts. A delay of 0 means never.
type Delays struct {
	// Resync is the delay after any failure.
	Resync time.Duration
	// First is the delay after a failure that a retry may solve. It doubles with each such failure
	// up to Longest.
	First, Longest time.Duration
}

// Parse parses the first and the longest delay, such as "5s..5m". A single duration is both, and 0
// means never.
func Parse(text string) (first, longest time.Duration, err error) {
	from, to, isRange := strings.Cut(text, "..")
	if !isRange {
		to = from
	}
	if first, err = time.ParseDuration(from); err == nil {
		longest, err = time.ParseDuration(to)
	}
	switch {
	case err != nil:
		return 0, 0, fmt.Errorf("delays %q: %w; write them like 5s..5m, or 0 for no retries", text, err)
	case first < 0 || longest < first:
		return 0, 0, fmt.Errorf("delays %q: the first must not be negative or longer than the last; write them like 5s..5m", text)
	}
	return first, longest, nil
}

// Upper returns the longest time between two attempts.
func (d Delays) Upper() time.Duration { return max(d.Resync, d.Longest) }

// Next returns when work that failed at now is tried again; a zero time is never. Attempts counts the
// failures in a row that may pass, this one included; 0 means that this one does not pass by itself.
func (d Delays) Next(now time.Time, attempts int) time.Time {
	return after(now, d.shorter(d.backoff(attempts)))
}

// Replan returns the time of the next attempt at work that failed at failed. planned is the time
// that was planned with other delays or by another clock; a plan within the longest delay stays.
// Work without a plan, because the delays were 0, gets the delay after a failure at failed.
func (d Delays) Replan(now, failed, planned time.Time, attempts int) time.Time {
	switch {
	case !planned.IsZero() && planned.Sub(now) <= d.Upper():
		return planned
	case !planned.IsZero():
		return now.Add(d.Upper())
	}
	longest := time.Duration(0)
	if attempts > 0 {
		longest = d.Longest
	}
	delay := d.shorter(longest)
	if due := after(failed, delay); due.Sub(now) <= delay {
		return due
	}
	return after(now, delay)
}

// shorter returns the shorter of Resync and delay, where 0 means no limit.
func (d Delays) shorter(delay time.Duration) time.Duration {
	if delay == 0 || d.Resync > 0 && d.Resync < delay {
		return d.Resync
	}
	return delay
}

// after returns the time that is delay after t; zero if the delay is never.
func after(t time.Time, delay time.Duration) time.Time {
	if delay == 0 {
		return time.Time{}
	}
	return t.Add(delay)
}

// mostDoublings bounds the computation. No delay doubles more often before it overflows.
const mostDoublings = 64

// backoff returns the delay after the n-th failure in a row that may pass.
func (d Delays) backoff(n int) time.Duration {
	if n == 0 || d.First == 0 {
		return 0
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(d.First), backoff.WithMaxInterval(d.Longest), backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0),
	)
	delay := d.First
	for range min(n, mostDoublings) {
		delay = b.NextBackOff()
	}
	return delay
}
