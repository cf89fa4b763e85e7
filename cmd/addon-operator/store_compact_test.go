package main

import (
	"os"
	"strings"
	"testing"

	"addon-operator/store"
)

func TestStoreCompactShrinksAStoreThatIsMostlyFreeAndKeepsItsContent(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	path := s.path("store.db")
	db := makeStore(t, path)
	id, pieces := db.ID(), store.At(store.Payloads)
	if err := db.Update(func(tx *store.Tx) error {
		return store.Save(tx, store.ModuleKey("kept"), store.Module{State: store.On, Enabled: true})
	}); err != nil {
		t.Fatal(err)
	}
	for part := range uint64(20) {
		if err := db.Update(func(tx *store.Tx) error {
			for i := range uint64(100) {
				tx.Put(pieces.Uint(1).Uint(part).Uint(i), []byte(`"`+strings.Repeat("x", 8<<10)+`"`))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for more := true; more; {
		if err := db.Update(func(tx *store.Tx) error {
			more = false
			for k := range tx.Range(pieces) {
				if more = tx.Spent(); more {
					break
				}
				tx.Delete(k)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, db)
	size := func() int64 {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	before := size()
	dump := func() string {
		out, err := asked(t, path, "store dump").Output()
		if err != nil {
			t.Fatalf("store dump: %v: %s", err, out)
		}
		return string(out)
	}
	content := dump()
	out, err := asked(t, path, "store compact").CombinedOutput()
	if err != nil {
		t.Fatalf("store compact: %v: %s", err, out)
	}
	if after := size(); after > before/2 {
		t.Errorf("the file has %d bytes, %d before: %s", after, before, out)
	}
	if now := dump(); now != content || !strings.Contains(now, `["kept"]`) {
		t.Errorf("the content was\n%s\nand is now\n%s", content, now)
	}
	db = makeStore(t, path)
	if db.ID() != id || db.Check() != nil {
		t.Errorf("the store %s is now %s: %v", id, db.ID(), db.Check())
	}
	closeStore(t, db)
}
