package registry_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// An offer is an addon in a repository of a configuration, in a test.
type offer struct{ id, name, version, chart string }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// parsed returns the content of the addon as it is after parsing.
func (o offer) parsed() registry.Parsed {
	archive := []byte("chart " + o.chart)
	return registry.Parsed{
		Name: registry.ContentName(digest(fmt.Sprint(o))),
		Loaded: &catalog.Loaded{
			Archive: archive,
			Addon: catalog.Addon{
				ID: o.id, Name: o.name, Version: o.version,
				Chart: catalog.Chart{Name: o.chart, Version: "1.0.0", Digest: digest(string(archive))},
			},
		},
	}
}

// fetch stores the contents of these addons and the result of a round, in which the configuration has one repository
// with these addons.
func fetch(db *store.DB, o registry.Owner, round store.ID, offers ...offer) error {
	return fetchWith(db, o, round, nil, offers...)
}

// fetchWith is like fetch. Each of the addons has the given plans.
func fetchWith(db *store.DB, o registry.Owner, round store.ID, plans []catalog.Plan, offers ...offer) error {
	result := store.RepositoryResult{URL: "https://h/" + o.Name}
	var contents []registry.Parsed
	for _, a := range offers {
		p := a.parsed()
		p.Loaded.Addon.Plans = plans
		contents = append(contents, p)
		result.Addons = append(result.Addons, store.AddonResult{
			Entry: a.name, EntryVersion: a.version, Content: p.Name, ID: a.id, Name: a.name, Version: a.version,
		})
	}
	if err := registry.Put(context.Background(), db, store.RoundHolder(round), contents...); err != nil {
		return err
	}
	return db.Update(func(tx *store.Tx) error {
		return registry.SaveResult(tx, o.Scope, o.Name, round, 0, result)
	})
}

// begin starts a round.
func begin(db *store.DB, o registry.Owner) (round store.ID, freed bool, err error) {
	err = db.Update(func(tx *store.Tx) error {
		round, freed, err = registry.Begin(tx, o)
		return err
	})
	return round, freed, err
}

// finish registers a round, or rejects it if an addon conflicts with another configuration.
func finish(db *store.DB, o registry.Owner, round store.ID) (freed bool, found []registry.Conflict, err error) {
	err = db.Update(func(tx *store.Tx) error {
		freed, found, err = registerRound(tx, o.Scope, o.Name, round)
		if err == nil && len(found) > 0 {
			freed, err = registry.Reject(tx, o.Scope, o.Name, round)
		}
		return err
	})
	return freed, found, err
}

// registered returns one text for each registered addon.
func registered(db *store.DB) (all []string, err error) {
	err = db.View(func(tx *store.Tx) error {
		for a, err := range registry.All(tx) {
			if err != nil {
				return err
			}
			all = append(all, fmt.Sprintf("%s|%s|%s %s|%s", a.Scope, a.ID, a.Name, a.Version, a.Configuration))
		}
		return nil
	})
	return all, err
}

// A model has the expected content of the registry. It uses only maps.
type model struct {
	owned map[registry.Scope]map[string]map[string]offer // registered addons by scope, configuration and ID
	uids  map[registry.Scope]map[string]string
}

func (m model) conflicts(o registry.Owner, offers []offer) (n int) {
	for _, a := range offers {
		for name, owned := range m.owned[o.Scope] {
			hit := slices.ContainsFunc(slices.Collect(maps.Values(owned)), func(b offer) bool {
				return a.id == b.id || a.name == b.name && catalog.NormalizeVersion(a.version) == catalog.NormalizeVersion(b.version)
			})
			if name != o.Name && hit {
				n++
				break
			}
		}
	}
	return n
}

// swap replaces the registered addons of configuration o by offers. It reports whether an ID, or a name with a
// version, became free.
func (m model) swap(o registry.Owner, offers []offer) (freed bool) {
	ids, names := map[string]bool{}, map[[2]string]bool{}
	next := map[string]offer{}
	for _, a := range offers {
		next[a.id] = a
		ids[a.id], names[[2]string{a.name, catalog.NormalizeVersion(a.version)}] = true, true
	}
	for _, a := range m.owned[o.Scope][o.Name] {
		freed = freed || !ids[a.id] || !names[[2]string{a.name, catalog.NormalizeVersion(a.version)}]
	}
	if m.owned[o.Scope] == nil {
		m.owned[o.Scope] = map[string]map[string]offer{}
	}
	m.owned[o.Scope][o.Name] = next
	return freed
}

func (m model) list() (all []string) {
	for scope, configurations := range m.owned {
		for name, owned := range configurations {
			for _, a := range owned {
				all = append(all, fmt.Sprintf("%s|%s|%s %s|%s", scope, a.id, a.name, a.version, name))
			}
		}
	}
	slices.Sort(all)
	return all
}

