package workflow_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// changeConfig raises a change of the ConfigMap that changes global values.
func (w *fixture) changeConfig() {
	w.t.Helper()
	w.reports(string(lifecycle.ConfigMapChanged), lifecycle.GlobalChanged)
	w.raise(on(lifecycle.OnConfigMap))
}

func TestCutPutsAReloadAtTheTailWhereNoneIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.start()
		open := w.gate("module-run m")
		w.raise(on(lifecycle.OnResourcesAbsent, "m"), on(lifecycle.OnResourcesAbsent, "n"))
		w.changeConfig()
		open(workflow.Outcome{}, nil)
		w.expect("module-run m", "configmap-changed", "module-run n", "release-check n", "discover-modules")
	})
}

func TestCutNeedsNothingBeforeARunIsPastItsBeginning(t *testing.T) {
	for _, c := range []struct {
		what string
		at   string // the task that runs when the ConfigMap changes
		want []string
	}{
		{"in a start run before", "global-onstartup a", []string{"global-onstartup a", "configmap-changed", "discover-modules", "module-run m"}},
		{"in a reload that waits", "module-run x", []string{"module-run x", "configmap-changed", "discover-modules", "module-run m"}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.reports("module-run m")
				w.discovers(modules("m"), nil, nil)
				w.lists(lifecycle.GlobalOnStartup, hooks("a")...)
				open := w.gate(c.at)
				if c.at == "module-run x" {
					w.start(on(lifecycle.OnResourcesAbsent, "x"), in("q", on(lifecycle.OnGlobalSchedule, "", "h")))
					w.reports("global-schedule-event h", lifecycle.GlobalChanged)
					w.raise(in("q", on(lifecycle.OnGlobalSchedule, "", "h")))
					w.ran()
					c.want[0] = "configmap-changed"
					c.want = append(c.want[:1], c.want[2:]...)
				} else {
					w.start(on(lifecycle.OnStart))
				}
				before := w.pending("main")
				w.changeConfig()
				if n := len(w.pending("main")); n != len(before)+1 {
					t.Errorf("main holds %d tasks, want %d and configmap-changed", n, len(before))
				}
				open(workflow.Outcome{}, nil)
				w.expect(c.want...)
				runs := w.runs()
				last := runs[len(runs)-1]
				if last.Joined == 0 || last.Open != 0 {
					t.Errorf("the run of the change is %+v", last)
				}
			})
		})
	}
}

func TestCutTakesARunDownToItsBeginningInTheSameRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.lists(lifecycle.GlobalBeforeAll, hooks("g")...)
		w.discovers(modules("one", "two"), nil, nil)
		open := w.gate("release-check one")
		w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "other"))
		w.expect("global-beforeall g", "discover-modules", "module-run one", "release-check one")
		w.changeConfig()
		w.reports("release-check one")
		open(workflow.Outcome{}, nil)
		w.expect("configmap-changed", "global-beforeall g", "discover-modules",
			"module-run one", "release-check one", "module-run two", "release-check two", "module-run other", "release-check other")
		runs := w.runs()
		if runs[2].Joined != 1 {
			t.Errorf("the run of the change joined %d, want 1", runs[2].Joined)
		}
		want := []string{
			"done global-beforeall g", "done discover-modules", "done module-run one", "done release-check one",
			"superseded module-afterhelm one", "superseded module-run", "superseded global-afterall",
			"done global-beforeall g", "done discover-modules", "done module-run one", "done release-check one",
			"done module-run two", "done release-check two",
		}
		if diff := cmp.Diff(want, w.history(1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCutReachesAFailingHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		w.fails("release-check m", 1)
		w.start(on(lifecycle.OnStart))
		w.ran()
		w.changeConfig()
		w.expect("configmap-changed", "discover-modules", "module-run m", "release-check m")
		w.sleep(time.Minute)
		w.expect()
	})
}

func TestChangeRevivesAFailingHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.fails("module-run m", 4)
		w.fails("module-kubernetes-event m/h b", 4)
		w.start(on(lifecycle.OnResourcesAbsent, "m"), in("q", on(lifecycle.OnModuleKubeEvent, "m", "h", "b")))
		w.sleep(36 * time.Second)
		w.ran()
		w.raise(on(lifecycle.OnConfigMap))
		w.expect("configmap-changed")
		w.reports("configmap-changed", lifecycle.ModuleChanged)
		w.raise(on(lifecycle.OnConfigMap))
		w.expectAny("configmap-changed", "module-run m", "module-kubernetes-event m/h b")
		w.sleep(time.Minute)
		w.expect()
	})
}

func TestDeletePastItsUninstallFinishesWhenCut(t *testing.T) {
	for _, c := range []struct {
		what, at string
		want     []string
	}{
		{"past", "module-afterdeletehelm h1", []string{
			"configmap-changed", "module-afterdeletehelm h2", "discover-modules", "module-delete off", "release-delete off",
			"module-afterdeletehelm h1", "module-afterdeletehelm h2",
		}},
		{"before", "module-delete off", []string{
			"configmap-changed", "discover-modules", "module-delete off", "release-delete off",
			"module-afterdeletehelm h1", "module-afterdeletehelm h2",
		}},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.lists(lifecycle.ModuleAfterDelete, hooks("h1", "h2")...)
				w.discovers(nil, modules("off"), nil)
				open := w.gate(c.at)
				w.start(on(lifecycle.OnStart))
				w.ran()
				w.changeConfig()
				w.set(c.at, returns(workflow.Outcome{Facts: []graph.Fact{lifecycle.Unwanted}}))
				open(workflow.Outcome{Facts: []graph.Fact{lifecycle.Unwanted}}, nil)
				w.expect(c.want...)
			})
		})
	}
}

func TestJournalOnTopFinishesWithoutSuccessorsWhenCut(t *testing.T) {
	for _, at := range []string{"release-upgrade m", "global-beforeall g", "global-afterall z"} {
		t.Run(at, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.lists(lifecycle.GlobalBeforeAll, hooks("g")...)
				w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
				w.discovers(modules("m"), nil, nil)
				w.reports("release-check m", lifecycle.Outdated)
				w.set(at, returns(effects("one")))
				w.effect = func(ctx context.Context, _ workflow.Task, _ workflow.Effect) error {
					<-ctx.Done()
					return ctx.Err()
				}
				applied := 0
				w.apply = func(_ *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
					if name(t.Node, t.Subject) == at {
						applied++
					}
					return nil, nil
				}
				w.start(on(lifecycle.OnStart))
				if applied != 0 {
					t.Fatal("the effect ended")
				}
				w.restart()
				w.ran()
				done := w.doEffects(nil)
				w.reports(string(lifecycle.ConfigMapChanged), lifecycle.GlobalChanged)
				w.start(on(lifecycle.OnConfigMap))
				want := []string{
					"configmap-changed", "global-beforeall g", "discover-modules", "module-run m", "release-check m",
					"release-upgrade m", "global-afterall z",
				}
				w.expect(want...)
				if diff := cmp.Diff([]string{"one", "one"}, *done); diff != "" {
					t.Errorf("effects (-want +got):\n%s", diff)
				}
				if applied != 1 {
					t.Errorf("Apply was called %d times, want once, and not for the abandoned task", applied)
				}
				dropped := 0
				for _, line := range w.history(1) {
					if line == "dropped "+at {
						dropped++
					}
				}
				if dropped != 1 {
					t.Errorf("history has %d dropped tasks: %q", dropped, w.history(1))
				}
				w.expectPending("main")
			})
		})
	}
}

func TestCutTakesAwayMembersThatWaitAndLeavesThoseThatRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.reports("module-run m", lifecycle.JustEnabled)
		w.discovers(modules("m"), nil, nil)
		w.lists(lifecycle.ModuleSynchronization,
			graph.Item{Subject: graph.Subject{Module: "m", Hook: "runs"}, Queue: "q1", Wait: true},
			graph.Item{Subject: graph.Subject{Module: "m", Hook: "waits"}, Queue: "q2", Wait: true})
		runs, block := w.gate("module-kubernetes-synchronization m/runs"), w.gate("module-schedule-event x/h")
		w.start(on(lifecycle.OnStart), in("q2", on(lifecycle.OnModuleSchedule, "x", "h")))
		w.ran()
		w.reports(string(lifecycle.ConfigMapChanged), lifecycle.GlobalChanged)
		second := w.gate("discover-modules")
		w.raise(on(lifecycle.OnConfigMap))
		w.expectPending("q1", "module-kubernetes-synchronization m/runs")
		w.expectPending("q2", "module-schedule-event x/h")
		second(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{lifecycle.Enabled: modules("m")}}, nil)
		w.expectPending("q1", "module-kubernetes-synchronization m/runs")
		w.expectPending("q2", "module-schedule-event x/h", "module-kubernetes-synchronization m/waits")
		w.ran()
		block(workflow.Outcome{}, nil)
		w.expect("module-kubernetes-synchronization m/waits")
		runs(workflow.Outcome{}, nil)
		w.expect("release-check m")
	})
}

