package inspect_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

var followTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A writtenHistory is a store whose history the test writes. Each commit is a second after the previous one. The test
// must call the method close.
type writtenHistory struct {
	t    rapid.TB
	mem  *store.Memory
	db   *store.DB
	now  time.Time
	task uint64
}

func writeHistory(t rapid.TB) *writtenHistory {
	t.Helper()
	w := &writtenHistory{t: t, mem: new(store.Memory), now: followTime}
	var err error
	if w.db, err = store.OpenMemory(w.mem, store.Options{Clock: func() time.Time { return w.now }}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *writtenHistory) close() { _ = w.db.Close() }

func (w *writtenHistory) update(fn func(*store.Tx) error) {
	w.t.Helper()
	w.now = w.now.Add(time.Second)
	if err := w.db.Update(fn); err != nil {
		w.t.Fatal(err)
	}
}

// begin begins a run, and returns the change.
func (w *writtenHistory) begin(id uint64, subject graph.Subject) inspect.Change {
	w.t.Helper()
	run := store.Run{ID: id, Graph: "lifecycle", Trigger: "start", Subject: subject, Open: 1}
	w.update(func(tx *store.Tx) error {
		run.Began = tx.Now()
		return store.Save(tx, store.RunKey(id), run)
	})
	return inspect.Change{Began: &run}
}

// end ends a run, and returns the change.
func (w *writtenHistory) end(id uint64) inspect.Change {
	w.t.Helper()
	var run store.Run
	w.update(func(tx *store.Tx) (err error) {
		run, _, err = store.Load[store.Run](tx, store.RunKey(id))
		run.Open, run.Ended = 0, tx.Now()
		if err != nil {
			return err
		}
		return store.Save(tx, store.RunKey(id), run)
	})
	return inspect.Change{Ended: &run}
}

// attempt ends an attempt of a run, and returns the change.
func (w *writtenHistory) attempt(run uint64, subject graph.Subject, output string) inspect.Change {
	w.t.Helper()
	w.task++
	record := store.Record{Run: run, Task: store.ID{Epoch: 1, N: w.task}, Node: "module-run", Subject: subject, Queue: "main", State: store.Done, Try: 1, Output: output}
	w.update(func(tx *store.Tx) error {
		record.Ended = tx.Now()
		return store.AddRecord(tx, record)
	})
	return inspect.Change{Record: &record}
}

// command records that ann has used a command on a subject.
func (w *writtenHistory) command(verb string, subject graph.Subject) {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		return store.AddAction(tx, store.Action{By: "ann", Verb: verb, Subject: subject})
	})
}

// follow returns a follower of the timeline and its first entries.
func (w *writtenHistory) follow(req inspect.TimelineRequest) (f *inspect.Follower, first []inspect.Entry) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) (err error) {
		f, first, err = inspect.FollowTimeline(tx, req)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return f, first
}

// followLogs returns a follower of the output and its first entries.
func (w *writtenHistory) followLogs(req inspect.LogsRequest) (f *inspect.Follower, first []inspect.Entry) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) (err error) {
		f, first, err = inspect.FollowLogs(tx, req)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return f, first
}

// entries returns the entries that the follower makes from changes.
func (w *writtenHistory) entries(f *inspect.Follower, changes ...inspect.Change) (entries []inspect.Entry) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) (err error) {
		entries, err = f.Entries(tx, changes)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return entries
}

// rowsOf returns the rows of followed entries, with single blanks.
func rowsOf(entries []inspect.Entry) []string {
	rows := []string{}
	for i := range entries {
		text := inspect.FollowedRow(&entries[i], inspect.Layout{Width: inspect.Unlimited, Now: followTime})
		rows = append(rows, strings.Join(strings.Fields(text), " "))
	}
	return rows
}

var (
	webHook = graph.Subject{Module: "web", Hook: "hooks/a.sh", Binding: "pods"}
	dbHook  = graph.Subject{Module: "db", Hook: "hooks/b.sh", Binding: "pods"}
)

