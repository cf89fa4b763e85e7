package addons

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"

	"addon-operator/internal/api"
	"addon-operator/internal/kube"
	"addon-operator/internal/retry"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A raiserFunc is a function that implements workflow.Raiser.
type raiserFunc func(tx *store.Tx, events ...workflow.Event) error

func (f raiserFunc) Raise(tx *store.Tx, events ...workflow.Event) error { return f(tx, events...) }

// A fixture is a Trigger with a store in memory. The fixture collects the raised events.
type fixture struct {
	*Trigger
	t      *testing.T
	mu     sync.Mutex
	raised []string // guarded by mu
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	w := &fixture{t: t}
	w.Trigger = New(storetest.Memory(t), raiserFunc(func(_ *store.Tx, events ...workflow.Event) error {
		for _, ev := range events {
			w.add(ev.Subject.Configuration + ": " + ev.Cause.Detail)
		}
		return nil
	}), nil, nil, retry.Delays{Resync: time.Hour, Longest: 5 * time.Minute}, kube.Observer{})
	return w
}

// expect checks that exactly the events want were raised since the last call of expect.
func (w *fixture) expect(want ...string) {
	w.t.Helper()
	got := w.raisedSince()
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("raised (-want +got):\n%s", diff)
	}
}

func (w *fixture) raisedSince() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	got := w.raised
	w.raised = nil
	return got
}

func (w *fixture) add(event string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.raised = append(w.raised, event)
}

// object returns a configuration as the watch delivers it. text has the name, the generation, the
// phase, the observed generation and the time of creation, with spaces between them.
func object(text string) *kube.Object {
	var name, phase string
	var generation, observed, created int
	if _, err := fmt.Sscan(text, &name, &generation, &phase, &observed, &created); err != nil {
		panic(err) // only if a literal in these tests is invalid
	}
	result := fmt.Sprintf(`{"generation":%d,"phase":%q,"observed":%d,"finalizers":[%q],"created":%q}`,
		generation, strings.Trim(phase, "-"), observed, api.Finalizer, time.Unix(int64(created), 0).UTC().Format(time.RFC3339))
	return &kube.Object{Name: name, UID: "uid-" + name, FilterResult: []byte(result)}
}

func (w *fixture) list(texts ...string) {
	w.t.Helper()
	list := kube.List{View: kube.View{Source: kube.Source{Kind: api.ClusterKind}}}
	for _, text := range texts {
		list.Objects = append(list.Objects, object(text))
	}
	if err := w.Listed(w.t.Context(), list); err != nil {
		w.t.Fatal(err)
	}
}

func (w *fixture) change(text string) {
	w.t.Helper()
	batch := kube.Batch{Changes: []kube.Change{{Type: kube.Modified, Object: object(text)}}}
	if err := w.Changed(w.t.Context(), batch); err != nil {
		w.t.Fatal(err)
	}
}

// know saves the record of a configuration in the store.
func (w *fixture) know(name string, generation int64, phase store.Phase) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.ConfigurationKey("", name), store.Configuration{
			UID: "uid-" + name, Generation: generation, Phase: phase, Processed: tx.Now(),
		})
	}); err != nil {
		w.t.Fatal(err)
	}
}

// forget deletes all records of configurations. The records that the method know saves are
// incomplete, so the check of the store at the end of a test would reject them.
func (w *fixture) forget() {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Configurations)) {
			tx.Delete(k)
		}
		return nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestOwnWritesOfTheStatusRaiseNothing(t *testing.T) {
	w := newFixture(t)
	defer w.forget()
	w.change("c 1 - 0 1")
	w.expect("c: it is new")
	w.change("c 1 Pending 1 1")
	w.expect()
	w.know("c", 1, store.PhaseReady)
	w.change("c 1 Ready 1 1")
	w.expect()
	w.change("c 2 Ready 1 1")
	w.expect("c: generation 2")
	w.change("c 2 Pending 2 1")
	w.expect()
}

func TestForgedStatusIsRepairedAtMostEveryFewSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		defer w.forget()
		w.know("c", 1, store.PhaseFailed)
		w.list("c 1 Failed 1 1")
		w.expect()
		w.change("c 1 Ready 1 1")
		w.expect("c: its status or its finalizer is not what the operator has written")
		w.change("c 1 Ready 1 1")
		w.expect()
		if next, ok := w.next(); !ok || next.Sub(w.db.Now()) > repairPause {
			t.Errorf("the next repair is due at %v", next)
		}
	})
}

func TestConfigurationsThatVanishedAreUnregistered(t *testing.T) {
	w := newFixture(t)
	defer w.forget()
	w.know("gone", 1, store.PhaseReady)
	w.know("kept", 1, store.PhaseReady)
	w.list("kept 1 Ready 1 1")
	w.expect("gone: it does not exist any more")
}

