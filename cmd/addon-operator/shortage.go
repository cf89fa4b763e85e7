package main

import (
	"context"
	"errors"
	"os"
	"time"

	"addon-operator/store"
)

const (
	// openAgain is the pause between two attempts to open the store on a full disk.
	openAgain = 5 * time.Second
	// logAgain is how often a shortage that lasts is logged.
	logAgain = time.Minute
	// roomLasts is how long commits must succeed until a shortage has ended.
	roomLasts = 5 * time.Second
)

// shortageChanged reports that a shortage started or ended. The committing goroutine calls it, so
// another goroutine writes the log.
func (o *operator) shortageChanged(*store.Shortage) { o.shortages.raise() }

// logShortages logs when the disk is full, each minute while it is, and when there is room again,
// until ctx is done.
func (o *operator) logShortages(ctx context.Context) {
	log := shortageLog{
		changed: o.shortages, shortage: o.db.Shortage,
		full: func(s *store.Shortage, first bool) {
			o.log.Error().Err(s.Err).Str("store", o.settings.Store).Time("since", s.Since).
				Msg("disk full: no task starts until there is room; free space or make the volume larger")
			if first {
				o.notices.add(notice{reason: "DiskFull", message: "the volume of the store is full: no task starts until there is room; free space or make it larger"})
			}
		},
		room: func() {
			o.log.Info().Str("store", o.settings.Store).Msg("disk has room again: pending tasks continue")
		},
	}
	log.run(ctx)
}

// A shortageLog reports shortages of the store's disk. While a disk becomes full or is emptied,
// commits fail and succeed in turn, many times a second: that is one shortage. It ends when there
// was room for roomLasts.
type shortageLog struct {
	changed  <-chan struct{} // receives when a shortage starts or ends
	shortage func() *store.Shortage
	full     func(s *store.Shortage, first bool) // called once a minute while the shortage lasts
	room     func()
}

// run reports until ctx is done.
func (l shortageLog) run(ctx context.Context) {
	var reported time.Time // zero outside of a shortage
	for {
		now, next := time.Now(), time.Duration(0)
		switch s := l.shortage(); {
		case s == nil && reported.IsZero():
		case s == nil:
			next = roomLasts
		case reported.IsZero() || now.Sub(reported) >= logAgain:
			l.full(s, reported.IsZero())
			reported, next = now, logAgain
		default:
			next = logAgain - now.Sub(reported)
		}
		var timer <-chan time.Time
		if next > 0 {
			timer = time.After(next)
		}
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		case <-timer:
			if l.shortage() == nil {
				reported = time.Time{}
				l.room()
			}
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
		if time.Since(logged) >= logAgain {
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
