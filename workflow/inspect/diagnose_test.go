package inspect_test

import (
	"context"
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
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// diagnose returns the diagnosis that the reader r makes from the store.
func (w *fixture) diagnose(r inspect.Reader, operator inspect.StatusOperator) *inspect.Diagnosis {
	w.t.Helper()
	r.Graphs = []*graph.Graph{lifecycle.Graph}
	var d *inspect.Diagnosis
	if err := w.db.View(func(tx *store.Tx) (err error) {
		d, err = r.Diagnose(tx, operator)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return d
}

// update calls fn in a transaction that writes to the store.
func (w *fixture) update(fn func(tx *store.Tx) error) {
	w.t.Helper()
	if err := w.db.Update(fn); err != nil {
		w.t.Fatal(err)
	}
}

const forbidden = `exit status 1: Error from server (Forbidden): pods is forbidden: User "system:serviceaccount:ops:operator" cannot list resource "pods" in API group "" in the namespace "shop"`

// TestDiagnosisFindsThePattern compares diagnoses with golden files. Each case sets up a state of the store,
// and checks that the diagnosis finds exactly the wanted patterns.
func TestDiagnosisFindsThePattern(t *testing.T) {
	t.Parallel()
	live := inspect.Reader{Live: true}
	for name, c := range map[string]struct {
		scene    func(*fixture)
		reader   inspect.Reader
		operator inspect.StatusOperator
		want     []inspect.Pattern
	}{
		"nothing": {func(w *fixture) {
			w.raiseStart("v1")
			sleep(time.Minute)
		}, live, inspect.StatusOperator{Store: "/store/store.db", StoreBytes: 1 << 20, FreeBytes: new(uint64(1 << 30))}, nil},
		"failures": {func(w *fixture) {
			w.set(string(lifecycle.ModuleKubernetesEvent), func(_ context.Context, t workflow.Task) (workflow.Outcome, error) {
				if t.Subject.Module == "db" {
					return workflow.Outcome{}, errors.New("exit status 3: no such thing")
				}
				return workflow.Outcome{}, errors.New(forbidden)
			})
			w.raiseStart("v1")
			sleep(time.Minute)
			for i := range 5 {
				ev := event("web", fmt.Sprintf("hook-%d.sh", i))
				ev.Queue = fmt.Sprint("queue-", i)
				w.raise(ev)
			}
			w.raise(event("db", "backup.sh"))
			sleep(time.Minute)
		}, live, inspect.StatusOperator{}, []inspect.Pattern{"failing", inspect.MissingRights}},
		"failing-with-the-same-error": {func(w *fixture) {
			w.fails(string(lifecycle.ModuleKubernetesEvent), "exit status 1: cannot reach the server")
			w.raiseStart("v1")
			sleep(time.Minute)
			for i := range 5 {
				ev := event(fmt.Sprint("app-", i), "sync.sh")
				ev.Queue = fmt.Sprint("queue-", i)
				w.raise(ev)
			}
			sleep(time.Minute)
		}, live, inspect.StatusOperator{}, []inspect.Pattern{"failing"}},
		"failing-since-a-change": {func(w *fixture) {
			w.raiseStart("v1")
			w.raise(event("web", "20-pods.sh"))
			sleep(time.Minute)
			w.raise(edited("7"))
			sleep(time.Minute)
			w.fails(string(lifecycle.ModuleKubernetesEvent), "exit status 3: no class")
			w.raise(event("web", "20-pods.sh"))
			sleep(20 * time.Second)
		}, live, inspect.StatusOperator{}, []inspect.Pattern{"failing"}},
		"crash-loop": {func(w *fixture) {
			w.raiseStart("v1")
			w.takes("release-upgrade web", time.Hour)
			w.discovers("web")
			for range 4 {
				w.raise(on(lifecycle.OnRunRequest, "web"))
				w.crash()
			}
		}, live, inspect.StatusOperator{Namespace: "ops"}, []inspect.Pattern{inspect.CrashLoop}},
		"second-operator": {func(w *fixture) { w.raiseStart("v1") }, live, inspect.StatusOperator{
			Standby: "waiting for Lease ops/addon-operator-leader-election, which addon-operator-7 holds", StandbySince: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Lease: "ops/addon-operator-leader-election", Namespace: "ops", Store: "/store/store.db",
			StoreBytes: 30 << 20, FreeBytes: new(uint64(20 << 20)), Aside: []string{"/store/store.db.cluster-4f0c.1"},
		}, []inspect.Pattern{inspect.SecondOperator, inspect.OtherCluster, inspect.LittleRoom}},
		"unavailable-lease": {func(w *fixture) { w.raiseStart("v1") }, live, inspect.StatusOperator{
			Standby: "waiting for Lease ops/addon-operator-leader-election: etcdserver: request timed out", StandbyError: "etcdserver: request timed out",
			StandbySince: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), Namespace: "ops",
		}, []inspect.Pattern{inspect.UnavailableLease}},
		"clock": {func(w *fixture) {
			sleep(2 * time.Hour)
			w.raiseStart("v1")
			w.update(func(tx *store.Tx) error {
				return store.Save(tx, store.At(store.Starts).Uint(0), store.Start{Began: time.Now().Add(90 * time.Minute)})
			})
		}, live, inspect.StatusOperator{}, []inspect.Pattern{inspect.WrongClock}},
		"lost-work": {func(w *fixture) {
			w.raiseStart("v1")
			if err := w.db.DropWork(w.t.Context(), store.LostSpan{How: "a snapshot was restored", From: w.db.Now().Add(-time.Hour), To: w.db.Now(), At: w.db.Now()}); err != nil {
				w.t.Fatal(err)
			}
		}, live, inspect.StatusOperator{}, []inspect.Pattern{inspect.LostWork}},
		"value-loop": {func(w *fixture) {
			w.discovers("web")
			w.items[lifecycle.ModuleAfterHelm] = hooks("web", "10-stamp.sh")
			w.set("module-afterhelm web/10-stamp.sh", func(context.Context, workflow.Task) (workflow.Outcome, error) {
				return workflow.Outcome{Facts: []graph.Fact{lifecycle.ModuleChanged}, Detail: "values /web/stamp changed"}, nil
			})
			w.raiseStart("v1")
		}, live, inspect.StatusOperator{}, []inspect.Pattern{inspect.ValueLoop}},
		"value-loop-of-two-hooks": {func(w *fixture) {
			w.discovers("web")
			w.items[lifecycle.ModuleAfterHelm] = hooks("web", "10-stamp.sh", "20-list.sh")
			w.set("module-afterhelm web/10-stamp.sh", func(context.Context, workflow.Task) (workflow.Outcome, error) {
				return workflow.Outcome{Facts: []graph.Fact{lifecycle.ModuleChanged}, Detail: "values /web/stamp changed"}, nil
			})
			w.set("module-afterhelm web/20-list.sh", func(context.Context, workflow.Task) (workflow.Outcome, error) {
				return workflow.Outcome{Facts: []graph.Fact{lifecycle.ModuleChanged}, Detail: "values /web/list changed"}, nil
			})
			w.raiseStart("v1")
		}, live, inspect.StatusOperator{}, []inspect.Pattern{inspect.ValueLoop}},
		"event-storm": {func(w *fixture) {
			w.raiseStart("v1")
			sleep(time.Minute)
			w.takes(string(lifecycle.ModuleKubernetesEvent), time.Hour)
			var storm []workflow.Event
			for range 700 {
				storm = append(storm, event("web", "20-pods.sh"))
			}
			w.raise(event("shop", "10-first.sh"))
			w.raise(storm...)
		}, live, inspect.StatusOperator{}, []inspect.Pattern{inspect.EventStorm}},
		"event-storm-in-a-stopped-store": {func(w *fixture) {
			w.raiseStart("v1")
			w.takes(string(lifecycle.ModuleKubernetesEvent), time.Hour)
			var storm []workflow.Event
			for range 700 {
				storm = append(storm, event("web", "20-pods.sh"))
			}
			w.raise(storm...)
		}, inspect.Reader{}, inspect.StatusOperator{}, []inspect.Pattern{inspect.Crash, inspect.EventStorm}},
		"stopped-store": {func(w *fixture) {
			w.fails(string(lifecycle.ModuleKubernetesEvent), "hooks/x.sh: line 3: yq: command not found")
			w.raiseStart("v1")
			w.raise(event("web", "20-pods.sh"))
		}, inspect.Reader{}, inspect.StatusOperator{}, []inspect.Pattern{inspect.MissingCommand}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				c.scene(w)
				d := w.diagnose(c.reader, c.operator)
				var patterns []inspect.Pattern
				for _, f := range d.Findings {
					patterns = append(patterns, f.Pattern)
				}
				slices.Sort(patterns)
				slices.Sort(c.want)
				if !slices.Equal(patterns, c.want) {
					t.Errorf("patterns are %q, want %q", patterns, c.want)
				}
				l := layout
				l.Now = d.At
				compare(t, "diagnosis-"+name+".txt", inspect.DiagnosisText(d, l))
			})
		})
	}
}

