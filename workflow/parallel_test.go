package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// group returns an item for each module. The items are in the parallel group with the given name. At
// most width of them run at a time.
func group(name string, width int, names ...string) []graph.Item {
	items := modules(names...)
	for i := range items {
		items[i].Group, items[i].Width = name, width
	}
	return items
}

func TestMembersOfAGroupRunSideBySideAndAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(slices.Concat(modules("first"), group("10", 2, "a", "b", "c"), group("20", 2, "alone"), group("30", 2, "x", "y")), modules("off"), nil)
		a, b, c, x, y := w.gate("release-check a"), w.gate("release-check b"), w.gate("release-check c"), w.gate("release-check x"), w.gate("release-check y")
		w.start(on(lifecycle.OnStart))
		w.expectAny("discover-modules", "module-run first", "release-check first",
			"module-run a", "release-check a", "module-run b", "release-check b")
		w.expectPending("parallel-0", "release-check a")
		w.expectPending("parallel-1", "release-check b")
		b(workflow.Outcome{}, nil)
		w.expect("module-run c", "release-check c")
		w.expectPending("parallel-1", "release-check c")
		a(workflow.Outcome{}, nil)
		w.expect()
		c(workflow.Outcome{}, nil)
		w.expectAny("module-run alone", "release-check alone", "module-run x", "release-check x", "module-run y", "release-check y")
		w.expectPending("main", "module-run", "module-delete", "global-afterall")
		x(workflow.Outcome{}, nil)
		w.expect()
		y(workflow.Outcome{}, nil)
		w.expect("module-delete off", "release-delete off")
		for _, queue := range []string{"main", "parallel-0", "parallel-1"} {
			w.expectPending(queue)
		}
	})
}

func TestGroupOfWidthOneRunsWhereTheListStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(group("10", 1, "a", "b"), nil, nil)
		a := w.gate("release-check a")
		w.start(on(lifecycle.OnStart))
		w.expect("discover-modules", "module-run a", "release-check a")
		a(workflow.Outcome{}, nil)
		w.expect("module-run b", "release-check b")
	})
}

func TestRunBesideOthersIsTriedAgainAndLoopsInItsQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(append(group("10", 2, "a", "b"), modules("last")...), nil, nil)
		w.fails("release-check a", 1)
		w.lists(lifecycle.ModuleAfterHelm, graph.Item{Subject: graph.Subject{Module: "b", Hook: "h"}})
		changes := 2
		w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
			if changes--; t.Node == string(lifecycle.ModuleAfterHelm) && t.Subject.Module == "b" && changes >= 0 {
				return []graph.Fact{lifecycle.ModuleChanged}, nil
			}
			return nil, nil
		}
		queues := map[string]bool{}
		w.set(string(lifecycle.ReleaseCheck), func(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
			w.locked(func() { queues[t.Subject.Module+" "+t.Queue] = true })
			return workflow.Outcome{}, nil
		})
		w.start(on(lifecycle.OnStart))
		w.sleep(4 * time.Second)
		for _, what := range w.ran() {
			if what == "module-run last" {
				t.Error("last ran before the group has ended")
			}
		}
		w.sleep(2 * time.Second)
		if ran := w.ran(); !slices.Contains(ran, "module-run a") || !slices.Contains(ran, "release-check last") {
			t.Errorf("after the delay, these ran: %q", ran)
		}
		w.locked(func() {
			if diff := cmp.Diff(map[string]bool{"b parallel-1": true, "last main": true}, queues); diff != "" {
				t.Error(diff)
			}
		})
	})
}

func TestThirdLoopOfARunBesideOthersGoesToTheMainQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(append(group("10", 2, "a", "b"), modules("last")...), nil, nil)
		changes := 3
		w.end = func(_ *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
			if t.Node == string(lifecycle.ModuleAfterHelm) && t.Subject.Module == "b" && changes > 0 {
				changes--
				return []graph.Fact{lifecycle.ModuleChanged}, nil
			}
			return nil, nil
		}
		w.start(on(lifecycle.OnStart))
		if ran := w.ran(); !slices.Contains(ran, "module-run last") {
			t.Errorf("the fan-out waited for a deferred run: %q", ran)
		}
		last := w.gate("module-run b")
		w.sleep(6 * time.Second)
		w.expectPending("main", "module-run b")
		last(workflow.Outcome{}, nil)
	})
}