func TestStartTakesThePlaceOfAnUnfinishedReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		w.gate("module-run m")
		w.start(on(lifecycle.OnStart), on(lifecycle.OnResourcesAbsent, "other"))
		w.reports("global-schedule-event h", lifecycle.GlobalChanged)
		w.raise(in("q", on(lifecycle.OnGlobalSchedule, "", "h")))
		w.restart()
		w.ran()
		w.reports("module-run m")
		again := on(lifecycle.OnStart)
		again.Supersedes = lifecycle.GlobalBeforeAll
		w.start(again)
		w.expect("discover-modules", "module-run m", "module-run other", "release-check other")
		runs := w.runs()
		if runs[0].Joined != 4 || runs[2].Joined != 4 {
			t.Errorf("the runs of the unfinished and of the waiting reload joined runs %d and %d, want run 4", runs[0].Joined, runs[2].Joined)
		}
	})
}

func TestWhatRunsWhileItIsSupersededEndsAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		old := w.gate("module-run m")
		w.start(on(lifecycle.OnStart))
		w.ran()
		again := on(lifecycle.OnStart)
		again.Supersedes = lifecycle.GlobalBeforeAll
		w.raise(again)
		w.expect()
		w.reports(string(lifecycle.ConfigMapChanged), lifecycle.GlobalChanged)
		w.raise(on(lifecycle.OnConfigMap)) // the new start has yet to reach step 3, so no run is rewound
		old(workflow.Outcome{Facts: []graph.Fact{lifecycle.AlreadyStarted}}, nil)
		w.expect("configmap-changed", "discover-modules", "module-run m")
		old(workflow.Outcome{}, nil)
		w.expect()
		if diff := cmp.Diff("dropped module-run m", w.history(1)[len(w.history(1))-1]); diff != "" {
			t.Error(diff)
		}
	})
}

func TestListWithMembersElsewhereIsFoundAfterItWasLifted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// The node to which the rewind leads is uninterruptible and has a fan-out. The rewind lifts
		// the fan-out task while an item of this task runs in a queue of its own.
		g := newGraph([]graph.Node{{ID: "top", ForEach: "some", Uninterruptible: true, Scope: graph.ScopeBinding}, {ID: "after"}, {ID: "change"}},
			graph.Edge{On: "go", To: "top", Place: graph.Tail}, graph.Edge{From: "top", To: "after"},
			graph.Edge{On: "change", To: "change", Place: graph.Front}, graph.Edge{From: "change", To: "top", Place: graph.Rewind})
		w := newFixture(t, g)
		w.lists("top", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true})
		far := w.gate("top far")
		w.start(on("go"))
		w.raise(on("change"))
		w.expect("top far", "change")
		far(workflow.Outcome{}, nil)
		w.expect("after", "top far")
		far(workflow.Outcome{}, nil)
		w.expect("after")
		w.expectPending("main")
	})
}

func TestCutStackKeepsTheListThatWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A fan-out in queue q waits for a run in the main queue. This run is rewound.
		g := newGraph([]graph.Node{{ID: "find"}, {ID: "run"}, {ID: "ran"}, {ID: "last"}, {ID: "change"}},
			graph.Edge{On: "go", To: "find", Place: graph.BindingQueue}, graph.Edge{From: "find", To: "run", ForEach: "all"}, graph.Edge{From: "find", To: "last"},
			graph.Edge{From: "run", To: "ran"},
			graph.Edge{On: "change", To: "change", Place: graph.Front}, graph.Edge{From: "change", To: "run", Place: graph.Rewind})
		w := newFixture(t, g)
		w.set("find", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": {{Queue: "main", Wait: true}}}}))
		w.fails("ran", 1)
		w.start(in("q", on("go")))
		w.expect("find", "run", "ran")
		w.raise(on("change"))
		w.expect("change", "run", "ran", "last")
	})
}