// TestEachKindOfProblemIsInAFinding creates a problem of each kind that the store or the operator reports. The
// diagnosis of a running or of a stopped operator must have a finding of this kind.
func TestEachKindOfProblemIsInAFinding(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		r := inspect.Reader{
			Live: true, Stalled: map[string]string{"main": "a bug"}, Full: &store.Shortage{Since: time.Now(), Err: store.ErrFull},
			Slow:     []inspect.Problem{{Kind: inspect.KindSlow, Run: 1, Node: "release-upgrade", At: time.Now()}},
			Requests: &inspect.Requests{Answered: 50, Throttled: 50},
		}
		w.raiseStart("v1")
		w.fails(string(lifecycle.ModuleKubernetesEvent), "exit status 1")
		w.raise(event("web", "20-pods.sh"))
		w.save(map[string]store.Module{"broken": {Broken: "no values.yaml"}, "blocked": {Undefined: "bad CRD"}})
		paused := workflow.PauseTarget{Subject: graph.Subject{Module: "shop"}}
		if err := w.e.Pause(lifecycle.Graph.Name, paused, "ann", "the disk is changed"); err != nil {
			t.Fatal(err)
		}
		w.update(func(tx *store.Tx) error {
			err := store.Save(tx, store.RefusedConfigKey(), store.RefusedConfig{Run: 1, Error: "web: no YAML", At: tx.Now()})
			quarantined := store.QuarantinedItem{ID: store.ID{Epoch: 1, N: 99}, Run: 1, Node: string(lifecycle.ModuleBeforeHelm), Subject: graph.Subject{Module: "crasher"}}
			err = errors.Join(err, store.Save(tx, store.QuarantineKey(quarantined.ID), quarantined))
			for _, kind := range inspect.Kinds() {
				if stored := store.ProblemKind(kind); strings.Contains(string(kind), " ") && kind != inspect.KindNoCRDs && kind != inspect.KindFull && kind != inspect.KindAPIServer {
					_, saved := store.SaveProblem(tx, store.Problem{Kind: stored, Object: "x", Error: "error of " + string(kind), Fix: "mend it", Since: tx.Now()})
					err = errors.Join(err, saved)
				}
			}
			return err
		})
		d := w.diagnose(r, inspect.StatusOperator{})
		stopped := w.diagnose(inspect.Reader{}, inspect.StatusOperator{})
		for _, kind := range inspect.Kinds() {
			of := func(f inspect.Finding) bool { return f.Pattern == inspect.Pattern(kind) }
			if !slices.ContainsFunc(d.Findings, of) && !slices.ContainsFunc(stopped.Findings, of) {
				t.Errorf("no finding has a problem of kind %q", kind)
			}
		}
		for _, f := range d.Findings {
			if f.Text == "" || f.Fix == "" && len(f.Advice) == 0 || strings.Contains(f.Text, "\n") {
				t.Errorf("a finding does not say what is wrong or what to do: %+v", f)
			}
		}
	})
}