func TestCutEndsStepsBesideAndAwaitsThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.reports(string(lifecycle.ModuleRun), lifecycle.JustEnabled)
		w.discovers(group("10", 3, "fails", "runs", "awaits", "later"), nil, nil)
		w.items[lifecycle.ModuleSynchronization] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
			if t.Subject.Module != "awaits" {
				return nil, nil
			}
			return []graph.Item{{Subject: graph.Subject{Module: "awaits", Hook: "far"}, Queue: "q", Wait: true}}, nil
		}
		block := w.gate("module-schedule-event x/h")
		runs := w.gate("release-check runs")
		w.fails("release-check fails", 1)
		w.start(on(lifecycle.OnStart), in("q", on(lifecycle.OnModuleSchedule, "x", "h")))
		w.ran()
		w.expectPending("q", "module-schedule-event x/h", "module-kubernetes-synchronization awaits/far")
		w.discovers(group("10", 3, "later", "runs"), nil, nil)
		w.changeConfig()
		w.expect("configmap-changed")
		w.expectPending("q", "module-schedule-event x/h")
		w.expectPending("parallel-0")
		w.expectPending("parallel-1", "release-check runs")
		w.expectPending("parallel-2")
		w.reports("release-check runs")
		runs(workflow.Outcome{Facts: []graph.Fact{lifecycle.Outdated}}, nil)
		w.expectAny("discover-modules", "module-run later", "release-check later", "module-run runs", "release-check runs")
		if h := w.history(1); !slices.Contains(h, "dropped release-check runs") {
			t.Errorf("history has no record of the step that was abandoned: %q", h)
		}
		w.sleep(time.Minute)
		w.expect()
		block(workflow.Outcome{}, nil)
		w.ran()
		w.expectAllEnded()
	})
}

func TestRunThatWaitsJoinsOneBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(group("10", 2, "a", "b"), nil, nil)
		open, b := w.gate("discover-modules"), w.gate("release-check b")
		w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "a"))
		w.fails("release-check a", 1)
		open(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.Enabled: group("10", 2, "a", "b")}}, nil)
		w.expectAny("discover-modules", "module-run a", "release-check a", "module-run b", "release-check b")
		w.raise(on(lifecycle.OnResourcesAbsent, "a")) // the run of a waits for its retry, at its first node
		w.expectPending("main", "module-run", "global-afterall")
		b(workflow.Outcome{}, nil)
		w.ran()
		w.sleep(6 * time.Second)
		w.expect("module-run a", "release-check a")
		runs := w.runs()
		if runs[1].Joined != 1 || runs[2].Joined != 1 {
			t.Errorf("the runs that waited joined runs %d and %d, want 1", runs[1].Joined, runs[2].Joined)
		}
	})
}

func TestSynchronizationForTheMainQueueRunsBesideOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.reports(string(lifecycle.ModuleRun), lifecycle.JustEnabled)
		w.discovers(group("10", 2, "a", "b"), nil, nil)
		w.items[lifecycle.ModuleSynchronization] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
			return []graph.Item{{Subject: graph.Subject{Module: t.Subject.Module, Hook: "h"}, Queue: "main", Wait: true}}, nil
		}
		queues := map[string]int{}
		w.set(string(lifecycle.ModuleSynchronization), func(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
			w.locked(func() { queues[t.Queue]++ })
			return workflow.Outcome{}, nil
		})
		w.start(on(lifecycle.OnStart))
		w.locked(func() {
			if diff := cmp.Diff(map[string]int{"parallel-0": 1, "parallel-1": 1}, queues); diff != "" {
				t.Error(diff)
			}
		})
		w.expectPending("main")
	})
}

