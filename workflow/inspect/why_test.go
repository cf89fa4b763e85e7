package inspect_test

import (
	"context"
	"errors"
	"strconv"
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

// why explains a subject of a running operator.
func (w *fixture) why(subject string) (*inspect.Why, error) {
	w.t.Helper()
	return w.explain(inspect.Reader{Live: true}, subject)
}

// explain explains a subject with the reader r.
func (w *fixture) explain(r inspect.Reader, subject string) (*inspect.Why, error) {
	w.t.Helper()
	r.Graphs = []*graph.Graph{lifecycle.Graph}
	var why *inspect.Why
	err := w.db.View(func(tx *store.Tx) (err error) {
		why, err = r.Why(tx, subject)
		return err
	})
	return why, err
}

// save saves the records of modules.
func (w *fixture) save(modules map[string]store.Module) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		for name, m := range modules {
			if err := store.Save(tx, store.ModuleKey(name), m); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// edited returns the event of a change of the ConfigMap by kubectl.
func edited(version string) workflow.Event {
	ev := onConfigMap(version)
	ev.Cause.Manager = "kubectl-edit"
	return ev
}

// TestWhyNamesTheRootCause compares explanations with golden files. Each case sets up a state of the store, and names a
// subject.
func TestWhyNamesTheRootCause(t *testing.T) {
	t.Parallel()
	on := func(run uint64, at time.Time) store.Module {
		return store.Module{State: store.On, Enabled: true, Why: "enabled by ConfigMap key webEnabled", DecidedIn: run, DecidedAt: at, RanIn: run, RanAt: at}
	}
	behindFailing := func(w *fixture) {
		w.discovers("db", "web", "shop")
		w.fails("release-upgrade web", "timed out waiting for the condition\nPod web-0: ImagePullBackOff")
		w.start(onStart)
		sleep(5*time.Minute + 2*time.Second)
		w.save(map[string]store.Module{
			"db": on(1, w.db.Now()), "web": {State: store.On, Enabled: true, Why: "enabled by modules/values.yaml", DecidedIn: 1, DecidedAt: w.db.Now()},
			"shop": {State: store.Off, Enabled: true, Why: "enabled by hook hooks/flags.sh", DecidedIn: 1, DecidedAt: w.db.Now()},
		})
		w.raise(event("shop", "orders.sh"), event("shop", "orders.sh"))
	}
	for name, c := range map[string]struct {
		scene   func(*fixture)
		subject string
	}{
		"module-behind-a-failing-one": {behindFailing, "shop"},
		"failing-module":              {behindFailing, "web"},
		"module-that-waits-for-none":  {behindFailing, "db"},
		"queue":                       {behindFailing, "main"},
		"run-that-has-not-ended":      {behindFailing, "1"},
		"hook-behind-a-failing-run":   {behindFailing, "shop/orders.sh"},
		"upgraded-module": {func(w *fixture) {
			w.discovers("web")
			w.items[lifecycle.ModuleBeforeHelm] = hooks("web", "10-size.sh")
			w.reports("module-beforehelm web/10-size.sh", "values /web/replicas changed")
			w.set("release-check web", func(context.Context, workflow.Task) (workflow.Outcome, error) {
				return workflow.Outcome{Facts: []graph.Fact{lifecycle.Outdated}, Detail: "manifest changed: Deployment shop/web (spec.replicas)"}, nil
			})
			w.reports("release-upgrade web", "revision 7")
			w.items[lifecycle.ModuleAfterHelm] = hooks("web", "10-after.sh")
			w.set("module-afterhelm web/10-after.sh", func(context.Context, workflow.Task) (workflow.Outcome, error) {
				time.Sleep(time.Second)
				return workflow.Outcome{Detail: "values /web/after changed"}, nil // a change after the upgrade is not a cause of it
			})
			w.start(onStart, edited("4711"))
			sleep(time.Minute)
			w.save(map[string]store.Module{"web": on(2, w.db.Now())})
		}, "web"},
		"disabled-module": {func(w *fixture) {
			w.start(onStart)
			w.raise(edited("4712"))
			sleep(time.Second)
			w.save(map[string]store.Module{"web": {State: store.Off, Why: "disabled by ConfigMap key webEnabled", DecidedIn: 2, DecidedAt: w.db.Now()}})
		}, "web"},
		"hook-of-a-disabled-module": {func(w *fixture) {
			w.start(onStart)
			w.save(map[string]store.Module{"web": {State: store.Off, Why: "disabled because nothing enables it", DecidedIn: 1, DecidedAt: w.db.Now()}})
		}, "web/20-pods.sh"},
		"hook-behind-another": {func(w *fixture) {
			w.start(onStart)
			w.takes("module-kubernetes-event db/10-slow.sh pods", time.Hour)
			w.raise(event("db", "10-slow.sh"))
			sleep(time.Minute)
			w.raise(event("web", "20-pods.sh"))
		}, "web/20-pods.sh"},
		"hook-that-ran": {func(w *fixture) {
			w.start(onStart)
			sleep(time.Minute)
			w.reports("module-kubernetes-event web/20-pods.sh pods", "1 object operation")
			w.raise(event("web", "20-pods.sh"))
			sleep(time.Minute)
		}, "web/20-pods.sh"},
		"paused-hook": {func(w *fixture) {
			w.start(onStart)
			sleep(time.Minute)
			if err := w.e.Pause(lifecycle.Graph.Name, workflow.PauseTarget{Subject: graph.Subject{Module: "web"}}, "ann", "the disk is changed"); err != nil {
				w.t.Fatal(err)
			}
			w.raise(event("web", "20-pods.sh"))
		}, "web/20-pods.sh"},
		"reload-of-a-person": {func(w *fixture) {
			w.start(onStart)
			sleep(time.Minute)
			if err := w.db.Update(func(tx *store.Tx) error {
				if err := w.e.Raise(tx, workflow.Event{On: lifecycle.OnReloadRequest, Cause: store.Cause{By: "bob"}}); err != nil {
					return err
				}
				return errors.Join(
					store.AddAction(tx, store.Action{By: "bob", Verb: "reload", Reason: "new images", Run: 2}),
					store.AddAction(tx, store.Action{By: "cem", Verb: "reload", Reason: "joined the run", Run: 2}),
					store.AddAction(tx, store.Action{By: "ann", Verb: "task retry", Reason: "the registry is back", Run: 2, Task: store.ID{Epoch: 1, N: 9}}),
					store.AddAction(tx, store.Action{By: "ann", Verb: "module run", What: "web", Reason: "another run", Run: 3}))
			}); err != nil {
				w.t.Fatal(err)
			}
			sleep(time.Minute)
		}, "2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				c.scene(w)
				why, err := w.why(c.subject)
				if err != nil {
					t.Fatal(err)
				}
				l := layout
				l.Now = why.At
				compare(t, "why-"+name+".txt", inspect.WhyText(why, l))
			})
		})
	}
}

