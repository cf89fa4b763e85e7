package webui

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// noon is the start of the first attempt in these charts.
var noon = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// attempt returns an entry for an attempt at node n in a queue. The attempt began the given time after noon.
func attempt(queue string, after, took time.Duration) inspect.Entry {
	return inspect.Entry{What: string(inspect.Done), Node: "n", Queue: queue, Began: noon.Add(after), At: noon.Add(after + took), Task: store.ID{Epoch: 1, N: 2}, Try: 1}
}

func TestABarLiesWhereItsTimesAreOnTheAxis(t *testing.T) {
	t.Parallel()
	c := newAttempts([]inspect.Entry{
		attempt("main", 0, 8*time.Second), attempt("main", 4*time.Second, 4*time.Second), attempt("side", 2*time.Second, 0), attempt("main", 8*time.Second, 0),
	}, noon)
	var got [][4]int
	for _, b := range c.Bars {
		got = append(got, [4]int{b.X, b.Y, b.Width, b.Height})
	}
	want := [][4]int{
		{150, 6, 800, 14},  // the whole time
		{550, 24, 400, 14}, // the second half of the time, in a second row
		{950, 6, 3, 14},    // an attempt without a duration, in the first row, which is free again
		{350, 50, 3, 14},   // an attempt without a duration, in the second band
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("X, Y, width and height of the bars (-want +got):\n%s", diff)
	}
	bands := []attemptBand{{Name: "main", Label: "main", Y: 6, Height: 36, Mid: 28}, {Name: "side", Label: "side", Y: 50, Height: 18, Mid: 63}}
	if diff := cmp.Diff(bands, c.Bands); diff != "" {
		t.Errorf("bands (-want +got):\n%s", diff)
	}
	if c.Axis != 76 || c.Height != 100 || c.Width != 960 || c.Left != 150 {
		t.Errorf("the chart is %d by %d with the axis at %d and %d, want 960 by 100 with the axis at 76 and 150", c.Width, c.Height, c.Axis, c.Left)
	}
	if want := "4 attempts in 2 queues within 8.0s"; c.About != want {
		t.Errorf("the chart is described as %q, want %q", c.About, want)
	}
}

// TestBarsDoNotOverlapAndStayInTheirBand draws the bars of random attempts. Bars must not overlap, and each bar must be
// within the band of its queue.
func TestBarsDoNotOverlapAndStayInTheirBand(t *testing.T) {
	t.Parallel()
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // a test with a fixed seed
		var entries []inspect.Entry
		for range 1 + random.IntN(60) {
			entries = append(entries, attempt(fmt.Sprint("q", random.IntN(4)), time.Duration(random.Int64N(int64(time.Hour))), time.Duration(random.Int64N(int64(time.Hour)))))
		}
		c := newAttempts(entries, noon)
		if len(c.Bars) != len(entries) {
			t.Errorf("seed %d: %d bars of %d attempts", seed, len(c.Bars), len(entries))
		}
		for i, b := range c.Bars {
			in := 0
			for _, band := range c.Bands {
				if b.Y >= band.Y && b.Y+b.Height <= band.Y+band.Height {
					in++
				}
			}
			if in != 1 || b.X < labelWidth || b.X+b.Width > chartWidth || b.Width < leastBar || b.Y+b.Height > c.Axis {
				t.Errorf("seed %d: the bar %+v is in %d bands, or not in the chart", seed, b, in)
			}
			for _, other := range c.Bars[:i] {
				if b.Y == other.Y && b.X < other.X+other.Width && other.X < b.X+b.Width {
					t.Errorf("seed %d: the bars %+v and %+v overlap", seed, b, other)
				}
			}
		}
		for i, band := range c.Bands[1:] {
			if before := c.Bands[i]; band.Y < before.Y+before.Height {
				t.Errorf("seed %d: the bands %+v and %+v overlap", seed, before, band)
			}
		}
	}
}

