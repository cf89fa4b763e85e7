package simulate_test

import (
	"errors"
	"slices"
	"testing/synctest"
	"time"

	"addon-operator/store"
)

// A snapshot is a copy of the disk with the store. epoch is the last epoch in the store. The field at is the time of
// the copy.
type snapshot struct {
	disk  *store.Memory
	epoch uint64
	at    time.Time
}

// keptSnapshots is the maximum number of snapshots. Older snapshots are deleted.
const keptSnapshots = 3

// makeSnapshot saves the content of the disk as a snapshot.
func (w *simulation) makeSnapshot() {
	s := snapshot{disk: w.disk.Clone(), at: time.Now()}
	db, err := store.OpenMemory(s.disk.Clone(), store.Options{})
	if err != nil {
		w.violated("the store is not consistent in a snapshot: %v", err)
		return
	}
	s.epoch = db.Epoch() - 1
	_ = db.Close() // an error does not matter, because this copy is not used any more
	w.snapshots = append(w.snapshots, s)
	if len(w.snapshots) > keptSnapshots {
		w.snapshots = slices.Delete(w.snapshots, 0, 1)
	}
	w.note("environment", "a snapshot of the store is made in epoch %d", s.epoch)
}

// restoreSnapshot kills the operator, replaces its store with a snapshot, and starts the operator. If there is no
// snapshot, it makes one instead. If the argument disk is false, the restored store is marked as a copy, as in
// snapshots that the operator or its commands make. Otherwise it has no such mark, as when a whole disk is restored.
func (w *simulation) restoreSnapshot(n int, disk bool) {
	if len(w.snapshots) == 0 {
		w.makeSnapshot()
		return
	}
	s := w.snapshots[n%len(w.snapshots)]
	w.process.kill()
	restored := s.disk.Clone()
	if !disk {
		db, err := store.OpenMemory(restored, store.Options{})
		if err == nil {
			err = db.Update(func(tx *store.Tx) error { return store.Save(tx, store.CopyKey(), store.Copy{Epoch: s.epoch, At: s.at}) })
			err = errors.Join(err, db.Close())
		}
		if err != nil {
			w.violated("a snapshot of epoch %d cannot be restored: %v", s.epoch, err)
			return
		}
	}
	w.note("user", "restores the snapshot of %s, of epoch %d (marked: %t)", passed(s.at.Sub(w.begun)), s.epoch, !disk)
	w.replaceStore(restored, s.at)
}

// loseStore kills the operator, replaces its store with an empty one, and starts the operator.
func (w *simulation) loseStore() {
	w.process.kill()
	w.note("environment", "the store is lost")
	w.replaceStore(new(store.Memory), time.Time{})
}

// replaceStore replaces the store with the given disk, and starts the operator. The time in written is that of the last
// write to the disk. The last process must have been killed.
func (w *simulation) replaceStore(disk *store.Memory, written time.Time) {
	synctest.Wait()
	w.checks.stored("after the end of a process")
	w.disk, w.lastWrite, w.crashIn, w.crashing = disk, written, 0, false
	w.checks.replaced()
	w.restart()
}