// reports makes the given step succeed with a result.
func (w *fixture) reports(what, result string) {
	w.set(what, func(context.Context, workflow.Task) (workflow.Outcome, error) {
		return workflow.Outcome{Detail: result}, nil
	})
}

// event returns the event of a changed pod for a hook of the module.
func event(module, hook string) workflow.Event {
	ev := on(lifecycle.OnModuleKubeEvent, module, hook, "pods")
	ev.Queue = "pods"
	ev.Object = &store.ObjectRef{Event: "Modified", Kind: "Pod", Namespace: "shop", Name: "web-0", ResourceVersion: "812"}
	ev.Cause = store.Cause{Object: "Pod shop/web-0", ResourceVersion: "812", Event: "Modified", Manager: "kubelet (status)"}
	return ev
}

// TestWhyExplainsAllThatIsPending explains the run that each scene shows, and the tasks, the hooks and the queues of
// its steps. The last cause of each answer must have a text, and this text must say more than that something waits.
func TestWhyExplainsAllThatIsPending(t *testing.T) {
	t.Parallel()
	for name, scene := range scenes() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newFixture(t)
				run := w.snapshot(scene(w))
				subjects := map[string]bool{strconv.FormatUint(run.ID, 10): true}
				var visit func([]inspect.Step)
				visit = func(steps []inspect.Step) {
					for i := range steps {
						s := &steps[i]
						if !s.Task.IsZero() {
							subjects[s.Task.String()] = true
						}
						if s.Subject.Hook != "" {
							subjects[graph.Subject{Module: s.Subject.Module, Hook: s.Subject.Hook}.String()] = true
						}
						if s.Wait != nil && s.Queue != "" && len(s.Steps) == 0 {
							subjects[s.Queue] = true
						}
						visit(s.Steps)
					}
				}
				visit(run.Steps)
				for subject := range subjects {
					why, err := w.why(subject)
					if errors.Is(err, inspect.ErrUnknownSubject) && strings.Contains(subject, "/") {
						continue // the run has not reached this hook yet
					}
					if err != nil {
						t.Errorf("why %s: %v", subject, err)
						continue
					}
					for _, a := range why.Answers {
						if last := a.Causes[len(a.Causes)-1]; last.Text == "" || strings.HasSuffix(last.Text, "waits") {
							t.Errorf("why %s: %s ends with %+v", subject, a.Question, last)
						}
					}
				}
			})
		})
	}
}