func TestRunThatStartsOverStaysPastTheBeginningACutLeadsTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "top"}, {ID: "middle"}, {ID: "low", RetryFrom: "middle"}, {ID: "change"}},
			graph.Edge{On: "go", To: "top", Place: graph.Tail}, graph.Edge{From: "top", To: "middle"}, graph.Edge{From: "middle", To: "low"},
			graph.Edge{On: "change", To: "change", Place: graph.Front}, graph.Edge{From: "change", To: "top", Place: graph.Rewind})
		w := newFixture(t, g)
		w.fails("low", 1)
		w.start(on("go"))
		w.raise(on("change"))
		w.expect("top", "middle", "low", "change", "top", "middle", "low")
		w.sleep(time.Minute)
		w.expect()
	})
}

func TestListOfRunsThatFinishIsCutWhereTheyHaveNotBegun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "top"}, {ID: "block"}, {ID: "fin", Scope: graph.ScopeModule, Uninterruptible: true}, {ID: "change"}},
			graph.Edge{On: "hold", To: "block", Place: graph.BindingQueue},
			graph.Edge{On: "go", To: "top", Place: graph.Tail}, graph.Edge{From: "top", To: "fin", ForEach: "all"},
			graph.Edge{On: "change", To: "change", Place: graph.Front}, graph.Edge{From: "change", To: "top", Place: graph.Rewind})
		w := newFixture(t, g)
		block := w.gate("block")
		w.set("top", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": {{Subject: graph.Subject{Module: "m"}, Queue: "q", Wait: true}}}}))
		w.start(in("q", on("hold")))
		w.raise(on("go"))
		w.set("top", returns(workflow.Outcome{}))
		w.raise(on("change"))
		block(workflow.Outcome{}, nil)
		w.expect("block", "top", "change", "top")
		w.expectPending("main")
	})
}

func TestListThatWaitsForARunThatIsSupersededGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "find"}, {ID: "run"}, {ID: "ran"}, {ID: "last"}, {ID: "change"}},
			graph.Edge{On: "go", To: "find", Place: graph.BindingQueue}, graph.Edge{From: "find", To: "run", ForEach: "all"}, graph.Edge{From: "find", To: "last"},
			graph.Edge{From: "run", To: "ran"}, graph.Edge{On: "repeat", To: "run", Place: graph.Front},
			graph.Edge{On: "change", To: "change", Place: graph.Front}, graph.Edge{From: "change", To: "run", Place: graph.Rewind})
		w := newFixture(t, g)
		w.set("find", returns(workflow.Outcome{Items: map[graph.FanOut][]graph.Item{"all": {{Queue: "main", Wait: true}}}}))
		w.fails("ran", 1)
		w.start(in("q", on("go")))
		w.expect("find", "run", "ran")
		repeat := on("repeat")
		repeat.Supersedes = "run"
		w.raise(repeat)
		w.expectAny("run", "ran", "last")
	})
}

