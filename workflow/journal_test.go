package workflow_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// effects returns an outcome with effects of these kinds.
func effects(kinds ...string) (out workflow.Outcome) {
	for _, kind := range kinds {
		out.Effects = append(out.Effects, workflow.Effect{Kind: kind, Data: json.RawMessage(`{}`)})
	}
	return out
}

// doEffects records the kinds of the executed effects in the returned slice. An effect fails if
// errs has an error for its kind.
func (w *fixture) doEffects(errs map[string]error) *[]string {
	done := new([]string)
	w.locked(func() {
		w.effect = func(_ context.Context, t workflow.Task, e workflow.Effect) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			*done = append(*done, e.Kind)
			return errs[e.Kind]
		}
	})
	return done
}

func TestEffectsAreDoneInOrderBetweenTwoCommits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "a"}, graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		open := w.gate("a")
		w.set("n", returns(effects("one", "two")))
		w.gate("after")
		done := w.doEffects(nil)
		w.apply = func(_ *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			*done = append(*done, "apply "+t.Node)
			return nil, nil
		}
		w.start(on("go"))
		before := w.mem.Commits()
		open(workflow.Outcome{}, nil)
		if diff := cmp.Diff([]string{"apply a", "one", "two", "apply n"}, *done); diff != "" {
			t.Error(diff)
		}
		if n := w.mem.Commits() - before; n != 3 {
			t.Errorf("%d commits for a step and a step with effects, want 3", n)
		}
		w.expect("a", "n", "after")
	})
}

func TestCrashDuringEffectsGoesOnWithTheFirstEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one", "two")))
		w.effect = func(ctx context.Context, _ workflow.Task, e workflow.Effect) error {
			if e.Kind == "two" {
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		}
		w.start(on("go"))
		w.expect("n")
		w.restart()
		done := w.doEffects(nil)
		var previous workflow.Previous
		w.apply = func(_ *store.Tx, t workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			if t.Node == "n" {
				previous = t.Previous
			}
			return nil, nil
		}
		w.start()
		w.expect("after")
		if diff := cmp.Diff([]string{"one", "two"}, *done); diff != "" {
			t.Error(diff)
		}
		if previous != workflow.Interrupted {
			t.Errorf("Apply received %q", previous)
		}
	})
}

func TestEffectsKnowWhatWasNotedOfThemUntilTheTaskMovesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one", "two")))
		var observed []string
		cut := true
		w.effect = func(ctx context.Context, t workflow.Task, e workflow.Effect) error {
			return w.db.Update(func(tx *store.Tx) error {
				note, _, err := store.LoadNote[string](tx, t.ID)
				observed = append(observed, fmt.Sprintf("%s %t %q", e.Kind, t.Resumed, note))
				if e.Kind == "two" && cut {
					return errors.New("503")
				}
				return errors.Join(err, store.SaveNote(tx, t.ID, note+e.Kind))
			})
		}
		w.start(on("go"))
		w.restart()
		cut = false
		w.start()
		w.sleep(time.Minute)
		want := []string{`one false ""`, `two false "one"`, `one true "one"`, `two true "oneone"`}
		if diff := cmp.Diff(want, observed); diff != "" {
			t.Error(diff)
		}
		if err := w.db.Update(func(tx *store.Tx) error { return store.SaveNote(tx, store.ID{Epoch: 1, N: 1}, "late") }); err == nil {
			t.Error("a note was saved for a task that has ended")
		}
	})
}

func TestNotesOfAnAttemptThatWasRefusedAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one")))
		var found []bool
		w.effect = func(_ context.Context, t workflow.Task, _ workflow.Effect) error {
			err := w.db.Update(func(tx *store.Tx) error {
				_, known, err := store.LoadNote[string](tx, t.ID)
				found = append(found, known, t.Resumed)
				return errors.Join(err, store.SaveNote(tx, t.ID, "x"))
			})
			if len(found) == 2 {
				return workflow.Refused(errors.New("403"))
			}
			return err
		}
		w.start(on("go"))
		w.sleep(time.Minute)
		if diff := cmp.Diff([]bool{false, false, false, false}, found); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAJournalOfANodeThatAnUpgradeRemovesGoesWithItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, eventGraph())
		w.set("event", returns(effects("one")))
		w.effect = func(ctx context.Context, _ workflow.Task, _ workflow.Effect) error {
			<-ctx.Done()
			return ctx.Err()
		}
		w.start(on("event", "m", "h", "b"))
		w.expect("event m/h b")
		if n := w.count(store.Journal); n != 1 {
			t.Fatalf("%d journals", n)
		}
		w.restart()
		w.upgrade(newGraph([]graph.Node{{ID: "tick", Scope: graph.ScopeBinding}}, graph.Edge{On: "tick", To: "tick", Place: graph.BindingQueue}))
		w.start()
		if tasks, journals := w.count(store.Queues), w.count(store.Journal); tasks != 0 || journals != 0 {
			t.Errorf("%d tasks and %d journals are left", tasks, journals)
		}
	})
}

