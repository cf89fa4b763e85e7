package store

import (
	"errors"
	"strings"
	"testing"

	"go.etcd.io/bbolt"
)

func TestCheckFindsWhatIsWrongWithRecords(t *testing.T) {
	t.Parallel()
	for want, damage := range map[string]func(*bbolt.Bucket) error{
		"record modules/000003 is not JSON": func(b *bbolt.Bucket) error {
			return b.Put(At(Modules).Str("000003"), []byte(`{"a":`))
		},
		"belongs to no table": func(b *bbolt.Bucket) error { return b.Put([]byte{250, 1}, []byte("1")) },
		"and 80 more": func(b *bbolt.Bucket) error {
			for i := range 100 {
				if err := b.Put(At(Metrics).Uint(uint64(i)), []byte("?")); err != nil {
					return err
				}
			}
			return nil
		},
	} {
		path := made(t, 10)
		edit(t, path, damage)
		db, err := OpenReadOnly(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Check(); !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q:\n%v", want, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestARecordOfAnotherShapeIsAnErrorThatNamesIt(t *testing.T) {
	t.Parallel()
	db := opened(t, new(Memory))
	key := At(Modules).Str("nginx")
	if err := db.Update(func(tx *Tx) error { return Save(tx, key, "text") }); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		if v, ok, err := Load[string](tx, key); v != "text" || !ok || err != nil {
			t.Errorf("%q, %t, %v", v, ok, err)
		}
		if _, ok, err := Load[string](tx, At(Modules).Str("other")); ok || err != nil {
			t.Errorf("absent: %t, %v", ok, err)
		}
		_, ok, err := Load[int](tx, key)
		if ok || !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), "modules/nginx") {
			t.Errorf("as a number: %t, %v", ok, err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	if err := db.Update(func(tx *Tx) error { return Save(tx, key, func() {}) }); err == nil {
		t.Error("a function was saved")
	}
}
