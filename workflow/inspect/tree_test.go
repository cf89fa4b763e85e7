package inspect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// A pastAttempt is an attempt of run 1.
type pastAttempt struct {
	node    graph.NodeID
	subject string // as in "module/hook binding"
	state   store.State
	change  func(*store.Record)
}

// past writes the attempts of run 1, which has ended. Each attempt takes a second and ends a second after the previous
// one.
func (w *writtenHistory) past(attempts ...pastAttempt) {
	w.t.Helper()
	began := w.now
	for i, a := range attempts {
		w.update(func(tx *store.Tx) error {
			r := store.Record{
				Run: 1, Task: store.ID{Epoch: 1, N: uint64(i + 1)}, Node: string(a.node), Subject: subject(a.subject), Queue: "main", State: a.state, Try: 1, //nolint:gosec // the index is small
				Began: tx.Now().Add(-time.Second), Ended: tx.Now(),
			}
			if a.change != nil {
				a.change(&r)
			}
			return store.AddRecord(tx, r)
		})
	}
	w.update(func(tx *store.Tx) error {
		return store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: lifecycle.Graph.Name, Trigger: "start", Began: began, Ended: w.now})
	})
}

// restart closes the store and opens it with the next epoch.
func (w *writtenHistory) restart() {
	w.t.Helper()
	w.close()
	var err error
	if w.db, err = store.OpenMemory(w.mem, store.Options{Clock: func() time.Time { return w.now }}); err != nil {
		w.t.Fatal(err)
	}
}

// subject returns the subject that text names.
func subject(text string) (s graph.Subject) {
	text, s.Binding, _ = strings.Cut(text, " ")
	s.Module, s.Hook, _ = strings.Cut(text, "/")
	return s
}

// treeOf returns a line for each step, indented by its level. Steps without a number are of another version of the
// graph.
func treeOf(steps []inspect.Step) (lines []string) {
	for i := range steps {
		s := &steps[i]
		lines = append(lines, strings.Join(strings.Fields(fmt.Sprint(s.Number, " ", s.Subject.String(), " ", s.State)), " "))
		for _, line := range treeOf(s.Steps) {
			lines = append(lines, ". "+line)
		}
	}
	return lines
}

