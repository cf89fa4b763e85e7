package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/steps/oncelog"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

func TestLinesOfAHookAreLoggedWithTheirLevelAndFields(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		line, want string
	}{
		"plain line":    {"hello", `{"level":"info","output":"stderr","message":"hello"}`},
		"empty line":    {"", `{"level":"info","output":"stderr"}`},
		"list":          {`["a"]`, `{"level":"info","output":"stderr","message":"[\"a\"]"}`},
		"structured":    {`{"level":"warn","msg":"slow","size":3}`, `{"level":"warn","output":"stderr","hook_size":3,"proxyJsonLog":true,"message":"slow"}`},
		"with a time":   {`{"level":"error","msg":"x","time":"2026-11-28T09:00:00Z"}`, `{"level":"error","output":"stderr","proxyJsonLog":true,"hook_time":"2026-11-28T09:00:00Z","message":"x"}`},
		"unknown level": {`{"level":"loud","msg":"x"}`, `{"level":"info","output":"stderr","proxyJsonLog":true,"message":"x"}`},
		"no level":      {`{"msg":"x"}`, `{"level":"info","output":"stderr","proxyJsonLog":true,"message":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			Lines(zerolog.New(&out))(hook.Stderr, test.line)
			if got := strings.TrimSpace(out.String()); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

// A line of a hook with the level fatal or panic must not end the operator.
func TestAFatalLineOfAHookIsOnlyLogged(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"fatal", "panic"} {
		var out bytes.Buffer
		Lines(zerolog.New(&out))(hook.Stdout, `{"level":"`+level+`","msg":"x"}`)
		if got, want := strings.TrimSpace(out.String()), `{"level":"`+level+`","output":"stdout","proxyJsonLog":true,"message":"x"}`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestLinesOfATaskNameItsHookAndBinding(t *testing.T) {
	t.Parallel()
	task := workflow.Task{Task: store.Task{ID: store.ID{Epoch: 2, N: 7}, Pos: store.Pos{Queue: "main"}, Node: "module-schedule", Subject: graph.Subject{Module: "web", Hook: "hooks/x.sh"}}}
	for binding, want := range map[string]string{"every-minute": "every-minute", "": "schedule"} {
		var out bytes.Buffer
		task.Subject.Binding = binding
		(&Runs{Log: oncelog.New(zerolog.New(&out))}).Output(task, "schedule")(hook.Stdout, "hello")
		var got map[string]string
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		wanted := map[string]string{
			"level": "info", "module": "web", "hook": "hooks/x.sh", "binding": want, "event.type": "schedule", "node": "module-schedule",
			"queue": "main", "task.id": task.ID.String(), "output": "stdout", "message": "hello",
		}
		if diff := cmp.Diff(wanted, got); diff != "" {
			t.Errorf("binding %q (-want +got):\n%s", binding, diff)
		}
	}
}

// noted is an observer that records the runs of hooks.
type noted struct {
	Silent
	runs []Run
}

func (n *noted) HookRan(r Run) { n.runs = append(n.runs, r) }

func TestARunIsReportedWithItsNodeAndError(t *testing.T) {
	t.Parallel()
	var observer noted
	failed := errors.New("exit status 1")
	task := workflow.Task{Task: store.Task{Node: "module-startup", Subject: graph.Subject{Module: "web", Hook: "x"}}}
	(&Runs{Observer: &observer}).Ran(task, "onStartup", hook.Usage{Took: time.Second}, failed)
	if len(observer.runs) != 1 {
		t.Fatalf("%d runs were reported", len(observer.runs))
	}
	r := observer.runs[0]
	if r.Task.Subject != task.Subject || r.Node != "module-startup" || r.Binding != "onStartup" || r.Usage.Took != time.Second || !errors.Is(r.Err, failed) {
		t.Errorf("got %+v", r)
	}
}

func TestOnlyDurationsThatChangeTheReportAreSaved(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		longest, took, want time.Duration
	}{
		"first run":                          {0, 20 * time.Millisecond, 20 * time.Millisecond},
		"run that took no time":              {0, 0, 0},
		"clock that went back":               {0, -time.Second, 0},
		"longer, but too short for a report": {time.Second, 12*time.Second - 1, time.Second},
		"long enough for another report":     {time.Second, 12 * time.Second, 12 * time.Second},
		"a little longer":                    {time.Minute, 75*time.Second - 1, time.Minute},
		"a quarter longer":                   {time.Minute, 75 * time.Second, 75 * time.Second},
		"shorter":                            {time.Hour, time.Minute, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Memory(t)
			none := json.RawMessage("null")
			task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web", Hook: "x"}}}
			if err := db.Update(func(tx *store.Tx) error {
				return store.Save(tx, store.HookKey("web", "x"), store.Hook{Digest: "d", File: none, Config: none, Longest: test.longest})
			}); err != nil {
				t.Fatal(err)
			}
			if err := db.Update(func(tx *store.Tx) error { return NoteDuration(tx, task, test.took) }); err != nil {
				t.Fatal(err)
			}
			if err := db.View(func(tx *store.Tx) error {
				h, _, err := store.Load[store.Hook](tx, store.HookKey("web", "x"))
				if diff := cmp.Diff(store.Hook{Digest: "d", File: none, Config: none, Longest: test.want}, h); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestTheDurationOfAHookThatIsForgottenIsNotSaved(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	task := workflow.Task{Task: store.Task{Subject: graph.Subject{Module: "web", Hook: "x"}}}
	if err := db.Update(func(tx *store.Tx) error {
		err := NoteDuration(tx, task, time.Hour)
		if tx.Get(store.HookKey("web", "x")) != nil {
			t.Error("the hook has a record")
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

// A task without a claim has no start time. WatchSlow must then do nothing: the observer is nil, so a call would
// panic.
func TestATaskWithoutAClaimIsNotWatched(t *testing.T) {
	t.Parallel()
	ends := (&Runs{}).WatchSlow(workflow.Task{}, time.Second) // there is no observer
	ends()
}
