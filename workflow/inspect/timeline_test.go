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

// timeline returns the part of the timeline that req selects.
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

// happened returns the run, the kind, the node and the subject of each entry of a timeline.
func happened(t inspect.Timeline) (all []string) {
	for _, e := range t.Entries {
		all = append(all, strings.Join(strings.Fields(fmt.Sprintf("%d %s %s %s", e.Run, e.What, e.Node, e.Subject)), " "))
	}
	return all
}

// eventful starts a fixture in which two modules run. One of the modules fails until a user retries it. Before
// the retry, a schedule tick arrives, and a user pauses the other module.
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

// failing returns the ID of the failed task.
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
			t.Errorf("the timeline of a module shows entries of the other module:\n%s\n\n%s", web, db)
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

// TestTimelineSaysWhatIsLeftOutAndWhyItIsEmpty compares the text of timelines, without their headings, with the wanted
// text.
func TestTimelineSaysWhatIsLeftOutAndWhyItIsEmpty(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	attempt := inspect.Entry{
		At: at, What: string(store.Failed), Run: 2, Task: store.ID{Epoch: 1, N: 2}, Node: "module-run", Subject: "web", Queue: "main",
		Began: at.Add(-1500 * time.Millisecond), Try: 3, Text: "first line\nsecond line",
	}
	for name, c := range map[string]struct {
		timeline inspect.Timeline
		layout   inspect.Layout
		want     string
	}{
		"nothing":               {inspect.Timeline{}, inspect.Layout{}, "the history has no entries for the requested time\n"},
		"nothing about a thing": {inspect.Timeline{Subject: "we\"b\x1b"}, inspect.Layout{}, `the history has no entries about "we\"b\x1b" for the requested time: name a module, a hook as MODULE/HOOK, a global hook, an addons configuration, a queue, the ID of a task, or the number of a run` + "\n"},
		"older entries": {
			inspect.Timeline{More: true, Entries: []inspect.Entry{{At: at, What: inspect.Started, Text: "operator, epoch 1"}}},
			inspect.Layout{},
			"older entries are left out; -n N shows more\n12:00:00Z  -    started  operator, epoch 1\n",
		},
		"a run that ended": {inspect.Timeline{Entries: []inspect.Entry{{At: at, What: inspect.RunEnded, Run: 7, Began: at.Add(-2 * time.Minute)}}}, inspect.Layout{}, "12:00:00Z  7    ended  after 2m00s\n"},
		"a run with a warning": {
			inspect.Timeline{Entries: []inspect.Entry{{At: at, What: inspect.RunEnded, Run: 7, Began: at.Add(-2 * time.Minute), Text: "a hook was skipped"}}},
			inspect.Layout{},
			"12:00:00Z  7    ended  after 2m00s; a hook was skipped\n",
		},
		"a command of a person": {inspect.Timeline{Entries: []inspect.Entry{{At: at, What: inspect.Command, By: "ann", Text: "reload: new images"}}}, inspect.Layout{}, "12:00:00Z  -    command  ann: reload: new images\n"},
		"a command of nobody":   {inspect.Timeline{Entries: []inspect.Entry{{At: at, What: inspect.Command, Text: "reload"}}}, inspect.Layout{}, "12:00:00Z  -    command  somebody: reload\n"},
		"an attempt":            {inspect.Timeline{Entries: []inspect.Entry{attempt}}, inspect.Layout{}, "12:00:00Z  2    failed  module-run web (attempt 3, 1.5s): first line\n"},
		"an attempt, wide": {
			inspect.Timeline{Entries: []inspect.Entry{attempt}},
			inspect.Layout{Wide: true},
			"12:00:00Z  2    failed  module-run web (attempt 3, 1.5s, task 1-2, queue main): first line second line\n",
		},
	} {
		c.layout.Now, c.layout.Width = at, inspect.Unlimited
		text := inspect.TimelineText(&c.timeline, c.layout)
		if before, after, ok := strings.Cut(text, "TIME "); ok {
			_, after, _ = strings.Cut(after, "\n") // without the heading
			text = before + after
		}
		if text != c.want {
			t.Errorf("%s: the timeline is\n%q, want\n%q", name, text, c.want)
		}
	}
}

// history returns a store in memory, filled by fill.
func history(t *testing.T, now time.Time, fill func(*store.Tx) error) *store.DB {
	t.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	if err := db.Update(fill); err != nil {
		t.Fatal(err)
	}
	return db
}