func TestCutTakesAwayMembersOfAListThatHasBegunItsEffects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGraph([]graph.Node{{ID: "top", ForEach: "some", Scope: graph.ScopeBinding}, {ID: "after"}, {ID: "block"}, {ID: "change"}},
			graph.Edge{On: "hold", To: "block", Place: graph.BindingQueue}, graph.Edge{On: "go", To: "top", Place: graph.Tail}, graph.Edge{From: "top", To: "after"},
			graph.Edge{On: "change", To: "change", Place: graph.Front}, graph.Edge{From: "change", To: "top", Place: graph.Rewind})
		w := newFixture(t, g)
		block := w.gate("block")
		w.lists("top", graph.Item{Subject: graph.Subject{Hook: "far"}, Queue: "q", Wait: true}, graph.Item{Subject: graph.Subject{Hook: "near"}})
		w.set("top near", returns(effects("one")))
		errs := map[string]error{"one": errors.New("503")}
		done := w.doEffects(errs)
		w.start(in("q", on("hold")))
		w.raise(on("go"))
		w.raise(on("change"))
		w.expect("block", "top near", "change")
		w.expectPending("q", "block")
		w.locked(func() { delete(errs, "one") })
		w.sleep(5 * time.Second)
		block(workflow.Outcome{}, nil)
		// The effect is done for the old fan-out, then the fan-out is created again.
		w.expect("top near", "top far", "after")
		if diff := cmp.Diff([]string{"one", "one", "one"}, *done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWhatOnlyFinishesIsNotCutAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("m"), nil, nil)
		w.reports("release-check m", lifecycle.Outdated)
		w.set("release-upgrade m", returns(effects("one")))
		errs := map[string]error{"one": errors.New("503")}
		w.doEffects(errs)
		w.start(on(lifecycle.OnStart))
		w.ran()
		again := on(lifecycle.OnStart)
		again.Supersedes = lifecycle.GlobalBeforeAll
		w.raise(again)
		w.changeConfig()
		w.expect("configmap-changed")
		w.locked(func() { delete(errs, "one") })
		w.reports("release-check m")
		w.sleep(time.Minute) // the effect is retried before the new start run begins
		w.expect("discover-modules", "module-run m", "release-check m")
		w.expectPending("main")
	})
}

func TestConvergeIsRewoundAtMostThreeTimesInARowAndThenRunsToItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newLifecycle(t)
		w.discovers(modules("a", "b", "c"), nil, nil)
		w.lists(lifecycle.GlobalAfterAll, hooks("z")...)
		b := w.gate("release-check b")
		w.start(on(lifecycle.OnStart))
		for range 6 { // each change comes while module b runs
			w.changeConfig()
			b(workflow.Outcome{}, nil)
		}
		converge := func(ends ...string) []string {
			return append([]string{"discover-modules", "module-run a", "release-check a", "module-run b", "release-check b"}, ends...)
		}
		end := []string{"module-run c", "release-check c", "global-afterall z"}
		var want []string
		for range 4 { // once for the first converge, and once for each of three rewinds
			want = append(append(want, converge()...), "configmap-changed")
		}
		want = append(append(want, end...), converge()...)              // the fourth change did not rewind the converge
		want = append(append(want, "configmap-changed"), converge()...) // a new converge is rewound again
		w.expect(append(append(want, "configmap-changed"), converge()...)...)
		b(workflow.Outcome{}, nil)
		w.expect(end...)
		w.expectAllEnded()
	})
}

func TestConvergeThatIsStuckIsRewoundByEveryChange(t *testing.T) {
	const synchronization, event = "module-kubernetes-synchronization b/h s", "global-kubernetes-event g b"
	for name, c := range map[string]struct {
		modules []graph.Item
		fails   string
		started bool // whether module b runs its Synchronization, which has a queue of its own
	}{
		"by a step in the main queue":             {modules("a", "b"), "release-check b", false},
		"by a step in a parallel queue":           {group("10", 2, "a", "b"), "release-check b", false},
		"by a Synchronization":                    {modules("a", "b"), synchronization, true},
		"by a Synchronization of a parallel run":  {group("10", 2, "a", "b"), synchronization, true},
		"by an event before a Synchronization":    {modules("a", "b"), event, true},
		"by an event before that of parallel run": {group("10", 2, "a", "b"), event, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newLifecycle(t)
				w.discovers(c.modules, nil, nil)
				if c.started {
					w.reports("module-run b", lifecycle.JustEnabled)
					w.lists(lifecycle.ModuleSynchronization, graph.Item{Subject: graph.Subject{Module: "b", Hook: "h", Binding: "s"}, Queue: "q", Wait: true})
				}
				w.fails(c.fails, 1000)
				events := []workflow.Event{on(lifecycle.OnStart)}
				if c.fails == event {
					events = append(events, in("q", on(lifecycle.OnGlobalKubeEvent, "", "g", "b")))
				}
				w.start(events...)
				for range 8 {
					w.sleep(time.Minute)
					w.ran()
					w.changeConfig()
					w.expectAny("configmap-changed", "discover-modules", "module-run a", "release-check a", "module-run b", c.fails)
				}
			})
		})
	}
}