// offers generates a few addons. All of them have different IDs, and different pairs of name and version.
func offers(t *rapid.T) (all []offer) {
	for range rapid.IntRange(0, 4).Draw(t, "addons") {
		a := offer{
			id:      rapid.SampledFrom([]string{"A", "B", "C", "D"}).Draw(t, "id"),
			name:    rapid.SampledFrom([]string{"redis", "acc", "testing"}).Draw(t, "name"),
			version: rapid.SampledFrom([]string{"0.0.1", "v0.0.1", "0.0.2", "1.0"}).Draw(t, "version"),
			chart:   rapid.SampledFrom([]string{"one", "two"}).Draw(t, "chart"),
		}
		if !slices.ContainsFunc(all, func(b offer) bool {
			return a.id == b.id || a.name == b.name && catalog.NormalizeVersion(a.version) == catalog.NormalizeVersion(b.version)
		}) {
			all = append(all, a)
		}
	}
	return all
}

func TestARegistryIsAMapOfEachScope(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		memory := new(store.Memory)
		db, err := store.OpenMemory(memory, store.Options{})
		if err != nil {
			r.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		m := model{owned: map[registry.Scope]map[string]map[string]offer{}, uids: map[registry.Scope]map[string]string{}}
		for range rapid.IntRange(1, 12).Draw(r, "steps") {
			o := registry.Owner{
				Scope: rapid.SampledFrom([]registry.Scope{registry.Cluster, "stage", "stage-2"}).Draw(r, "scope"),
				Name:  rapid.SampledFrom([]string{"c1", "c2", "c3"}).Draw(r, "name"),
				UID:   rapid.SampledFrom([]string{"u1", "u1", "u1", "u2"}).Draw(r, "uid"),
			}
			if rapid.IntRange(0, 4).Draw(r, "withdraw") == 0 {
				wantFreed := m.swap(o, nil)
				delete(m.uids[o.Scope], o.Name)
				err := db.Update(func(tx *store.Tx) error {
					freed, err := registry.Withdraw(tx, o.Scope, o.Name)
					if err == nil && freed != wantFreed {
						err = fmt.Errorf("withdraw freed %t, want %t", freed, wantFreed)
					}
					return err
				})
				if err != nil {
					r.Fatal(err)
				}
			} else {
				processRound(r, db, m, o)
			}
			got, err := registered(db)
			if err != nil {
				r.Fatal(err)
			}
			slices.Sort(got)
			if diff := cmp.Diff(m.list(), got); diff != "" {
				r.Fatalf("registered (-want +got):\n%s", diff)
			}
			if err := db.Check(); err != nil {
				r.Fatal(err)
			}
		}
	})
}

// processRound carries out one round of configuration o in db and in the model m, and compares the results. The round
// is registered, rejected, or not ended.
func processRound(r *rapid.T, db *store.DB, m model, o registry.Owner) {
	if m.uids[o.Scope] == nil {
		m.uids[o.Scope] = map[string]string{}
	}
	wantFreed := false
	if uid, ok := m.uids[o.Scope][o.Name]; ok && uid != o.UID {
		wantFreed = m.swap(o, nil)
	}
	m.uids[o.Scope][o.Name] = o.UID
	round, freed, err := begin(db, o)
	if err != nil || freed != wantFreed {
		r.Fatalf("begin: freed %t, want %t: %v", freed, wantFreed, err)
	}
	all := offers(r)
	if err := fetch(db, o, round, all...); err != nil {
		r.Fatal(err)
	}
	switch rapid.SampledFrom([]string{"register", "register", "abandon", "reject"}).Draw(r, "end") {
	case "register":
		want := m.conflicts(o, all)
		next := all
		if want > 0 {
			next = nil
		}
		wantFreed := m.swap(o, next)
		freed, found, err := finish(db, o, round)
		if err != nil || freed != wantFreed || len(found) != want {
			r.Fatalf("register: freed %t, want %t; conflicts %v, want %d: %v", freed, wantFreed, found, want, err)
		}
	case "reject":
		wantFreed := m.swap(o, nil)
		if err := db.Update(func(tx *store.Tx) error {
			freed, err := registry.Reject(tx, o.Scope, o.Name, round)
			if err == nil && freed != wantFreed {
				err = fmt.Errorf("reject freed %t, want %t", freed, wantFreed)
			}
			return err
		}); err != nil {
			r.Fatal(err)
		}
	}
	if err := db.Update(func(tx *store.Tx) error {
		_, _, err := registerRound(tx, o.Scope, o.Name, store.ID{Epoch: 99, N: 1})
		return err
	}); !errors.Is(err, registry.ErrReplaced) {
		r.Fatalf("a round that is not the latest is registered: %v", err)
	}
}

// registerRound registers the addons of a round. It returns the results of [registry.Round.Register].
func registerRound(tx *store.Tx, scope registry.Scope, name string, round store.ID) (freed bool, found []registry.Conflict, err error) {
	r, err := registry.Open(tx, scope, name, round)
	if err != nil {
		return false, nil, err
	}
	return r.Register()
}