func TestStepsAreATreeOfNodesModulesAndHooks(t *testing.T) {
	t.Parallel()
	done := func(node graph.NodeID, subject string) pastAttempt {
		return pastAttempt{node, subject, store.Done, nil}
	}
	failed := func(node graph.NodeID, subject string) pastAttempt {
		return pastAttempt{node, subject, store.Failed, nil}
	}
	for name, test := range map[string]struct {
		attempts []pastAttempt
		want     []string
		passes   int
	}{
		"global hooks": {
			[]pastAttempt{done(lifecycle.GlobalBeforeAll, "/a"), done(lifecycle.GlobalBeforeAll, "/b"), done(lifecycle.DiscoverModules, "")},
			[]string{"3 done", ". 3 a done", ". 3 b done", "4 done"},
			1,
		},
		"steps of a module are in the order of the graph": {
			[]pastAttempt{done(lifecycle.ModuleRun, "web"), done(lifecycle.ReleaseCheck, "web"), done(lifecycle.ModuleBeforeHelm, "web/a")},
			[]string{"5 done", ". 5 web done", ". . 5c web done", ". . . 5c web/a done", ". . 5d web done"},
			1,
		},
		"modules are in the order in which they ran": {
			[]pastAttempt{done(lifecycle.ModuleRun, "web"), done(lifecycle.ModuleRun, "db")},
			[]string{"5 done", ". 5 web done", ". 5 db done"},
			1,
		},
		"a run of a module that starts again shows its failed steps": {
			[]pastAttempt{
				done(lifecycle.ModuleRun, "web"), done(lifecycle.ModuleBeforeHelm, "web/a"), failed(lifecycle.ModuleBeforeHelm, "web/b"), failed(lifecycle.ReleaseUpgrade, "web"),
				done(lifecycle.ModuleRun, "web"),
			},
			[]string{"5 done", ". 5 web done", ". . 5c web done", ". . . 5c web/b failed", ". . 5e web failed"},
			1,
		},
		"a run of a module that starts again drops its done steps": {
			[]pastAttempt{done(lifecycle.ModuleRun, "web"), done(lifecycle.ModuleBeforeHelm, "web/a"), done(lifecycle.ReleaseCheck, "web"), done(lifecycle.ModuleRun, "web")},
			[]string{"5 done", ". 5 web done"},
			1,
		},
		"a step that failed and then succeeded": {
			[]pastAttempt{done(lifecycle.ModuleRun, "web"), failed(lifecycle.ReleaseCheck, "web"), done(lifecycle.ReleaseCheck, "web")},
			[]string{"5 done", ". 5 web done", ". . 5d web done"},
			1,
		},
		"all attempts failed": {
			[]pastAttempt{failed(lifecycle.ReleaseCheck, "web"), failed(lifecycle.ReleaseCheck, "web")},
			[]string{"5 failed", ". 5 web failed", ". . 5d web failed"},
			1,
		},
		"a skipped hook": {
			[]pastAttempt{{lifecycle.GlobalBeforeAll, "/a", store.Skipped, nil}},
			[]string{"3 done", ". 3 a skipped"},
			1,
		},
		"a fan-out whose last item was dropped": {
			[]pastAttempt{done(lifecycle.GlobalBeforeAll, "/a"), {lifecycle.GlobalBeforeAll, "/b", store.Dropped, nil}},
			[]string{"3 dropped", ". 3 a done", ". 3 b dropped"},
			1,
		},
		"a superseded converge": {
			[]pastAttempt{done(lifecycle.GlobalBeforeAll, "/a"), {lifecycle.DiscoverModules, "", store.Superseded, nil}},
			[]string{"3 done", ". 3 a done", "4 superseded"},
			1,
		},
		"a second pass drops the steps of the first": {
			[]pastAttempt{
				done(lifecycle.GlobalOnStartup, "/s"), done(lifecycle.GlobalBeforeAll, "/a"), done(lifecycle.DiscoverModules, ""), done(lifecycle.ModuleRun, "web"),
				done(lifecycle.GlobalBeforeAll, "/a"), done(lifecycle.DiscoverModules, ""),
			},
			[]string{"1 done", ". 1 s done", "3 done", ". 3 a done", "4 done"},
			2,
		},
		"the same node twice is one pass": {
			[]pastAttempt{done(lifecycle.DiscoverModules, ""), done(lifecycle.DiscoverModules, "")},
			[]string{"4 done"},
			1,
		},
		"events are steps of their own": {
			[]pastAttempt{done(lifecycle.ModuleKubernetesEvent, "web/a pods"), done(lifecycle.ModuleKubernetesEvent, "web/a nodes"), done(lifecycle.GlobalScheduleEvent, "/a tick")},
			[]string{"10 web/a pods done", "10 web/a nodes done", "11 a tick done"},
			1,
		},
		"a node of another version": {
			[]pastAttempt{done("module-gone", "web/a"), done("module-gone", "web")},
			[]string{"web/a done", "web done"},
			1,
		},
		"a deletion and a run of the same module": {
			[]pastAttempt{done(lifecycle.ModuleDelete, "web"), done(lifecycle.ReleaseDelete, "web"), done(lifecycle.ModuleRun, "web")},
			[]string{"6 done", ". 6 web done", ". . 6c web done", "5 done", ". 5 web done"},
			1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := writeHistory(t)
			defer w.close()
			w.past(test.attempts...)
			run := w.run(true)
			if diff := cmp.Diff(test.want, treeOf(run.Steps)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if run.Passes != test.passes {
				t.Errorf("the run has %d passes, want %d", run.Passes, test.passes)
			}
		})
	}
}