func TestAFollowedTimelineContinuesTheFirstEntries(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	w.begin(1, graph.Subject{})
	w.attempt(1, webHook, "")
	f, first := w.follow(inspect.TimelineRequest{Limit: 10})
	want := []string{"12:00:01Z 1 began start", "12:00:02Z 1 done module-run web/hooks/a.sh pods"}
	if diff := cmp.Diff(want, rowsOf(first)); diff != "" {
		t.Errorf("the first entries (-want +got):\n%s", diff)
	}
	w.command("pause module db", graph.Subject{Module: "db"})
	changes := []inspect.Change{w.attempt(1, dbHook, ""), w.end(1), w.begin(2, graph.Subject{Module: "web"})}
	want = []string{
		"12:00:03Z - command ann: pause module db",
		"12:00:04Z 1 done module-run db/hooks/b.sh pods",
		"12:00:05Z 1 ended after 4.0s",
		"12:00:06Z 2 began start: web",
	}
	if diff := cmp.Diff(want, rowsOf(w.entries(f, changes...))); diff != "" {
		t.Errorf("the next entries (-want +got):\n%s", diff)
	}
	if again := rowsOf(w.entries(f)); len(again) > 0 {
		t.Errorf("without a change there are entries: %q", again)
	}
}

func TestAFollowerOfASubjectShowsTheStartOfARunBeforeItsFirstSelectedAttempt(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	w.begin(1, graph.Subject{})
	f, first := w.follow(inspect.TimelineRequest{Subject: "web", Limit: 10})
	if len(first) > 0 {
		t.Errorf("nothing is about web yet, but there are %q", rowsOf(first))
	}
	w.command("pause module db", graph.Subject{Module: "db"})
	if got := rowsOf(w.entries(f, w.attempt(1, dbHook, ""))); len(got) > 0 {
		t.Errorf("an attempt and a command of db are entries: %q", got)
	}
	w.command("pause module web", graph.Subject{Module: "web"})
	want := []string{
		"12:00:04Z - command ann: pause module web",
		"12:00:01Z 1 began start",
		"12:00:05Z 1 done module-run web/hooks/a.sh pods",
		"12:00:06Z 1 done module-run web/hooks/a.sh pods",
	}
	if diff := cmp.Diff(want, rowsOf(w.entries(f, w.attempt(1, webHook, ""), w.attempt(1, webHook, "")))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = []string{"12:00:07Z 1 ended after 6.0s"}
	if diff := cmp.Diff(want, rowsOf(w.entries(f, w.end(1)))); diff != "" {
		t.Errorf("the end of a run with two selected attempts (-want +got):\n%s", diff)
	}
}

func TestAFollowerShowsTheEndOnlyOfARunWithTwoShownAttempts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after int // number of attempts before and after the follower begins
		ended         bool
	}{
		"no attempt":                      {0, 0, false},
		"one attempt before":              {1, 0, false},
		"one attempt after":               {0, 1, false},
		"one attempt before, one after":   {1, 1, true},
		"two attempts after":              {0, 2, true},
		"two attempts before, none after": {2, 0, true},
	} {
		w := writeHistory(t)
		w.begin(1, webHook)
		for range test.before {
			w.attempt(1, webHook, "")
		}
		f, _ := w.follow(inspect.TimelineRequest{Limit: 10})
		var changes []inspect.Change
		for range test.after {
			changes = append(changes, w.attempt(1, webHook, ""))
		}
		entries := w.entries(f, append(changes, w.end(1))...)
		ended := slices.ContainsFunc(entries, func(e inspect.Entry) bool { return e.What == inspect.RunEnded })
		if ended != test.ended || len(entries) != test.after && !ended || ended && len(entries) != test.after+1 {
			t.Errorf("%s: the entries are %q", name, rowsOf(entries))
		}
		w.close()
	}
}

func TestAFollowerOfARunShowsItsStartWithoutAnAttempt(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	f, _ := w.follow(inspect.TimelineRequest{Subject: "2", Limit: 10})
	want := []string{"12:00:02Z 2 began start: web/hooks/a.sh pods", "12:00:03Z 2 done module-run db/hooks/b.sh pods"}
	got := rowsOf(w.entries(f, w.begin(1, webHook), w.begin(2, webHook), w.attempt(2, dbHook, ""), w.attempt(1, dbHook, "")))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFollowedLogsHaveOnlySelectedAttemptsWithOutput(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	w.begin(1, graph.Subject{})
	seen := w.attempt(1, webHook, "the first")
	f, first := w.followLogs(inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "web", Limit: 10}})
	if len(first) != 1 || first[0].Output != "the first" {
		t.Fatalf("the first entries are %+v", first)
	}
	w.command("pause module web", graph.Subject{Module: "web"})
	silent, other, second := w.attempt(1, webHook, ""), w.attempt(1, dbHook, "of db"), w.attempt(1, webHook, "the second")
	begun, ended := w.begin(2, webHook), w.end(1)
	entries := w.entries(f, seen, silent, other, second, begun, ended)
	if len(entries) != 1 || entries[0].Output != "the second" || entries[0].What != string(store.Done) || entries[0].Run != 1 {
		t.Errorf("the entries are %+v", entries)
	}
	wants := f.Wants()
	for name, test := range map[string]struct {
		change inspect.Change
		want   bool
	}{
		"an attempt that printed": {second, true}, "an attempt that printed nothing": {silent, false}, "an attempt of another module": {other, false},
		"the start of a run": {begun, false}, "the end of a run": {ended, false},
	} {
		if got := wants(test.change); got != test.want {
			t.Errorf("%s: wanted is %t", name, got)
		}
	}
}

