package store

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// request is one call of Update.
type request struct {
	fn       func(*Tx) error
	err      error
	onCommit []func()
	// turn tells a caller that waits: false, its request is done; true, it is
	// to lead the next group, of which its own request is the first.
	turn chan bool
}

// Update runs fn and commits what it wrote. When Update returns nil, the
// writes are durable and the functions given to Tx.OnCommit have run. When fn
// returns an error or panics, nothing of it is kept and the error is
// returned. fn runs once, alone, after the last commit has returned, and
// perhaps on another caller's goroutine; it must not call Update or Close.
//
// Functions that arrive while a commit is under way are committed together.
// When that commit fails, all of them fail: with ErrFull the caller may try
// again, after any other failure of a commit the store is poisoned.
func (db *DB) Update(fn func(*Tx) error) error {
	if db.readOnly {
		return fmt.Errorf("store: update %s: %w", db.path, ErrReadOnly)
	}
	r := &request{fn: fn}
	db.mu.Lock()
	if db.err != nil {
		err := db.err
		db.mu.Unlock()
		return err
	}
	if db.leading {
		r.turn = make(chan bool, 1)
		db.waiting = append(db.waiting, r)
		db.mu.Unlock()
		if lead := <-r.turn; !lead {
			return r.err
		}
	} else {
		db.leading = true
		db.mu.Unlock()
	}
	db.lead(r)
	return r.err
}

// lead runs and commits r and what arrives meanwhile, then passes the lead on
// to a caller that waits. The caller of Update whose request comes first
// leads, so that a lone Update never changes goroutines.
func (db *DB) lead(first *request) {
	g := &group{db: db}
	sound := false
	defer func() {
		if !sound {
			// Only runtime.Goexit leads here, as t.FailNow in a function does.
			db.poison(errors.New("a transaction ended its goroutine"))
			g.abandon()
		}
		db.pass()
	}()
	g.run(first)
	for !g.full {
		r := db.take()
		if r == nil {
			break
		}
		g.run(r)
	}
	_ = g.commit() // its requests have been told
	sound = true
}

// take returns the request that has waited longest, nil if none waits.
func (db *DB) take() *request {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.shift()
}

// shift is take for a caller that holds mu.
func (db *DB) shift() *request {
	if len(db.waiting) == 0 {
		return nil
	}
	r := db.waiting[0]
	db.waiting[0] = nil
	db.waiting = db.waiting[1:]
	return r
}

// pass gives the lead to the request that has waited longest; when the store
// has ended, it fails all that wait.
func (db *DB) pass() {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.err != nil {
		for _, r := range db.waiting {
			r.err = db.err
			r.turn <- false
		}
		db.waiting = nil
	}
	if r := db.shift(); r != nil {
		r.turn <- true
		return
	}
	db.leading = false
	db.idle.Broadcast()
}

// poison ends the store because of err.
func (db *DB) poison(err error) {
	_ = db.NoteCleanExit() // without it, the end of this process looks like a crash
	db.end(fmt.Errorf("%w: %w; stop the process, the next one verifies %s", ErrPoisoned, err, db.path))
}

// group is what one commit takes.
type group struct {
	db     *DB
	reader Reader
	done   []*request // ran without error and wait for the commit
	failed []*request
	now    *request // runs
	ran    int
	full   bool
}

// run runs r on top of what the group has written so far. A request that does
// not fit in any more is committed with the next group, without running again.
func (g *group) run(r *request) {
	g.ran++
	g.now = r
	p, limits := g.db.pending, g.db.limits
	err := g.open()
	if err == nil {
		err = g.call(r)
	}
	switch {
	case err == nil && len(p.undo) > 0 && !p.within(limits):
		err = g.carry(r)
	case err == nil:
		p.keep()
		g.done = append(g.done, r)
	default:
		p.rollback()
	}
	if err != nil {
		r.err = err
		g.failed = append(g.failed, r)
	}
	g.now = nil
	g.full = g.full || g.ran >= limits.Ops || g.db.Err() != nil
}

