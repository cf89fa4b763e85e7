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
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// find returns the first matching step in the order of the tree; nil if no step matches.
func find(steps []inspect.Step, is func(*inspect.Step) bool) *inspect.Step {
	for i := range steps {
		if is(&steps[i]) {
			return &steps[i]
		}
		if s := find(steps[i].Steps, is); s != nil {
			return s
		}
	}
	return nil
}

func TestDoneStepKeepsHowOftenItFailedAndItsLastError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		tries := 0
		w.set("release-upgrade web", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			if tries++; tries < 4 {
				return workflow.Outcome{}, errors.New("timed out, try " + string(rune('0'+tries)))
			}
			return workflow.Outcome{}, nil
		})
		w.start(onStart)
		sleep(5 * time.Minute)
		run := w.snapshot(1)
		step := find(run.Steps, func(s *inspect.Step) bool { return s.Node == "release-upgrade" })
		if step == nil || step.State != inspect.Done || step.Failures != 3 || step.LastError != "timed out, try 3" {
			t.Fatalf("the step is %+v", step)
		}
		if text := inspect.Text(run, layout); !strings.Contains(text, "failed 3 times before, last error: timed out, try 3") {
			t.Error(text)
		}
	})
}

func TestWarningOfAStepThatSucceededIsShown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		warn := true
		w.set(string(lifecycle.GlobalScheduleEvent), func(context.Context, workflow.Task) (out workflow.Outcome, _ error) {
			if warn {
				out.Detail, out.Warning = "Failed", "Failed: 2 of 3 addons failed"
			}
			return out, nil
		})
		w.start(onStart)
		sleep(time.Minute)
		w.raise(on(lifecycle.OnGlobalSchedule, "", "hook", "schedule"))
		run := w.snapshot(2)
		if run.Warning != "Failed: 2 of 3 addons failed" || run.State != inspect.Done {
			t.Errorf("run %+v", run)
		}
		if text := inspect.Text(run, layout); !strings.Contains(text, "Failed: 2 of 3 addons failed") {
			t.Error(text)
		}
		if text := w.list(); strings.Count(text, "Failed: 2 of 3 addons failed") != 1 {
			t.Error(text)
		}
		warn = false
		w.raise(on(lifecycle.OnGlobalSchedule, "", "hook", "schedule"))
		if run := w.snapshot(3); run.Warning != "" {
			t.Errorf("another run has warning %q", run.Warning)
		}
	})
}

func TestPurgeIsDrawnUnderItsOwnNode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.set(string(lifecycle.DiscoverModules), func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{
				lifecycle.Defining: modules("defining"), lifecycle.Enabled: modules("on"), lifecycle.Unknown: modules("old"),
			}}, nil
		})
		w.start(onStart)
		sleep(time.Minute)
		for _, top := range w.snapshot(1).Steps {
			if found := find(top.Steps, func(s *inspect.Step) bool { return s.Subject.Module == "old" }); found != nil && top.Node != "module-purge" {
				t.Errorf("the purge of old is drawn under %s", top.Node)
			}
		}
		purge := find(w.snapshot(1).Steps, func(s *inspect.Step) bool { return s.Node == "module-purge" && s.Number == "7" })
		if purge == nil || find([]inspect.Step{*purge}, func(s *inspect.Step) bool { return s.Subject.Module == "old" }) == nil {
			t.Errorf("steps %+v", w.snapshot(1).Steps)
		}
	})
}

func TestDroppedEventSaysWhy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.takes(string(lifecycle.ModuleKubernetesEvent), time.Hour)
		w.says(string(lifecycle.ModuleDelete), lifecycle.Unwanted)
		w.set(string(lifecycle.DiscoverModules), func(context.Context, workflow.Task) (workflow.Outcome, error) {
			return workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.Disabled: modules("web")}}, nil
		})
		w.start()
		for _, hook := range []string{"a.sh", "b.sh"} {
			ev := on(lifecycle.OnModuleKubeEvent, "web", hook, "pods")
			ev.Queue = "side"
			w.raise(ev)
		}
		w.raise(onStart)
		run := w.snapshot(2)
		step := find(run.Steps, func(s *inspect.Step) bool { return s.State == inspect.Dropped })
		if step == nil || step.Detail == "" {
			t.Fatalf("steps %+v", run.Steps)
		}
		if text := inspect.Text(run, layout); !strings.Contains(text, "its module is being deleted") {
			t.Error(text)
		}
	})
}

func TestTaskThatWaitsForAnExclusiveRunSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.takes(string(lifecycle.ModuleKubernetesEvent), time.Hour)
		w.start()
		ev := on(lifecycle.OnModuleKubeEvent, "web", "bad.sh", "pods")
		ev.Queue = "side"
		w.raise(ev)
		if err := w.db.Update(func(tx *store.Tx) error {
			head, _, err := store.Head(tx, "side")
			if err != nil {
				return err
			}
			return store.Save(tx, store.ExclusiveKey(), store.Ref{ID: head.ID, Pos: head.Pos})
		}); err != nil {
			t.Fatal(err)
		}
		w.raise(on(lifecycle.OnResourcesAbsent, "other"))
		run := w.snapshot(2)
		text := inspect.Text(run, layout)
		if strings.Contains(text, "about to begin") || !strings.Contains(text, "waits for task 1-1 (module-kubernetes-event web/bad.sh pods)") {
			t.Error(text)
		}
	})
}

func TestAfterAllThatWaitsForFailingModulesNamesThem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.e.ContinueOnFailure = true
		w.discovers("a", "b")
		w.items[lifecycle.GlobalAfterAll] = []graph.Item{{Subject: graph.Subject{Hook: "z"}}}
		w.fails(string(lifecycle.ReleaseCheck)+" b", "no such chart")
		w.start(onStart)
		text := inspect.Text(w.snapshot(1), layout)
		if strings.Contains(text, "about to begin") || !strings.Contains(text, "waits until these failing modules have succeeded: b") {
			t.Error(text)
		}
	})
}
