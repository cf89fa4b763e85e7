package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// newStart returns the event of a start, as after a restart of the operator. The start run replaces unfinished start
// runs and reloads. Interrupted runs of modules go back to their first nodes.
func newStart() workflow.Event {
	ev := on(lifecycle.OnStart)
	ev.Supersedes = lifecycle.GlobalBeforeAll
	return ev
}

// itemsOf sets the items of the fan-out of node: for each module, these hooks of the module.
func (w *fixture) itemsOf(node graph.NodeID, hooks ...string) {
	w.items[node] = func(_ *store.Tx, t workflow.Task) (items []graph.Item, err error) {
		for _, h := range hooks {
			items = append(items, graph.Item{Subject: graph.Subject{Module: t.Subject.Module, Hook: h}})
		}
		return items, nil
	}
}

// newEnabling returns a fixture in which modules have the onStartup hooks a and b and the beforeHelm
// hook c. A module is treated as newly enabled until its run has ended, as in a start.
func newEnabling(t *testing.T) *fixture {
	t.Helper()
	w := newLifecycle(t)
	w.itemsOf(lifecycle.ModuleOnStartup, "a", "b")
	w.itemsOf(lifecycle.ModuleBeforeHelm, "c")
	delete(w.do, string(lifecycle.ModuleRun))
	started := func(m string) store.Key { return store.At(store.Releases).Str("started " + m) }
	w.apply = func(tx *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
		if t.Node != string(lifecycle.ModuleRun) {
			return nil, nil
		}
		if tx.Get(started(t.Subject.Module)) != nil {
			return []graph.Fact{lifecycle.AlreadyStarted}, nil
		}
		return []graph.Fact{lifecycle.JustEnabled}, nil
	}
	w.end = func(tx *store.Tx, t workflow.Task, _ []graph.Fact) ([]graph.Fact, error) {
		if t.Node == string(lifecycle.ModuleAfterHelm) {
			tx.Put(started(t.Subject.Module), []byte("true"))
		}
		return nil, nil
	}
	return w
}

func TestAnInterruptedModuleRunIsDoneOnceByTheRunOfTheNextStart(t *testing.T) {
	for at, resumed := range map[string][]string{
		"module-onstartup m/b":  {"module-onstartup m/b", "module-beforehelm m/c", "release-check m"},
		"module-beforehelm m/c": {"module-beforehelm m/c", "release-check m"},
	} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnabling(t)
				w.discovers(modules("l", "m"), nil, nil)
				w.gate(at)
				w.start(on(lifecycle.OnResourcesAbsent, "m"), on(lifecycle.OnResourcesAbsent, "n"))
				w.crash()
				w.start()
				w.ran()
				w.crash()
				w.set(at, returns(workflow.Outcome{}))
				w.start(newStart())
				for _, n := range w.took() {
					if (n.what == at) != (n.task.Previous == workflow.Interrupted) {
						t.Errorf("%s received the previous result %s", n.what, n.task.Previous)
					}
					if i := slices.Index(resumed, n.what); i >= 0 {
						resumed = slices.Delete(resumed, i, i+1)
					} else if n.what == at {
						t.Errorf("%s ran twice", at)
					}
				}
				if len(resumed) > 0 {
					t.Errorf("%q did not run", resumed)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestAModuleRunResumesAtTheVeryTaskOrInANewContainerAtItsFirstStep(t *testing.T) {
	for _, c := range []struct {
		newContainer bool
		want         []string
	}{
		{false, []string{"module-beforehelm m/c", "release-check m"}},
		{true, []string{"module-run m", "module-onstartup m/a", "module-onstartup m/b", "module-beforehelm m/c", "release-check m"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnabling(t)
			w.gate("module-beforehelm m/c")
			w.start(on(lifecycle.OnResourcesAbsent, "m"))
			w.crash()
			w.set("module-beforehelm m/c", returns(workflow.Outcome{}))
			w.e.NewContainer = c.newContainer
			w.start()
			w.expect(c.want...)
			w.expectAllEnded()
		})
	}
}

func TestAnInterruptedDeletionChecksInTheNextStartWhetherTheModuleIsEnabledAgain(t *testing.T) {
	for _, at := range []string{"module-retire m", "module-beforedeletehelm m/h", "release-delete m"} {
		for _, enabled := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, enabled again %t", at, enabled), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newLifecycle(t)
					w.discovers(modules("k"), nil, nil)
					w.fails("release-check k", 1000)
					w.itemsOf(lifecycle.ModuleBeforeDelete, "h")
					w.gate("module-kubernetes-event m/e b")
					events := []workflow.Event{on(lifecycle.OnStart)}
					if at == "module-retire m" {
						events = append(events, kubeEvent("m", "e"))
					} else {
						w.gate(at)
					}
					w.start(events...)
					w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: modules("m")})
					if head := w.pending(workflow.Main)[0]; !strings.HasPrefix(at, head.Node) {
						t.Fatalf("the deletion is at %s", head.Node)
					}
					w.crash()
					for _, what := range []string{"module-beforedeletehelm m/h", "release-delete m", "release-check k"} {
						w.reports(what)
					}
					if enabled {
						w.discovers(modules("k", "m"), nil, nil)
						w.reports("module-delete m")
					}
					w.start(newStart())
					ran := w.ran()
					for _, what := range []string{"module-beforedeletehelm m/h", "release-delete m"} {
						if slices.Contains(ran, what) == enabled {
							t.Errorf("%s: %q", what, ran)
						}
					}
					w.expectAllEnded()
				})
			})
		}
	}
}

