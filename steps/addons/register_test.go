package addons

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/api"
	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// taskOf returns a task whose subject is the configuration.
func taskOf(name string) workflow.Task {
	return workflow.Task{Task: store.Task{Subject: graph.Subject{Configuration: name}}}
}

// offer begins a round of a configuration and stores its results, as if one addon with ID X had been fetched.
func offer(t *testing.T, db *store.DB, name string) {
	t.Helper()
	var round store.ID
	if err := db.Update(func(tx *store.Tx) (err error) {
		round, _, err = registry.Begin(tx, registry.Owner{Name: name, UID: name, Generation: 1})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	content := registry.Parsed{Name: registry.ContentName(name), Loaded: &catalog.Loaded{
		Addon:   catalog.Addon{ID: "X", Name: name, Version: "1.0.0", Chart: catalog.Chart{Name: "c", Version: "1.0.0", Digest: name}},
		Archive: []byte(name),
	}}
	if err := registry.Put(t.Context(), db, store.RoundHolder(round), content); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		return registry.SaveResult(tx, registry.Cluster, name, round, 0, store.RepositoryResult{
			URL: "https://h/" + name, Addons: []store.AddonResult{{Entry: name, EntryVersion: "1.0.0", Content: content.Name}},
		})
	}); err != nil {
		t.Fatal(err)
	}
}

// check runs the steps that check the addons of a configuration before registration.
func check(t *testing.T, r *Runtime, name string) {
	t.Helper()
	for _, step := range []workflow.Step{&lintStep{r}, &duplicatesStep{r}, &conflictsStep{r}} {
		if _, err := step.Do(t.Context(), taskOf(name)); err != nil {
			t.Fatal(err)
		}
	}
}

// register runs registerStep for a configuration. It returns the facts, the phase of the configuration, and the
// reason of its first addon.
func register(t *testing.T, r *Runtime, name string) (facts []graph.Fact, phase store.Phase, reason string) {
	t.Helper()
	step := &registerStep{r}
	out, err := step.Do(t.Context(), taskOf(name))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.DB.Update(func(tx *store.Tx) (err error) {
		facts, err = step.Apply(tx, taskOf(name), out)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c, results, err := r.results(api.Identity{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 || len(results[0].Addons) == 0 {
		return facts, c.Phase, ""
	}
	return facts, c.Phase, results[0].Addons[0].Reason
}

func TestConflictThatIsGoneWhenAddonsAreRegisteredIsNone(t *testing.T) {
	t.Parallel()
	r := &Runtime{DB: storetest.Memory(t)}
	offer(t, r.DB, "first")
	offer(t, r.DB, "second")
	check(t, r, "first")
	if _, phase, _ := register(t, r, "first"); phase != store.PhaseReady {
		t.Fatalf("first is %s", phase)
	}
	check(t, r, "second")
	if err := r.DB.Update(func(tx *store.Tx) error {
		facts, err := (&unregisterStep{r}).Apply(tx, taskOf("first"), workflow.Outcome{})
		if len(facts) != 1 {
			t.Errorf("unregistering returned %v", facts)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, phase, reason := register(t, r, "second"); phase != store.PhaseReady || reason != "" {
		t.Errorf("second is %s, its addon has reason %q", phase, reason)
	}
}

func TestConflictThatComesBeforeAddonsAreRegisteredIsFound(t *testing.T) {
	t.Parallel()
	r := &Runtime{DB: storetest.Memory(t)}
	offer(t, r.DB, "first")
	offer(t, r.DB, "second")
	check(t, r, "first")
	check(t, r, "second")
	register(t, r, "first")
	facts, phase, reason := register(t, r, "second")
	if phase != store.PhaseFailed || api.Reason(reason) != api.ConflictWithAlreadyRegisteredAddon || len(facts) != 0 {
		t.Errorf("second is %s with reason %q and facts %v", phase, reason, facts)
	}
}

// refuse stores these results, which contain problems, as the results of the latest round of the configuration.
func refuse(t *testing.T, db *store.DB, name string, results ...store.RepositoryResult) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) error {
		known, _, err := registry.Lookup(tx, registry.Cluster, name)
		if err != nil {
			return err
		}
		for i, r := range results {
			if err := registry.SaveResult(tx, registry.Cluster, name, known.Round, i, r); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestConfigurationThatFailsIsReportedOnceForEachSetOfReasons(t *testing.T) {
	t.Parallel()
	var got []string
	r := &Runtime{DB: storetest.Memory(t), Failed: func(id api.Identity, summary string, problems []string) {
		got = append(got, id.String()+": "+summary)
		got = append(got, problems...)
	}}
	unread := func(message string) store.RepositoryResult {
		return store.RepositoryResult{URL: "https://user:secret@h/a/index.yaml?token=secret", Reason: string(api.FetchingIndexError), Message: message}
	}
	broken := store.RepositoryResult{URL: "https://h/b", Addons: []store.AddonResult{
		{Entry: "redis", EntryVersion: "1.0.0", Reason: string(api.LoadingError), Message: "no chart"},
		{Entry: "nats", EntryVersion: "1.0.0"},
	}}
	round := func(results ...store.RepositoryResult) {
		t.Helper()
		offer(t, r.DB, "c")
		check(t, r, "c")
		if len(results) > 0 {
			refuse(t, r.DB, "c", results...)
		}
		register(t, r, "c")
	}
	round(unread("refused"), broken)
	round(unread("timed out"), broken) // the reasons are the same, but a message is different
	round(unread("refused"))
	round()
	round(unread("refused"))
	one := "c: 1 of 1 repository could not be read (FetchingIndexError); see addon-operator addons why c"
	line := "repository https://h/a/index.yaml: FetchingIndexError: refused"
	if diff := cmp.Diff([]string{
		"c: 1 of 2 repositories could not be read, 1 of 2 addons failed (FetchingIndexError, LoadingError); see addon-operator addons why c",
		line, "addon redis 1.0.0: LoadingError: no chart", one, line, one, line,
	}, got); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
}