func TestAStepShowsItsLastAttemptAndItsFailures(t *testing.T) {
	t.Parallel()
	failure := func(try int, text string) pastAttempt {
		return pastAttempt{lifecycle.DiscoverModules, "", store.Failed, func(r *store.Record) { r.Try, r.Error = try, text }}
	}
	success := pastAttempt{lifecycle.DiscoverModules, "", store.Done, func(r *store.Record) {
		r.Try, r.Detail, r.Warning, r.Again, r.Merged, r.Into, r.Queue = 3, "2 modules", "1 is new", true, 4, "1-9", "q"
	}}
	began := func(second int) time.Time { return followTime.Add(time.Duration(second) * time.Second) }
	for name, test := range map[string]struct {
		attempts []pastAttempt
		want     inspect.Step
	}{
		"two failures and a success": {
			[]pastAttempt{failure(1, "first"), failure(2, "second"), success},
			inspect.Step{
				State: inspect.Done, Task: store.ID{Epoch: 1, N: 3}, Queue: "q", Began: began(2), Ended: began(3), Try: 3, Failures: 2, LastError: "second",
				Detail: "2 modules", Warning: "1 is new", Again: true, Merged: 4, Into: "1-9",
			},
		},
		"a failure after older ones that were deleted": {
			[]pastAttempt{failure(7, "seventh"), success},
			inspect.Step{
				State: inspect.Done, Task: store.ID{Epoch: 1, N: 2}, Queue: "q", Began: began(1), Ended: began(2), Try: 3, Failures: 7, LastError: "seventh",
				Detail: "2 modules", Warning: "1 is new", Again: true, Merged: 4, Into: "1-9",
			},
		},
		"only failures": {
			[]pastAttempt{failure(1, "first"), failure(2, "second")},
			inspect.Step{State: inspect.Failed, Task: store.ID{Epoch: 1, N: 2}, Queue: "main", Began: began(1), Ended: began(2), Try: 2, Failures: 2, Error: "second"},
		},
	} {
		w := writeHistory(t)
		w.past(test.attempts...)
		test.want.Node, test.want.Number = string(lifecycle.DiscoverModules), "4"
		if diff := cmp.Diff([]inspect.Step{test.want}, w.run(true).Steps); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		w.close()
	}
}

func TestARunOfAModuleLastsFromItsFirstToItsLastStep(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	w.past(
		pastAttempt{lifecycle.ModuleRun, "web", store.Done, nil}, pastAttempt{lifecycle.ModuleBeforeHelm, "web/a", store.Done, func(r *store.Record) { r.Again = true }},
		pastAttempt{lifecycle.ReleaseCheck, "web", store.Done, nil},
	)
	run := w.run(true)
	module := find(run.Steps, func(s *inspect.Step) bool { return s.Subject.Module == "web" })
	if !module.Began.Equal(followTime) || !module.Ended.Equal(followTime.Add(3*time.Second)) || !module.Again {
		t.Errorf("the run of the module is %+v", module)
	}
	if want := map[inspect.State]int{inspect.Done: 2}; !cmp.Equal(run.Counts, want) { // the steps of the hook and of the release check
		t.Errorf("the steps are counted as %v, want %v", run.Counts, want)
	}
	if want := (&inspect.Progress{Done: 1, Of: 1}); !cmp.Equal(run.Progress, want) {
		t.Errorf("the progress is %+v, want %+v", run.Progress, want)
	}
}

func TestTheLastChangeThatMadeARunStartOverIsShown(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	w.past(pastAttempt{lifecycle.DiscoverModules, "", store.Superseded, nil}, pastAttempt{lifecycle.DiscoverModules, "", store.Superseded, nil}, pastAttempt{lifecycle.DiscoverModules, "", store.Done, nil})
	if got, want := w.run(true).Cut, followTime.Add(2*time.Second); !got.Equal(want) {
		t.Errorf("it started over at %s, want %s", got, want)
	}
}

