package metrics

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestRequestsOfTheLastFiveMinutesAreSummedUp(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_000_000, 0)
	w := &requestWindow{clock: func() time.Time { return now }}
	if got := w.requests(); got != (Requests{}) {
		t.Errorf("without requests: %+v", got)
	}
	for range 99 {
		w.observe(8 * time.Millisecond)
	}
	w.observe(4 * time.Second)
	for _, code := range []string{"200", "404", "429", "429", "500", "503", "<error>"} {
		w.result(code)
	}
	want := Requests{Answered: 100, Within: 10 * time.Millisecond, Throttled: 2, Failed: 3}
	if got := w.requests(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}

	now = now.Add(4 * time.Minute)
	for range 10 {
		w.observe(40 * time.Second)
	}
	want = Requests{Answered: 110, Within: 30 * time.Second, Throttled: 2, Failed: 3}
	if got := w.requests(); got != want {
		t.Errorf("4 minutes later %+v, want %+v", got, want)
	}

	now = now.Add(time.Minute)
	want = Requests{Answered: 10, Within: 30 * time.Second}
	if got := w.requests(); got != want {
		t.Errorf("5 minutes later %+v, want %+v", got, want)
	}
	now = now.Add(time.Hour)
	if got := w.requests(); got != (Requests{}) {
		t.Errorf("an hour later %+v", got)
	}
}

func TestAllButOneInTwentyRequestsAreWithinTheLatency(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fast, slow int
		within     time.Duration
	}{
		"one slow request of twenty":       {19, 1, 10 * time.Millisecond},
		"two slow requests of thirty-nine": {37, 2, 2500 * time.Millisecond},
		"one slow request of nineteen":     {18, 1, 2500 * time.Millisecond},
		"only slow requests":               {0, 3, 2500 * time.Millisecond},
		"one fast request":                 {1, 0, 10 * time.Millisecond},
	} {
		w := &requestWindow{clock: func() time.Time { return time.Unix(1_000_000, 0) }}
		for range test.fast {
			w.observe(time.Millisecond)
		}
		for range test.slow {
			w.observe(2 * time.Second)
		}
		if want := (Requests{Answered: test.fast + test.slow, Within: test.within}); w.requests() != want {
			t.Errorf("%s: %+v, want %+v", name, w.requests(), want)
		}
	}
}

func TestARequestAtABoundIsWithinIt(t *testing.T) {
	t.Parallel()
	for took, want := range map[time.Duration]time.Duration{
		0: 10 * time.Millisecond, 10 * time.Millisecond: 10 * time.Millisecond, 10*time.Millisecond + 1: 25 * time.Millisecond,
		time.Second: time.Second, time.Second + 1: 2500 * time.Millisecond, 30 * time.Second: 30 * time.Second, time.Hour: 30 * time.Second,
	} {
		w := &requestWindow{clock: func() time.Time { return time.Unix(1_000_000, 0) }}
		w.observe(took)
		if got := w.requests().Within; got != want {
			t.Errorf("%v is within %v, want %v", took, got, want)
		}
	}
}

func TestStatusesOfResponsesAreThrottledOrFailed(t *testing.T) {
	t.Parallel()
	for code, want := range map[string]Requests{
		"200": {}, "404": {}, "428": {}, "429": {Throttled: 1}, "499": {}, "500": {Failed: 1}, "504": {Failed: 1}, "<error>": {Failed: 1}, "": {Failed: 1},
	} {
		w := &requestWindow{clock: func() time.Time { return time.Unix(1_000_000, 0) }}
		w.result(code)
		if got := w.requests(); got != want {
			t.Errorf("%q: %+v, want %+v", code, got, want)
		}
	}
}

// Each request is counted for at least 290 s, because the window consists of buckets of 10 s.
func TestRequestsLeaveTheWindowInTheirOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(0, 1<<32).Draw(t, "begin"), 0)
		w := &requestWindow{clock: func() time.Time { return at }}
		var times []time.Time
		for range rapid.IntRange(1, 60).Draw(t, "requests") {
			at = at.Add(time.Duration(rapid.IntRange(0, 100).Draw(t, "seconds")) * time.Second)
			w.observe(time.Millisecond)
			times = append(times, at)
			recent, old := 0, 0
			for _, then := range times {
				switch age := at.Sub(then); {
				case age < RequestSpan-bucketSpan:
					recent++
				case age >= RequestSpan:
					old++
				}
			}
			if got := w.requests().Answered; got < recent || got > len(times)-old {
				t.Fatalf("%d of %d requests are counted; %d are recent, %d are old", got, len(times), recent, old)
			}
		}
	})
}
