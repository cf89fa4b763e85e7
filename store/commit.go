package store

import (
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
)

// A request is one call of Update.
type request struct {
	fn       func(*Tx) error
	err      error
	onCommit []func()
	// turn wakes a waiting caller. The value false means that its request has ended. The value true
	// means that it leads the next group, which begins with its own request.
	turn chan bool
}

// A committer runs the requests of a store one at a time, and commits them in groups. One caller of Update leads at
// a time: it runs its own request and the requests that arrive meanwhile, and commits them together.
type committer struct {
	db     *DB
	limits Limits
	timed  func(Commit) // called after each commit and its OnCommit functions; can be nil

	mu      sync.Mutex
	idle    *sync.Cond // signaled when leading becomes false
	leading bool
	waiting []*request
	guard   func() error
	closed  bool

	// Only the leader touches these.
	pending *pending
	writes  []Write
	report  func() // reports the last commit to timed; nil if it is already reported
}

func newCommitter(db *DB, timed func(Commit)) *committer {
	c := &committer{db: db, limits: db.backend.Limits(), timed: timed, pending: new(pending)}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// Update runs fn and commits its writes. When Update returns nil, the writes are durable and the
// functions given to Tx.OnCommit have run. If fn returns an error or panics, none of its writes is
// kept, and Update returns the error. fn runs once, alone, after the previous commit has returned.
// It can run on the goroutine of another caller, and must not call Update or Close.
//
// Functions that arrive during a commit are committed together. If that commit fails, all of them fail. After
// ErrFull the caller may try again. After any other failure of a commit the store is poisoned.
func (db *DB) Update(fn func(*Tx) error) error {
	if db.readOnly {
		return fmt.Errorf("store: update %s: %w", db.path, ErrReadOnly)
	}
	if db.entering != nil {
		db.entering()
	}
	r := &request{fn: fn}
	lead, err := db.commits.enter(r)
	if err != nil {
		return err
	}
	if lead || r.turn != nil && <-r.turn {
		db.commits.commitGroup(r)
	}
	return r.err
}

// enter reports whether the caller leads with r. If it does not, r waits for its turn.
func (c *committer) enter(r *request) (lead bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.db.Err(); err != nil {
		return false, err
	}
	if c.leading {
		r.turn = make(chan bool, 1)
		c.waiting = append(c.waiting, r)
		return false, nil
	}
	c.leading = true
	return true, nil
}

// commitGroup runs and commits first and the requests that arrive meanwhile. It then passes the lead to a waiting
// caller. The caller of the first request leads, so a single Update never changes goroutines.
func (c *committer) commitGroup(first *request) {
	g := &group{committer: c, db: c.db}
	sound := false
	defer func() {
		if !sound {
			// Only runtime.Goexit leads here, for example when fn calls t.FailNow.
			c.db.poison(errors.New("a transaction ended its goroutine"))
			g.abandon()
		}
		c.pass()
	}()
	g.run(first)
	for !g.full {
		r := c.next()
		if r == nil {
			break
		}
		g.run(r)
	}
	_ = g.commit() // its requests have got the error
	sound = true
}

// next removes the request that has waited longest and returns it; nil if none waits.
func (c *committer) next() *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextLocked()
}

// nextLocked is next for a caller that holds mu.
func (c *committer) nextLocked() *request {
	if len(c.waiting) == 0 {
		return nil
	}
	r := c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	return r
}

// pass gives the lead to the request that has waited longest. If the store has ended, it fails all waiting requests.
func (c *committer) pass() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.db.Err(); err != nil {
		for _, r := range c.waiting {
			r.err = err
			r.turn <- false
		}
		c.waiting = nil
	}
	if r := c.nextLocked(); r != nil {
		r.turn <- true
		return
	}
	c.leading = false
	c.idle.Broadcast()
}

// close waits until no request runs. It reports whether this is the first close. The caller must
// have ended the store before.
func (c *committer) close() (first bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.leading {
		c.idle.Wait()
	}
	first = !c.closed
	c.closed = true
	return first
}