func TestWhyOfNothingKnownSaysWhatToName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start(onStart)
		for _, subject := range []string{"nothing", "no/thing.sh", "77", "9-9"} {
			if why, err := w.why(subject); !errors.Is(err, inspect.ErrUnknownSubject) || !strings.Contains(err.Error(), "name a module") {
				t.Errorf("why %s: %+v, error %v", subject, why, err)
			}
		}
	})
}

// TestWhyNamesTheStartOfTheOperator explains a run that a start of the operator began. The last cause of the
// explanation must be this start. The run of an event must not have this cause.
func TestWhyNamesTheStartOfTheOperator(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		if err := w.e.Start(func(tx *store.Tx) ([]workflow.Event, error) {
			return []workflow.Event{onStart}, store.AddStart(tx, "v1.2.3", "addon-operator-0")
		}); err != nil {
			t.Fatal(err)
		}
		sleep(time.Minute)
		why, err := w.why("1")
		if err != nil {
			t.Fatal(err)
		}
		causes := why.Answers[0].Causes
		if last := causes[len(causes)-1].Text; len(causes) != 2 || last != "start of the operator, epoch 1, version v1.2.3, pod addon-operator-0" {
			t.Errorf("causes are %+v", causes)
		}
		w.raise(event("web", "20-pods.sh"))
		if why, err = w.why("2"); err != nil || len(why.Answers[0].Causes) != 1 {
			t.Errorf("the start is named as a cause of an event: %+v, error %v", why, err)
		}
	})
}

// TestWhyNamesWhatOnlyTheRunningOperatorKnows explains a slow step, a task in a queue that the engine cannot process,
// and a task that cannot start because the disk is full. The last cause must be the slow step, the stalled queue or the
// full disk.
func TestWhyNamesWhatOnlyTheRunningOperatorKnows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.start(onStart)
		running, err := w.why("1")
		if err != nil {
			t.Fatal(err)
		}
		task := running.Answers[0].Causes[0].Task
		last := func(why *inspect.Why, err error) string {
			if err != nil {
				t.Fatal(err)
			}
			causes := why.Answers[0].Causes
			return causes[len(causes)-1].Text
		}
		slow := inspect.Reader{Live: true, Slow: []inspect.Problem{{Kind: inspect.KindSlow, Task: task}}}
		if got := last(w.explain(slow, task.String())); got != "release-upgrade web runs, and takes long" {
			t.Errorf("of a slow step, the last cause is %q", got)
		}
		w.close()
		w.open()
		if err := w.db.Update(func(tx *store.Tx) error {
			return store.SaveTask(tx, &store.Task{
				ID: store.ID{Epoch: 2, N: 99}, Pos: store.Pos{Queue: "pods", Slot: store.FirstSlot}, Graph: lifecycle.Graph.Name, Run: 1,
				Node: string(lifecycle.ModuleKubernetesEvent), Subject: graph.Subject{Module: "web", Hook: "20-pods.sh", Binding: "pods"},
			})
		}); err != nil {
			t.Fatal(err)
		}
		stalled := inspect.Reader{Live: true, Stalled: map[string]string{"pods": "a bug"}}
		if got := last(w.explain(stalled, "web/20-pods.sh")); got != "queue pods stands still: a bug" {
			t.Errorf("of a stalled queue, the last cause is %q", got)
		}
		full := inspect.Reader{Live: true, Full: &store.Shortage{Err: store.ErrFull}}
		if got := last(w.explain(full, "web/20-pods.sh")); !strings.HasPrefix(got, "the disk of the store is full: ") {
			t.Errorf("on a full disk, the last cause is %q", got)
		}
	})
}