func TestRestartsOfARunAreCountedByItsEpochs(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer w.close()
	of := func(epoch uint64, again bool) pastAttempt {
		return pastAttempt{lifecycle.DiscoverModules, "", store.Done, func(r *store.Record) { r.Task.Epoch, r.Again = epoch, again }}
	}
	w.past(of(1, false))
	if r := w.run(true).Restarts; r != nil {
		t.Errorf("a run in one epoch has the restarts %+v", r)
	}
	w.update(func(tx *store.Tx) error {
		for i, epoch := range []uint64{4, 6, 6} {
			at := tx.Now().Add(time.Duration(i) * time.Second)
			r := store.Record{Run: 1, Task: store.ID{Epoch: 3, N: 9}, Node: string(lifecycle.DiscoverModules), State: store.Done, Began: at, Ended: at, Again: i > 0}
			if err := store.Save(tx, store.At(store.History).Uint(1).Uint(epoch).Uint(uint64(i+100)), r); err != nil { //nolint:gosec // the index is small
				return err
			}
		}
		return nil
	})
	want := &inspect.Restarts{Count: 5, First: 1, Last: 6, Again: 2, Resumed: w.now.Add(time.Second)}
	if diff := cmp.Diff(want, w.run(true).Restarts); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnOpenRunThatWasInterruptedIsResumedInThisEpoch(t *testing.T) {
	t.Parallel()
	w := writeHistory(t)
	defer func() { w.close() }()
	w.save(queuedEvent("q", 1, "a"))
	w.restart()
	w.restart()
	if diff := cmp.Diff(&inspect.Restarts{Count: 2, First: 1, Last: 3}, w.run(true).Restarts); diff != "" {
		t.Errorf("before an attempt in this epoch (-want +got):\n%s", diff)
	}
	task := queuedEvent("q", 1, "a")
	task.Claim = &store.Claim{Epoch: 3, Since: followTime, Again: true}
	w.save(task)
	if diff := cmp.Diff(&inspect.Restarts{Count: 2, First: 1, Last: 3, Again: 1, Resumed: followTime}, w.run(true).Restarts); diff != "" {
		t.Errorf("during an attempt (-want +got):\n%s", diff)
	}
}

// TestARunIsResumedWithTheFirstAttemptOfItsLastEpoch adds attempts of epoch 2. The attempt that began first must be
// found, whether it is running or has ended, and whatever the order of the records and positions is.
func TestARunIsResumedWithTheFirstAttemptOfItsLastEpoch(t *testing.T) {
	t.Parallel()
	after := func(d time.Duration) time.Time { return followTime.Add(time.Hour + d) }
	running := func(n uint64, since time.Time) store.Task {
		task := queuedEvent(fmt.Sprint("queue-", n), n, fmt.Sprint("hook-", n))
		task.Claim = &store.Claim{Epoch: 2, Since: since}
		return task
	}
	ended := func(hook string, began time.Time) pastAttempt {
		return pastAttempt{lifecycle.ModuleKubernetesEvent, hook, store.Done, func(r *store.Record) { r.Task.Epoch, r.Began = 2, began }}
	}
	for name, c := range map[string]struct {
		past    []pastAttempt
		pending []store.Task
	}{
		"the first of two running attempts": {nil, []store.Task{running(1, after(time.Second)), running(2, after(time.Minute))}},
		"a running attempt":                 {[]pastAttempt{ended("web/a pods", after(time.Minute))}, []store.Task{running(1, after(time.Second))}},
		"an attempt that ended later":       {[]pastAttempt{ended("web/a pods", after(time.Minute)), ended("web/b pods", after(time.Second))}, nil},
		"an attempt that ended":             {[]pastAttempt{ended("web/a pods", after(time.Second))}, []store.Task{running(1, after(time.Minute))}},
		"not an attempt of an earlier epoch": {
			[]pastAttempt{ended("web/a pods", after(-time.Minute)), ended("web/b pods", after(time.Second))}, nil,
		},
	} {
		func() {
			w := writeHistory(t)
			defer func() { w.close() }()
			w.save(queuedEvent("q", 9, "waiting"))
			w.restart()
			w.update(func(tx *store.Tx) error {
				return store.Save(tx, store.At(store.Starts).Uint(2), store.Start{Epoch: 2, Began: after(0)})
			})
			w.past(c.past...)
			w.save(c.pending...)
			if r := w.run(true).Restarts; r == nil || !r.Resumed.Equal(after(time.Second)) {
				t.Errorf("%s: %+v", name, r)
			}
		}()
	}
}

func TestStateOfARunFollowsFromItsRecordItsTasksAndItsProblems(t *testing.T) {
	t.Parallel()
	save := func(w *writtenHistory, change func(*store.Run)) {
		w.update(func(tx *store.Tx) error {
			run := store.Run{ID: 1, Graph: lifecycle.Graph.Name, Began: followTime, Ended: followTime}
			change(&run)
			return store.Save(tx, store.RunKey(1), run)
		})
	}
	step := func(state store.State) pastAttempt {
		return pastAttempt{lifecycle.ModuleKubernetesEvent, "web/a pods", state, nil}
	}
	for name, test := range map[string]struct {
		fill func(*writtenHistory)
		want inspect.State
	}{
		"ended":                       {func(w *writtenHistory) { save(w, func(*store.Run) {}) }, inspect.Done},
		"joined before any step":      {func(w *writtenHistory) { save(w, func(r *store.Run) { r.Joined = 2 }) }, inspect.Joined},
		"joined after a done step":    {func(w *writtenHistory) { w.past(step(store.Done)); save(w, func(r *store.Run) { r.Joined = 2 }) }, inspect.Joined},
		"joined after a dropped step": {func(w *writtenHistory) { w.past(step(store.Dropped)); save(w, func(r *store.Run) { r.Joined = 2 }) }, inspect.Dropped},
		"open without a task":         {func(w *writtenHistory) { save(w, func(r *store.Run) { r.Open, r.Ended = 1, time.Time{} }) }, inspect.Waiting},
		"a waiting task":              {func(w *writtenHistory) { w.save(queuedEvent("q", 1, "a")) }, inspect.Waiting},
		"a running and a waiting task": {
			func(w *writtenHistory) {
				running := queuedEvent("q", 1, "a")
				running.Claim = &store.Claim{Epoch: 1, Since: followTime}
				w.save(running, queuedEvent("q", 2, "b"))
			}, inspect.Running,
		},
		"a failing task": {
			func(w *writtenHistory) {
				failing := queuedEvent("q", 1, "a")
				failing.Failed, failing.Due = &store.Failure{Node: failing.Node, Subject: failing.Subject, Count: 1, Error: "no"}, followTime.Add(time.Hour)
				w.save(failing)
			}, inspect.Failing,
		},
		"an invalid ConfigMap": {
			func(w *writtenHistory) {
				w.past(pastAttempt{lifecycle.ConfigMapChanged, "", store.Done, nil})
				w.update(func(tx *store.Tx) error {
					return store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{Run: 1, Error: "no YAML"})
				})
			}, inspect.Refused,
		},
		"an invalid ConfigMap of another run": {
			func(w *writtenHistory) {
				w.past(pastAttempt{lifecycle.ConfigMapChanged, "", store.Done, nil})
				w.update(func(tx *store.Tx) error {
					return store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{Run: 2, Error: "no YAML"})
				})
			}, inspect.Done,
		},
	} {
		w := writeHistory(t)
		test.fill(w)
		run := w.run(true)
		if run.State != test.want {
			t.Errorf("%s: the run is %s, want %s", name, run.State, test.want)
		}
		if test.want == inspect.Refused && (run.Steps[0].State != inspect.Refused || run.Steps[0].Error != "no YAML") {
			t.Errorf("%s: the step is %+v", name, run.Steps[0])
		}
		w.close()
	}
}