// A group is the requests of one commit.
type group struct {
	*committer
	db     *DB
	reader Reader
	done   []*request // requests that ran without an error and wait for the commit
	failed []*request
	now    *request // runs
	ran    int
	full   bool
}

// run runs r after the requests of the group, whose writes it reads. A request that no longer fits
// in the group is committed with the next group, without running again.
func (g *group) run(r *request) {
	g.ran++
	g.now = r
	p, limits := g.pending, g.limits
	err := g.open()
	if err == nil {
		err = g.call(r)
	}
	switch {
	case err == nil && len(p.undo) > 0 && !p.within(limits):
		err = g.carry(r)
	case err == nil:
		p.accept()
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

// carry commits the requests before r and makes the writes of r the first of the next group. It returns an
// error if the writes exceed the limits of a group. If the commit fails, r fails too, because it has read writes that do not exist.
func (g *group) carry(r *request) error {
	p, limits := g.pending, g.limits
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
	p.accept()
	g.done = append(g.done, r)
	return nil
}

// open makes the group read the last commit.
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

// call calls the function of r. It returns the error of the function, of the backend, or of a
// panic.
func (g *group) call(r *request) (err error) {
	tx := &Tx{db: g.db, reader: g.reader, pending: g.pending}
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

// commit commits the writes of the group, if there are any, and ends its requests.
func (g *group) commit() error {
	g.closeReader()
	p := g.pending
	var err error
	if !p.empty() {
		g.writes = p.writes(g.writes[:0])
		err = g.store(g.writes)
		g.writes = emptied(g.writes)
		p.reset()
	}
	g.finish(err)
	return err
}

// closeReader ends the read transaction. A commit that must enlarge the file waits for all readers
// to end.
func (g *group) closeReader() {
	if g.reader == nil {
		return
	}
	if err := g.reader.Close(); err != nil {
		g.db.poison(err)
	}
	g.reader = nil
}

// abandon fails the group, including the running request.
func (g *group) abandon() {
	g.closeReader()
	g.pending.reset()
	if g.now != nil {
		g.now.err = g.db.Err()
		g.failed = append(g.failed, g.now)
	}
	g.finish(g.db.Err())
}

// finish runs the OnCommit functions, if the commit succeeded, reports the commit, and lets the callers return.
func (g *group) finish(err error) {
	for _, r := range g.done {
		if r.err = err; err != nil {
			continue
		}
		r.err = g.runAll(r.onCommit)
	}
	if report := g.report; report != nil {
		g.report = nil
		report()
	}
	for _, r := range append(g.done, g.failed...) {
		if r.turn != nil {
			r.turn <- false
		}
	}
	g.done, g.failed, g.ran = nil, nil, 0
}

// store commits writes, unless the store has ended or the guard rejects the commit.
func (c *committer) store(writes []Write) error {
	db := c.db
	if err := db.Err(); err != nil {
		return err
	}
	if err := c.admit(); err != nil {
		return err
	}
	err := c.write(writes)
	db.room.committed(err)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrFull):
		return fmt.Errorf("store: commit to %s: %w; free space on its file system and try again", db.path, err)
	}
	db.poison(err)
	return db.Err()
}

// write passes writes to the backend, and measures how long that takes if that must be reported.
func (c *committer) write(writes []Write) error {
	if c.timed == nil {
		return c.db.backend.Commit(c.db.Epoch(), writes)
	}
	began := c.db.clock()
	err := c.db.backend.Commit(c.db.Epoch(), writes)
	done := Commit{
		Took: c.db.clock().Sub(began), Writes: len(writes),
		Actions: slices.ContainsFunc(writes, func(w Write) bool { return w.Key.Table() == Actions }),
	}
	c.report = func() { c.timed(done) }
	return err
}

// runAll calls functions given to OnCommit. A panic poisons the store, because the memory of the
// process no longer matches the records.
func (c *committer) runAll(fns []func()) (err error) {
	defer func() {
		if p := recover(); p != nil {
			c.db.poison(fmt.Errorf("an OnCommit function panicked: %v\n%s", p, debug.Stack()))
			err = c.db.Err()
		}
	}()
	for _, fn := range fns {
		fn()
	}
	return nil
}