// TestWhyOfWhatHasNotHappenedSaysSo explains queues without tasks, and hooks that have not run. The answer must say why
// nothing has happened.
func TestWhyOfWhatHasNotHappenedSaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start()
		w.saveModules(map[string]store.Module{
			"web": {State: store.On, Enabled: true}, "off": {State: store.Off, Why: "disabled because nothing enables it"}, "broken": {State: store.Off, Broken: "no values.yaml"},
		})
		w.update(func(tx *store.Tx) error {
			return errors.Join(
				store.Save(tx, store.BindingKey("web", "a.sh", "pods"), store.Binding{Kind: store.Kubernetes, Queue: "pods"}),
				store.Save(tx, store.BindingKey("web", "b.sh", "pods"), store.Binding{Kind: store.Kubernetes, Queue: "pods"}),
				store.Save(tx, store.BindingKey("web", "b.sh", "nightly"), store.Binding{Kind: store.Schedule, Queue: "pods"}))
		})
		for subject, want := range map[string]string{
			"main":        "What does queue main do?: nothing: it has no tasks",
			"pods":        "What does queue pods do?: nothing: it has no tasks",
			"web/a.sh":    "Why has web/a.sh not run?: 1 binding of it is attached, and the history has no event or tick for it",
			"web/b.sh":    "Why has web/b.sh not run?: 2 bindings of it are attached, and the history has no event or tick for them",
			"off/a.sh":    "Why is module off disabled?: disabled because nothing enables it",
			"broken/a.sh": "Why is module broken broken?: no values.yaml",
			"other-queue": "",
		} {
			why, err := w.why(subject)
			if want == "" {
				if !errors.Is(err, inspect.ErrUnknownSubject) {
					t.Errorf("why %s: %+v, error %v", subject, why, err)
				}
				continue
			}
			if err != nil {
				t.Errorf("why %s: %v", subject, err)
				continue
			}
			if got := why.Answers[0].Question + ": " + why.Answers[0].Causes[0].Text; got != want {
				t.Errorf("why %s: the first answer is %q, want %q", subject, got, want)
			}
		}
	})
}

func TestWhyOfATaskBehindAQuarantinedOneNamesThatOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.start()
		w.update(func(tx *store.Tx) error {
			item := store.QuarantinedItem{
				ID: store.ID{Epoch: 1, N: 99}, Graph: lifecycle.Graph.Name, Run: 1, Node: string(lifecycle.ModuleKubernetesEvent), Queue: "pods",
				Subject: graph.Subject{Module: "web", Hook: "20-pods.sh"}, Crashes: 3, At: tx.Now(),
			}
			return store.Save(tx, store.QuarantineKey(item.ID), item)
		})
		w.raise(event("web", "20-pods.sh"))
		why, err := w.why("web/20-pods.sh")
		if err != nil {
			t.Fatal(err)
		}
		l := layout
		l.Now, l.Width = why.At, inspect.Unlimited
		text := oneLine(inspect.WhyText(why, l))
		for _, want := range []string{
			"Why does web/20-pods.sh wait? - module-kubernetes-event web/20-pods.sh pods is held: module web is in quarantine (task 1-99) 00:00:00Z module-kubernetes-event web/20-pods.sh: the operator died each time the task ran",
			"fix: find out why the operator died", "then: addon-operator task release 1-99", "or: addon-operator task skip 1-99 --reason TEXT",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the explanation lacks %q:\n%s", want, inspect.WhyText(why, l))
			}
		}
	})
}