func TestACommandInPlaceOfAFixIsNoStepAfterIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		w.update(func(tx *store.Tx) error {
			_, err := store.SaveProblem(tx, store.Problem{
				Kind: store.SharedObject, Object: "one", Error: "its directory is gone", Fix: "restore the directory",
				Command: []string{"reload", "--allow-purge=1"}, Effect: "uninstalls it", Since: tx.Now(),
			})
			return err
		})
		d := w.diagnose(inspect.Reader{Live: true}, inspect.StatusOperator{})
		l := layout
		l.Now, l.Width = d.At, inspect.Unlimited
		want := "  fix:  restore the directory\n  or:   addon-operator reload --allow-purge=1"
		if text := inspect.DiagnosisText(d, l); !strings.Contains(text, want) || strings.Contains(text, "then:") {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	})
}

// TestAWrongClockIsFoundByWhateverShowsIt uses clocks that differ, and records whose times are in the future or not in
// order. The only finding must be a wrong clock, or there must be none if the times differ only by seconds.
func TestAWrongClockIsFoundByWhateverShowsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		skew    time.Duration
		tick    time.Duration // time of the last tick of a schedule, relative to now
		run     time.Duration // time of the start of the newest run, relative to now
		earlier time.Duration // time of the second newest start of the operator, relative to the newest start
		want    string        // part of the finding; empty if there must be none
	}{
		"no difference":                 {},
		"the API server is ahead":       {skew: 90 * time.Second, want: "the clock of the API server is 1m30s ahead of the clock of the operator 2000-01-01 00:00:00Z the operator noticed it"},
		"the API server is behind":      {skew: -90 * time.Second, want: "the clock of the API server is 1m30s behind the clock of the operator"},
		"a tick in the future":          {tick: time.Hour, want: "last tick of web/a.sh nightly, 1h00m in the future"},
		"a run in the future":           {run: time.Minute, want: "run 9 began, 1m00s in the future"},
		"clocks that differ by seconds": {tick: 5 * time.Second, run: 5 * time.Second, earlier: 5 * time.Second},
		"a start before an earlier one": {earlier: 10 * time.Minute, want: "start of the operator, epoch 2, 10m00s before the start of epoch 1"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t)
			since := w.db.Now()
			sleep(time.Hour)
			now := w.db.Now()
			w.update(func(tx *store.Tx) error {
				tick := func(binding string, at time.Time) error {
					return store.Save(tx, store.TickKey(graph.Subject{Module: "web", Hook: "a.sh", Binding: binding}), at)
				}
				return errors.Join(
					tick("hourly", now.Add(-time.Minute)), tick("nightly", now.Add(c.tick)), tick("weekly", now.Add(-time.Hour)),
					store.Save(tx, store.RunKey(9), store.Run{ID: 9, Graph: lifecycle.Graph.Name, Began: now.Add(c.run), Ended: now}),
					store.Save(tx, store.At(store.Starts).Uint(1), store.Start{Epoch: 1, Began: now.Add(-time.Minute).Add(c.earlier)}),
					store.Save(tx, store.At(store.Starts).Uint(2), store.Start{Epoch: 2, Began: now.Add(-time.Minute)}))
			})
			d := w.diagnose(inspect.Reader{Live: true}, inspect.StatusOperator{Skew: c.skew, SkewSince: since})
			if c.want == "" {
				if len(d.Findings) > 0 {
					t.Errorf("%s: the findings are %+v", name, d.Findings)
				}
				return
			}
			l := layout
			l.Now, l.Width = now.Add(24*time.Hour), inspect.Unlimited
			text := oneLine(inspect.DiagnosisText(d, l))
			for _, want := range []string{c.want, "fix: synchronize the clock"} {
				if len(d.Findings) != 1 || d.Findings[0].Pattern != inspect.WrongClock || !strings.Contains(text, want) {
					t.Errorf("%s: the diagnosis lacks %q:\n%s", name, want, text)
				}
			}
		})
	}
}

func TestAFindingSaysForHowManyElseItStands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		w.update(func(tx *store.Tx) error {
			_, err := store.SaveProblem(tx, store.Problem{Kind: store.NotExecutable, Object: "/m/a.sh", Error: "/m/a.sh is not executable", More: 3, Fix: "chmod +x it", Since: tx.Now()})
			return err
		})
		if err := w.e.Pause(lifecycle.Graph.Name, workflow.PauseTarget{Subject: graph.Subject{Module: "web"}}, "ann", "the disk is changed"); err != nil {
			t.Fatal(err)
		}
		w.raise(event("web", "a.sh"), event("web", "b.sh"))
		d := w.diagnose(inspect.Reader{Live: true}, inspect.StatusOperator{})
		l := layout
		l.Now, l.Width = d.At, inspect.Unlimited
		text := inspect.DiagnosisText(d, l)
		for _, want := range []string{"3 others have the same problem", "2 tasks are held because of this", "fix:  addon-operator resume module web"} {
			if !strings.Contains(text, want) {
				t.Errorf("the diagnosis lacks %q:\n%s", want, text)
			}
		}
	})
}
