package addons

import (
	"fmt"
	"strings"
	"time"

	"addon-operator/internal/api"
	"addon-operator/store"
)

// A Retry says when a configuration that is not Ready is processed again.
type Retry struct {
	// Resync is the time between two rounds; 0 is never.
	Resync time.Duration
	// First is the delay after a round in which something could not be fetched. It doubles with each
	// such round up to Longest. 0 is never.
	First, Longest time.Duration
}

// ParseRetry reads the delays of --addons-retry: "5s..5m", one for both, or 0 for never.
func ParseRetry(text string) (first, longest time.Duration, err error) {
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

// next returns when a failed configuration is processed again, and how many of its rounds in a row
// have failed for a reason that may pass. A zero time is never.
func (r Retry) next(now time.Time, results []store.RepositoryResult, before int) (due time.Time, attempts int) {
	delay := r.Resync
	if mayPass(results) {
		attempts = before + 1
		if again := r.backoff(attempts); again > 0 && (delay == 0 || again < delay) {
			delay = again
		}
	}
	if delay == 0 {
		return time.Time{}, attempts
	}
	return now.Add(delay), attempts
}

// backoff returns the delay before the n-th retry.
func (r Retry) backoff(n int) time.Duration {
	delay := r.First
	for ; n > 1 && delay < r.Longest; n-- {
		delay *= 2
	}
	return min(delay, r.Longest)
}

// mayPass reports whether something could not be fetched that another attempt may fetch.
func mayPass(results []store.RepositoryResult) bool {
	for _, repository := range results {
		if api.Reason(repository.Reason) == api.FetchingIndexError && !repository.Permanent {
			return true
		}
		for _, addon := range repository.Addons {
			if api.Reason(addon.Reason) == api.FetchingError && !addon.Permanent {
				return true
			}
		}
	}
	return false
}