func TestEffectsThatAnInterruptedRunHasBegunPrecedeTheNextStart(t *testing.T) {
	for _, newContainer := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newEnabling(t)
			w.discovers(modules("m"), nil, nil)
			w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
			w.set("module-beforehelm m/c", returns(effects("old", "older")))
			w.start(on(lifecycle.OnResourcesAbsent, "before"))
			w.ran()
			errs := map[string]error{"old": errors.New("503")}
			done := w.doEffects(errs)
			w.raise(on(lifecycle.OnResourcesAbsent, "m"))
			w.crash()
			w.locked(func() { delete(errs, "old") })
			w.set("module-beforehelm m/c", returns(effects("new")))
			w.e.NewContainer = newContainer
			*done = nil
			w.start(newStart())
			w.sleep(time.Minute)
			if !slices.Equal(*done, []string{"old", "older", "new"}) {
				t.Errorf("the executed effects are %q", *done)
			}
			w.expect("global-onstartup g", "discover-modules",
				"module-run m", "module-onstartup m/a", "module-onstartup m/b", "module-beforehelm m/c", "release-check m")
			w.expectAllEnded()
		})
	}
}

// A started step is the Synchronization of a module. Its gate is shut until the run of this start
// has created the fan-out. The run does this after the onStartup hooks.
type started struct {
	step
	start *int // number of the start; a test changes it only while no step runs
}

func startedKey() store.Key { return store.At(store.Releases).Str("started") }

func (s started) Items(tx *store.Tx, t workflow.Task) ([]graph.Item, json.RawMessage, error) {
	if err := store.Save(tx, startedKey(), *s.start); err != nil {
		return nil, nil, err
	}
	return s.step.Items(tx, t)
}

func (s started) Gate(tx *store.Tx, _ *store.Task) (string, error) {
	start, _, err := store.Load[int](tx, startedKey())
	if err != nil || start == *s.start {
		return "", err
	}
	return "the onStartup hooks have yet to run in this start", nil
}

