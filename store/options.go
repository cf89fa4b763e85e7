package store

import "time"

// Options are the options of an open store. The zero value is usable.
type Options struct {
	// Clock returns the time of transactions. The default is the system's clock.
	Clock func() time.Time

	// Committed is called after each attempt of the backend to commit the writes of one or more calls of Update, even if
	// the attempt has failed. It is not called if the guard rejects the commit. It is called after the functions passed to
	// Tx.OnCommit, and before Update returns. The next commit waits until Committed returns, so Committed must return
	// quickly. Committed must not call Update or Close.
	Committed func(Commit)

	// Shortage is called with a shortage when commits begin to fail because the disk is full, and
	// with nil when a commit succeeds again. Shortage must return quickly, and must not call Update
	// or Close.
	Shortage func(*Shortage)

	// LockWait is the maximum time to wait until another process closes the file. The default of
	// LockWait is one second.
	LockWait time.Duration

	// Ballast is the size in bytes of a file beside the store, with the suffix ".ballast". The
	// ballast file is deleted when the disk is full, so that the store can still be written. If
	// Ballast is not zero, Open also allocates the disk space for the note of clean exits. The
	// default of Ballast is zero: no ballast file.
	Ballast int64
}

func (o Options) clock() func() time.Time {
	if o.Clock != nil {
		return o.Clock
	}
	return time.Now //nolint:forbidigo // this is the clock
}

func (o Options) wait() time.Duration {
	if o.LockWait > 0 {
		return o.LockWait
	}
	return time.Second
}

// A Commit describes an attempt to commit.
type Commit struct {
	// Took is the duration of the attempt, by the clock of the store.
	Took time.Duration
	// Writes is the number of keys to write or delete in this attempt.
	Writes int
	// Actions is set if the writes include records of the table [Actions].
	Actions bool
}