func TestNewRunComesBehindAJournalOfOneBesideOthers(t *testing.T) {
	for _, width := range []int{1, 2} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.discovers(group("10", 2, "a", "b"), nil, nil)
				w.reports("release-check b", lifecycle.Outdated)
				w.set("release-upgrade b", returns(effects("one")))
				w.effect = func(ctx context.Context, _ workflow.Task, _ workflow.Effect) error {
					<-ctx.Done()
					return ctx.Err()
				}
				w.start(on(lifecycle.OnStart))
				w.restart()
				w.ran()
				var down atomic.Bool
				down.Store(true)
				w.effect = func(context.Context, workflow.Task, workflow.Effect) error {
					if down.Load() {
						return errors.New("the API server is away")
					}
					return nil
				}
				w.reports("release-check b")
				w.discovers(group("10", width, "c", "b", "d"), nil, nil)
				again := on(lifecycle.OnStart)
				again.Supersedes = lifecycle.GlobalBeforeAll
				w.start(again)
				ran := w.ran()
				if slices.Contains(ran, "module-run b") || !slices.Contains(ran, "module-run c") {
					t.Errorf("while effects of the journal were executed, these ran: %q", ran)
				}
				down.Store(false)
				w.sleep(6 * time.Second)
				if ran := w.ran(); !slices.Contains(ran, "release-check b") || !slices.Contains(ran, "release-check d") {
					t.Errorf("after the effects of the journal, these ran: %q", ran)
				}
				w.expectPending("main")
			})
		})
	}
}

func TestListBesideOthersIsNotSkippedAMemberIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(group("10", 2, "a", "b", "c"), nil, nil)
		w.fails("module-run a", 100)
		w.fails("module-run b", 100)
		w.start(on(lifecycle.OnStart))
		w.ran()
		parent := w.pending("main")[0]
		if err := w.e.Skip(parent.ID, "me", "why not"); !errors.Is(err, workflow.ErrWaitsForItems) {
			t.Errorf("Skip of the fan-out task returned %v, want ErrWaitsForItems", err)
		}
		if err := w.e.Cancel(t.Context(), parent.ID, workflow.Cancellation{}); !errors.Is(err, workflow.ErrWaitsForItems) {
			t.Errorf("Cancel of the fan-out task returned %v, want ErrWaitsForItems", err)
		}
		if err := w.e.Skip(w.pending("parallel-0")[0].ID, "me", "it is broken"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.expect("module-run c", "release-check c")
	})
}

func TestRestartResumesRunsSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(group("10", 2, "a", "b", "c"), nil, nil)
		w.gate("release-check a")
		w.gate("release-check b")
		w.start(on(lifecycle.OnStart))
		w.restart()
		w.ran()
		a, b := w.gate("release-check a"), w.gate("release-check b")
		w.start()
		w.expectAny("release-check a", "release-check b")
		a(workflow.Outcome{}, nil)
		w.expect("module-run c", "release-check c")
		b(workflow.Outcome{}, nil)
		w.expect()
		w.expectPending("main")
	})
}

func TestRunsBesideOthersDoNotWaitForEachOthersQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.reports(string(lifecycle.ModuleRun), lifecycle.JustEnabled)
		w.discovers(group("10", 2, "a", "b"), nil, nil)
		queue := map[string]string{"a": "parallel-1", "b": "parallel-0"} // queues that the hooks of these modules name by chance
		w.items[lifecycle.ModuleSynchronization] = func(_ *store.Tx, t workflow.Task) ([]graph.Item, error) {
			m := t.Subject.Module
			return []graph.Item{{Subject: graph.Subject{Module: m, Hook: "h"}, Queue: queue[m], Wait: true}}, nil
		}
		w.start(on(lifecycle.OnStart))
		ran := w.ran()
		for _, want := range []string{"release-check a", "release-check b"} {
			if !slices.Contains(ran, want) {
				t.Errorf("%s did not run: %q", want, ran)
			}
		}
		w.expectPending("main")
	})
}