func TestASynchronizationThatAnEarlierStartLeftFollowsTheOnStartupHooks(t *testing.T) {
	for _, wait := range []bool{false, true} {
		t.Run(fmt.Sprintf("wait %t", wait), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				start := 1
				w.bind(lifecycle.Graph, lifecycle.ModuleSynchronization, started{step{w, lifecycle.ModuleSynchronization}, &start})
				w.e = w.engine()
				w.gate("module-schedule-event x/h")
				w.discovers(modules("m"), nil, nil)
				w.lists(lifecycle.ModuleOnStartup, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}})
				w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: "q"})
				w.reports("module-run m", lifecycle.JustEnabled)
				w.start(in("q", on(lifecycle.OnModuleSchedule, "x", "h")))
				w.raise(on(lifecycle.OnStart))
				w.ran()
				w.restart()
				w.set("module-schedule-event x/h", returns(workflow.Outcome{}))
				w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: "q", Wait: wait})
				start = 2
				open := w.gate("module-onstartup m/h")
				w.start(newStart())
				w.expectAny("discover-modules", "module-run m", "module-onstartup m/h", "module-schedule-event x/h")
				w.expectHeld("module-kubernetes-synchronization m/h a")
				open(workflow.Outcome{}, nil)
				if wait {
					w.expect("module-kubernetes-synchronization m/h a", "release-check m")
				} else {
					w.expectAny("module-kubernetes-synchronization m/h a", "release-check m")
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestASynchronizationWhoseEffectsAnEarlierStartLeftRunsAgain(t *testing.T) {
	for _, c := range []struct{ failsAgain, waits bool }{{false, true}, {true, true}, {false, false}, {true, false}} {
		failsAgain := c.failsAgain
		t.Run(fmt.Sprintf("fails again %t, waits %t", failsAgain, c.waits), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.discovers(modules("m"), nil, nil)
				w.lists(lifecycle.ModuleOnStartup, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h"}})
				w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "m", Hook: "h", Binding: "a"}, Queue: "q", Wait: c.waits})
				w.reports("module-run m", lifecycle.JustEnabled)
				w.set("module-kubernetes-synchronization m/h a", returns(effects("old")))
				errs := map[string]error{"old": errors.New("503")}
				done := w.doEffects(errs)
				w.start(on(lifecycle.OnStart))
				w.crash()
				w.set("module-kubernetes-synchronization m/h a", returns(effects("new")))
				if !failsAgain {
					w.locked(func() { delete(errs, "old") })
				}
				*done = nil
				open := w.gate("module-onstartup m/h")
				w.start(newStart())
				w.sleep(time.Minute)
				w.expect("discover-modules", "module-run m", "module-onstartup m/h")
				open(workflow.Outcome{}, nil)
				w.locked(func() { delete(errs, "old") })
				w.sleep(time.Minute)
				w.expectAny("module-kubernetes-synchronization m/h a", "release-check m")
				if i := slices.Index(*done, "new"); i != len(*done)-1 || i == 0 {
					t.Errorf("the executed effects are %q", *done)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestCrashingTaskIsQuarantinedAlthoughEachProcessMakesANewStart(t *testing.T) {
	for _, c := range []struct {
		crashes string
		rest    []string
	}{
		{"global-onstartup g", []string{"global-afterall z"}},
		{"global-kubernetes-synchronization s", []string{"global-afterall z"}},
		{"module-beforehelm m/c", []string{"module-run n", "global-afterall z"}},
		{"release-check m", []string{"module-run n", "global-afterall z"}},
	} {
		t.Run(c.crashes, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newEnabling(t)
				w.discovers(modules("m", "n"), nil, nil)
				w.lists(lifecycle.GlobalOnStartup, hooks("f", "g")...)
				w.lists(lifecycle.GlobalSynchronization, graph.Item{Subject: graph.Subject{Hook: "s"}, Queue: "q", Wait: true})
				w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
				w.gate(c.crashes)
				w.start(newStart())
				for range 3 {
					w.crash()
					w.e.NewContainer = true
					w.start(newStart())
				}
				w.expectQuarantined(c.crashes)
				ran := w.ran()
				for _, what := range c.rest {
					if !slices.Contains(ran, what) {
						t.Errorf("%s did not run: %q", what, ran)
					}
				}
			})
		})
	}
}

func TestAFailingModuleInARetryQueueWaitsForTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnabling(t)
		w.e.ContinueOnFailure = true
		w.discovers(modules("bad", "good"), nil, nil)
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		w.fails("release-check bad", 1000)
		w.start(newStart())
		w.sleep(time.Hour)
		w.crash()
		w.e.ContinueOnFailure = true
		w.reports("release-check bad")
		w.start(newStart())
		ran := w.ran()
		if ran[0] != "global-onstartup g" {
			t.Errorf("first ran %s", ran[0])
		}
		if n := len(slices.DeleteFunc(ran, func(what string) bool { return what != "module-onstartup bad/a" })); n != 1 {
			t.Errorf("onStartup of the module ran %d times", n)
		}
		w.expectAllEnded()
	})
}

