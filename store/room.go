package store

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// firstRoomRetry and longestRoomRetry bound the pause before a write is tried again on a full disk.
const (
	firstRoomRetry   = time.Second
	longestRoomRetry = 5 * time.Second
)

// A Shortage says since when commits fail because the disk is full, and why the last one failed.
type Shortage struct {
	Since time.Time
	Err   error
}

// Shortage returns the shortage that lasts, nil if the last commit had room.
func (db *DB) Shortage() *Shortage {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.shortage
}

// WithRoom calls fn, which writes to the store, until its error is not ErrFull. In between it waits
// until another commit has had room, a few seconds at most. When ctx ends, the error says so and is
// still ErrFull.
func (db *DB) WithRoom(ctx context.Context, fn func() error) error {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRoomRetry), backoff.WithMaxInterval(longestRoomRetry),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0),
	)
	for {
		room := db.room()
		err := fn()
		if !errors.Is(err, ErrFull) {
			return err
		}
		again := time.NewTimer(pause.NextBackOff())
		select {
		case <-ctx.Done():
			again.Stop()
			return errors.Join(err, ctx.Err())
		case <-room:
		case <-again.C:
		}
		again.Stop()
	}
}

// UpdateWithRoom is Update, repeated by WithRoom while the disk is full. Each repetition calls fn again.
func (db *DB) UpdateWithRoom(ctx context.Context, fn func(*Tx) error) error {
	return db.WithRoom(ctx, func() error { return db.Update(fn) })
}

// room returns a channel that is closed when the next shortage ends.
func (db *DB) room() <-chan struct{} {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.roomAgain
}

// noteRoom keeps whether the last commit had room, and reports a change.
func (db *DB) noteRoom(err error) {
	full := errors.Is(err, ErrFull)
	if err != nil && !full {
		return
	}
	db.mu.Lock()
	was := db.shortage
	switch {
	case full && was == nil:
		db.shortage = &Shortage{Since: db.clock(), Err: err}
	case full:
		db.shortage = &Shortage{Since: was.Since, Err: err}
	case was != nil:
		db.shortage = nil
		close(db.roomAgain)
		db.roomAgain = make(chan struct{})
	}
	now := db.shortage
	db.mu.Unlock()
	if was != nil && now == nil {
		db.backend.Recovered()
	}
	if (was == nil) != (now == nil) && db.onShortage != nil {
		db.onShortage(now)
	}
}
