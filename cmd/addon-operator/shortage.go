package main

import (
	"context"
	"errors"
	"os"
	"time"

	"addon-operator/store"
)

const (
	// commandRoom is how long a command waits for room in the store before it fails.
	commandRoom = 10 * time.Second
	// openAgain is the pause before a store is opened again that had no room for that.
	openAgain = 5 * time.Second
	// shortageLog is how often a shortage that lasts is logged.
	shortageLog = time.Minute
)

// shortageChanged notes that a shortage has begun or ended. It is called while others wait for a
// commit, so the log is written elsewhere.
func (o *operator) shortageChanged(*store.Shortage) { o.shortages.raise() }

// logShortages logs when the disk is full, each minute while it is, and when there is room again,
// until ctx is done.
func (o *operator) logShortages(ctx context.Context) {
	again := time.NewTimer(shortageLog)
	defer again.Stop()
	full := false
	for {
		if s := o.db.Shortage(); s != nil {
			o.log.Error().Err(s.Err).Str("store", o.settings.Store).Time("since", s.Since).
				Msg("disk full: nothing is begun until there is room; free space or make the volume larger")
			if !full {
				o.tell(notice{reason: "DiskFull", message: "the volume of the store is full: nothing is begun until there is room; free space or make it larger"})
			}
			full = true
		} else if full {
			full = false
			o.log.Info().Str("store", o.settings.Store).Msg("disk has room again: pending work goes on")
		}
		again.Stop()
		if full {
			again.Reset(shortageLog)
		}
		select {
		case <-ctx.Done():
			return
		case <-o.shortages:
		case <-again.C:
		}
	}
}

// openWithRoom opens the store as soon as the disk has room for that. A store that cannot even be
// created holds no work, so there is nothing to wait for.
func (o *operator) openWithRoom(ctx context.Context) (db *store.DB, err error) {
	var logged time.Time
	for {
		db, err = store.Open(o.settings.Store, store.Options{
			Clock: time.Now, Committed: o.committed, Shortage: o.shortageChanged, Ballast: ballast,
		})
		if _, missing := os.Stat(o.settings.Store); !errors.Is(err, store.ErrFull) || missing != nil {
			return db, err
		}
		if time.Since(logged) >= shortageLog {
			logged = time.Now()
			o.log.Error().Err(err).Msg("disk full: the store cannot be opened until there is room; free space or make the volume larger")
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(openAgain):
		}
	}
}