func TestAModuleRunBelowEffectsInARetryQueueWaitsForTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnabling(t)
		w.e.ContinueOnFailure = true
		w.discovers(modules("bad", "good"), nil, nil)
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		w.set("module-beforehelm bad/c", returns(effects("old")))
		errs := map[string]error{"old": errors.New("503")}
		done := w.doEffects(errs)
		w.start(newStart())
		w.sleep(time.Minute)
		w.crash()
		w.e.ContinueOnFailure = true
		w.set("module-beforehelm bad/c", returns(effects("new")))
		w.locked(func() { delete(errs, "old") })
		*done = nil
		open := w.gate("global-onstartup g")
		w.start(newStart())
		w.sleep(time.Minute)
		w.expect("global-onstartup g")
		open(workflow.Outcome{}, nil)
		w.sleep(time.Minute)
		ran := w.ran()
		if n := len(slices.DeleteFunc(ran, func(what string) bool { return what != "module-onstartup bad/a" })); n != 1 {
			t.Errorf("onStartup of the module ran %d times", n)
		}
		if !slices.Equal(*done, []string{"old", "new"}) {
			t.Errorf("the executed effects are %q", *done)
		}
		w.expectAllEnded()
	})
}

func TestAStartTakesTheRunsOfManyFailingModulesOutOfTheirRetryQueuesBeforeItBegins(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed meanwhile %t", killed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const failing = 4000
				w := newEnabling(t)
				w.unchecked()
				w.e.ContinueOnFailure = true
				w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
				w.fails("release-check", failing)
				w.start()
				var events []workflow.Event
				for i := range failing {
					events = append(events, on(lifecycle.OnResourcesAbsent, fmt.Sprintf("m%04d", i)))
				}
				for part := range slices.Chunk(events, 250) {
					w.raise(part...)
				}
				if n := len(w.queues()); n != failing {
					t.Fatalf("%d queues hold tasks, want a retry queue for each of %d modules", n, failing)
				}
				w.crash()
				w.unchecked()
				w.e.ContinueOnFailure = true
				w.reports("release-check")
				ends := w.gate("global-onstartup g")
				if killed {
					commits := 0
					w.fragile = true
					w.mem.Before = func(int) error {
						if commits++; commits > 1 {
							return errKilled
						}
						return nil
					}
					w.start(newStart())
					w.expect()
					w.crash()
					w.fragile = false
					w.unchecked()
					w.e.ContinueOnFailure = true
					w.start()
				} else {
					w.start(newStart())
				}
				w.sleep(time.Hour)
				w.expect("global-onstartup g")
				if left := w.queues(); !slices.Equal(left, []string{workflow.Main}) {
					t.Errorf("%d queues hold tasks, want only main", len(left))
				}
				ends(workflow.Outcome{}, nil)
				runs := map[string]int{}
				for _, what := range w.ran() {
					if strings.HasPrefix(what, "module-run") {
						runs[what]++
					}
				}
				if len(runs) != failing {
					t.Errorf("%d modules ran, want %d", len(runs), failing)
				}
				w.expectAllEnded()
			})
		})
	}
}

func TestSkippedFanOutForgetsThatItsItemsWereInterrupted(t *testing.T) {
	for _, begun := range []bool{false, true} {
		t.Run(fmt.Sprintf("begun %t", begun), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.itemsOf(lifecycle.GlobalOnStartup, "a", "b")
				w.gate("global-onstartup a")
				w.start(newStart())
				w.expect("global-onstartup a")
				w.restart()
				// The start after the restart supersedes the interrupted fan-out.
				w.gate("configmap-changed")
				if begun {
					w.set("global-onstartup a", func(context.Context, workflow.Task) (workflow.Outcome, error) {
						return workflow.Outcome{}, errors.New("as the test requires")
					})
					w.start(newStart())
				} else {
					w.start(workflow.Event{On: lifecycle.OnConfigMap})
					w.raise(newStart())
				}
				interrupted := func() (n int) {
					w.view(func(tx *store.Tx) error {
						for range tx.Range(store.At(store.Interruptions)) {
							n++
						}
						return nil
					})
					return n
				}
				if n := interrupted(); !begun && n != 1 {
					t.Fatalf("%d interruptions are stored", n)
				}
				i := slices.IndexFunc(w.pending("main"), func(t *store.Task) bool { return t.Node == string(lifecycle.GlobalOnStartup) })
				if err := w.e.Skip(w.pending("main")[i].ID, "me", "no need"); err != nil {
					t.Fatal(err)
				}
				if n := interrupted(); n != 0 {
					t.Errorf("%d interruptions are still stored", n)
				}
			})
		})
	}
}

