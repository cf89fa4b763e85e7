// Package retry computes the time at which failed work is tried again.
package retry

import (
	"fmt"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Delays are the delays between two attempts. If the delay after a failure is 0, there is no further attempt.
type Delays struct {
	// Resync is the delay after a failure that is not temporary, and after a temporary failure if First is 0. If
	// Resync is not 0, it is also the maximum delay after any temporary failure.
	Resync time.Duration
	// First is the delay after a temporary failure. The delay doubles with each further temporary failure in a row,
	// up to Longest.
	First, Longest time.Duration
}

// Parse parses the first and the longest delay, such as "5s..5m". A single duration is both the first and the longest
// delay. For "0", both delays are 0; see [Delays] for the meaning.
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
		return 0, 0, fmt.Errorf("delays %q: %w; write them like 5s..5m, or 0 for none", text, err)
	case first < 0 || longest < first:
		return 0, 0, fmt.Errorf("delays %q: the first must not be negative or longer than the last; write them like 5s..5m", text)
	}
	return first, longest, nil
}

// Upper returns an upper bound for the delay between two attempts.
func (d Delays) Upper() time.Duration { return max(d.Resync, d.Longest) }

// Next returns the time of the next attempt at work that has just failed; zero means that there is no further attempt.
// The argument attempts is the number of temporary failures in a row, including this one; it is 0 if this failure is
// not temporary.
func (d Delays) Next(now time.Time, attempts int) time.Time {
	return after(now, d.shorter(d.backoff(attempts)))
}

// Replan returns the time of the next attempt at work that has failed. The argument failed is the time of the failure.
// The argument planned is the time that was computed for this attempt earlier, possibly with other delays or another
// clock. Replan returns planned, or now plus d.Upper() if this is earlier.
//
// If planned is zero, the delay was 0. In this case, Replan adds the longest delay for such a failure to the time of
// the failure, or to now if the failure seems to be in the future. If this delay is also 0, Replan returns zero. See
// [Delays.Next] for attempts.
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

// shorter returns the shorter of d.Resync and delay. A delay of 0 is treated as infinite; if both delays are 0,
// shorter returns 0.
func (d Delays) shorter(delay time.Duration) time.Duration {
	if delay == 0 || d.Resync > 0 && d.Resync < delay {
		return d.Resync
	}
	return delay
}

// after returns the time that is delay after t. If delay is 0, after returns the zero time.
func after(t time.Time, delay time.Duration) time.Time {
	if delay == 0 {
		return time.Time{}
	}
	return t.Add(delay)
}

// mostDoublings limits the loop that doubles a delay. Every positive duration overflows after fewer doublings.
const mostDoublings = 64

// backoff returns the delay after the n-th temporary failure in a row. It returns 0 if n or d.First is 0.
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
