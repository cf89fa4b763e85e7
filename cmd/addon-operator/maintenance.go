package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/store"
)

const (
	// firstWork is the minimum time from the start of the operator to the first work of a maintenance, because the
	// operator has other work at its start. Only the first snapshot can be written earlier, if the interval of
	// snapshots is shorter.
	firstWork = time.Minute
	trimEvery = time.Hour
	// trimPiece is the maximum number of records of runs and of their history that one transaction removes.
	trimPiece = 2000
	// snapshotsKept is the maximum number of snapshots of the store. If the disk has too little space, fewer are kept.
	snapshotsKept = 3
	snapshotTime  = "20060102T150405Z"
	// snapshotNames matches the end of the name of a snapshot, after the name of the store.
	snapshotNames = ".snapshot-*Z"
)

// A maintenance verifies the records of the store once, reserves disk space for the store, limits the history, and
// writes snapshots of the store.
type maintenance struct {
	db   *store.DB
	log  zerolog.Logger
	path string // path of the store

	historyAge    time.Duration
	historyBytes  int64
	snapshotEvery time.Duration // 0 disables snapshots
}

// newMaintenance returns the maintenance of the store db, with the limits in the settings s.
func newMaintenance(db *store.DB, s *settings.Settings, log zerolog.Logger) *maintenance {
	return &maintenance{
		db: db, log: log, path: s.Store,
		historyAge: s.HistoryAge, historyBytes: int64(s.HistoryMiB) << 20, snapshotEvery: s.SnapshotEvery,
	}
}

// run verifies the records, reserves disk space, removes old history and writes snapshots, until ctx ends.
func (m *maintenance) run(ctx context.Context) {
	verify := time.NewTimer(firstWork)
	defer verify.Stop()
	trim := time.NewTimer(firstWork)
	defer trim.Stop()
	snapshot := time.NewTimer(m.untilSnapshot())
	defer snapshot.Stop()
	if m.snapshotEvery <= 0 {
		snapshot.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-verify.C:
			m.verify()
		case <-trim.C:
			m.db.ReserveSpace()
			if err := m.trim(ctx); err != nil {
				m.log.Error().Err(err).Msg("cannot remove old history; retrying in an hour")
			}
			trim.Reset(trimEvery)
		case <-snapshot.C:
			if err := m.snapshot(); err != nil {
				m.log.Error().Err(err).Dur("next", m.snapshotEvery).Msg("cannot write a snapshot of the store; retrying after the interval")
			}
			snapshot.Reset(m.snapshotEvery)
		}
	}
}

// verify logs the records whose checksums do not match, but at most one hundred. [store.Open] does not verify the
// checksums of all records, because the first task of a start would wait for this work.
func (m *maintenance) verify() {
	damaged, err := m.db.Damaged()
	if err != nil {
		m.log.Error().Err(err).Msg("cannot verify the records of the store; the next start tries again")
		return
	}
	for _, key := range damaged {
		m.log.Error().Str("record", key.String()).Msg("record damaged: its checksum does not match; the rest of the store is used")
	}
}

// trim removes excess attempts of unfinished runs, and the history that exceeds the limits of age and size, in several
// transactions.
func (m *maintenance) trim(ctx context.Context) error {
	freed, err := m.trimAttempts(ctx)
	if err != nil {
		return err
	}
	excess, err := m.excess()
	if err != nil {
		return err
	}
	for more := true; more && ctx.Err() == nil; {
		piece := int64(0)
		if err := m.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
			piece, more, err = store.TrimHistory(tx, tx.Now().Add(-m.historyAge), excess, trimPiece)
			return err
		}); err != nil {
			return err
		}
		excess, freed = excess-piece, freed+piece
	}
	if freed > 0 {
		m.log.Info().Int64("bytes", freed).Msg("old history removed")
	}
	return nil
}

// trimAttempts removes attempts from the history of unfinished runs, and returns the number of
// freed bytes. trimAttempts keeps the first and the last attempts of each step.
func (m *maintenance) trimAttempts(ctx context.Context) (freed int64, err error) {
	var attempts *store.Attempts
	if err := m.db.View(func(tx *store.Tx) (err error) {
		attempts, err = store.ExcessAttempts(tx)
		return err
	}); err != nil {
		return 0, err
	}
	for more := true; more && ctx.Err() == nil; {
		piece := int64(0)
		if err := m.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
			piece, more, err = attempts.Forget(tx)
			return err
		}); err != nil {
			return freed, err
		}
		freed += piece
	}
	return freed, nil
}

