package store_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

// arrived reports whether the channel c has a value, and receives it.
func arrived(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestReadersAreWokenByCommitsOfTheirRecordsOnly(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	web, failure := store.ModuleKey("web"), errors.New("no commit")
	put := func(keys ...store.Key) func(*store.Tx) error {
		return func(tx *store.Tx) error {
			for _, k := range keys {
				tx.Put(k, []byte("{}"))
			}
			return nil
		}
	}
	if err := db.Update(put(web)); err != nil {
		t.Fatal(err)
	}
	modules := store.Changes(db, store.At(store.Modules), store.StartupKey())
	one := store.NewChangedKeys(db, web)
	for _, step := range []struct {
		what         string
		update       func(*store.Tx) error
		err          error
		modules, one bool
	}{
		{"nothing", put(), nil, false, false},
		{"another table", put(store.ReleaseKey("web")), nil, false, false},
		{"the record", put(web), nil, true, true},
		{"the record, as it is", put(web), nil, true, true},
		{"another record of the table", put(store.ModuleKey("db")), nil, true, false},
		{"a record of the second prefix", put(store.StartupKey()), nil, true, false},
		{"the record and others", put(store.ReleaseKey("web"), store.ModuleKey("db"), web), nil, true, true},
		{"a deletion", func(tx *store.Tx) error { tx.Delete(web); return nil }, nil, true, true},
		{"a transaction that fails", func(tx *store.Tx) error { return errors.Join(put(web)(tx), failure) }, failure, false, false},
	} {
		if err := db.Update(step.update); !errors.Is(err, step.err) {
			t.Fatal(err)
		}
		if woken := arrived(modules); woken != step.modules {
			t.Errorf("%s: the reader of modules is woken: %t", step.what, woken)
		}
		if woken := arrived(one.C()); woken != step.one {
			t.Errorf("%s: the reader of one module is woken: %t", step.what, woken)
		}
	}
}

func TestAReaderIsWokenBeforeTheFunctionsOfTheCommitRun(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	changed := store.Changes(db, store.At(store.Modules))
	if err := db.Update(func(tx *store.Tx) error {
		tx.OnCommit(func() {
			if !arrived(changed) {
				t.Error("the reader is not woken yet")
			}
			if err := db.View(func(tx *store.Tx) error {
				if tx.Get(store.ModuleKey("web")) == nil {
					t.Error("the reader does not see the record")
				}
				return nil
			}); err != nil {
				t.Error(err)
			}
		})
		return store.Save(tx, store.ModuleKey("web"), store.Module{})
	}); err != nil {
		t.Fatal(err)
	}
}

func TestChangedKeysAreTakenOnceAndInOrder(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	changed := store.NewChangedKeys(db, store.At(store.Modules))
	save := func(names ...string) {
		t.Helper()
		for _, name := range names {
			if err := db.Update(func(tx *store.Tx) error { return store.Save(tx, store.ModuleKey(name), store.Module{}) }); err != nil {
				t.Fatal(err)
			}
		}
	}
	take := func(want ...string) {
		t.Helper()
		var got []string
		for _, k := range changed.Take() {
			p, err := k.Parts()
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, p.Str())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys (-want +got):\n%s", diff)
		}
	}
	take()
	save("web", "db", "web", "cache")
	if !arrived(changed.C()) || arrived(changed.C()) {
		t.Error("four commits do not cause one value")
	}
	take("db", "web", "cache") // shorter names are first, because a key has the length of the name before the name
	take()
	save("db")
	take("db")
}
