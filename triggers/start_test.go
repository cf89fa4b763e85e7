package triggers

import (
	"context"
	"testing"

	"addon-operator/store"
)

func TestACleanStartForgetsMoreThanOneTransactionDeletes(t *testing.T) {
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	const series = 25_000
	for from := uint64(0); from < series; from += 5000 {
		if err := db.Update(func(tx *store.Tx) error {
			for i := from; i < from+5000; i++ {
				tx.Put(store.ShardKey("", "m", "h", i+1), []byte(`{}`))
			}
			tx.Put(store.SavedKey("m"), []byte(`[]`))
			tx.Put(store.BindingKey("m", "h", "b"), []byte(`{}`))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := Forget(context.Background(), db); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *store.Tx) error {
		for _, table := range []store.Table{store.Metrics, store.Values} {
			for k := range tx.Range(store.At(table)) {
				t.Fatalf("%s is kept", k)
			}
		}
		if tx.Get(store.BindingKey("m", "h", "b")) == nil {
			t.Error("the bindings were deleted")
		}
		events, err := Begin(tx, Clean, Circumstances{Code: "digest"})
		if len(events) != 2 {
			t.Errorf("events of the start: %+v", events)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
