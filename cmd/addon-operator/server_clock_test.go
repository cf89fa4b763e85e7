package main

import (
	"testing"
	"time"
)

func TestClocksAreComparedWithinTheTimeOfARequest(t *testing.T) {
	t.Parallel()
	sent := time.Date(2026, 1, 1, 12, 0, 0, 700e6, time.UTC)
	received := sent.Add(2 * time.Second)
	second := sent.Truncate(time.Second)
	for name, c := range map[string]struct {
		date time.Time
		skew time.Duration
	}{
		"the second of the request":     {second, 0},
		"the second of the response":    {received.Truncate(time.Second), 0},
		"a few seconds behind":          {second.Add(-5 * time.Second), 0},
		"a few seconds ahead":           {received.Add(5 * time.Second), 0},
		"behind":                        {second.Add(-time.Hour), -time.Hour - 700*time.Millisecond + time.Second},
		"ahead":                         {received.Add(time.Hour), time.Hour},
		"a minute ahead of the request": {sent.Add(time.Minute), 58 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := &serverClock{}
			clock.compare(sent, c.date, received)
			skew, since := clock.wrong()
			if skew != c.skew || since.IsZero() != (c.skew == 0) {
				t.Errorf("skew %s since %s, want %s", skew, since, c.skew)
			}
			clock.compare(received.Add(time.Minute), c.date.Add(time.Minute), received.Add(time.Minute))
			if _, again := clock.wrong(); c.skew != 0 && !again.Equal(since) {
				t.Errorf("since %s after another response, want %s", again, since)
			}
			clock.compare(sent, second, received)
			if skew, _ := clock.wrong(); skew != 0 {
				t.Errorf("skew %s after a response with the right time", skew)
			}
		})
	}
}
