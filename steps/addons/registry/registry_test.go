package registry_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// process carries out one round of the cluster-wide configuration with this name. It reports whether the
// configuration is Ready, and whether an ID, or a pair of name and version, became free.
func process(t *testing.T, db *store.DB, name string, offers ...offer) (ready, freed bool) {
	t.Helper()
	o := registry.Owner{Name: name, UID: "uid of " + name}
	round, freedBefore, err := begin(db, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := fetch(db, o, round, offers...); err != nil {
		t.Fatal(err)
	}
	freed, found, err := finish(db, o, round)
	if err != nil {
		t.Fatal(err)
	}
	return len(found) == 0, freed || freedBefore
}

func withdraw(t *testing.T, db *store.DB, scope registry.Scope, name string) (freed bool) {
	t.Helper()
	if err := db.Update(func(tx *store.Tx) (err error) {
		freed, err = registry.Withdraw(tx, scope, name)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return freed
}

// wantRegistered fails the test if the registered addons differ from want. Each element of want has the form "id name
// version owner".
func wantRegistered(t *testing.T, db *store.DB, want ...string) {
	t.Helper()
	var got []string
	if err := db.View(func(tx *store.Tx) error {
		for a, err := range registry.All(tx) {
			if err != nil {
				return err
			}
			got = append(got, fmt.Sprintf("%s %s %s %s", a.ID, a.Name, a.Version, a.Configuration))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("registered (-want +got):\n%s", diff)
	}
}

var (
	redis = offer{id: "X", name: "redis", version: "0.0.1", chart: "redis"}
	acc   = offer{id: "Y", name: "acc", version: "0.0.1", chart: "acc"}
)

func TestAddonsPassOnWhenTheirOwnerGivesThemUp(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	if ready, _ := process(t, db, "first", redis); !ready {
		t.Fatal("first is not ready")
	}
	if ready, freed := process(t, db, "second", redis, acc); ready || freed {
		t.Fatalf("second: ready %t, freed %t", ready, freed)
	}
	wantRegistered(t, db, "X redis 0.0.1 first")
	if ready, freed := process(t, db, "first"); !ready || !freed {
		t.Fatalf("first without addons: ready %t, freed %t", ready, freed)
	}
	if ready, _ := process(t, db, "second", redis, acc); !ready {
		t.Fatal("second is not ready after the hand-over")
	}
	wantRegistered(t, db, "X redis 0.0.1 second", "Y acc 0.0.1 second")
	if ready, _ := process(t, db, "third", acc); ready {
		t.Fatal("third is ready")
	}
	if !withdraw(t, db, registry.Cluster, "second") {
		t.Fatal("withdrawing second freed nothing")
	}
	if ready, _ := process(t, db, "third", acc); !ready {
		t.Fatal("third is not ready after the hand-over")
	}
	wantRegistered(t, db, "Y acc 0.0.1 third")
}

func TestANewVersionWithTheSameIDReplacesTheOldOne(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	next := redis
	next.version = "0.0.2" // the new version has the same chart
	if ready, freed := process(t, db, "c1", next); !ready || !freed {
		t.Fatalf("ready %t, freed %t: name and version are free now", ready, freed)
	}
	wantRegistered(t, db, "X redis 0.0.2 c1")
	if err := db.View(func(tx *store.Tx) error {
		a, _, err := registry.Find(tx, registry.Cluster, "X")
		if err != nil {
			return err
		}
		c, ok, err := registry.LoadContent(tx, a.Content)
		if err != nil || !ok || c.Addon.Version != "0.0.2" {
			return fmt.Errorf("content %+v, stored %t: %w", c, ok, err)
		}
		archive, ok, err := registry.LoadChart(tx, c.Addon.Chart.Digest)
		if err != nil || !ok || string(archive) != "chart redis" {
			return fmt.Errorf("chart %q, stored %t: %w", archive, ok, err)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	count, err := contents(db)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"rounds": 1, "holds": 1, "holders": 1, "contents": 1, "charts": 1, "chunks": 2}, count); diff != "" {
		t.Errorf("records after the upgrade (-want +got):\n%s", diff)
	}
}

func TestRemovingAnAddonWithSeveralPlansLeavesNothing(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	o := registry.Owner{Name: "c1", UID: "u"}
	round, _, err := begin(db, o)
	if err != nil {
		t.Fatal(err)
	}
	// Two of the addons have the same chart, which is stored only once.
	second := offer{id: "Z", name: "cache", version: "0.0.1", chart: redis.chart}
	if err := fetchWith(db, o, round, []catalog.Plan{{ID: "p1", Name: "micro"}, {ID: "p2", Name: "small"}}, redis, second); err != nil {
		t.Fatal(err)
	}
	if _, found, err := finish(db, o, round); err != nil || len(found) > 0 {
		t.Fatalf("conflicts %v, %v", found, err)
	}
	if ready, _ := process(t, db, "c1", second); !ready {
		t.Fatal("the configuration is not ready without the first addon")
	}
	wantRegistered(t, db, "Z cache 0.0.1 c1")
	if !withdraw(t, db, registry.Cluster, "c1") {
		t.Error("withdrawing the configuration freed nothing")
	}
	wantRegistered(t, db)
	if err := registry.Sweep(t.Context(), db); err != nil {
		t.Fatal(err)
	}
	count, err := contents(db)
	if err != nil || len(count) != 0 {
		t.Errorf("left: %v, %v", count, err)
	}
}

func TestAConflictNamesTheHolder(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	for name, o := range map[string]offer{
		"the same ID":               {id: "X", name: "cache", version: "9.9.9", chart: "c"},
		"the same name and version": {id: "Z", name: "redis", version: "v0.0.1", chart: "c"},
	} {
		owner := registry.Owner{Name: "c2", UID: "u2"}
		round, _, err := begin(db, owner)
		if err != nil {
			t.Fatal(err)
		}
		if err := fetch(db, owner, round, acc, o); err != nil {
			t.Fatal(err)
		}
		_, found, err := finish(db, owner, round)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: conflicts %v, %v", name, found, err)
		}
		if c := found[0]; c.ID != "X" || c.With.Configuration != "c1" || c.With.URL != "https://h/c1" || c.At != (registry.Position{Addon: 1}) {
			t.Errorf("%s: %+v", name, c)
		}
		wantRegistered(t, db, "X redis 0.0.1 c1")
	}
}

func TestAnAddonThatKeepsItsIDDoesNotTakeAnothersName(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "first", redis)
	process(t, db, "second", acc)
	renamed := redis
	renamed.id = acc.id
	if ready, _ := process(t, db, "second", renamed); ready {
		t.Error("the second configuration took the name and version of the first's addon")
	}
	wantRegistered(t, db, "X redis 0.0.1 first")
}

func TestScopesDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	for _, scope := range []registry.Scope{registry.Cluster, "stage", "stage-2", "stage2"} {
		o := registry.Owner{Scope: scope, Name: "c", UID: "u"}
		round, _, err := begin(db, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := fetch(db, o, round, redis); err != nil {
			t.Fatal(err)
		}
		if _, found, err := finish(db, o, round); err != nil || len(found) > 0 {
			t.Fatalf("scope %q: conflicts %v, %v", scope, found, err)
		}
	}
	withdraw(t, db, "stage", "c")
	if err := db.View(func(tx *store.Tx) error {
		for scope, want := range map[registry.Scope]int{registry.Cluster: 1, "stage": 0, "stage-2": 1, "stage2": 1} {
			n, configurations := 0, 0
			for range registry.In(tx, scope) {
				n++
			}
			for range registry.ConfigurationsIn(tx, scope) {
				configurations++
			}
			if n != want || configurations != want {
				t.Errorf("scope %q has %d addons of %d configurations, want %d", scope, n, configurations, want)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestAFailedConfigurationDoesNotBlock(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	process(t, db, "c2", redis, acc) // fails because of redis
	if ready, _ := process(t, db, "c3", acc); !ready {
		t.Error("the failed configuration c2 holds acc")
	}
	wantRegistered(t, db, "X redis 0.0.1 c1", "Y acc 0.0.1 c3")
}

func TestARecreatedConfigurationOwnsNothingOfItsPredecessor(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	round, freed, err := begin(db, registry.Owner{Name: "c1", UID: "another"})
	if err != nil || !freed {
		t.Fatalf("round %s, freed %t: %v", round, freed, err)
	}
	wantRegistered(t, db)
	if ready, _ := process(t, db, "c2", redis); !ready {
		t.Error("c2 is not ready")
	}
}

func TestTheOldAddonsStayRegisteredUntilARoundEnds(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	o := registry.Owner{Name: "c1", UID: "uid of c1", Generation: 2}
	for range 2 { // the second result replaces the first one of the same repository
		round, _, err := begin(db, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := fetch(db, o, round, acc); err != nil {
			t.Fatal(err)
		}
		wantRegistered(t, db, "X redis 0.0.1 c1")
		if ready, _ := process(t, db, "c2", redis); ready {
			t.Error("c2 took the addon of a configuration that is being processed")
		}
	}
}

func TestOneOfTwoConfigurationsWinsInEachOfAHundredRounds(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	for i := range 100 {
		names := []string{"a", "b"}
		if i%2 == 1 {
			names[0], names[1] = names[1], names[0]
		}
		if ready, _ := process(t, db, names[0], redis); !ready {
			t.Fatalf("round %d: the first is not ready", i)
		}
		if ready, _ := process(t, db, names[1], redis); ready {
			t.Fatalf("round %d: both are ready", i)
		}
		wantRegistered(t, db, "X redis 0.0.1 "+names[0])
		var freed bool
		if i%3 == 0 {
			_, freed = process(t, db, names[0])
		} else {
			freed = withdraw(t, db, registry.Cluster, names[0])
		}
		if !freed {
			t.Fatalf("round %d: the winner gave up and freed nothing", i)
		}
		if ready, _ := process(t, db, names[1], redis); !ready {
			t.Fatalf("round %d: the loser did not take over", i)
		}
		wantRegistered(t, db, "X redis 0.0.1 "+names[1])
		withdraw(t, db, registry.Cluster, "a")
		withdraw(t, db, registry.Cluster, "b")
	}
	if count, err := contents(db); err != nil || len(count) > 0 {
		t.Errorf("left: %v, %v", count, err)
	}
}

// The function many returns n addons with different IDs and names.
func many(n int, prefix string) (all []offer) {
	for i := range n {
		id := fmt.Sprintf("%s-%04d", prefix, i)
		all = append(all, offer{id: id, name: id, version: "1.0.0", chart: id})
	}
	return all
}

func TestAsManyAddonsAsTheLimitAllowsAreSwappedInOneTransaction(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	if ready, _ := process(t, db, "c1", many(registry.MaxAddons, "old")...); !ready {
		t.Fatal("not ready")
	}
	if ready, freed := process(t, db, "c1", many(registry.MaxAddons, "new")...); !ready || !freed {
		t.Fatalf("ready %t, freed %t", ready, freed)
	}
	if !withdraw(t, db, registry.Cluster, "c1") {
		t.Fatal("nothing was freed")
	}
	if err := registry.Sweep(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	if count, err := contents(db); err != nil || len(count) > 0 {
		t.Errorf("left: %v, %v", count, err)
	}
}

func TestALimitIsToldAtTheAddonThatExceedsIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		offers []offer
		at     int
		text   string
	}{
		"too many":     {many(registry.MaxAddons+1, "a"), registry.MaxAddons, "divide its repositories among several configurations"},
		"a long ID":    {[]offer{redis, {id: strings.Repeat("x", 40_000), name: "n", version: "1"}}, 1, "shorten it in meta.yaml"},
		"an ID twice":  {[]offer{redis, {id: "X", name: "n", version: "1"}}, 1, "occurs twice"},
		"a name twice": {[]offer{redis, {id: "Z", name: "redis", version: "v0.0.1"}}, 1, "occurs twice"},
		"long names":   {long(1_200), 900, "MiB in the registry"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := storetest.Memory(t)
			process(t, db, "c1", redis)
			o := registry.Owner{Name: "c1", UID: "uid of c1", Generation: 2}
			round, _, err := begin(db, o)
			if err != nil {
				t.Fatal(err)
			}
			if err := fetch(db, o, round, c.offers...); err != nil {
				t.Fatal(err)
			}
			_, _, err = finish(db, o, round)
			var limit *registry.LimitError
			if !errors.As(err, &limit) || limit.At.Addon < c.at || !strings.Contains(err.Error(), c.text) {
				t.Fatalf("%#v: %v", limit, err)
			}
			wantRegistered(t, db, "X redis 0.0.1 c1")
		})
	}
}

// long returns n addons. The IDs and names of the addons are almost as long as the limit allows.
func long(n int) (all []offer) {
	for i := range n {
		id := fmt.Sprintf("%s%04d", strings.Repeat("x", 1_000), i)
		all = append(all, offer{id: id, name: id[1:], version: "1.0.0", chart: "c"})
	}
	return all
}

func TestARoundWithFailuresCannotBeRegistered(t *testing.T) {
	t.Parallel()
	for name, r := range map[string]store.RepositoryResult{
		"of a repository": {URL: "u", Reason: "FetchingIndexError"},
		"of an addon":     {URL: "u", Addons: []store.AddonResult{{Entry: "redis", Reason: "LoadingError"}}},
		"not loaded":      {URL: "u", Addons: []store.AddonResult{{Entry: "redis"}}},
	} {
		db := storetest.Memory(t)
		o := registry.Owner{Name: "c1", UID: "u1"}
		round, _, err := begin(db, o)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *store.Tx) error {
			if err := registry.SaveResult(tx, o.Scope, o.Name, round, 0, r); err != nil {
				t.Fatal(err)
			}
			_, _, err := registerRound(tx, o.Scope, o.Name, round)
			return err
		})
		if err == nil {
			t.Errorf("a round with a failure %s is registered", name)
		}
	}
}

func TestAContentIsStoredOnceAndKeptWhileAModuleHoldsIt(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	name := redis.parsed().Name
	hold := func(content string) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) error {
			_, err := registry.HoldAs(tx, "redis", content)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	stored := func() (ok bool) {
		t.Helper()
		if err := db.View(func(tx *store.Tx) (err error) {
			_, ok, err = registry.LoadContent(tx, name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return ok
	}
	hold(name)
	withdraw(t, db, registry.Cluster, "c1")
	if !stored() {
		t.Error("the content that the module holds is gone")
	}
	hold("")
	if stored() {
		t.Error("the content is kept and nothing holds it")
	}
}

// TestAModuleHoldsItsNewContentBeforeItReleasesTheOldOne replaces the content of a module in a transaction whose budget
// is spent. This transaction must hold the new content, and cannot release the old content. A later transaction must
// release the old content.
func TestAModuleHoldsItsNewContentBeforeItReleasesTheOldOne(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	process(t, db, "c1", redis)
	process(t, db, "c2", acc)
	used := store.At(store.Metrics).Str("used")
	hold := func(content string, spent bool) (more bool) {
		t.Helper()
		if err := db.Update(func(tx *store.Tx) (err error) {
			if spent {
				tx.Put(used, make([]byte, tx.Budget().Bytes))
			}
			more, err = registry.HoldAs(tx, "m", content)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return more
	}
	hold(redis.parsed().Name, false)
	withdraw(t, db, registry.Cluster, "c1")
	if more := hold(acc.parsed().Name, true); !more {
		t.Fatal("the old content was released without a budget")
	}
	withdraw(t, db, registry.Cluster, "c2")
	if err := db.Update(func(tx *store.Tx) error {
		if _, stored, err := registry.LoadContent(tx, acc.parsed().Name); err != nil || !stored {
			t.Errorf("the new content of the module is stored: %t, %v", stored, err)
		}
		tx.Delete(used)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if more := hold(acc.parsed().Name, false); more {
		t.Error("the second call cannot release the old content either")
	}
	count, err := contents(db)
	if err != nil || count["contents"] != 1 {
		t.Errorf("the store has %v, want one content: %v", count, err)
	}
	hold("", false)
}

func TestAContentThatCannotBeLoadedIsKnown(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	o := registry.Owner{Name: "c1", UID: "u1"}
	round, _, err := begin(db, o)
	if err != nil {
		t.Fatal(err)
	}
	bad := registry.Parsed{Name: registry.ContentName("bad"), Err: errors.New("no plans")}
	if err := registry.Put(context.Background(), db, store.RoundHolder(round), bad); err != nil {
		t.Fatal(err)
	}
	next, _, err := begin(db, registry.Owner{Name: "c2", UID: "u2"})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		known, err := registry.Hold(tx, store.RoundHolder(next), bad.Name)
		if err != nil || !known {
			t.Errorf("known %t: %v", known, err)
		}
		if known, _ := registry.Hold(tx, store.RoundHolder(next), "other"); known {
			t.Error("a content that is not stored is known")
		}
		c, _, err := registry.LoadContent(tx, bad.Name)
		if diff := cmp.Diff(registry.Content{Error: "no plans"}, c); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFieldOfAnAddonComesBack(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	yes := true
	a := catalog.Addon{
		ID: "X", Name: "redis", Version: "0.0.1", Description: "d", DisplayName: "dn",
		Tags: []string{"a"}, Bindable: true, BindingsRetrievable: true, PlanUpdatable: &yes, Requires: []string{"r"},
		ProviderDisplayName: "p", LongDescription: "l", DocumentationURL: "u", SupportURL: "s", ImageURL: "i",
		ProvisionOnlyOnce: true, Labels: map[string]string{"a": "b"}, Docs: []byte(`{"docs":[]}`),
		Plans: []catalog.Plan{{
			Directory: "micro", ID: "p1", Name: "micro", Description: "d", DisplayName: "dn", Bindable: &yes, Free: &yes,
			Values: []byte(`{"a":1}`), CreateSchema: []byte(`{"b":1}`), UpdateSchema: []byte(`{"c":1}`), BindSchema: []byte(`{"d":1}`), Bind: []byte("x"),
		}},
		Chart: catalog.Chart{Name: "redis", Version: "1.0.0", Digest: digest("archive")},
	}
	round, _, err := begin(db, registry.Owner{Name: "c1", UID: "u1"})
	if err != nil {
		t.Fatal(err)
	}
	p := registry.Parsed{Name: "1-x", Loaded: &catalog.Loaded{Addon: a, Archive: []byte("archive"), Advice: []string{"advice"}}}
	if err := registry.Put(context.Background(), db, store.RoundHolder(round), p); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *store.Tx) error {
		c, _, err := registry.LoadContent(tx, "1-x")
		if diff := cmp.Diff(registry.Content{Addon: &a, Advice: []string{"advice"}}, c); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
