package triggers

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/internal/lease"
	"addon-operator/store"
)

func TestPendingWorkOfAStoreThatLostARecordOfItsUseIsDroppedOnlyIfItIsOld(t *testing.T) {
	t.Parallel()
	spoil := func(k store.Key) func(*store.Tx) {
		return func(tx *store.Tx) { tx.Put(k, []byte(`{"epoch":`)) }
	}
	for name, c := range map[string]struct {
		spoil func(*store.Tx)
		epoch uint64 // the last epoch of the previous holder of the Lease
		why   string
	}{
		"no record is lost":               {func(*store.Tx) {}, 1, ""},
		"the tenure is lost":              {spoil(store.TenureKey()), 1, ""},
		"the ends are lost":               {spoil(store.EndsKey()), 1, ""},
		"the startup is lost":             {spoil(store.StartupKey()), 1, ""},
		"the tenure is lost, an old file": {spoil(store.TenureKey()), 2, "the store ends with epoch 1, but an operator worked with it until epoch 2"},
		"the ends are lost, an old file":  {spoil(store.EndsKey()), 2, "the store ends with epoch 1, but an operator worked with it until epoch 2"},
		"the mark of a copy is lost":      {spoil(store.CopyKey()), 1, "the store is a copy of one that was in use"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "store.db")
			db, err := store.Open(path, store.Options{Clock: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			if err := db.Update(func(tx *store.Tx) error {
				err := errors.Join(
					store.Save(tx, store.TenureKey(), store.Tenure{Epoch: 1}), store.Save(tx, store.EndsKey(), store.Ends{Begun: 1, Ended: 1}),
					store.Save(tx, store.StartupKey(), store.Startup{StartRun: 1}),
				)
				c.spoil(tx)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if db, err = store.Open(path, store.Options{Clock: time.Now}); err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			why, err := TakeOver(t.Context(), db, lease.Previous{Holder: lease.Holder{Store: db.ID(), Epoch: c.epoch}}, time.Time{})
			if err != nil || (why == "") != (c.why == "") || !strings.HasPrefix(why, c.why) {
				t.Errorf("dropped because of %q, want %q (%v)", why, c.why, err)
			}
		})
	}
}
