package main

import (
	"context"
	"time"

	"addon-operator/store"
)

const (
	// openAgain is the pause between two attempts to open the store on a full disk.
	openAgain = 5 * time.Second
	// logAgain is the interval at which a shortage is logged again while it lasts.
	logAgain = time.Minute
	// roomLasts is the time for which all commits must succeed before a shortage is treated as ended.
	roomLasts = 5 * time.Second
)

// logShortages logs shortages of the disk until ctx ends: when a shortage begins, each minute that
// it lasts, and when it ends.
func (f *storeFile) logShortages(ctx context.Context, notices *notices) {
	log := shortageLog{
		changed: f.shortages, shortage: f.db.Shortage,
		full: func(s *store.Shortage, first bool) {
			f.log.Error().Err(s.Err).Str("store", f.path).Time("since", s.Since).
				Msg("disk full: no task starts until space is free; free space or enlarge the volume")
			if first {
				notices.add(notice{reason: "DiskFull", message: "the volume of the store is full: no task starts until space is free; free space or enlarge the volume"})
			}
		},
		room: func() {
			f.log.Info().Str("store", f.path).Msg("disk has free space again: pending tasks continue")
		},
	}
	log.run(ctx)
}

// A shortageLog reports shortages of the store's disk. While a disk fills up or is freed, commits
// fail and succeed alternately, many times a second. A shortageLog treats alternating commits as
// one shortage, which ends when no commit has failed for the time roomLasts.
type shortageLog struct {
	changed  <-chan struct{} // receives a value when a shortage starts or ends
	shortage func() *store.Shortage
	full     func(s *store.Shortage, first bool) // called once a minute while the shortage lasts
	room     func()
}

// run reports the shortages until ctx ends.
func (l shortageLog) run(ctx context.Context) {
	var reported time.Time // the time of the last report; zero if no shortage lasts
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