func TestEffectThatFailsIsTriedAgainFromTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "first", Unique: true}, graph.Node{ID: "n", RetryFrom: "first", Scope: graph.ScopeBinding}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one", "two")))
		errs := map[string]error{"two": errors.New("503")}
		done := w.doEffects(errs)
		w.start(workflow.Event{On: "go", AllowFailure: true})
		task := w.pending("main")[0]
		if !task.Journal || task.Failed == nil || task.Failed.Count != 1 || task.Node != "n" {
			t.Errorf("the task is %+v", task)
		}
		w.sleep(5 * time.Second)
		w.locked(func() { delete(errs, "two") })
		w.sleep(time.Minute)
		w.expectAt("0 first", "0 n", "15 after")
		if diff := cmp.Diff([]string{"one", "two", "one", "two", "one", "two"}, *done); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff([]string{"done first", "failed n", "failed n", "done n", "done after"}, w.history(1)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRefusedEffectDropsTheJournalAndTheHookRunsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one", "two")))
		errs := map[string]error{"one": workflow.Refused(errors.New("403"))}
		done := w.doEffects(errs)
		w.start(on("go"))
		if task := w.pending("main")[0]; task.Journal || task.Failed == nil || !strings.Contains(task.Failed.Error, "403") {
			t.Errorf("the task is %+v", task)
		}
		w.locked(func() { delete(errs, "one") })
		w.sleep(time.Minute)
		w.expectAt("0 n", "5 n", "5 after")
		if diff := cmp.Diff([]string{"one", "one", "two"}, *done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestRefusedEffectOfAHookWithAllowFailureIsAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, listGraph(graph.Node{}))
		w.lists("each", graph.Item{Subject: graph.Subject{Hook: "a"}, AllowFailure: true})
		w.set("each a", returns(effects("one")))
		w.doEffects(map[string]error{"one": workflow.Refused(errors.New("403"))})
		w.start(on("go"))
		w.expect("each a", "next")
		if r := w.records(1)[0]; r.State != store.Allowed || !strings.Contains(r.Error, "403") {
			t.Errorf("record %+v", r)
		}
	})
}

func TestApplyThatFailsAfterEffectsDropsTheJournal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t, chain(graph.Node{ID: "n"}, graph.Node{ID: "after"}))
		w.set("n", returns(effects("one")))
		done := w.doEffects(nil)
		fail := true
		w.apply = func(tx *store.Tx, _ workflow.Task, _ workflow.Outcome) ([]graph.Fact, error) {
			if fail {
				fail = false
				return nil, errors.New("stale")
			}
			return nil, nil
		}
		w.start(on("go"))
		if task := w.pending("main")[0]; task.Journal || task.Failed == nil {
			t.Errorf("the task is %+v", task)
		}
		w.sleep(time.Minute)
		w.expectAt("0 n", "5 n", "5 after")
		if diff := cmp.Diff([]string{"one", "one"}, *done); diff != "" {
			t.Error(diff)
		}
	})
}

func TestEffectOfAStepThatDoesNoneIsAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := chain(graph.Node{ID: "n"})
		w := newFixture(t, g)
		w.bind(g, "n", doing(returns(effects("one"))))
		w.start(on("go"))
		if f := w.pending("main")[0].Failed; f == nil || !strings.Contains(f.Error, `cannot do the effect "one"`) {
			t.Errorf("failure %+v", f)
		}
	})
}

// doing is a step that has only the method Do.
type doing func(context.Context, workflow.Task) (workflow.Outcome, error)

func (d doing) Do(ctx context.Context, t workflow.Task) (workflow.Outcome, error) { return d(ctx, t) }