// TestWhyExplainsEachSubjectOfAProblem saves problems of subjects without a record of a module. The explanation of each
// subject must have an answer and the command that ends the problem, because status and diagnose recommend the command
// why for most of these problems.
func TestWhyExplainsEachSubjectOfAProblem(t *testing.T) {
	t.Parallel()
	id := store.ID{Epoch: 1, N: 900}
	purge := store.Task{
		ID: id, Graph: lifecycle.Graph.Name, Node: string(lifecycle.ModulePurge), Subject: graph.Subject{Module: "old"}, Run: 1,
		Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot},
		Failed: &store.Failure{
			Count: 1, At: followTime, Since: followTime, Error: "forbidden", Node: string(lifecycle.ModulePurge), Subject: graph.Subject{Module: "old"},
		},
		Due: followTime.Add(time.Hour),
	}
	quarantined := func(node graph.NodeID, s graph.Subject) *store.QuarantinedItem {
		return &store.QuarantinedItem{ID: id, Graph: lifecycle.Graph.Name, Node: string(node), Subject: s, Queue: workflow.Main, Run: 1, At: followTime, Crashes: 3}
	}
	paused := &store.QuarantinedItem{
		ID: id, Graph: lifecycle.Graph.Name, Subject: graph.Subject{Module: "old"}, At: followTime, Paused: &store.Pause{By: "ann", Reason: "repair", At: followTime},
	}
	const died, release = ": the operator died each time the task ran, the last time while no other task ran", "task release 1-900"
	for name, test := range map[string]struct {
		task                     *store.Task
		item                     *store.QuarantinedItem
		subject, answer, command string
	}{
		"a failing purge":           {&purge, nil, "old", "Why does a task of module old fail?: module-purge old failed: forbidden", "task retry 1-900"},
		"a quarantined purge":       {nil, quarantined(lifecycle.ModulePurge, graph.Subject{Module: "old"}), "old", "Why is module old in quarantine?: module-purge old" + died, release},
		"a paused module":           {nil, paused, "old", "Why is module old paused?: module old is paused by ann: repair", "resume module old"},
		"a quarantined global hook": {nil, quarantined(lifecycle.GlobalBeforeAll, graph.Subject{Hook: "g.sh"}), "g.sh", "Why is g.sh in quarantine?: global-beforeall g.sh" + died, release},
		"a quarantined step":        {nil, quarantined(lifecycle.DiscoverModules, graph.Subject{}), "1-900", "Why is task 1-900 in quarantine?: discover-modules" + died, release},
		"the id of a quarantined hook": {
			nil, quarantined(lifecycle.ModuleKubernetesEvent, graph.Subject{Module: "web", Hook: "a.sh"}), "1-900",
			"Why is task 1-900 in quarantine?: module-kubernetes-event web/a.sh" + died, release,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := writeHistory(t)
			defer w.close()
			if test.task != nil {
				w.save(*test.task)
			}
			w.update(func(tx *store.Tx) error {
				if test.item == nil {
					return nil
				}
				return store.Save(tx, store.QuarantineKey(id), test.item)
			})
			r := inspect.Reader{Live: true, Graphs: []*graph.Graph{lifecycle.Graph}}
			var why *inspect.Why
			if err := w.db.View(func(tx *store.Tx) (err error) {
				why, err = r.Why(tx, test.subject)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if got := why.Answers[0].Question + ": " + why.Answers[0].Causes[0].Text; got != test.answer {
				t.Errorf("the first answer is %q, want %q", got, test.answer)
			}
			l := layout
			l.Now, l.Width = why.At, inspect.Unlimited
			if text := inspect.WhyText(why, l); !strings.Contains(text, "addon-operator "+test.command+"\n") && !strings.Contains(text, "addon-operator "+test.command+" ") {
				t.Errorf("the explanation lacks %q:\n%s", test.command, text)
			}
		})
	}
}

// TestWhyNamesTheHooksOfThisOperatorThatConvertObjects makes a release fail because an object cannot be converted. The
// explanation must name the hooks of this operator that convert such objects, if there are any.
func TestWhyNamesTheHooksOfThisOperatorThatConvertObjects(t *testing.T) {
	t.Parallel()
	const failed = `conversion webhook for example.com/v1, Kind=Cron failed: Post "https://x"`
	conversion := func(crd string) store.Binding {
		return store.Binding{Kind: store.Conversion, Config: []byte(`{"crdName":"` + crd + `"}`)}
	}
	for name, c := range map[string]struct {
		bindings map[string]store.Binding // by the name of a hook of module crons
		want     string
	}{
		"no hook":              {nil, "the conversion webhook for example.com/v1, Kind=Cron does not respond"},
		"a hook":               {map[string]store.Binding{"a.sh": conversion("crons.example.com")}, "hook crons/a.sh of this operator, which converts Cron objects, failed, or the API server cannot reach the operator"},
		"hooks of the group":   {map[string]store.Binding{"b.sh": conversion("crons.example.com"), "a.sh": conversion("jobs.example.com")}, "hook crons/a.sh or crons/b.sh of this operator, which converts Cron objects"},
		"a hook of a group":    {map[string]store.Binding{"a.sh": conversion("crons.other-example.com")}, "the conversion webhook for example.com/v1, Kind=Cron does not respond"},
		"another kind of hook": {map[string]store.Binding{"a.sh": {Kind: store.Validating, Config: []byte(`{"crdName":"crons.example.com"}`)}}, "the conversion webhook for example.com/v1, Kind=Cron does not respond"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newFixture(t)
			w.discovers("web")
			w.fails("release-upgrade web", failed)
			w.start(onStart)
			w.update(func(tx *store.Tx) (err error) {
				for hook, b := range c.bindings {
					err = errors.Join(err, store.Save(tx, store.BindingKey("crons", hook, "convert"), b))
				}
				return err
			})
			why, err := w.why("1")
			if err != nil {
				t.Fatal(err)
			}
			means := ""
			for _, a := range why.Answers {
				if a.Question == "What does the error mean?" {
					means = a.Causes[0].Text
				}
			}
			if !strings.HasPrefix(means, c.want) {
				t.Errorf("%s: the error means %q, want %q", name, means, c.want)
			}
		})
	}
}
