package inspect_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// status returns the status that the reader r reads. The data about the process of the operator are always the same.
func (w *fixture) status(r inspect.Reader) (s *inspect.Status) {
	w.t.Helper()
	r.Graphs = []*graph.Graph{lifecycle.Graph}
	operator := inspect.StatusOperator{
		Version: "v1.2.3", Started: w.db.Now().Add(-3 * time.Hour), Store: "/data/store.db", StoreBytes: 12<<20 + 300<<10, FreeBytes: new(uint64(3 << 30)),
	}
	if err := w.db.View(func(tx *store.Tx) (err error) {
		s, err = r.Status(tx, operator)
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	return s
}

// saveModules saves records of modules.
func (w *fixture) saveModules(modules map[string]store.Module) {
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

// converged records in the store that the start run has the given number, and that its converge has
// ended.
func (w *fixture) converged(run uint64) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.StartupKey(), store.Startup{StartRun: run, Converged: run, ConvergedAt: tx.Now()})
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestStatusOfAnOperatorWithoutProblemsSaysSoInItsFirstLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web", "db")
		w.start(onStart)
		sleep(10 * time.Second)
		w.converged(1)
		now := w.db.Now()
		w.saveModules(map[string]store.Module{
			"web": {State: store.On, Enabled: true, Order: 20, RanIn: 1, RanAt: now.Add(-time.Minute)},
			"db":  {State: store.On, Enabled: true, Order: 10, RanIn: 1, RanAt: now.Add(-time.Minute)}, "old": {State: store.Off},
		})
		s := w.status(inspect.Reader{Live: true})
		if s.Attention || s.Starting || len(s.Queues) != 0 || len(s.Running) != 0 {
			t.Errorf("status %+v", s)
		}
		compare(t, "status-well.txt", inspect.StatusText(s, layout))
		wide := layout
		wide.Wide = true
		compare(t, "status-well-wide.txt", inspect.StatusText(s, wide))
	})
}

func TestStatusNamesProblemsModulesAndQueuesThatWaitWithTheNextCommand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("cert-manager", "ingress-nginx")
		w.fails("release-upgrade cert-manager", helmError)
		w.start(onStart)
		w.saveModules(map[string]store.Module{
			"cert-manager": {State: store.On, Enabled: true, RanIn: 1, RanAt: w.db.Now().Add(-26 * time.Hour)}, "ingress-nginx": {State: store.On, RanInStart: 1, Enabled: true},
			"broken": {State: store.On, Enabled: true, Broken: "values.yaml: line 3: did not find expected key"},
		})
		began := time.Now()
		sleep(90 * time.Second)
		s := w.status(inspect.Reader{Live: true, Slow: []inspect.Problem{{Kind: inspect.KindSlow, Run: 1, Node: "module-run", At: began}}})
		if !s.Attention || len(s.Problems) != 3 {
			t.Errorf("status %+v", s)
		}
		for _, m := range s.Modules {
			if m.Name == "cert-manager" && (m.State != inspect.ModuleFailing || m.Since.Before(began) || m.Since.After(began.Add(time.Second))) {
				t.Errorf("module %+v, want it failing since its first failure at %s", m, began)
			}
		}
		compare(t, "status-failing.txt", inspect.StatusText(s, layout))
	})
}

func TestStatusFitsOnAScreenWhateverGoesWrong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		all := names("module", 40)
		w.discovers("web")
		w.fails("release-upgrade web", helmError)
		w.start(onStart)
		records := map[string]store.Module{"web": {State: store.On, Enabled: true}}
		for i, name := range all {
			records[name] = store.Module{State: store.On, Enabled: true, Order: i, Broken: "/modules/" + name + "/values.yaml: line 3: did not find expected key"}
		}
		w.saveModules(records)
		sleep(20 * time.Minute)
		s := w.status(inspect.Reader{Live: true, Full: &store.Shortage{Since: time.Now(), Err: errors.New("no space left on device")}})
		text := inspect.StatusText(s, layout)
		if n := strings.Count(text, "\n"); n > 23 || n < 15 {
			t.Errorf("%d lines:\n%s", n, text)
		}
		compare(t, "status-many.txt", text)
		whole := layout
		whole.Whole = true
		if text := inspect.StatusText(s, whole); strings.Count(text, "module-40") < 3 {
			t.Errorf("a layout that cuts nothing leaves a module out:\n%s", text)
		}
	})
}

