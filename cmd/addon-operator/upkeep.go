package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"addon-operator/store"
)

const (
	trimEvery = time.Hour
	// trimPiece is how many records of history one transaction forgets.
	trimPiece = 2000
	// snapshotsKept is how many snapshots stay beside the store.
	snapshotsKept = 3
	snapshotTime  = "20060102T150405Z"
)

// keepUp forgets old history and makes snapshots until ctx is done.
func (o *operator) keepUp(ctx context.Context) {
	trim := time.NewTimer(time.Minute) // after what a start has to do
	defer trim.Stop()
	snapshot := time.NewTimer(o.untilSnapshot())
	defer snapshot.Stop()
	if o.settings.SnapshotEvery <= 0 {
		snapshot.Stop()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-trim.C:
			if err := o.trim(ctx); err != nil {
				o.log.Error().Err(err).Msg("old history could not be forgotten; it is tried again in an hour")
			}
			trim.Reset(trimEvery)
		case <-snapshot.C:
			if err := o.snapshot(); err != nil {
				o.log.Error().Err(err).Msg("no snapshot of the store could be made; it is tried again next time")
			}
			snapshot.Reset(o.settings.SnapshotEvery)
		}
	}
}

// trim forgets history that is too old or too much, in pieces.
func (o *operator) trim(ctx context.Context) error {
	freed, err := o.trimAttempts(ctx)
	if err != nil {
		return err
	}
	excess, err := o.excess()
	if err != nil {
		return err
	}
	for more := true; more && ctx.Err() == nil; {
		if err := o.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
			var piece int64
			if piece, more, err = store.TrimHistory(tx, tx.Now().Add(-o.settings.HistoryAge), excess, trimPiece); err == nil {
				excess, freed = excess-piece, freed+piece
			}
			return err
		}); err != nil {
			return err
		}
	}
	if freed > 0 {
		o.log.Info().Int64("bytes", freed).Msg("old history is forgotten")
	}
	return nil
}

// trimAttempts forgets attempts of runs that have not ended, but for the first and the last ones, and
// returns how many bytes that freed.
func (o *operator) trimAttempts(ctx context.Context) (freed int64, err error) {
	var attempts *store.Attempts
	if err := o.db.View(func(tx *store.Tx) (err error) {
		attempts, err = store.ExcessAttempts(tx)
		return err
	}); err != nil {
		return 0, err
	}
	for more := true; more && ctx.Err() == nil; {
		piece := int64(0)
		if err := o.db.UpdateWithRoom(ctx, func(tx *store.Tx) (err error) {
			piece, more, err = attempts.Forget(tx)
			return err
		}); err != nil {
			return freed, err
		}
		freed += piece
	}
	return freed, nil
}

// excess returns how many bytes of history there are beyond what may be. A file
// smaller than that is not read.
func (o *operator) excess() (int64, error) {
	limit := int64(o.settings.HistoryMiB) << 20
	info, err := os.Stat(o.settings.Store)
	if err != nil || info.Size() <= limit {
		return 0, err
	}
	size := int64(0)
	err = o.db.View(func(tx *store.Tx) error {
		for _, table := range []store.Table{store.Runs, store.History} {
			for k, v := range tx.Range(store.At(table)) {
				size += int64(len(k) + len(v))
			}
		}
		return nil
	})
	return max(0, size-limit), err
}

// snapshots returns the paths of the snapshots beside the store, oldest first.
func (o *operator) snapshots() ([]string, error) {
	found, err := filepath.Glob(escapeGlob(o.settings.Store) + ".snapshot-*Z")
	slices.Sort(found)
	return found, err
}

func escapeGlob(path string) string {
	var out []rune
	for _, r := range path {
		if r == '*' || r == '?' || r == '[' || r == '\\' {
			out = append(out, '\\')
		}
		out = append(out, r)
	}
	return string(out)
}

// untilSnapshot returns how long it is until the next snapshot is due, counted
// from the newest there is: short lives do not keep it from being made.
func (o *operator) untilSnapshot() time.Duration {
	found, err := o.snapshots()
	if err != nil || len(found) == 0 {
		return o.settings.SnapshotEvery
	}
	info, err := os.Stat(found[len(found)-1])
	if err != nil {
		return o.settings.SnapshotEvery
	}
	// Never within the rush of a start, and a file of the future is no reason to wait for ever.
	return min(max(time.Until(info.ModTime().Add(o.settings.SnapshotEvery)), time.Minute), o.settings.SnapshotEvery)
}

// snapshot makes a snapshot beside the store, verified, and removes the oldest
// ones.
func (o *operator) snapshot() error {
	path := o.settings.Store + ".snapshot-" + time.Now().UTC().Format(snapshotTime)
	if err := o.db.SnapshotFile(path); err != nil {
		return err
	}
	found, err := o.snapshots()
	for _, old := range found[:max(0, len(found)-snapshotsKept)] {
		if rerr := os.Remove(old); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove an old snapshot: %w", rerr))
		}
	}
	return err
}
