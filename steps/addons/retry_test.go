package addons

import (
	"testing"
	"time"

	"addon-operator/internal/api"
	"addon-operator/store"
)

func TestDelaysOfRetriesAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]time.Duration{
		"5s..5m": {5 * time.Second, 5 * time.Minute}, "250ms": {250 * time.Millisecond, 250 * time.Millisecond}, "0": {}, "0..0": {},
	} {
		first, longest, err := ParseRetry(text)
		if err != nil || first != want[0] || longest != want[1] {
			t.Errorf("%q: got %s, %s, %v", text, first, longest, err)
		}
	}
	for _, text := range []string{"", "5m..5s", "-5s..5s", "5s..", "soon"} {
		if _, _, err := ParseRetry(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestFetchErrorsAreRetriedSoonerEachTimeLater(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	unreachable := []store.RepositoryResult{{Reason: string(api.FetchingIndexError)}}
	missing := []store.RepositoryResult{{Addons: []store.AddonResult{{}, {Reason: string(api.FetchingError)}}}}
	broken := []store.RepositoryResult{{Addons: []store.AddonResult{{Reason: string(api.LoadingError)}}}}
	misspelt := []store.RepositoryResult{{Reason: string(api.FetchingIndexError), Permanent: true}}
	retry := Retry{Resync: 10 * time.Minute, First: 5 * time.Second, Longest: 5 * time.Minute}
	for _, c := range []struct {
		retry    Retry
		results  []store.RepositoryResult
		before   int
		delay    time.Duration
		attempts int
	}{
		{retry, unreachable, 0, 5 * time.Second, 1},
		{retry, missing, 1, 10 * time.Second, 2},
		{retry, missing, 100, 5 * time.Minute, 101},
		{retry, broken, 7, 10 * time.Minute, 0},
		{retry, misspelt, 7, 10 * time.Minute, 0},
		{retry, append(misspelt, unreachable...), 0, 5 * time.Second, 1},
		{Retry{Resync: time.Minute}, unreachable, 3, time.Minute, 4},
		{Retry{Resync: time.Second, First: time.Minute, Longest: time.Minute}, unreachable, 0, time.Second, 1},
		{Retry{First: time.Minute, Longest: time.Minute}, broken, 0, 0, 0},
	} {
		due, attempts := c.retry.next(now, c.results, c.before)
		if c.delay == 0 != due.IsZero() || c.delay != 0 && due.Sub(now) != c.delay || attempts != c.attempts {
			t.Errorf("%+v: got %s after now and %d attempts", c, due.Sub(now), attempts)
		}
	}
}
