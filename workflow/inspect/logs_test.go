package inspect_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// logs returns the output that req selects.
func (w *fixture) logs(req inspect.LogsRequest) (t inspect.Timeline) {
	w.t.Helper()
	if err := w.db.View(func(tx *store.Tx) (err error) {
		t, err = inspect.ReadLogs(tx, req)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return t
}

// printing starts a fixture with three hooks. The hook web/10-class.sh prints in each attempt, and fails twice before
// it succeeds. The hook db/10-dump.sh prints much, and web/20-silent.sh prints nothing.
func printing(t *testing.T) *fixture {
	t.Helper()
	w := newFixture(t)
	w.discovers("web", "db")
	w.items[lifecycle.ModuleBeforeHelm] = append(hooks("web", "10-class.sh", "20-silent.sh"), hooks("db", "10-dump.sh")...)
	w.set("module-beforehelm web/10-class.sh", func(_ context.Context, task workflow.Task) (workflow.Outcome, error) {
		task.Print("ask \x1b[31mapi.example.com\x1b[0m")
		if task.Try < 3 {
			task.Print("curl: (7) failed to connect")
			return workflow.Outcome{}, errors.New("exit status 7: curl: (7) failed to connect")
		}
		task.Print("")
		task.Print("	class is nginx")
		return workflow.Outcome{Detail: "values /web/class changed"}, nil
	})
	w.set("module-beforehelm db/10-dump.sh", func(_ context.Context, task workflow.Task) (workflow.Outcome, error) {
		for range 1000 {
			task.Print("copying a table")
		}
		return workflow.Outcome{}, nil
	})
	w.start(onStart)
	sleep(time.Minute)
	return w
}

func TestOutputOfAttemptsIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := printing(t)
		l := layout
		l.Now = w.db.Now()
		all := w.logs(inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "web", Limit: 10}})
		compare(t, "logs.txt", inspect.LogsText(&all, l))
	})
}

func TestOutputIsSelectedBySubjectAttemptTimeAndLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := printing(t)
		for name, c := range map[string]struct {
			req  inspect.LogsRequest
			want int
			more bool
		}{
			"all":          {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Limit: 10}}, 4, false},
			"newest":       {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Limit: 3}}, 3, true},
			"hook":         {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "web/10-class.sh", Limit: 10}}, 3, false},
			"attempt":      {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "web", Limit: 10}, Attempt: 2}, 1, false},
			"run":          {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "1", Limit: 10}}, 4, false},
			"silent hook":  {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "web/20-silent.sh", Limit: 10}}, 0, false},
			"since":        {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Limit: 10, Since: w.db.Now().Add(-50 * time.Second)}}, 2, false},
			"no limit":     {inspect.LogsRequest{}, 1, true},
			"no such hook": {inspect.LogsRequest{TimelineRequest: inspect.TimelineRequest{Subject: "web/30.sh", Limit: 10}}, 0, false},
		} {
			got := w.logs(c.req)
			if len(got.Entries) != c.want || got.More != c.more {
				t.Errorf("%s: %d attempts, more: %t; want %d, %t", name, len(got.Entries), got.More, c.want, c.more)
			}
			for _, e := range got.Entries {
				if e.Output == "" {
					t.Errorf("%s: an attempt without output: %+v", name, e)
				}
			}
		}
		if text := inspect.LogsText(&inspect.Timeline{Subject: "web/20-silent.sh"}, layout); !strings.Contains(text, `no output of "web/20-silent.sh"`) {
			t.Errorf("nothing found says %q", text)
		}
		for _, e := range w.timeline(inspect.TimelineRequest{Limit: 100}).Entries {
			if e.Output != "" {
				t.Errorf("the timeline has output: %+v", e)
			}
		}
	})
}