func TestStatusShowsTasksInProgressAndHowLongTheyRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.start(onStart)
		w.saveModules(map[string]store.Module{"web": {State: store.On, Enabled: true}})
		sleep(4 * time.Minute)
		s := w.status(inspect.Reader{Live: true})
		if len(s.Running) != 1 || s.Running[0].Node != "release-upgrade" || time.Since(s.Running[0].Since) != 4*time.Minute {
			t.Fatalf("running %+v", s.Running)
		}
		s = w.status(inspect.Reader{Live: true, Slow: []inspect.Problem{{Kind: inspect.KindSlow, Task: s.Running[0].Task, Run: 1, At: s.Running[0].Since}}})
		if !s.Running[0].Slow {
			t.Errorf("running %+v", s.Running)
		}
		compare(t, "status-running.txt", inspect.StatusText(s, layout))
	})
}

func TestStatusOfAStoppedStoreSaysThatNobodyRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.start(onStart, onConfigMap("4711"))
		w.close()
		w.open()
		s := w.status(inspect.Reader{})
		if s.Live || len(s.Running) != 0 || len(s.Queues) != 1 {
			t.Errorf("status %+v", s)
		}
		compare(t, "status-stopped.txt", inspect.StatusText(s, layout))
	})
}

func TestATaskThatAStopInterruptedIsNoEvidenceOfEarlierCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		for range 3 {
			w.crash()
		}
		w.takes("module-run web", time.Hour)
		w.raise(on(lifecycle.OnRunRequest, "web"))
		w.e.Stop()
		w.update(store.EndStart)
		w.close()
		w.open()
		d := w.diagnose(inspect.Reader{}, inspect.StatusOperator{})
		if len(d.Findings) != 1 || d.Findings[0].Pattern != inspect.CrashLoop {
			t.Fatalf("the diagnosis has %+v", d.Findings)
		}
		if s := w.status(inspect.Reader{}); len(s.Queues) != 1 {
			t.Errorf("no task was interrupted: %+v", s)
		}
		for _, step := range d.Findings[0].Evidence {
			if strings.Contains(step.Text, "was interrupted by a crash") {
				t.Errorf("the evidence has %q", step.Text)
			}
		}
	})
}

func TestStatusLeadsToThePatternsThatNoProblemShows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		w.takes("release-upgrade web", time.Hour)
		w.discovers("web")
		for range 3 {
			w.raise(on(lifecycle.OnRunRequest, "web"))
			w.crash()
		}
		s := w.status(inspect.Reader{Live: true})
		l := layout
		l.Now = s.At
		text := inspect.StatusText(s, l)
		for _, want := range []string{"✖ 1 problem needs attention\n", "✖ crash loop: the operator crashed 3 times in the last 1h00m", ", since 00:0", "\n  next:  addon-operator diagnose\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("the status lacks %q:\n%s", want, text)
			}
		}
		if !s.Attention || len(s.Problems) > 0 {
			t.Errorf("attention is %t, with the problems %v", s.Attention, s.Problems)
		}
		sleep(2 * time.Hour)
		if s = w.status(inspect.Reader{Live: true}); s.Attention {
			t.Errorf("hours after the last crash, there are the findings %v", s.Findings)
		}
	})
}

// guardWebhook is the name of the binding in the tests of webhooks that hooks of this operator answer.
const guardWebhook = "pods.guard.example.com"

// guards stores the binding guardWebhook of the hook guard/hooks/check.sh.
func (w *fixture) guards() {
	w.t.Helper()
	w.update(func(tx *store.Tx) error {
		return store.Save(tx, store.BindingKey("guard", "hooks/check.sh", guardWebhook), store.Binding{Kind: store.Validating})
	})
}

// reviewProblem returns the problem of a hook that failed to answer a request of guardWebhook. The parameter last is
// the last error of the hook.
func reviewProblem(hook, last string) inspect.Problem {
	return inspect.Problem{Kind: inspect.KindReview, Object: "webhook", Subject: graph.Subject{Module: "guard", Hook: hook, Binding: guardWebhook}, Last: last}
}