func TestEffectsThatAnEventHasBegunPrecedeTheNextStart(t *testing.T) {
	for _, trigger := range []graph.Trigger{lifecycle.OnModuleKubeEvent, lifecycle.OnGlobalKubeEvent, lifecycle.OnModuleSchedule} {
		for _, newContainer := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, new container %t", trigger, newContainer), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newEnabling(t)
					w.discovers(modules("m"), nil, nil)
					w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
					for _, what := range []string{"module-kubernetes-event m/h", "global-kubernetes-event h", "module-schedule-event m/h"} {
						w.set(what, returns(effects("old", "older")))
					}
					errs := map[string]error{"old": errors.New("503")}
					done := w.doEffects(errs)
					ev := on(trigger, "m", "h")
					if trigger == lifecycle.OnGlobalKubeEvent {
						ev.Subject.Module = ""
					}
					w.start(ev, on(lifecycle.OnResourcesAbsent, "n"))
					w.crash()
					w.locked(func() { delete(errs, "old") })
					w.set("module-beforehelm m/c", returns(effects("new")))
					w.e.NewContainer = newContainer
					*done = nil
					w.start(newStart(), on(lifecycle.OnConfigMap))
					w.sleep(time.Minute)
					if !slices.Equal(*done, []string{"old", "older", "new"}) {
						t.Errorf("the executed effects are %q", *done)
					}
					w.expect("configmap-changed", "global-onstartup g", "discover-modules",
						"module-run m", "module-onstartup m/a", "module-onstartup m/b", "module-beforehelm m/c", "release-check m",
						"module-run n", "module-onstartup n/a", "module-onstartup n/b", "module-beforehelm n/c", "release-check n")
					w.expectAllEnded()
				})
			})
		}
	}
}

// TestAStartDoesNotWaitForAnEffectThatFails has an effect that is executed before a start run. The effect fails until
// the run of a module removes the cause of the failure.
func TestAStartDoesNotWaitForAnEffectThatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnabling(t)
		w.discovers(modules("m"), nil, nil)
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		hook := on(lifecycle.OnModuleKubeEvent, "m", "h")
		w.set("module-kubernetes-event m/h", returns(effects("old")))
		errs := map[string]error{"old": errors.New("the kind is not served")}
		done := w.doEffects(errs)
		w.start(about(hook, "a"), about(hook, "b"), about(on(lifecycle.OnModuleKubeEvent, "m", "other"), "c"))
		w.crash()
		w.set("release-check m", func(context.Context, workflow.Task) (workflow.Outcome, error) {
			w.locked(func() { delete(errs, "old") })
			return workflow.Outcome{}, nil
		})
		*done = nil
		w.start(newStart())
		w.sleep(time.Minute)
		if n := len(*done); n == 0 || (*done)[n-1] != "old" {
			t.Errorf("the executed effects are %q", *done)
		}
		w.expect("global-onstartup g", "discover-modules",
			"module-run m", "module-onstartup m/a", "module-onstartup m/b", "module-beforehelm m/c", "release-check m",
			"module-kubernetes-event m/other")
		w.expectAllEnded()
	})
}

