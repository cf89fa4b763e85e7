package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// timeline returns the part of the timeline that is requested.
func (w *fixture) timeline(req inspect.TimelineRequest) (t inspect.Timeline) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) (err error) {
		t, err = inspect.ReadTimeline(tx, req)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return t
}

// happened returns the kind and the subject of each entry of a timeline.
func happened(t inspect.Timeline) (all []string) {
	for _, e := range t.Entries {
		all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%d %s %s %s", e.Run, e.What, e.Node, e.Subject)), " "))
	}
	return all
}

// eventful starts a fixture in which two modules run, one of them fails until a user retries it,
// and events arrive meanwhile.
func eventful(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t)
	w.discovers("web", "db")
	mended := false
	w.set("release-upgrade web", func(context.Context, workflow.Task) (workflow.Outcome, error) {
		if !mended {
			return workflow.Outcome{}, errors.New("timed out waiting for the condition")
		}
		return workflow.Outcome{Detail: "revision 2"}, nil
	})
	w.start(onStart)
	sleep(7 * time.Second)
	w.raise(on(lifecycle.OnGlobalSchedule, "", "hook", "every minute"))
	sleep(time.Second)
	if err := w.e.Pause(lifecycle.Graph.Name, workflow.PauseTarget{Subject: graph.Subject{Module: "db"}}, "ann", "the disk is changed"); err != nil {
		t.Fatal(err)
	}
	mended = true
	if err := w.e.Retry(w.failing(), "bob", "the image is there"); err != nil {
		t.Fatal(err)
	}
	sleep(time.Minute)
	return w
}

// failing returns the task that waits for its retry.
func (w *fixture) failing() (id store.ID) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) error {
		for task, err := range store.AllTasks(tx) {
			if err != nil {
				return err
			}
			if task.Failed != nil {
				id = task.ID
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
	return id
}

func TestTimelineShowsWhatHappenedOverRunsInOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := eventful(t)
		all := w.timeline(inspect.TimelineRequest{Limit: 1000})
		if !slices.IsSortedFunc(all.Entries, func(a, b inspect.Entry) int { return a.At.Compare(b.At) }) || all.More {
			t.Errorf("the timeline is not in the order of time, or not whole: %+v", all)
		}
		l := layout
		l.Now = w.db.Now()
		compare(t, "timeline.txt", inspect.TimelineText(&all, l))
	})
}

func TestTimelineIsThatOfItsSubject(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := eventful(t)
		for subject, want := range map[string][]string{
			"hook":     {"2 began", "2 done global-schedule-event hook every minute"},
			"2":        {"2 began", "2 done global-schedule-event hook every minute"},
			"web hook": nil,
			"nobody":   nil,
		} {
			if diff := cmp.Diff(want, happened(w.timeline(inspect.TimelineRequest{Subject: subject, Limit: 100}))); diff != "" {
				t.Errorf("timeline of %s (-want +got):\n%s", subject, diff)
			}
		}
		of := func(subject string) string {
			return strings.Join(happened(w.timeline(inspect.TimelineRequest{Subject: subject, Limit: 100})), "\n")
		}
		web, db := of("web"), of("db")
		if !strings.Contains(web, "1 failed release-upgrade web") || !strings.Contains(web, "1 command web") {
			t.Errorf("the timeline of web lacks its failure or the retry:\n%s", web)
		}
		if strings.Contains(web, " db") || !strings.Contains(db, "0 command db") || strings.Contains(db, " web") {
			t.Errorf("timelines of modules show the other one's:\n%s\n\n%s", web, db)
		}
	})
}

func TestTimelineHasTheNewestEntriesOfRunsThatOverlap(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := eventful(t)
		all := w.timeline(inspect.TimelineRequest{Limit: 1000})
		for limit := range len(all.Entries) - 1 {
			limit++
			got := w.timeline(inspect.TimelineRequest{Limit: limit})
			want := all.Entries[len(all.Entries)-limit:]
			if !got.More || len(got.Entries) != limit {
				t.Fatalf("of %d entries, at most %d: got %d, more: %t", len(all.Entries), limit, len(got.Entries), got.More)
			}
			for i := range want {
				if !want[i].At.Equal(got.Entries[i].At) {
					t.Fatalf("with at most %d entries, entry %d is %+v, want %+v", limit, i, got.Entries[i], want[i])
				}
			}
		}
		since := all.Entries[len(all.Entries)/2].At
		for _, e := range w.timeline(inspect.TimelineRequest{Since: since, Limit: 1000}).Entries {
			if e.At.Before(since) {
				t.Errorf("an entry is older than %s: %+v", since, e)
			}
		}
	})
}

func TestAttemptsThatFailAlikeAreOneRow(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var timeline inspect.Timeline
	fail := func(attempt int, text string) {
		at = at.Add(5 * time.Second)
		timeline.Entries = append(timeline.Entries, inspect.Entry{
			At: at, What: string(store.Failed), Run: 2, Task: store.ID{Epoch: 1, N: 2}, Node: "release-upgrade", Subject: "web", Try: attempt, Text: text,
		})
	}
	for attempt := 1; attempt <= 9; attempt++ {
		fail(attempt, "timed out")
	}
	for attempt := 10; attempt <= 12; attempt++ {
		fail(attempt, "forbidden")
	}
	rows := func(layout inspect.Layout) string {
		layout.Now, layout.Width = at, inspect.Unlimited
		return inspect.TimelineText(&timeline, layout)
	}
	want := `TIME       RUN  WHAT    DESCRIPTION
12:00:05Z  2    failed  attempts 1 to 8 of the same task failed with the error below; -o wide shows each
12:00:45Z  2    failed  release-upgrade web (attempt 9): timed out
12:00:50Z  2    failed  release-upgrade web (attempt 10): forbidden
12:00:55Z  2    failed  release-upgrade web (attempt 11): forbidden
12:01:00Z  2    failed  release-upgrade web (attempt 12): forbidden
`
	if diff := cmp.Diff(want, rows(inspect.Layout{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := strings.Count(rows(inspect.Layout{Wide: true}), "\n"); got != 13 {
		t.Errorf("there are %d rows with all attempts, want 13", got)
	}
}
