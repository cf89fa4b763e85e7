package inspect_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

// valueHistory returns a store with the runs 1 to 3, which ended one minute after another. The attempts of
// each run changed values.
func valueHistory(t *testing.T) *store.DB {
	t.Helper()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	db, err := store.OpenMemory(new(store.Memory), store.Options{Clock: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	for i, changes := range [][]store.ValueChange{
		{{Path: "/web/replicas", New: "1"}, {Path: "/web/tag", Old: `"a"`, New: `"b"`}, {Path: "/webhook/a", New: "1"}},
		{{Path: "/web/replicas", Old: "1", New: "2"}, {Path: "/web/password", Old: `"(redacted 11111111)"`, New: `"(redacted 22222222)"`}},
		{{Path: "/web/replicas", Old: "2", New: "3"}, {Path: "/web/tag", Old: `"b"`, New: `"a"`}, {Path: "/web/gone", Old: "true"}},
	} {
		run := uint64(i + 1)
		if err := db.Update(func(tx *store.Tx) error {
			return errors.Join(
				store.Save(tx, store.RunKey(run), store.Run{ID: run, Graph: "lifecycle", Began: now, Ended: now.Add(30 * time.Second)}),
				store.AddRecord(tx, store.Record{
					Run: run, Task: store.ID{Epoch: 1, N: run}, Node: "module-kubernetes-event", State: store.Done, Began: now, Ended: now.Add(20 * time.Second),
					Subject: graph.Subject{Module: "web", Hook: "hooks/pods.sh", Binding: "pods"}, Changes: &store.ValueChanges{List: changes},
				}))
		}); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Minute)
	}
	return db
}

func valueDiff(t *testing.T, db *store.DB, req inspect.ValueDiffRequest) (diff inspect.ValueDiff, err error) {
	t.Helper()
	err = db.View(func(tx *store.Tx) (err error) {
		diff, err = inspect.ReadValueDiff(tx, req)
		return err
	})
	return diff, err
}

func TestValuesOfTwoRunsAreCompared(t *testing.T) {
	t.Parallel()
	db := valueHistory(t)
	for _, test := range []struct {
		name     string
		from, to uint64
		want     []string
	}{
		{"the run that changed values last", 0, 0, []string{`/web/gone true -> none, run 3`, `/web/replicas 2 -> 3, run 3`, `/web/tag "b" -> "a", run 3`}},
		{"a run until now", 1, 0, []string{
			`/web/gone true -> none, run 3`, `/web/password "(redacted 11111111)" -> "(redacted 22222222)", run 2`, `/web/replicas 1 -> 3, run 3`,
			`/web/tag "b" -> "a", run 3`,
		}},
		{"two runs", 1, 2, []string{`/web/password "(redacted 11111111)" -> "(redacted 22222222)", run 2`, `/web/replicas 1 -> 2, run 2`}},
		{"a run and itself", 2, 2, nil},
	} {
		diff, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: "web", From: test.from, To: test.to})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, c := range diff.Changes {
			text := c.Path + " " + c.Old + " -> " + c.New
			if c.New == "" {
				text += "none"
			}
			got = append(got, text+", run "+string('0'+rune(c.Run))) //nolint:gosec // it is below 4
			if c.By != "module-kubernetes-event web/hooks/pods.sh pods" {
				t.Errorf("%s was changed by %q", c.Path, c.By)
			}
		}
		if d := cmp.Diff(test.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
	if _, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: "web", From: 9}); !errors.Is(err, inspect.ErrNoRun) {
		t.Errorf("a run that is not known: %v", err)
	}
	if _, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: "web", From: 3, To: 1}); err == nil || !strings.Contains(err.Error(), "name the earlier run first") {
		t.Errorf("the later run first: %v", err)
	}
}

// TestEqualTextsOfDifferentValuesAreADifference compares values whose texts are equal. Values whose texts are truncated
// or masked, and have no hash, can differ, so they must be in the difference. The other values must not.
func TestEqualTextsOfDifferentValuesAreADifference(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	now := time.Now()
	cut, masked := `"`+strings.Repeat("x", 199)+"…", `"postgres://ann:(redacted)@db/x"`
	if err := db.Update(func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: "lifecycle", Began: now, Ended: now}),
			store.AddRecord(tx, store.Record{
				Run: 1, Task: store.ID{Epoch: 1, N: 1}, Node: "module-beforehelm", State: store.Done, Began: now, Ended: now,
				Subject: graph.Subject{Module: "web", Hook: "hooks/a.sh"}, Changes: &store.ValueChanges{List: []store.ValueChange{
					{Path: "/web/cut", Old: cut, New: cut},
					{Path: "/web/hashed", Old: cut + " (hash 1234abcd)", New: cut + " (hash 1234abcd)"},
					{Path: "/web/masked", Old: masked, New: masked},
					{Path: "/web/same", Old: "1", New: "1"},
				}},
			}))
	}); err != nil {
		t.Fatal(err)
	}
	diff, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: "web"})
	if err != nil {
		t.Fatal(err)
	}
	var paths []string
	for _, c := range diff.Changes {
		paths = append(paths, c.Path)
	}
	if want := []string{"/web/cut", "/web/masked"}; !slices.Equal(paths, want) {
		t.Errorf("the values of %q differ, want %q", paths, want)
	}
}

