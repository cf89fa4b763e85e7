package registry_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// large is an addon with a chart that is too large for one transaction.
func large(id, chart string) registry.Parsed {
	archive := bytes.Repeat([]byte(chart), 20<<20/len(chart))
	return registry.Parsed{
		Name: registry.ContentName(digest("large " + id + chart)),
		Loaded: &catalog.Loaded{Archive: archive, Addon: catalog.Addon{
			ID: id, Name: id, Version: "1.0.0", Chart: catalog.Chart{Name: chart, Version: "1.0.0", Digest: digest(string(archive))},
		}},
	}
}

// A script registers a large addon. After that, it replaces this addon by two others: one with the same chart, and
// one with another chart. Finally it releases the contents that are no longer held. Each step of the script can be
// repeated.
type script struct {
	round store.ID
	step  int
}

// run carries out the remaining steps of the script. After an error, the next call of run repeats the failed step.
func (s *script) run(db *store.DB) error {
	o := registry.Owner{Name: "c1", UID: "u1"}
	save := func(parsed ...registry.Parsed) error {
		if err := registry.Put(context.Background(), db, store.RoundHolder(s.round), parsed...); err != nil {
			return err
		}
		result := store.RepositoryResult{URL: "https://h/index.yaml"}
		for _, p := range parsed {
			a := p.Loaded.Addon
			result.Addons = append(result.Addons, store.AddonResult{Content: p.Name, ID: a.ID, Name: a.Name, Version: a.Version})
		}
		return db.Update(func(tx *store.Tx) error { return registry.SaveResult(tx, o.Scope, o.Name, s.round, 0, result) })
	}
	start := func() (err error) { s.round, _, err = begin(db, o); return err }
	register := func() error {
		_, found, err := finish(db, o, s.round)
		if err == nil && len(found) > 0 {
			err = fmt.Errorf("conflicts: %v", found)
		}
		return err
	}
	steps := []func() error{
		start,
		func() error { return save(large("a", "one")) },
		register,
		start,
		func() error { return save(large("b", "one"), large("c", "two")) },
		register,
		func() error { return registry.Sweep(context.Background(), db) },
	}
	for ; s.step < len(steps); s.step++ {
		if err := steps[s.step](); err != nil {
			return err
		}
	}
	return nil
}

// contents returns the number of records in each table with data of rounds or contents. A table without records is not
// in count.
func contents(db *store.DB) (count map[string]int, err error) {
	count = map[string]int{}
	err = db.View(func(tx *store.Tx) error {
		for _, table := range []store.Table{store.Rounds, store.Holds, store.Holders, store.Contents, store.Charts, store.Chunks} {
			for range tx.Range(store.At(table)) {
				count[table.String()]++
			}
		}
		return nil
	})
	return count, err
}

func TestACrashAtEveryCommitLeavesARegistryThatGoesOn(t *testing.T) {
	t.Parallel()
	run := func(t *testing.T, crash int, behind bool) (commits int, end []string, count map[string]int) {
		t.Helper()
		memory := new(store.Memory)
		died := errors.New("the process died")
		s := &script{}
		for epoch := 0; ; epoch++ {
			hook := func(n int) error {
				if epoch == 0 && n == crash {
					return died
				}
				return nil
			}
			memory.Before, memory.After = nil, nil
			if behind {
				memory.After = hook
			} else {
				memory.Before = hook
			}
			db, err := store.OpenMemory(memory, store.Options{})
			if err == nil {
				err = db.Check()
			}
			if err == nil {
				err = s.run(db)
			}
			if err != nil && epoch == 0 && crash > 0 {
				if db != nil {
					_ = db.Close()
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Check(); err != nil {
				t.Fatal(err)
			}
			end, err = registered(db)
			if err != nil {
				t.Fatal(err)
			}
			if count, err = contents(db); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			return memory.Commits(), end, count
		}
	}
	commits, want, wantCount := run(t, 0, false)
	if commits < 10 || len(want) != 2 || wantCount["contents"] != 2 || wantCount["charts"] != 2 {
		t.Fatalf("the undisturbed run makes %d commits and leaves %v, %v", commits, want, wantCount)
	}
	for n := 1; n <= commits; n++ {
		for _, behind := range []bool{false, true} {
			_, got, count := run(t, n, behind)
			if diff := cmp.Diff(want, got) + cmp.Diff(wantCount, count); diff != "" {
				t.Errorf("crash at commit %d, behind %t (-undisturbed +crashed):\n%s", n, behind, diff)
			}
		}
	}
}