func TestStatusNamesTheHookOfTheOperatorWhoseWebhookBlocksItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.fails("release-upgrade web", `failed calling webhook "pods.guard.example.com": context deadline exceeded`)
		w.start(onStart)
		means := func() string {
			t.Helper()
			s := w.status(inspect.Reader{Live: true})
			if len(s.Problems) != 1 || s.Problems[0].Meaning == nil {
				t.Fatalf("the problems are %+v", s.Problems)
			}
			return s.Problems[0].Meaning.What
		}
		if got := means(); strings.Contains(got, "of this operator") {
			t.Errorf("a webhook of another program is explained as one of this operator: %s", got)
		}
		w.guards()
		if got := means(); !strings.HasPrefix(got, "hook guard/hooks/check.sh of this operator, which answers webhook pods.guard.example.com, fails or is too slow") {
			t.Errorf("the meaning is %q", got)
		}
		r := inspect.Reader{Live: true, Webhooks: []inspect.Problem{reviewProblem("hooks/check.sh", "exit status 1"), reviewProblem("hooks/other.sh", "exit status 2")}}
		s := w.status(r)
		if len(s.Problems) != 2 || s.Problems[0].Kind != inspect.KindFailing || s.Problems[1].Subject.Hook != "hooks/other.sh" ||
			!strings.HasSuffix(s.Problems[0].Meaning.What, ", failed: exit status 1") {
			t.Errorf("a step and the hook because of which it fails are two problems: %+v", s.Problems)
		}
		if d := w.diagnose(r, inspect.StatusOperator{}); len(d.Findings) != 2 {
			t.Errorf("a step and the hook because of which it fails are two findings: %+v", d.Findings)
		}
		other := reviewProblem("hooks/check.sh", "exit status 3")
		other.Subject.Binding = "nodes.guard.example.com"
		r.Webhooks = append(r.Webhooks[:1:1], other)
		if s := w.status(r); len(s.Problems) != 2 || !strings.HasSuffix(s.Problems[0].Meaning.What, ", failed: exit status 1") {
			t.Errorf("another binding of the hook is left out, or named as the cause: %+v", s.Problems)
		}
		r.Webhooks = []inspect.Problem{reviewProblem("hooks/other.sh", "exit status 2")}
		if s := w.status(r); len(s.Problems) != 2 {
			t.Errorf("the problem of a hook is missing, although no step fails because of the hook: %+v", s.Problems)
		}
	})
}

func TestAHookThatFailsAReviewCanBeWithdrawnUntilItIsCorrected(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.fails("release-upgrade web", `admission webhook "pods.guard.example.com" denied the request: Hook failed`)
		w.start(onStart)
		w.guards()
		const withdraw = "To disable all admission webhooks of the operator until it starts again: addon-operator webhooks withdraw"
		if s := w.status(inspect.Reader{Live: true}); strings.Contains(s.Problems[0].Meaning.Fix, withdraw) {
			t.Errorf("the fix for a rejected object disables the webhook: %s", s.Problems[0].Meaning.Fix)
		}
		failed := reviewProblem("hooks/check.sh", "exit status 1")
		failed.Command = []string{"webhooks", "withdraw"}
		s := w.status(inspect.Reader{Live: true, Webhooks: []inspect.Problem{failed}})
		if len(s.Problems) != 1 || !strings.HasSuffix(s.Problems[0].Meaning.Fix, withdraw) {
			t.Errorf("the problems are %+v", s.Problems)
		}
	})
}

func TestStatusNamesTheHelmHookThatIsAwaited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.takes("release-upgrade web", time.Hour)
		w.start(onStart)
		sleep(2 * time.Minute)
		s := w.status(inspect.Reader{Live: true, Slow: []inspect.Problem{{
			Kind: inspect.KindSlow, Run: 1, Task: store.ID{Epoch: 1, N: 8}, Node: "release-upgrade", Subject: graph.Subject{Module: "web"},
			At: w.db.Now().Add(-2 * time.Minute), Error: "Helm waits for Job shop/migrate", Awaits: "Job shop/migrate",
		}}})
		l := layout
		l.Now = s.At
		text := inspect.StatusText(s, l)
		for _, want := range []string{"release-upgrade web waits long for a Helm hook, Job shop/migrate, since ", "next:  addon-operator why web\n"} {
			if !strings.Contains(oneLine(text)+"\n", oneLine(want)) {
				t.Errorf("the status lacks %q:\n%s", want, text)
			}
		}
	})
}