func TestTimelineShowsHowAttemptsChangedValues(t *testing.T) {
	t.Parallel()
	db := valueHistory(t)
	var timeline inspect.Timeline
	if err := db.View(func(tx *store.Tx) (err error) {
		timeline, err = inspect.ReadTimeline(tx, inspect.TimelineRequest{Limit: 50})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	text := inspect.TimelineText(&timeline, inspect.Layout{Width: inspect.Unlimited, Whole: true, Now: time.Date(2026, 3, 1, 13, 0, 0, 0, time.UTC)})
	if !strings.Contains(text, `(/web/replicas: 2 → 3; /web/tag: "b" → "a"; /web/gone: true → none)`) {
		t.Errorf("the timeline is:\n%s", text)
	}
}

func TestChangesThatWereNotStoredAreCounted(t *testing.T) {
	t.Parallel()
	db := valueHistory(t)
	now := db.Now()
	if err := db.Update(func(tx *store.Tx) error {
		return errors.Join(
			store.Save(tx, store.RunKey(4), store.Run{ID: 4, Graph: "lifecycle", Began: now, Ended: now.Add(30 * time.Second)}),
			store.AddRecord(tx, store.Record{
				Run: 4, Task: store.ID{Epoch: 1, N: 4}, Node: "module-beforehelm", State: store.Done, Began: now, Ended: now.Add(time.Second),
				Changes: &store.ValueChanges{List: []store.ValueChange{{Path: "/db/size", Old: "1", New: "2"}}, More: 7},
			}))
	}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		section string
		want    []string
		text    string
	}{
		"a changed section":         {"db", []string{"/db/size"}, "/db/size  1    2    12:03:01Z  4    module-beforehelm\n7 more changes were made by attempts that changed many values\n"},
		"the section of the others": {"web", nil, "no values differ\n7 more changes were made by attempts that changed many values\n"},
		"an unknown section":        {"none", nil, "no values differ\n7 more changes were made by attempts that changed many values\n"},
	} {
		diff, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: test.section})
		if err != nil {
			t.Fatal(err)
		}
		var paths []string
		for _, c := range diff.Changes {
			paths = append(paths, c.Path)
		}
		if d := cmp.Diff(test.want, paths); d != "" || diff.More != 7 {
			t.Errorf("%s: %d more changes (-want +got):\n%s", name, diff.More, d)
		}
		text := inspect.ValueDiffText(&diff, inspect.Layout{Width: inspect.Unlimited, Now: now})
		if _, rows, ok := strings.Cut(text, "BY\n"); ok {
			text = rows
		}
		if text != test.text {
			t.Errorf("%s: the text is\n%s\nwant\n%s", name, text, test.text)
		}
	}
}

func TestASectionDoesNotIncludeSectionsWhoseNamesBeginAlike(t *testing.T) {
	t.Parallel()
	diff, err := valueDiff(t, valueHistory(t), inspect.ValueDiffRequest{Section: "webhook"})
	if err != nil {
		t.Fatal(err)
	}
	if len(diff.Changes) != 1 || diff.Changes[0].Path != "/webhook/a" || diff.Changes[0].Run != 1 || !diff.Since.Equal(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)) {
		t.Errorf("the difference is %+v", diff)
	}
}

func TestADifferenceEndsNowIfItsRunHasNotEnded(t *testing.T) {
	t.Parallel()
	db := valueHistory(t)
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.RunKey(4), store.Run{ID: 4, Graph: "lifecycle", Began: db.Now(), Open: 1})
	}); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		from, to     uint64
		since, until time.Time
	}{
		"no run":                      {0, 0, time.Date(2026, 3, 1, 12, 2, 0, 0, time.UTC), db.Now()},
		"until a run that ended":      {1, 2, time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC), time.Date(2026, 3, 1, 12, 1, 30, 0, time.UTC)},
		"until a run that is open":    {1, 4, time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC), db.Now()},
		"from a run that is open":     {4, 0, db.Now(), db.Now()},
		"the last run until it ended": {0, 3, time.Date(2026, 3, 1, 12, 2, 0, 0, time.UTC), time.Date(2026, 3, 1, 12, 2, 30, 0, time.UTC)},
	} {
		diff, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: "web", From: test.from, To: test.to})
		if err != nil || !diff.Since.Equal(test.since) || !diff.Until.Equal(test.until) {
			t.Errorf("%s: the difference is from %s to %s, want from %s to %s, error %v", name, diff.Since, diff.Until, test.since, test.until, err)
		}
	}
}

func TestADifferenceLeavesOutAttemptsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db := valueHistory(t)
	if err := db.Update(func(tx *store.Tx) error {
		for k, v := range tx.Range(store.At(store.History).Uint(3)) {
			tx.Put(append(store.Key(nil), k...), v[:len(v)-1])
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	diff, err := valueDiff(t, db, inspect.ValueDiffRequest{Section: "web"})
	if err != nil || len(diff.Changes) != 2 || diff.Changes[0].Run != 2 {
		t.Errorf("the difference is %+v, error %v", diff, err)
	}
}