// TestEveryAttemptHasAStepAndEveryCountIsOfAStep writes random attempts of nodes of the lifecycle. The last attempt
// must have a step. The steps must be the same when the snapshot is made twice. The counts must include exactly the
// steps without steps below them.
func TestEveryAttemptHasAStepAndEveryCountIsOfAStep(t *testing.T) {
	t.Parallel()
	var nodes []graph.NodeID
	for _, n := range lifecycle.Graph.Nodes {
		if !n.Junction {
			nodes = append(nodes, n.ID)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		w := writeHistory(t)
		defer w.close()
		attempts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) pastAttempt {
			id := rapid.SampledFrom(nodes).Draw(t, "node")
			node, _ := lifecycle.Graph.Node(id)
			text := map[graph.Scope]string{graph.ScopeModule: "web", graph.ScopeBinding: "web/a pods"}[node.Scope]
			if node.ForEach != "" {
				text = strings.TrimSuffix(text, " pods") + "/" + rapid.SampledFrom([]string{"a", "b"}).Draw(t, "hook")
			}
			return pastAttempt{id, text, rapid.SampledFrom([]store.State{store.Done, store.Failed, store.Skipped, store.Dropped, store.Superseded}).Draw(t, "state"), nil}
		}), 1, 15).Draw(t, "attempts")
		w.past(attempts...)
		run := w.run(true)
		last := attempts[len(attempts)-1]
		if s := find(run.Steps, func(s *inspect.Step) bool { return len(s.Steps) == 0 && s.Task.N == uint64(len(attempts)) }); s == nil || s.Node != string(last.node) || s.Subject != subject(last.subject) {
			if below := find(run.Steps, func(s *inspect.Step) bool { return s.Task.N == uint64(len(attempts)) }); below == nil || below.Node != string(last.node) {
				t.Errorf("the last attempt, %+v, has no step: %q", last, treeOf(run.Steps))
			}
		}
		counts := map[inspect.State]int{}
		var count func([]inspect.Step)
		count = func(steps []inspect.Step) {
			for i := range steps {
				if count(steps[i].Steps); len(steps[i].Steps) == 0 {
					counts[steps[i].State]++
				}
			}
		}
		if count(run.Steps); !cmp.Equal(counts, run.Counts) {
			t.Errorf("the counts are %v, want %v", run.Counts, counts)
		}
		again := w.run(true)
		if again.At = run.At; !cmp.Equal(run, again) {
			t.Errorf("a second snapshot differs: %s", cmp.Diff(run, again))
		}
		if slices.Contains(treeOf(run.Steps), "") {
			t.Errorf("a step has no state: %q", treeOf(run.Steps))
		}
	})
}