// carry commits what was there before r ran and makes the writes of r the
// first of the next group. When they are too many for any group, that is an
// error; when the commit fails r fails with it, as it saw what does not exist.
func (g *group) carry(r *request) error {
	p, limits := g.db.pending, g.db.limits
	own, size := p.mine(), p.own
	p.rollback()
	if size.Ops > limits.Ops || size.Bytes > limits.Bytes {
		return fmt.Errorf("store: a transaction writes %d keys of %d bytes together, the limits are %d and %d: %w",
			size.Ops, size.Bytes, limits.Ops, limits.Bytes, ErrTooLarge)
	}
	if err := g.commit(); err != nil {
		return err
	}
	for _, w := range own.all(nil) {
		p.put(w)
	}
	p.keep()
	g.done = append(g.done, r)
	return nil
}

// open gives the group its view of the last commit.
func (g *group) open() error {
	if err := g.db.Err(); err != nil {
		return err
	}
	if g.reader != nil {
		return nil
	}
	var err error
	if g.reader, err = g.db.backend.Reader(); err != nil {
		g.reader = nil
		g.db.poison(err)
		return g.db.Err()
	}
	return nil
}

// call calls r's function and returns its error, or what the backend or a panic left.
func (g *group) call(r *request) (err error) {
	tx := &Tx{db: g.db, reader: g.reader, pending: g.db.pending}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: a transaction panicked: %v\n%s", p, debug.Stack())
		} else if err == nil {
			err = tx.err
		}
		r.onCommit = tx.onCommit
		tx.reader, tx.pending = nil, nil
	}()
	return r.fn(tx)
}

// commit commits what the group has written, if anything, and finishes its requests.
func (g *group) commit() error {
	g.close()
	p := g.db.pending
	var err error
	if !p.empty() {
		g.db.writes = p.writes(g.db.writes[:0])
		err = g.db.commit(g.db.writes)
		g.db.writes = emptied(g.db.writes)
		p.reset()
	}
	g.finish(err)
	return err
}

// close ends the view; a commit that has to grow the file waits for all views to end.
func (g *group) close() {
	if g.reader == nil {
		return
	}
	if err := g.reader.Close(); err != nil {
		g.db.poison(err)
	}
	g.reader = nil
}

// abandon fails the group, the request that runs included.
func (g *group) abandon() {
	g.close()
	g.db.pending.reset()
	if g.now != nil {
		g.now.err = g.db.Err()
		g.failed = append(g.failed, g.now)
	}
	g.finish(g.db.Err())
}

// finish runs the OnCommit functions, if the commit succeeded, and lets the callers go.
func (g *group) finish(err error) {
	for _, r := range g.done {
		if r.err = err; err != nil {
			continue
		}
		r.err = g.db.runAll(r.onCommit)
	}
	for _, r := range append(g.done, g.failed...) {
		if r.turn != nil {
			r.turn <- false
		}
	}
	g.done, g.failed, g.ran = nil, nil, 0
}

// commit hands writes to the backend and judges its error.
func (db *DB) commit(writes []Write) error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.admit(); err != nil {
		return err
	}
	err := db.timed(writes)
	db.noteRoom(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFull):
		return fmt.Errorf("store: commit to %s: %w; free space on its file system and try again", db.path, err)
	}
	db.poison(err)
	return db.Err()
}

// timed hands writes to the backend and says how long that took.
func (db *DB) timed(writes []Write) error {
	if db.told == nil {
		return db.backend.Commit(db.epoch, writes)
	}
	began := db.clock()
	err := db.backend.Commit(db.epoch, writes)
	db.told(db.clock().Sub(began), len(writes))
	return err
}

// runAll calls what was given to OnCommit. A panic poisons: what the process
// believes is no longer what the store holds.
func (db *DB) runAll(fns []func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			db.poison(fmt.Errorf("an OnCommit function panicked: %v\n%s", p, debug.Stack()))
			err = db.Err()
		}
	}()
	for _, fn := range fns {
		fn()
	}
	return nil
}