func TestFollowedLogsOfOneAttemptOmitTheOthers(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	f, _ := w.followLogs(inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Limit: 10}, Attempt: 2})
	first, second := w.attempt(1, webHook, "1"), w.attempt(1, webHook, "2")
	second.Record.Try = 2
	if entries := w.entries(f, first, second); len(entries) != 1 || entries[0].Output != "2" || entries[0].Try != 2 {
		t.Errorf("the entries are %+v", entries)
	}
}

// A followedStep is a step of TestFollowedEntriesAreThoseOfTheTimeline.
type followedStep struct {
	What    string
	Run     uint64
	Subject graph.Subject
}

// TestFollowedEntriesAreThoseOfTheTimeline follows a random history from a random step on. The follower gets some
// changes that its first entries contain already. All entries together must be those of the timeline at the end. A
// second follower gets only the changes that it wants, and must return the same entries.
func TestFollowedEntriesAreThoseOfTheTimeline(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := writeHistory(t)
		defer w.close()
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) followedStep {
			return followedStep{
				rapid.SampledFrom([]string{"begin", "attempt", "attempt", "attempt", "end", "command"}).Draw(t, "what"), rapid.Uint64Range(1, 3).Draw(t, "run"),
				rapid.SampledFrom([]graph.Subject{{}, webHook, dbHook, {Module: "web"}}).Draw(t, "subject"),
			}
		}), 1, 25).Draw(t, "steps")
		req := inspect.TimelineRequest{Subject: rapid.SampledFrom([]string{"", "web", "web/hooks/a.sh", "main", "2", "1-3"}).Draw(t, "of"), Limit: 1000}
		begins := rapid.IntRange(0, len(steps)).Draw(t, "begins")
		overlap := rapid.IntRange(0, begins).Draw(t, "overlap")
		var one, other *inspect.Follower
		var got, selected []inspect.Entry
		var wants func(inspect.Change) bool
		var early []inspect.Change
		pass := func(changes ...inspect.Change) {
			got = append(got, w.entries(one, changes...)...)
			selected = append(selected, w.entries(other, slices.DeleteFunc(slices.Clone(changes), func(c inspect.Change) bool { return !wants(c) })...)...)
		}
		state := map[uint64]string{}
		for i := 0; i <= len(steps); i++ {
			if i == begins {
				one, got = w.follow(req)
				other, selected = w.follow(req)
				wants = other.Wants()
				pass(early...)
			}
			if i == len(steps) {
				break
			}
			var change inspect.Change
			switch s := steps[i]; {
			case s.What == "begin" && state[s.Run] == "":
				state[s.Run], change = "open", w.begin(s.Run, s.Subject)
			case s.What == "attempt" && state[s.Run] == "open":
				change = w.attempt(s.Run, s.Subject, "")
			case s.What == "end" && state[s.Run] == "open":
				state[s.Run], change = "ended", w.end(s.Run)
			case s.What == "command":
				w.command("pause", s.Subject)
			}
			switch {
			case change == (inspect.Change{}):
			case i >= begins:
				pass(change)
			case i >= begins-overlap:
				early = append(early, change)
			}
		}
		pass()
		var timeline inspect.Timeline
		if err := w.db.View(func(tx *store.Tx) (err error) {
			timeline, err = inspect.ReadTimeline(tx, req)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		want := rowsOf(timeline.Entries)
		for name, entries := range map[string][]inspect.Entry{"all changes": got, "wanted changes": selected} {
			rows := rowsOf(entries)
			slices.Sort(rows) // the follower can return the start of a run after entries with later times
			slices.Sort(want)
			if diff := cmp.Diff(want, rows); diff != "" {
				t.Fatalf("%s, followed from step %d (-timeline +followed):\n%s", name, begins, diff)
			}
		}
	})
}