func TestConfigurationsThatWereReadyComeFirstAfterTheLossOfTheStore(t *testing.T) {
	w := newFixture(t)
	w.list("failed 1 Failed 1 1", "ready 3 Ready 3 2", "new 1 - 0 3", "older 1 Failed 1 0", "changed 2 Ready 1 4")
	w.expect("ready: it is new")
	if err := w.raiseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect()
	w.Settled(api.Identity{Name: "ready"}, time.Time{})
	if err := w.raiseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("older: it is new", "failed: it is new", "new: it is new", "changed: it is new")
}

func TestConfigurationsDoNotWaitForeverForThoseThatWereReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.list("hangs 1 Ready 1 1", "new 1 - 0 2")
		w.raisedSince()
		time.Sleep(restoreWithin)
		if err := w.raiseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect("new: it is new")
	})
}

func TestRetriesSurviveARestart(t *testing.T) {
	w := newFixture(t)
	defer w.forget()
	if err := w.db.Update(func(tx *store.Tx) error {
		for i, due := range []time.Duration{-time.Minute, time.Minute, 100 * time.Hour} { // no delay is as long as 100 hours, so this time was computed with a wrong clock
			name := fmt.Sprint("c", i)
			if err := store.Save(tx, store.ConfigurationKey("", name), store.Configuration{
				UID: name, Generation: 1, Phase: store.PhaseFailed, Retry: tx.Now().Add(due),
			}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := w.planAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.raiseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("c0: another attempt is due")
	w.expectRetryIn("c2", time.Hour)
}

// expectRetryIn checks that the next attempt of a configuration is due after the duration want,
// both in the store and in memory.
func (w *fixture) expectRetryIn(name string, want time.Duration) {
	w.t.Helper()
	var record store.Configuration
	if err := w.db.View(func(tx *store.Tx) (err error) {
		record, _, err = recordOf(tx, api.Identity{Name: name})
		return err
	}); err != nil {
		w.t.Fatal(err)
	}
	due := w.due[api.Identity{Name: name}]
	if in := due.Sub(w.db.Now()).Round(time.Minute); in != want || !due.Equal(record.Retry) {
		w.t.Errorf("%s is due in %s, at %s; the store says %s", name, in, due, record.Retry)
	}
}

func TestFailedConfigurationsArePlannedWhenTheDelaysAreNoLongerZero(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		defer w.forget()
		if err := w.db.Update(func(tx *store.Tx) error {
			now := tx.Now()
			for name, c := range map[string]store.Configuration{
				"unplanned": {Phase: store.PhaseFailed, Processed: now.Add(-10 * time.Minute)},
				"may-pass":  {Phase: store.PhaseFailed, Processed: now.Add(-time.Minute), Attempts: 2},
				"overdue":   {Phase: store.PhaseFailed, Processed: now.Add(-10 * time.Hour)},
				"planned":   {Phase: store.PhaseFailed, Processed: now.Add(-time.Minute), Retry: now.Add(2 * time.Minute)},
				"ready":     {Phase: store.PhaseReady, Processed: now.Add(-time.Hour)},
			} {
				c.UID, c.Generation = name, 1
				if err := store.Save(tx, store.ConfigurationKey("", name), c); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if err := w.planAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expectRetryIn("unplanned", 50*time.Minute)
		w.expectRetryIn("may-pass", 4*time.Minute)
		w.expectRetryIn("planned", 2*time.Minute)
		w.expectRetryIn("overdue", -9*time.Hour)
		if due, ok := w.due[api.Identity{Name: "ready"}]; ok {
			t.Errorf("a configuration that is Ready is due at %s", due)
		}
		if err := w.raiseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect("overdue: another attempt is due")
	})
}

func TestRepairOfTheStatusForgetsNoAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		defer w.forget()
		w.know("c", 1, store.PhaseFailed)
		if err := w.planAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.list("c 1 Failed 1 1")
		for range 2 { // the second repair waits
			w.change("c 1 Ready 1 1")
		}
		w.raisedSince()
		time.Sleep(repairPause)
		if err := w.raiseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect("c: another attempt is due")
		w.expectRetryIn("c", time.Hour)
	})
}

func TestStatusThatIsForgedWhileItsRoundEndsIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		defer w.forget()
		w.know("c", 1, store.PhaseReady)
		w.list("c 1 Ready 1 1")
		w.expect()
		subject := graph.Subject{Configuration: "c"}
		ending := &store.Task{ID: store.ID{Epoch: 1, N: 1}, Node: "configuration-status", Subject: subject}
		ending.Pos = store.Pos{Queue: subject.Queue(), Slot: store.FirstSlot}
		if err := w.db.Update(func(tx *store.Tx) error { return store.SaveTask(tx, ending) }); err != nil {
			t.Fatal(err)
		}
		w.change("c 1 Failed 1 1")
		w.expect()
		if err := w.db.Update(func(tx *store.Tx) error { tx.Delete(ending.Key()); return nil }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(repairPause)
		if err := w.raiseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect("c: another attempt is due")
	})
}

func TestTheAnnotationForModulesIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.ConfigurationKey("", "c"), store.Configuration{UID: "uid-c", Generation: 1, Phase: store.PhaseReady})
	}); err != nil {
		t.Fatal(err)
	}
	w.list("c 1 Ready 1 1")
	w.expect()
	for range 2 { // the second call must raise no event, because nothing has changed
		w.annotate(true)
	}
	w.expect("c: annotation addons.kyma-project.io/modules")
}

// annotate delivers the configuration c with the annotation for modules or without it.
func (w *fixture) annotate(modules bool) {
	w.t.Helper()
	c := object("c 1 Ready 1 1")
	c.FilterResult = []byte(strings.Replace(string(c.FilterResult), "{", fmt.Sprintf(`{"modules":%t,`, modules), 1))
	if err := w.Changed(w.t.Context(), kube.Batch{Changes: []kube.Change{{Type: kube.Modified, Object: c}}}); err != nil {
		w.t.Fatal(err)
	}
}

// TestEachChangeOfTheAnnotationIsAnEvent removes the annotation and adds it again before the task of the first event
// has recorded a result. The task may read the configuration before or after the second change.
func TestEachChangeOfTheAnnotationIsAnEvent(t *testing.T) {
	t.Parallel()
	const changed = "c: annotation addons.kyma-project.io/modules"
	w := newFixture(t)
	defer w.forget()
	record := func(modules bool) {
		t.Helper()
		if err := w.db.Update(func(tx *store.Tx) error {
			return store.Save(tx, store.ConfigurationKey("", "c"), store.Configuration{UID: "uid-c", Generation: 1, Phase: store.PhaseReady, Modules: modules})
		}); err != nil {
			t.Fatal(err)
		}
	}
	record(true)
	w.annotate(true)
	w.expect()
	w.annotate(false)
	w.expect(changed)
	w.annotate(true)
	w.expect(changed) // the task of the first event may have read the configuration without the annotation
	record(true)
	w.annotate(false)
	w.expect(changed)
}

// overdue saves the record of a failed configuration whose next attempt was due a minute ago.
func (w *fixture) overdue(name string) {
	w.t.Helper()
	if err := w.db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.ConfigurationKey("", name), store.Configuration{
			UID: "uid-" + name, Generation: 1, Phase: store.PhaseFailed, Processed: tx.Now(), Retry: tx.Now().Add(-time.Minute),
		})
	}); err != nil {
		w.t.Fatal(err)
	}
}

func TestATriggerThatCannotRaiseAnEventEnds(t *testing.T) {
	t.Parallel()
	client, err := kube.NewClient(&rest.Config{Host: "https://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no graph has this trigger")
	w := &fixture{t: t}
	raise := raiserFunc(func(*store.Tx, ...workflow.Event) error { return refused })
	w.Trigger = New(storetest.Memory(t), raise, client, kube.NewKinds(client, kube.Observer{}), retry.Delays{Resync: time.Hour}, kube.Observer{})
	defer w.forget()
	w.overdue("c")
	if err := w.Run(t.Context()); !errors.Is(err, refused) {
		t.Errorf("Run returned %v", err)
	}
}

func TestEventsAreRaisedAgainAfterTheEngineHasRepairedARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		defer w.forget()
		collect, calls := w.engine, 0
		w.engine = raiserFunc(func(tx *store.Tx, events ...workflow.Event) error {
			if calls++; calls == 2 {
				return fmt.Errorf("raise: %w", &store.RecordError{Key: store.RunKey(1), Err: errors.New("its checksum does not match")})
			}
			return collect.Raise(tx, events...)
		})
		for _, name := range []string{"a", "b", "c"} {
			w.overdue(name)
		}
		if err := w.planAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.tick(ctx) }()
		synctest.Wait()
		w.expect("a: another attempt is due")
		time.Sleep(repairPause)
		synctest.Wait()
		w.expect("b: another attempt is due", "c: another attempt is due")
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestADamagedRecordDoesNotStopTheTrigger(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	defer w.forget()
	for _, name := range []string{"damaged", "gone"} {
		if err := w.db.Update(func(tx *store.Tx) error { tx.Put(store.ConfigurationKey("", name), []byte("[1]")); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	w.overdue("failed")
	if err := w.planAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.Image = func(api.Identity, bool) (string, error) { return "modules", nil }
	if err := errors.Join(w.raiseDue(t.Context()), w.compareModules(t.Context())); err != nil {
		t.Fatal(err)
	}
	w.expect("failed: another attempt is due", "failed: the modules of the image changed")
	w.list("damaged 1 Ready 1 1", "failed 1 Failed 1 1")
	w.expect("gone: it does not exist any more", "damaged: it is new")
}