func TestStatusShowsAHookThatHangsBeforeTheEventsThatItHoldsUpAndStepsThatFail(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		w.takes(string(lifecycle.ModuleKubernetesEvent), 10*time.Hour)
		w.fails("module-kubernetes-event db/backup.sh pods", "exit status 3: "+strings.Repeat("a long story ", 20))
		slow := event("web", "20-pods.sh")
		slow.Queue = "slow"
		w.raise(slow)
		for i := range 600 {
			ev := event("web", "20-pods.sh")
			ev.Queue, ev.Subject.Binding = "slow", "pods"
			ev.Object = &store.ObjectRef{Event: "Modified", Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("pod-", i)}
			w.raise(ev)
		}
		for i := range 12 {
			ev := event("db", "backup.sh")
			ev.Queue = fmt.Sprint("queue-", i)
			w.raise(ev)
		}
		sleep(time.Minute)
		s := w.status(inspect.Reader{Live: true})
		var task inspect.StatusTask
		for _, running := range s.Running {
			if running.Queue == "slow" {
				task = running
			}
		}
		s = w.status(inspect.Reader{Live: true, Slow: []inspect.Problem{{
			Kind: inspect.KindSlow, Run: task.Run, Task: task.Task, Queue: "slow", Node: task.Node, Subject: task.Subject, At: task.Since, Error: "its longest run with this code took 1s",
		}}})
		l := layout
		l.Now = s.At
		text := inspect.StatusText(s, l)
		hangs, storm := strings.Index(text, "web/20-pods.sh pods runs unusually long"), strings.Index(text, "event storm: 6")
		if hangs < 0 || storm < hangs || strings.Index(text, "backup.sh") < hangs {
			t.Errorf("the hook that hangs is not shown first:\n%s", text)
		}
		d := w.diagnose(inspect.Reader{Live: true, Slow: s.Problems[:1]}, inspect.StatusOperator{})
		if len(d.Findings) == 0 || d.Findings[0].Pattern != inspect.Pattern(inspect.KindSlow) {
			t.Errorf("the diagnosis begins with %+v", d.Findings[:min(len(d.Findings), 1)])
		}
	})
}

func TestStatusSaysThatNothingIsFreeOnAFullDisk(t *testing.T) {
	t.Parallel()
	full := inspect.StatusOperator{Store: "/data/store.db", StoreBytes: 16 << 20, FreeBytes: new(uint64)}
	data, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	var read inspect.StatusOperator
	if err := json.Unmarshal(data, &read); err != nil {
		t.Fatal(err)
	}
	if text := inspect.StatusText(&inspect.Status{Operator: read}, layout); !strings.Contains(text, "store     /data/store.db, 16.0 MiB, 0 B free on its disk\n") {
		t.Errorf("the status lacks the free space:\n%s", text)
	}
	read.FreeBytes = nil
	if text := inspect.StatusText(&inspect.Status{Operator: read}, layout); strings.Contains(text, "free") {
		t.Errorf("the status names the free space, which is not known:\n%s", text)
	}
}

func TestALeaseThatCannotBeAcquiredBecauseOfAnErrorNeedsAttention(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		waits := inspect.StatusOperator{Standby: "waiting for Lease ops/l, which pod-1 holds", StandbySince: w.db.Now()}
		fails := waits
		fails.Standby, fails.StandbyError = "waiting for Lease ops/l: namespaces \"ops\" not found", "namespaces \"ops\" not found"
		for _, operator := range []inspect.StatusOperator{waits, fails} {
			var s *inspect.Status
			if err := w.db.View(func(tx *store.Tx) (err error) {
				s, err = (&inspect.Reader{Live: true}).Status(tx, operator)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if s.Attention != (operator.StandbyError != "") {
				t.Errorf("%s: attention %t, %+v", operator.Standby, s.Attention, s.Findings)
			}
			if s.Attention {
				l := layout
				l.Now = s.At
				compare(t, "status-unavailable-lease.txt", inspect.StatusText(s, l))
			}
		}
	})
}

func TestHeadOfTheStatusNamesTheRunThatFailsAfterTheLastConverge(t *testing.T) {
	t.Parallel()
	at := time.Date(2000, 1, 1, 0, 1, 0, 0, time.UTC)
	failing := func(runs ...uint64) (s *inspect.Status) {
		s = &inspect.Status{At: at, Live: true, Converged: at, ConvergedRun: 2, Attention: len(runs) > 0}
		for _, run := range runs {
			s.Problems = append(s.Problems, inspect.Problem{Kind: inspect.KindFailing, Run: run, Node: "module-run", Try: 1})
		}
		return s
	}
	for want, s := range map[string]*inspect.Status{
		", converged 00:01:00Z (run 2)":                         failing(),
		", last converged 00:01:00Z (run 2)":                    failing(1),
		", last converged 00:01:00Z (run 2), run 3 fails":       failing(3, 3),
		", last converged 00:01:00Z (run 2), 2 later runs fail": failing(4, 1, 3),
	} {
		l := layout
		l.Now = at
		if text := s.ProcessText(l); !strings.HasSuffix(text, want) {
			t.Errorf("the head is %q, want %q at its end", text, want)
		}
	}
}

