package addons

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/internal/jq"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
)

// TestTheFilterSelectsWhatTheTriggerReads applies the filter of the watch to whole objects. The
// result must have all fields that a Trigger needs.
func TestTheFilterSelectsWhatTheTriggerReads(t *testing.T) {
	t.Parallel()
	created := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	filter, err := jq.CompileOwn(configurationFilter)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		manifest string
		want     configuration
	}{
		"a new one": {
			`{"metadata":{"generation":1,"creationTimestamp":"2026-03-01T12:00:00Z"}}`,
			configuration{sighting: sighting{generation: 1}, created: created, lacksFinalizers: true},
		},
		"one that is Ready": {
			`{"metadata":{"generation":3,"creationTimestamp":"2026-03-01T12:00:00Z","finalizers":["other","` + api.Finalizer + `"]},"status":{"phase":"Ready","observedGeneration":2}}`,
			configuration{sighting: sighting{generation: 3}, created: created, phase: store.PhaseReady, observed: 2},
		},
		"one that is being deleted": {
			`{"metadata":{"generation":1,"creationTimestamp":"2026-03-01T12:00:00Z","deletionTimestamp":"2026-03-02T12:00:00Z","finalizers":["other"]}}`,
			configuration{sighting: sighting{generation: 1, deleted: true}, created: created, lacksFinalizers: true},
		},
		"one for modules": {
			`{"metadata":{"generation":1,"creationTimestamp":"2026-03-01T12:00:00Z","annotations":{"` + api.ModulesAnnotation + `":"true"}}}`,
			configuration{sighting: sighting{generation: 1, modules: true}, created: created, lacksFinalizers: true},
		},
		"one that is not for modules": {
			`{"metadata":{"generation":1,"creationTimestamp":"2026-03-01T12:00:00Z","annotations":{"` + api.ModulesAnnotation + `":"false","other":"true"}}}`,
			configuration{sighting: sighting{generation: 1}, created: created, lacksFinalizers: true},
		},
	} {
		result, err := filter.Apply(t.Context(), jq.NewInput([]byte(test.manifest)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := readConfiguration(&kube.Object{Namespace: "ops", Name: "c", UID: "u", FilterResult: result})
		test.want.id, test.want.uid = api.Identity{Namespace: "ops", Name: "c"}, "u"
		if err != nil || got != test.want {
			t.Errorf("%s: the configuration is %+v, want %+v, error %v", name, got, test.want, err)
		}
	}
	if got, err := readConfiguration(&kube.Object{Name: "c", UID: "u"}); err != nil || got.uid != "u" || !got.lacksFinalizers {
		t.Errorf("without a result of the filter, the configuration is %+v, error %v", got, err)
	}
	if _, err := readConfiguration(&kube.Object{Name: "c", FilterResult: []byte(`{"generation":"one"}`)}); err == nil || !strings.HasPrefix(err.Error(), "read ClusterAddonsConfiguration c: ") {
		t.Errorf("for an unknown result of the filter, the error is %v", err)
	}
}

func TestAConfigurationIsProcessedWhenAUserHasChangedIt(t *testing.T) {
	t.Parallel()
	const repair = "its status or its finalizer is not what the operator has written"
	ready := store.Configuration{UID: "u", Generation: 2, Phase: store.PhaseReady}
	as := configuration{sighting: sighting{uid: "u", generation: 2}, phase: store.PhaseReady, observed: 2}
	for name, test := range map[string]struct {
		change func(*configuration, *store.Configuration)
		want   string
	}{
		"nothing":                 {func(*configuration, *store.Configuration) {}, ""},
		"the spec":                {func(c *configuration, _ *store.Configuration) { c.generation, c.observed = 3, 2 }, "generation 3"},
		"created again":           {func(c *configuration, _ *store.Configuration) { c.uid = "v" }, "it is new"},
		"deleted":                 {func(c *configuration, _ *store.Configuration) { c.deleted = true }, "it is being deleted"},
		"deleted with a new spec": {func(c *configuration, _ *store.Configuration) { c.deleted, c.generation = true, 3 }, "it is being deleted"},
		"the annotation":          {func(c *configuration, _ *store.Configuration) { c.modules = true }, "annotation " + api.ModulesAnnotation},
		"no annotation any more":  {func(_ *configuration, r *store.Configuration) { r.Modules = true }, "annotation " + api.ModulesAnnotation},
		"a round was interrupted": {func(_ *configuration, r *store.Configuration) { r.Phase = store.PhasePending }, "its last round has not ended"},
		"the phase":               {func(c *configuration, _ *store.Configuration) { c.phase = store.PhaseFailed }, repair},
		"no status":               {func(c *configuration, _ *store.Configuration) { c.phase, c.observed = "", 0 }, repair},
		"the observed generation": {func(c *configuration, _ *store.Configuration) { c.observed = 1 }, repair},
		"the finalizer":           {func(c *configuration, _ *store.Configuration) { c.lacksFinalizers = true }, repair},
		"a failed one as it was": {func(c *configuration, r *store.Configuration) {
			c.phase, r.Phase = store.PhaseFailed, store.PhaseFailed
		}, ""},
	} {
		c, record := as, ready
		test.change(&c, &record)
		c.id = api.Identity{Namespace: "ops", Name: "c"}
		w := newFixture(t)
		if err := w.db.Update(func(tx *store.Tx) error {
			if err := store.Save(tx, store.ConfigurationKey("ops", "c"), record); err != nil {
				return err
			}
			why, err := w.judge(tx, c)
			if why != test.want {
				t.Errorf("%s: it is processed because %q, want %q", name, why, test.want)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		w.forget()
	}
}

func TestAFailedTransactionRaisesTheEventAgain(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	engine, broken := w.engine, errors.New("broken")
	w.engine = raiserFunc(func(tx *store.Tx, events ...workflow.Event) error {
		tx.Put(store.At(store.Metrics).Str("raised"), []byte("1"))
		return engine.Raise(tx, events...)
	})
	w.db.Guard(func() error { return broken })
	batch := kube.Batch{Changes: []kube.Change{{Type: kube.Modified, Object: object("c 1 - 0 1")}}}
	if err := w.Changed(t.Context(), batch); !errors.Is(err, broken) {
		t.Errorf("the error is %v", err)
	}
	w.raisedSince()
	w.db.Guard(nil)
	if err := w.Changed(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	w.expect("c: it is new")
}

func TestARunningFetchIsInterruptedBeforeTheEventIsRaised(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	defer w.forget()
	w.Interrupt = func(id api.Identity, uid string, generation int64, deleted bool) {
		w.add(fmt.Sprintf("interrupt %s %q %d %t", id, uid, generation, deleted))
	}
	w.change("c 2 - 0 1")
	w.expect(`interrupt c "uid-c" 2 false`, "c: it is new")
	w.know("c", 2, store.PhaseReady)
	gone := kube.Batch{Changes: []kube.Change{{Type: kube.Deleted, Object: object("c 2 Ready 2 1")}, {Type: kube.Deleted, Object: object("unknown 1 Ready 1 1")}}}
	if err := w.Changed(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	w.expect(`interrupt c "" 0 true`, "c: it does not exist any more", `interrupt unknown "" 0 true`)
}

func TestAConfigurationThatIsCreatedAgainIsNew(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	defer w.forget()
	w.know("c", 1, store.PhaseReady)
	w.change("c 1 Ready 1 1")
	w.expect()
	if err := w.Changed(t.Context(), kube.Batch{Changes: []kube.Change{{Type: kube.Deleted, Object: object("c 1 Ready 1 1")}}}); err != nil {
		t.Fatal(err)
	}
	w.expect("c: it does not exist any more")
	w.forget()
	w.change("c 1 - 0 2")
	w.expect("c: it is new")
}

func TestAConfigurationThatVanishesWhileItWaitsIsNotProcessed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFixture(t)
		w.list("ready 1 Ready 1 1", "waits 1 - 0 2", "other 1 - 0 3")
		w.expect("ready: it is new")
		if err := w.Changed(t.Context(), kube.Batch{Changes: []kube.Change{{Type: kube.Deleted, Object: object("waits 1 - 0 2")}}}); err != nil {
			t.Fatal(err)
		}
		if next, ok := w.next(); !ok || !next.Equal(w.db.Now().Add(restoreWithin)) {
			t.Errorf("the trigger wakes at %s, %t", next, ok)
		}
		time.Sleep(restoreWithin)
		if err := w.raiseDue(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.expect("other: it is new")
		if next, ok := w.next(); ok {
			t.Errorf("when nothing waits, the trigger wakes at %s", next)
		}
	})
}

func TestOneThatWasReadyAndVanishesReleasesThoseThatWait(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.list("ready 1 Ready 1 1", "waits 1 - 0 2")
	w.expect("ready: it is new")
	if err := w.Changed(t.Context(), kube.Batch{Changes: []kube.Change{{Type: kube.Deleted, Object: object("ready 1 Ready 1 1")}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.raiseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("waits: it is new")
}

func TestAListOfOneKindLeavesTheOtherKindUnchanged(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	defer w.forget()
	if err := w.db.Update(func(tx *store.Tx) error {
		for _, namespace := range []string{"", "ops"} {
			if err := store.Save(tx, store.ConfigurationKey(namespace, "c"), store.Configuration{UID: "u", Generation: 1, Phase: store.PhaseReady}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	w.list()
	w.expect("c: it does not exist any more")
	if err := w.Listed(t.Context(), kube.List{View: kube.View{Source: kube.Source{Kind: api.NamespacedKind}}}); err != nil {
		t.Fatal(err)
	}
	w.expect("ops/c: it does not exist any more")
}

func TestConfigurationsAreProcessedInTheOrderOfTheirCreation(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.list("c 1 - 0 3", "b 1 - 0 2", "d 1 - 0 1", "a 1 - 0 2")
	w.expect("d: it is new", "a: it is new", "b: it is new", "c: it is new")
}

func TestManyConfigurationsArePlannedAndProcessedInSeveralTransactions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	defer w.forget()
	budget, most := 0, 0
	engine := w.engine
	w.engine = raiserFunc(func(tx *store.Tx, events ...workflow.Event) error {
		budget = tx.Budget().Ops
		most = max(most, tx.Written().Ops)
		for i := range 500 { // as many writes as the tasks of many events
			tx.Put(store.At(store.Metrics).Str(events[0].Subject.Configuration).Uint(uint64(i)), []byte("1")) //nolint:gosec // the index is small
		}
		return engine.Raise(tx, events...)
	})
	var texts, want []string
	for i := range 60 {
		texts = append(texts, fmt.Sprintf("c%02d 1 - 0 1", i))
		want = append(want, fmt.Sprintf("c%02d: it is new", i))
	}
	w.list(texts...)
	w.expect(want...)
	if budget == 0 || most > budget {
		t.Errorf("an event was added to a transaction with %d writes, whose budget is %d", most, budget)
	}
	if 60*500 <= budget {
		t.Errorf("all events fit in one transaction of %d writes", budget)
	}
}

func TestDueConfigurationsAreProcessedInTheOrderOfTheirNames(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	ids := []api.Identity{{Name: "b"}, {Namespace: "ops", Name: "a"}, {Name: "a"}, {Name: "later"}}
	for _, id := range ids[:3] {
		w.planAt(id, w.db.Now())
	}
	w.planAt(ids[3], w.db.Now().Add(time.Minute))
	if err := w.raiseDue(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("a: another attempt is due", "b: another attempt is due", "ops/a: another attempt is due")
	if next, ok := w.next(); !ok || !next.After(w.db.Now()) {
		t.Errorf("the next configuration is due at %s, %t", next, ok)
	}
}

func TestSettledRoundsPlanTheNextAttemptOrNone(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	id, soon, later := api.Identity{Name: "c"}, w.db.Now().Add(time.Minute), w.db.Now().Add(time.Hour)
	due := func() time.Time {
		next, _ := w.next()
		return next
	}
	w.planAt(id, later)
	w.planAt(id, soon)
	if got := due(); !got.Equal(soon) {
		t.Errorf("of two times, it is due at %s, want %s", got, soon)
	}
	w.planAt(id, later)
	if got := due(); !got.Equal(soon) {
		t.Errorf("after a later time, it is due at %s, want %s", got, soon)
	}
	w.Settled(id, later)
	if got := due(); !got.Equal(later) {
		t.Errorf("after its round, it is due at %s, want %s", got, later)
	}
	w.Settled(id, time.Time{})
	if got, ok := w.next(); ok {
		t.Errorf("after a round without another attempt, it is due at %s", got)
	}
	if len(w.wake) != 1 {
		t.Error("the end of a round does not wake the trigger")
	}
}

func TestEventsNameTheKindOfTheConfiguration(t *testing.T) {
	t.Parallel()
	for id, want := range map[api.Identity]string{{Name: "all"}: "ClusterAddonsConfiguration all", {Namespace: "ops", Name: "team"}: "AddonsConfiguration ops/team"} {
		ev := eventOf(id, "configuration due", "why")
		if ev.Cause.Object != want || ev.Cause.Detail != "why" || ev.Subject.Configuration != id.String() || ev.On != "configuration due" {
			t.Errorf("the event is %+v", ev)
		}
	}
}

func TestAnImageThatCannotBeReadIsComparedLater(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	defer w.forget()
	w.know("c", 1, store.PhaseReady)
	var asked []bool
	fails := true
	w.Image = func(id api.Identity, marked bool) (string, error) {
		if asked = append(asked, marked); fails {
			return "", errors.New("no directory")
		}
		return "image", nil
	}
	if err := w.compareModules(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect()
	fails = false
	if err := w.compareModules(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.expect("c: the modules of the image changed")
	if want := []bool{false, false, true}; !slices.Equal(asked, want) {
		t.Errorf("the image was read for %v, want %v", asked, want)
	}
	if diff := cmp.Diff(map[bool]string{false: "image", true: "image"}, w.compared); diff != "" {
		t.Errorf("compared (-want +got):\n%s", diff)
	}
}
