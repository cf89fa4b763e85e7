package retry_test

import (
	"testing"
	"time"

	"addon-operator/internal/retry"
)

func TestDelaysOfRetriesAreParsed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]time.Duration{
		"5s..5m": {5 * time.Second, 5 * time.Minute}, "250ms": {250 * time.Millisecond, 250 * time.Millisecond}, "0": {}, "0..0": {},
	} {
		first, longest, err := retry.Parse(text)
		if err != nil || first != want[0] || longest != want[1] {
			t.Errorf("%q: got %s, %s, %v", text, first, longest, err)
		}
	}
	for _, text := range []string{"", "5m..5s", "-5s..5s", "5s..", "soon"} {
		if _, _, err := retry.Parse(text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func TestDelaysDoubleUpToTheLongestOne(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	usual := retry.Delays{Resync: 10 * time.Minute, First: 5 * time.Second, Longest: 5 * time.Minute}
	for _, c := range []struct {
		delays   retry.Delays
		attempts int
		want     time.Duration // 0 is never
	}{
		{usual, 0, 10 * time.Minute},
		{usual, 1, 5 * time.Second},
		{usual, 2, 10 * time.Second},
		{usual, 7, 5 * time.Minute},
		{usual, 1 << 40, 5 * time.Minute},
		{retry.Delays{Resync: time.Minute}, 4, time.Minute},
		{retry.Delays{Resync: time.Second, First: time.Minute, Longest: time.Minute}, 1, time.Second},
		{retry.Delays{First: time.Minute, Longest: time.Minute}, 0, 0},
		{retry.Delays{}, 3, 0},
	} {
		due := c.delays.Next(now, c.attempts)
		if c.want == 0 != due.IsZero() || c.want != 0 && due.Sub(now) != c.want {
			t.Errorf("%+v, attempt %d: due at %s, want %s later", c.delays, c.attempts, due, c.want)
		}
	}
}

func TestPlansFollowTheDelaysAndTheClockOfThisProcess(t *testing.T) {
	t.Parallel()
	failed := time.Unix(100_000, 0)
	now := failed.Add(time.Minute)
	delays := retry.Delays{Resync: 10 * time.Minute, First: 5 * time.Second, Longest: 5 * time.Minute}
	for _, c := range []struct {
		about    string
		delays   retry.Delays
		failed   time.Time
		planned  time.Time
		attempts int
		want     time.Time
	}{
		{"a plan", delays, failed, now.Add(time.Minute), 1, now.Add(time.Minute)},
		{"a plan that is due", delays, failed, now.Add(-time.Hour), 1, now.Add(-time.Hour)},
		{"a plan further off than the longest delay", delays, failed, now.Add(time.Hour), 1, now.Add(10 * time.Minute)},
		{"no plan, as the delays were 0", delays, failed, time.Time{}, 0, failed.Add(10 * time.Minute)},
		{"no plan, and the failure may pass", delays, failed, time.Time{}, 3, failed.Add(5 * time.Minute)},
		{"no plan, and a failure in the future", delays, now.Add(time.Hour), time.Time{}, 0, now.Add(10 * time.Minute)},
		{"no delays", retry.Delays{}, failed, time.Time{}, 3, time.Time{}},
	} {
		if got := c.delays.Replan(now, c.failed, c.planned, c.attempts); !got.Equal(c.want) {
			t.Errorf("%s: due at %s, want %s", c.about, got, c.want)
		}
	}
}
