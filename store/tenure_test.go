package store

import (
	"errors"
	"path/filepath"
	"testing"
	"time"
)

func TestDroppingWorkKeepsWhatIsKnownAndEndsRuns(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	work := []Table{Queues, Payloads, Unique, Journal, Deferred, Quarantine, Backlogs, Notes}
	known := []Table{Values, EnabledOverrides, Hooks, Bindings, Cursors, Versions, Ticks, ConfigMap, Modules, Releases, Metrics, Buckets, History}
	const each = 3000
	for _, table := range append(work, known...) {
		if err := db.Update(func(tx *Tx) error {
			for i := range each {
				tx.Put(At(table).Uint(uint64(i)), []byte(`"v"`))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Update(func(tx *Tx) error {
		return errors.Join(Save(tx, RunKey(1), Run{ID: 1, Open: 2}), Save(tx, RunKey(2), Run{ID: 2, Ended: time.Unix(1, 0).UTC()}))
	}); err != nil {
		t.Fatal(err)
	}
	times := 0
	for more := true; more; times++ {
		if err := db.Update(func(tx *Tx) (err error) { more, err = dropWork(tx); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if times < 2 {
		t.Errorf("%d records were deleted in %d transaction(s), want at least 2", each*len(work), times)
	}
	if err := db.View(func(tx *Tx) error {
		count := func(table Table) (n int) {
			for range tx.Range(At(table)) {
				n++
			}
			return n
		}
		for _, table := range work {
			if n := count(table); n > 0 {
				t.Errorf("%d records are left in %s", n, table)
			}
		}
		for _, table := range known {
			if n := count(table); n != each {
				t.Errorf("%d records are left in %s", n, table)
			}
		}
		for id := range 2 {
			run, _, err := Load[Run](tx, RunKey(uint64(id+1))) //nolint:gosec // it is small
			if err != nil || run.Open != 0 || run.Ended.IsZero() {
				t.Errorf("run %+v, %v", run, err)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestNothingOfDroppedWorkBlocksTheNextStart(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Tx) error {
		return errors.Join(
			Save(tx, ExclusiveKey(), Ref{ID: ID{Epoch: 1, N: 1}}), Save(tx, PreparationKey(), true),
			Save(tx, StartupKey(), Startup{StartRun: 3, Digest: "as before"}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.DropWork(t.Context(), LostSpan{How: "a test"}); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		if tx.Get(ExclusiveKey()) != nil {
			t.Error("the other tasks wait for an exclusive task that does not exist")
		}
		if tx.Get(PreparationKey()) != nil {
			t.Error("tasks wait for the preparation of work that was dropped")
		}
		startup, _, err := Load[Startup](tx, StartupKey())
		if startup.Digest != "" || startup.StartRun != 3 {
			t.Errorf("the next start may continue %+v", startup)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

func TestDroppingWorkDropsThePermissionToDeleteReleases(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(
		db.Update(func(tx *Tx) error { return Save(tx, AllowedPurgeKey(), AllowedPurge{Releases: 12, By: "mia"}) }),
		db.DropWork(t.Context(), LostSpan{How: "a test"}),
		db.View(func(tx *Tx) error {
			if tx.Get(AllowedPurgeKey()) != nil {
				t.Error("the next start may delete releases that a person has allowed an earlier converge to delete")
			}
			return nil
		}),
	); err != nil {
		t.Fatal(err)
	}
}

func TestDroppingWorkKeepsPauses(t *testing.T) {
	t.Parallel()
	db, err := OpenMemory(new(Memory), Options{})
	if err != nil {
		t.Fatal(err)
	}
	paused, quarantined := ID{Epoch: 1, N: 1}, ID{Epoch: 1, N: 2}
	if err := db.Update(func(tx *Tx) error {
		return errors.Join(
			Save(tx, QuarantineKey(paused), QuarantinedItem{ID: paused, Paused: &Pause{By: "mia", Reason: "an incident"}}),
			Save(tx, QuarantineKey(quarantined), QuarantinedItem{ID: quarantined, Node: "n"}),
		)
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(func(tx *Tx) error { _, err := dropWork(tx); return err }); err != nil {
		t.Fatal(err)
	}
	if err := db.View(func(tx *Tx) error {
		for q, err := range QuarantinedItems(tx) {
			if err != nil || q.ID != paused {
				t.Errorf("left is %+v, %v", q, err)
			}
			paused = ID{}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if paused != (ID{}) {
		t.Error("the pause is dropped")
	}
}

func TestSnapshotOfAStoreInUseIsMarkedAsACopy(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := errors.Join(db.SnapshotFile(copied), db.Close()); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]uint64{path: 0, copied: db.Epoch()} {
		db, err := OpenReadOnly(file, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.View(func(tx *Tx) error {
			c, marked, err := Load[Copy](tx, CopyKey())
			if marked != (want > 0) || c.Epoch != want {
				t.Errorf("the mark of %s is %+v", file, c)
			}
			return err
		}); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestFencedStoreRefusesCommitsAndItsEndIsNoCrash(t *testing.T) {
	t.Parallel()
	path := made(t, 1)
	db, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func() error { return db.Update(func(tx *Tx) error { return Save(tx, At(Modules).Str("new"), 1) }) }
	var refusal error
	db.Guard(func() error { return refusal })
	if err := put(); err != nil {
		t.Fatal(err)
	}
	refusal = errors.New("not yet")
	if err := put(); !errors.Is(err, refusal) || db.Err() != nil {
		t.Errorf("a refused commit: %v, the store: %v", err, db.Err())
	}
	refusal = ErrFenced
	if err := put(); !errors.Is(err, ErrFenced) || !errors.Is(db.Err(), ErrFenced) {
		t.Errorf("a fenced commit: %v, the store: %v", err, db.Err())
	}
	refusal = nil
	if err := put(); !errors.Is(err, ErrFenced) {
		t.Errorf("a commit after the fence: %v", err)
	}
	epoch := db.Epoch()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if !next.ExitedCleanly(epoch) {
		t.Error("the end of the fenced process is treated as a crash")
	}
}
