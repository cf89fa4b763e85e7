package metrics

import (
	"testing"
	"time"
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