func TestOnlyAttemptsWithAKnownStartAreDrawn(t *testing.T) {
	t.Parallel()
	notDrawn := []inspect.Entry{
		{What: inspect.RunBegan, At: noon, Began: noon},                    // not an attempt
		{What: "done", Node: "n", At: noon},                                // an attempt of an earlier version, without its start
		{What: "done", Node: "n", At: noon.Add(-time.Second), Began: noon}, // an end before the start, because the clock was set back
		{What: inspect.Command, Node: "n", At: noon.Add(time.Second)},      // a command of a person, not an attempt
	}
	if c := newAttempts(notDrawn, noon); c != nil {
		t.Errorf("the chart is %+v", c)
	}
	if d := newDurations(notDrawn); d != nil {
		t.Errorf("the chart of durations is %+v", d)
	}
	if c := newAttempts(nil, noon); c != nil {
		t.Errorf("the chart of no entries is %+v", c)
	}
	if c := newAttempts(append(notDrawn, attempt("main", 0, 0)), noon); len(c.Bars) != 1 || c.About != "1 attempt in 1 queue within 0.0s" {
		t.Errorf("the chart of one attempt is %+v", c)
	}
}

func TestTheMainQueueIsTheFirstBand(t *testing.T) {
	t.Parallel()
	var names []string
	for _, band := range newAttempts([]inspect.Entry{
		attempt("pods", 0, 1), attempt("a", 1, 1), attempt("main", 2, 1), attempt("pods", 3, 1), attempt("z", 4, 1), attempt("", 5, 1),
	}, noon).Bands {
		names = append(names, band.Name)
	}
	if diff := cmp.Diff([]string{"main", "", "a", "pods", "z"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTheTitleOfABarDescribesTheAttempt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*inspect.Entry)
		title  string
		tone   string
	}{
		{func(*inspect.Entry) {}, "n: done after 2.0s", "good"},
		{func(e *inspect.Entry) { e.Subject = "web/hooks/a.sh" }, "n web/hooks/a.sh: done after 2.0s", "good"},
		{func(e *inspect.Entry) { e.Try = 2 }, "n: done after 2.0s, attempt 2", "good"},
		{func(e *inspect.Entry) { e.What, e.Subject, e.Try = string(inspect.Failed), "web", 3 }, "n web: failed after 2.0s, attempt 3", "bad"},
		{func(e *inspect.Entry) { e.What = string(inspect.Running) }, "n: running after 2.0s", "busy"},
		{func(e *inspect.Entry) { e.What = "a later state" }, "n: a later state after 2.0s", "none"},
	} {
		e := attempt("main", 0, 2*time.Second)
		c.change(&e)
		if b := newAttempts([]inspect.Entry{e}, noon).Bars[0]; b.Title != c.title || b.Tone != c.tone || b.URL != "/task/1-2" {
			t.Errorf("the bar of %+v is %+v, want the title %q and the tone %q", e, b, c.title, c.tone)
		}
	}
}

func TestTicksAreFewRoundTimesWithTheirDateIfTheyAreOld(t *testing.T) {
	t.Parallel()
	at := func(text string) time.Time {
		when, err := time.Parse("2006-01-02 15:04:05.000", text)
		if err != nil {
			t.Fatal(err)
		}
		return when
	}
	for _, c := range []struct {
		began  string
		span   time.Duration
		age    time.Duration // time from began to now
		labels []string
	}{
		{"2026-03-04 12:00:00.000", 0, 0, []string{"12:00:00.000Z", "12:00:00.001Z"}},
		{"2026-03-04 12:00:00.005", 30 * time.Millisecond, 0, []string{"12:00:00.010Z", "12:00:00.020Z", "12:00:00.030Z"}},
		{"2026-03-04 12:00:00.500", 3 * time.Second, 0, []string{"12:00:01Z", "12:00:02Z", "12:00:03Z"}},
		{"2026-03-04 11:59:58.000", 7 * time.Second, 0, []string{"11:59:58Z", "11:59:59Z", "12:00:00Z", "12:00:01Z", "12:00:02Z", "12:00:03Z", "12:00:04Z", "12:00:05Z"}},
		{"2026-03-04 12:00:00.000", 8 * time.Second, 0, []string{"12:00:00Z", "12:00:05Z"}},
		{"2026-03-04 12:00:30.000", 4 * time.Minute, 4 * time.Minute, []string{"12:01Z", "12:02Z", "12:03Z", "12:04Z"}},
		{"2026-03-04 12:00:30.000", 4 * time.Minute, 21 * time.Hour, []string{"Mar 04 12:01Z", "Mar 04 12:02Z", "Mar 04 12:03Z", "Mar 04 12:04Z"}},
		{"2026-03-04 12:00:00.000", 8 * time.Second, 21 * time.Hour, []string{"12:00:00Z", "12:00:05Z"}},
		{"2026-03-04 12:00:00.000", 4 * 24 * time.Hour, 4 * 24 * time.Hour, []string{"Mar 05 00:00Z", "Mar 06 00:00Z", "Mar 07 00:00Z", "Mar 08 00:00Z"}},
	} {
		began := at(c.began)
		var labels []string
		for _, tick := range newScale(began, began.Add(c.span)).ticks(began.Add(c.age)) {
			labels = append(labels, tick.Label)
		}
		if diff := cmp.Diff(c.labels, labels); diff != "" {
			t.Errorf("%s from %s, %s ago (-want +got):\n%s", c.span, c.began, c.age, diff)
		}
	}
	for span := time.Millisecond; span < 10*365*24*time.Hour; span += span/7 + 1 {
		ticks := newScale(noon, noon.Add(span)).ticks(noon.Add(span + 30*time.Hour))
		if len(ticks) > 8 {
			t.Fatalf("%d ticks in %s", len(ticks), span)
		}
		for i, tick := range ticks {
			if tick.X < labelWidth || tick.X > chartWidth || i > 0 && (tick.X <= ticks[i-1].X || tick.Label == ticks[i-1].Label) {
				t.Fatalf("the ticks in %s are %+v", span, ticks)
			}
		}
	}
}