func TestARequestedRunOfAModuleFollowsItsRunBesideOthers(t *testing.T) {
	for _, c := range []struct {
		what   string
		resume func(w *fixture)
		want   []string
	}{
		{"in the same process", nil, []string{"module-run a", "release-check a"}},
		{"after a restart", func(w *fixture) { w.start() }, []string{"release-upgrade a", "module-run a", "release-check a"}},
		{"in a new container", func(w *fixture) {
			w.e.NewContainer = true
			w.start()
		}, []string{"module-run a", "release-check a"}},
		{"in a new start", func(w *fixture) { w.start(newStart()) }, []string{"discover-modules", "module-run a", "release-check a"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.discovers(group("10", 2, "a", "b"), nil, nil)
				w.reports("release-check a", lifecycle.Outdated)
				upgrade, b := w.gate("release-upgrade a"), w.gate("release-check b")
				w.start(on(lifecycle.OnStart))
				w.expectAny("discover-modules", "module-run a", "release-check a", "release-upgrade a", "module-run b", "release-check b")
				w.raise(on(lifecycle.OnRunRequest, "a"))
				w.raise(on(lifecycle.OnRunRequest, "a"))
				w.expect()
				w.expectPending("parallel-0", "release-upgrade a", "module-run a")
				w.expectPending("main", "module-run", "global-afterall")
				w.reports("release-check a")
				if c.resume == nil {
					upgrade(workflow.Outcome{}, nil)
					b(workflow.Outcome{}, nil)
				} else {
					w.restart()
					w.ran()
					w.reports("release-upgrade a")
					w.reports("release-check b")
					c.resume(w)
				}
				ran := slices.DeleteFunc(w.ran(), func(what string) bool { return what == "module-run b" || what == "release-check b" })
				if diff := cmp.Diff(c.want, ran); diff != "" {
					t.Errorf("what ran of module a (-want +got):\n%s", diff)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestARequestedRunOfAModuleFollowsItsAbandonedUpgrade(t *testing.T) {
	for _, width := range []int{1, 2} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.discovers(group("10", 2, "a", "b"), nil, nil)
				w.reports("release-check a", lifecycle.Outdated)
				upgrade := w.gate("release-upgrade a")
				w.start(on(lifecycle.OnStart))
				w.ran()
				w.reports("release-check a")
				w.discovers(group("10", width, "a", "b"), nil, nil)
				w.raise(on(lifecycle.OnReloadRequest))
				w.raise(on(lifecycle.OnRunRequest, "a"))
				w.expect()
				w.expectPending("parallel-0", "release-upgrade a", "module-run a")
				upgrade(workflow.Outcome{}, nil)
				n := 0
				for _, what := range w.ran() {
					if what == "module-run a" {
						n++
					}
				}
				if n == 0 || n > 2 {
					t.Errorf("module a ran %d times, want once for the request and at most once for the reload", n)
				}
				w.expectAllEnded()
			})
		})
	}
}

// TestARequestedRunBehindAJournalBesideOthersWaitsForTheNextStart crashes the operator during an effect of a run in a
// parallel queue. In the next start, this effect is executed again while global hooks run onStartup. The requested run
// behind it must not begin before the start run reaches the module.
func TestARequestedRunBehindAJournalBesideOthersWaitsForTheNextStart(t *testing.T) {
	for _, continues := range []bool{false, true} {
		t.Run(fmt.Sprintf("continues %t", continues), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.e.ContinueOnFailure = continues
				w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
				w.discovers(group("10", 2, "a", "b"), nil, nil)
				w.set("release-check a", returns(effects("old")))
				w.effect = func(ctx context.Context, _ workflow.Task, _ workflow.Effect) error {
					<-ctx.Done()
					return ctx.Err()
				}
				w.start(on(lifecycle.OnStart))
				w.raise(on(lifecycle.OnRunRequest, "a"))
				w.expectPending("parallel-0", "release-check a", "module-run a")
				w.crash()
				w.e.ContinueOnFailure = continues
				w.doEffects(nil)
				w.reports("release-check a")
				open := w.gate("global-onstartup g")
				w.start(newStart())
				w.expect("global-onstartup g")
				w.expectPending("parallel-0")
				open(workflow.Outcome{}, nil)
				w.expectAny("discover-modules", "module-run a", "release-check a", "module-run b", "release-check b")
				w.expectAllEnded()
			})
		})
	}
}