func TestABatchThatHasBegunItsEffectsPrecedesTheNextStartAsAWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnabling(t)
		w.discovers(modules("m"), nil, nil)
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		hook, more := on(lifecycle.OnModuleKubeEvent, "m", "h"), on(lifecycle.OnModuleKubeEvent, "m", "more")
		w.set("module-kubernetes-event m/h", returns(effects("old")))
		errs := map[string]error{"old": errors.New("503")}
		w.doEffects(errs)
		open := w.gate("module-kubernetes-event m/more")
		w.start(more, about(hook, "a"), about(hook, "b"), about(hook, "c"), more, about(hook, "d"))
		open(workflow.Outcome{}, nil)
		w.set("module-kubernetes-event m/more", returns(workflow.Outcome{}))
		for range 2 {
			w.pause(workflow.PauseTarget{Queue: "main"})
			w.crash()
			w.start(newStart())
			if tasks := w.pending("main"); tasks[0].Claim.End != tasks[2].Slot {
				t.Errorf("the claim of the first task ends in slot %d, want %d", tasks[0].Claim.End, tasks[2].Slot)
			}
			w.resume(workflow.PauseTarget{Queue: "main"})
			w.sleep(time.Minute)
			if ran := w.ran(); !slices.Contains(ran, "release-check m") {
				t.Errorf("the start waited for the effect that fails: %q", ran)
			}
		}
		w.locked(func() { delete(errs, "old") })
		w.sleep(time.Hour)
		w.expect("module-kubernetes-event m/more", "module-kubernetes-event m/h")
		if r := w.records(2)[len(w.records(2))-1]; r.State != store.Done || r.Merged != 3 {
			t.Errorf("the record of the batch is %+v", r)
		}
		w.expectAllEnded()
	})
}

func TestEventsOfALongBacklogThatHaveBegunTheirEffectsPrecedeTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnabling(t)
		w.unchecked()
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		hook := on(lifecycle.OnModuleKubeEvent, "m", "h")
		w.set("module-kubernetes-event m/h", returns(effects("old")))
		w.effect = func(_ context.Context, t workflow.Task, _ workflow.Effect) error {
			if len(t.Batch) < 1000 {
				return errors.New("503")
			}
			return nil
		}
		open := w.gate("module-kubernetes-event m/before")
		w.start(on(lifecycle.OnModuleKubeEvent, "m", "before"))
		w.quietly(func(raise func(...workflow.Event)) {
			for i := range 1100 {
				raise(about(hook, fmt.Sprint("backlog", i)))
			}
			raise(about(hook, "a"))
		})
		open(workflow.Outcome{}, nil)
		w.ran()
		if n := len(w.pending("main")); n != 101 {
			t.Fatalf("%d tasks are in the queue, want 101", n)
		}
		w.crash()
		start := w.gate("global-onstartup g")
		w.start(newStart())
		w.doEffects(nil)
		w.raise(about(hook, "a"))
		w.sleep(time.Minute)
		w.expect("global-onstartup g")
		start(workflow.Outcome{}, nil)
		w.expect("discover-modules", "module-kubernetes-event m/h")
		w.expectAllEnded()
	})
}

// TestTheEffectsOfAnInterruptedDeletionPrecedeTheNextStart crashes the operator while an effect of a deletion waits for
// its retry. The effect must be executed before the start run. The deletion itself begins again after the start run,
// because the module may be enabled again.
func TestTheEffectsOfAnInterruptedDeletionPrecedeTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEnabling(t)
		w.discovers(modules("m"), nil, nil)
		w.lists(lifecycle.GlobalOnStartup, hooks("g")...)
		w.itemsOf(lifecycle.ModuleBeforeDelete, "h")
		w.set("module-beforedeletehelm d/h", returns(effects("old")))
		errs := map[string]error{"old": errors.New("503")}
		done := w.doEffects(errs)
		w.start()
		w.appliesConfig(map[graph.FanOut][]graph.Item{lifecycle.SwitchedOff: modules("d", "e")}, lifecycle.ModuleChanged)
		w.expect("configmap-changed", "module-delete d", "module-beforedeletehelm d/h")
		w.crash()
		w.locked(func() { delete(errs, "old") })
		w.set("module-beforehelm m/c", returns(effects("new")))
		*done = nil
		w.start(newStart())
		w.sleep(time.Minute)
		if !slices.Equal(*done, []string{"old", "new", "old"}) {
			t.Errorf("the executed effects are %q", *done)
		}
		w.expect("global-onstartup g", "discover-modules",
			"module-run m", "module-onstartup m/a", "module-onstartup m/b", "module-beforehelm m/c", "release-check m",
			"module-delete d", "module-beforedeletehelm d/h", "release-delete d",
			"module-delete e", "module-beforedeletehelm e/h", "release-delete e")
		w.expectAllEnded()
	})
}