func TestALongNameEndsInAnEllipsis(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "", "abc": "abc", "abcd": "ab…", "äöü": "äöü", "äöüß": "äö…", "日本語版": "日本…"} {
		if got := shortened(text, 3); got != want {
			t.Errorf("%q is shortened to %q, want %q", text, got, want)
		}
	}
	queue := strings.Repeat("q", 21)
	if band := newAttempts([]inspect.Entry{attempt(queue, 0, 1)}, noon).Bands[0]; band.Name != queue || band.Label != queue[:19]+"…" {
		t.Errorf("the band is %+v", band)
	}
}

func TestTheLongestAttemptOfAHookHasTheHighestBar(t *testing.T) {
	t.Parallel()
	entries := []inspect.Entry{attempt("main", 3*time.Minute, 5*time.Second), attempt("main", 0, 10*time.Second), attempt("main", time.Minute, 0)}
	entries[2].What = string(inspect.Failed)
	d := newDurations(entries)
	var got [][4]int
	for _, b := range d.Bars {
		got = append(got, [4]int{b.X, b.Y, b.Width, b.Height})
	}
	want := [][4]int{{60, 6, 21, 140}, {84, 143, 21, 3}, {108, 76, 21, 70}} // oldest first
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("X, Y, width and height of the bars (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]line{{10, "10s"}, {80, "5.0s"}, {146, "0"}}, d.Lines); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if want := "3 attempts, 1 failed; on average 5.0s, at most 10s"; d.About != want {
		t.Errorf("the chart is described as %q, want %q", d.About, want)
	}
	if d.First != "2026-03-04 12:00:00Z" || d.Last != "2026-03-04 12:03:00Z" {
		t.Errorf("the attempts are from %s to %s", d.First, d.Last)
	}
	if d.Width != 960 || d.Height != 170 || d.Axis != 146 || d.Left != 60 {
		t.Errorf("the chart is %d by %d with the axis at %d and %d", d.Width, d.Height, d.Axis, d.Left)
	}
}

func TestBarsOfManyAttemptsFitIntoTheChart(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 37, 38, shownRuns, 200} {
		var entries []inspect.Entry
		for i := range n {
			entries = append(entries, attempt("main", time.Duration(i)*time.Minute, time.Duration(i%7)*time.Second))
		}
		d := newDurations(entries)
		for i, b := range d.Bars {
			if b.X < durationsLeft || b.X+b.Width > chartWidth || b.Y < chartTop || b.Y+b.Height != d.Axis || i > 0 && b.X < d.Bars[i-1].X+d.Bars[i-1].Width {
				t.Errorf("%d attempts: bar %d is %+v", n, i, b)
			}
		}
	}
}
