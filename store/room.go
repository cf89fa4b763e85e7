package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// firstRoomRetry and longestRoomRetry are the first and the longest delay before a write is repeated
// on a full disk.
const (
	firstRoomRetry   = time.Second
	longestRoomRetry = 5 * time.Second
)

// A Shortage is a period in which commits fail because the disk is full. Since is the beginning of
// this period, and Err is the error of its last commit.
type Shortage struct {
	Since time.Time
	Err   error
}

// A roomWatch records whether the disk has enough free space for commits.
type roomWatch struct {
	clock     func() time.Time
	changed   func(*Shortage) // called when a shortage begins or ends; can be nil
	recovered func()          // called when a shortage ends

	mu       sync.Mutex
	shortage *Shortage     // nil if the last commit had enough space
	again    chan struct{} // closed when the current shortage or, if there is none, the next one ends
}

func newRoomWatch(o Options, recovered func()) *roomWatch {
	return &roomWatch{clock: o.clock(), changed: o.Shortage, recovered: recovered, again: make(chan struct{})}
}

// Shortage returns the current shortage; nil if the last commit had enough space.
func (db *DB) Shortage() *Shortage {
	db.room.mu.Lock()
	defer db.room.mu.Unlock()
	return db.room.shortage
}

// WithRoom calls fn, which writes to the store, and repeats the call while its error is ErrFull.
// Before each repetition, WithRoom waits until another commit has succeeded, but at most a few
// seconds. If ctx ends during such a wait, WithRoom returns an error that wraps ErrFull and the error
// of ctx.
func (db *DB) WithRoom(ctx context.Context, fn func() error) error {
	pause := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstRoomRetry), backoff.WithMaxInterval(longestRoomRetry),
		backoff.WithRandomizationFactor(0), backoff.WithMaxElapsedTime(0),
	)
	for {
		room := db.room.next()
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

// UpdateWithRoom calls Update. While the disk is full, it repeats the call in the same way as WithRoom. Each repetition
// calls fn again.
func (db *DB) UpdateWithRoom(ctx context.Context, fn func(*Tx) error) error {
	return db.WithRoom(ctx, func() error { return db.Update(fn) })
}

// next returns a channel that is closed when the current shortage ends or, if there is none, when the next shortage
// ends.
func (w *roomWatch) next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.again
}

// committed records whether the last commit had enough space. err is the result of that commit. If a
// shortage begins or ends, committed reports it.
func (w *roomWatch) committed(err error) {
	full := errors.Is(err, ErrFull)
	if err != nil && !full {
		return
	}
	w.mu.Lock()
	was := w.shortage
	switch {
	case full && was == nil:
		w.shortage = &Shortage{Since: w.clock(), Err: err}
	case full:
		w.shortage = &Shortage{Since: was.Since, Err: err}
	case was != nil:
		w.shortage = nil
		close(w.again)
		w.again = make(chan struct{})
	}
	now := w.shortage
	w.mu.Unlock()
	if was != nil && now == nil {
		w.recovered()
	}
	if (was == nil) != (now == nil) && w.changed != nil {
		w.changed(now)
	}
}