func TestCrashesAndTheQuarantineOfTheirCauseAreOneProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		patterns := func() (found []string) {
			s := w.status(inspect.Reader{Live: true})
			for _, f := range s.Findings {
				found = append(found, string(f.Pattern))
			}
			for _, p := range s.Problems {
				found = append(found, string(p.Kind))
			}
			return found
		}
		quarantined := func(crashes int) {
			w.update(func(tx *store.Tx) error {
				item := store.QuarantinedItem{ID: store.ID{Epoch: 1, N: 99}, Run: 1, Node: string(lifecycle.ModuleBeforeHelm), Crashes: crashes, At: tx.Now()}
				return store.Save(tx, store.QuarantineKey(item.ID), item)
			})
		}
		for range 3 {
			w.crash()
		}
		quarantined(2)
		if got := patterns(); !slices.Equal(got, []string{"crash loop", "quarantined"}) {
			t.Errorf("after a crash that the item did not cause, there are %q", got)
		}
		quarantined(3)
		if got := patterns(); !slices.Equal(got, []string{"quarantined"}) {
			t.Errorf("after crashes that the item caused, there are %q", got)
		}
		d := w.diagnose(inspect.Reader{Live: true}, inspect.StatusOperator{})
		if len(d.Findings) != 1 || d.Findings[0].Pattern != inspect.Pattern(inspect.KindQuarantined) {
			t.Errorf("the diagnosis has %+v", d.Findings)
		}
		sleep(58 * time.Minute) // the first crashes are older than an hour
		w.crash()
		w.crash()
		if got := patterns(); !slices.Equal(got, []string{"crash loop", "quarantined"}) {
			t.Errorf("after crashes that followed the quarantine, there are %q", got)
		}
	})
}

func TestTheStatusOfAStoppedOperatorSaysWhenItStoppedCleanly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.raiseStart("v1")
		w.update(func(tx *store.Tx) error {
			_, err := store.SaveProblem(tx, store.Problem{Kind: store.StaleWebhook, Object: "webhook check", Error: "while no operator runs, requests are rejected", Fix: "start it", Since: tx.Now()})
			return err
		})
		sleep(time.Minute)
		end := func(at time.Time) *inspect.Status {
			w.update(func(tx *store.Tx) error {
				return store.Save(tx, store.At(store.Starts).Uint(1), store.Start{Epoch: 1, Began: w.db.Now().Add(-time.Minute), Ended: at})
			})
			return w.status(inspect.Reader{})
		}
		killed, stopped := end(time.Time{}), end(w.db.Now())
		l := layout
		l.Now = w.db.Now()
		if text := inspect.StatusText(killed, l); !strings.Contains(text, "store of a stopped operator, epoch ") || !strings.Contains(text, "since 00:00:00Z") {
			t.Errorf("after a kill:\n%s", text)
		}
		if text := inspect.StatusText(stopped, l); !strings.Contains(text, "store of a stopped operator, stopped cleanly at 00:01:00Z, epoch ") || !strings.Contains(text, "since 00:01:00Z") {
			t.Errorf("after a clean stop:\n%s", text)
		}
	})
}

func TestTheRowOfAFailingModuleDoesNotRepeatTheErrorOfTheProblem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.discovers("web")
		w.fails("release-check web", "set web.replicaCount")
		w.start(onStart)
		w.update(func(tx *store.Tx) error {
			return store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, Enabled: true})
		})
		s := w.status(inspect.Reader{Live: true})
		l := layout
		l.Now = s.At
		if text := inspect.StatusText(s, l); strings.Count(text, "set web.replicaCount") != 1 || !strings.Contains(text, "release-check failed 1 time\n") {
			t.Errorf("the status is\n%s", text)
		}
		if l.Wide = true; strings.Count(oneLine(inspect.StatusText(s, l)), "set web.replicaCount") != 2 {
			t.Errorf("the wide status is\n%s", inspect.StatusText(s, l))
		}
	})
}