// excess returns by how many bytes the history exceeds its limit, or 0. If the whole store file is not
// larger than the limit, excess does not read the store.
func (m *maintenance) excess() (int64, error) {
	info, err := os.Stat(m.path)
	if err != nil || info.Size() <= m.historyBytes {
		return 0, err
	}
	size := int64(0)
	err = m.db.View(func(tx *store.Tx) error {
		for _, table := range []store.Table{store.Runs, store.History} {
			for k, v := range tx.Range(store.At(table)) {
				size += int64(len(k) + len(v))
			}
		}
		return nil
	})
	return max(0, size-m.historyBytes), err
}

// snapshots returns the paths of the snapshots beside the store, sorted by the times in their names.
func (m *maintenance) snapshots() ([]string, error) {
	return store.Beside(m.path, snapshotNames)
}

// untilSnapshot returns the time until the next snapshot. The interval begins at the newest existing snapshot, and not
// at the start of this process. So snapshots are written even if no process runs for a whole interval. If there is no
// snapshot yet, the first snapshot is due after firstWork, or after the interval if the interval is shorter.
func (m *maintenance) untilSnapshot() time.Duration {
	wait := time.Duration(0)
	if found, err := m.snapshots(); err == nil && len(found) > 0 {
		if info, err := os.Stat(found[len(found)-1]); err == nil {
			wait = time.Until(info.ModTime().Add(m.snapshotEvery))
		}
	}
	// At most the interval, because the newest snapshot can have a date in the future.
	return min(max(wait, firstWork), m.snapshotEvery)
}

// snapshot writes a verified snapshot beside the store. Then it removes the oldest snapshots until at
// most snapshotsKept are left. It also removes unfinished snapshots of killed processes.
func (m *maintenance) snapshot() error {
	// Unfinished snapshots are removed first, because the new snapshot may need their space.
	removed := store.RemoveUnfinished(m.path, snapshotNames)
	path := m.path + ".snapshot-" + time.Now().UTC().Format(snapshotTime)
	old, err := m.olderThan(path)
	if err == nil {
		old, err = m.makeRoom(old)
	}
	if err == nil {
		err = m.db.SnapshotFile(path)
	}
	if err != nil {
		return errors.Join(err, removed)
	}
	return errors.Join(removed, removeSnapshots(old[:max(0, len(old)-(snapshotsKept-1))]))
}

// olderThan returns the paths of the existing snapshots of the store, oldest first. The argument path is the path of
// the new snapshot, which the result excludes. A snapshot with a later name than path was written while the clock was
// ahead. olderThan treats such a snapshot as older than the others.
func (m *maintenance) olderThan(path string) ([]string, error) {
	found, err := m.snapshots()
	found = slices.DeleteFunc(found, func(other string) bool { return other == path })
	later, _ := slices.BinarySearch(found, path)
	return slices.Concat(found[later:], found[:later]), err
}

// makeRoom removes the oldest snapshots until the disk has space for a new one, and returns the paths of the remaining
// snapshots. The argument old has the paths of all snapshots, oldest first. makeRoom always keeps the newest of them.
// If the removal of all others would not free enough space, makeRoom removes nothing and returns an error: a snapshot
// that does not fit would fill the disk, and commits would fail.
func (m *maintenance) makeRoom(old []string) (left []string, err error) {
	needed, err := bytesOnDisk(m.path)
	if err != nil {
		return nil, err
	}
	needed += ballast // commits need space, too, while the snapshot is written
	free, err := store.FreeBytes(m.path)
	if err != nil {
		return nil, err
	}
	n := 0
	for ; free < needed && n < len(old)-1; n++ {
		size, err := bytesOnDisk(old[n])
		if err != nil {
			return nil, err
		}
		free += size
	}
	if free < needed {
		return nil, fmt.Errorf("a snapshot needs %d bytes of free space, and there are %d without the older snapshots; enlarge the volume", needed, free)
	}
	return old[n:], removeSnapshots(old[:n])
}

// bytesOnDisk returns the number of bytes that the file at path uses on the disk. It can be less than the size of the
// file, because the store enlarges its file before it uses the space.
func bytesOnDisk(path string) (uint64, error) {
	const block = 512
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return 0, fmt.Errorf("stat %s: %w", path, err)
	}
	return uint64(stat.Blocks) * block, nil //nolint:gosec // a number of blocks is not negative
}

// removeSnapshots removes the files at the given paths that exist.
func removeSnapshots(paths []string) (err error) {
	for _, path := range paths {
		if rerr := os.Remove(path); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove an old snapshot: %w", rerr))
		}
	}
	return err
}