// rows returns the text of the timeline of db that req selects, without the heading.
func rows(t *testing.T, db *store.DB, req inspect.TimelineRequest) string {
	t.Helper()
	var timeline inspect.Timeline
	if err := db.View(func(tx *store.Tx) (err error) {
		timeline, err = inspect.ReadTimeline(tx, req)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	text := inspect.TimelineText(&timeline, inspect.Layout{Width: inspect.Unlimited, Now: db.Now()})
	before, after, _ := strings.Cut(text, "TIME ")
	_, after, _ = strings.Cut(after, "\n") // without the heading
	return before + after
}

func TestTimelineHasTheStartsAndStopsOfTheOperator(t *testing.T) {
	t.Parallel()
	at := func(hour int) time.Time { return time.Date(2026, 3, 1, hour, 0, 0, 0, time.UTC) }
	db := history(t, at(20), func(tx *store.Tx) (err error) {
		for _, s := range []store.Start{
			{Epoch: 1, Began: at(1), Version: "v1", Pod: "pod-0", Ended: at(2)},
			{Epoch: 2, Began: at(3)},
			{Epoch: 3, Began: at(4), Crashed: 2, Ended: at(5)},
		} {
			err = errors.Join(err, store.Save(tx, store.At(store.Starts).Uint(s.Epoch), s))
		}
		err = errors.Join(err, store.Save(tx, store.RunKey(1), store.Run{ID: 1, Trigger: "OnStart", Began: at(4), Subject: graph.Subject{Module: "web"}}))
		return errors.Join(err, store.Save(tx, store.RunKey(2), store.Run{ID: 2, Trigger: "OnRun", Began: at(6), Ended: at(7), Subject: graph.Subject{Module: "db"}}))
	})
	const later = `04:00:00Z  -    started  operator, epoch 3; the process of epoch 2 had crashed
04:00:00Z  1    began    OnStart: web
05:00:00Z  -    stopped  operator, epoch 3
06:00:00Z  2    began    OnRun: db
`
	const earlier = `01:00:00Z  -    started  operator, epoch 1, version v1, pod pod-0
02:00:00Z  -    stopped  operator, epoch 1
03:00:00Z  -    started  operator, epoch 2
`
	for name, c := range map[string]struct {
		req  inspect.TimelineRequest
		want string
	}{
		"everything":   {inspect.TimelineRequest{Limit: 100}, earlier + later},
		"since a time": {inspect.TimelineRequest{Limit: 100, Since: at(4)}, later},
		"the newest":   {inspect.TimelineRequest{Limit: 4}, "older entries are left out; -n N shows more\n" + later},
		"a module":     {inspect.TimelineRequest{Limit: 100, Subject: "web"}, "04:00:00Z  1    began  OnStart: web\n"},
		"a run":        {inspect.TimelineRequest{Limit: 100, Subject: "2"}, "06:00:00Z  2    began  OnRun: db\n"},
	} {
		if diff := cmp.Diff(c.want, rows(t, db, c.req)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestTimelineLeavesOutRecordsThatCannotBeRead damages one record of each kind. The timeline must have only the
// undamaged records.
func TestTimelineLeavesOutRecordsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db := history(t, at, func(tx *store.Tx) (err error) {
		for n := uint64(1); n <= 3; n++ {
			err = errors.Join(err,
				store.Save(tx, store.At(store.Starts).Uint(n), store.Start{Epoch: n, Began: at}),
				store.Save(tx, store.RunKey(n), store.Run{ID: n, Trigger: "OnStart", Began: at}),
				store.AddAction(tx, store.Action{By: "ann", Verb: fmt.Sprint("command ", n)}),
				store.AddRecord(tx, store.Record{Run: n, Task: store.ID{Epoch: 1, N: n}, Node: "module-run", State: store.Done, Began: at, Ended: at, Output: "printed"}))
		}
		return err
	})
	if err := db.Update(func(tx *store.Tx) error {
		for _, table := range []store.Table{store.Starts, store.Runs, store.Actions, store.History} {
			var keys []store.Key
			for k := range tx.Range(store.At(table)) {
				keys = append(keys, append(store.Key(nil), k...))
			}
			tx.Put(keys[1], []byte(`{"output":"printed`))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	text := rows(t, db, inspect.TimelineRequest{Limit: 100})
	for _, want := range []string{"-    started  operator, epoch %d", "%d    began    OnStart", "%d    done     module-run", "-    command  ann: command %d"} {
		for n, damaged := range map[int]bool{1: false, 2: true, 3: false} {
			if line := "12:00:00Z  " + fmt.Sprintf(want, n) + "\n"; strings.Contains(text, line) == damaged {
				t.Errorf("the timeline has %q: %t\n%s", line, damaged, text)
			}
		}
	}
	if err := db.View(func(tx *store.Tx) error {
		logs, err := inspect.ReadLogs(tx, inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Limit: 100}})
		if err != nil || len(logs.Entries) != 2 || logs.Entries[0].Run != 1 || logs.Entries[1].Run != 3 {
			t.Errorf("the output is %+v, error %v", logs.Entries, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}
