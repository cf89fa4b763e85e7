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
	// turn wakes the caller of Update; nil if the caller does not wait. The value false means that the request of the
	// caller has ended. The value true means that the caller leads the next group, which begins with the caller's own
	// request.
	turn chan bool
}

// A committer runs the requests of a store one at a time, and commits them in groups. At any time at most one caller
// of Update is the leader. The leader runs its own request and the requests that arrive in the meantime, and commits
// all of them together.
type committer struct {
	db     *DB
	limits Limits
	timed  func(Commit) // called after each commit and its OnCommit functions; can be nil
	feed   feed

	mu      sync.Mutex
	idle    *sync.Cond // signaled when leading becomes false
	leading bool
	waiting []*request
	guard   func() error
	closed  bool

	// Only the leader uses these fields.
	pending *pending
	writes  []Write
	report  func() // calls c.timed with the last commit; nil after this call
}

func newCommitter(db *DB, timed func(Commit)) *committer {
	c := &committer{db: db, limits: db.backend.Limits(), timed: timed, pending: new(pending)}
	c.idle = sync.NewCond(&c.mu)
	return c
}

// Update runs fn and commits its writes. When Update returns nil, the writes are durable and the functions passed to
// Tx.OnCommit have run. If fn returns an error or panics, the writes of fn are discarded, and Update returns the error
// of fn, or an error that describes the panic. fn runs at most once. While fn runs, the store commits nothing, and the
// functions of other calls of Update wait. fn can run on the goroutine of another caller of Update, and must not call
// Update or Close.
//
// One commit can contain the writes of several calls of Update that run at the same time. If this commit fails, all
// these calls return an error. After ErrFull, the caller may try again. A commit that the guard rejects does not poison
// the store; see [DB.Guard]. Any other failure of a commit poisons the store.
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

// enter makes the caller the leader and returns true, if there is no leader. Otherwise enter adds the request r to the
// waiting requests and returns false.
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

// commitGroup runs and commits a group: the given request and the requests that arrive in the meantime. Afterwards the
// caller of a waiting request becomes the leader. The caller of the given request calls commitGroup. So if only one
// call of Update is active, its function runs on the goroutine of its caller.
func (c *committer) commitGroup(first *request) {
	g := &group{committer: c, db: c.db}
	sound := false
	defer func() {
		if !sound {
			// The function of a request has called runtime.Goexit, for example through t.FailNow. Or the store itself,
			// or a function of the Options, has panicked.
			cause := errors.New("a transaction ended its goroutine")
			if p := recover(); p != nil {
				cause = fmt.Errorf("a commit panicked: %v\n%s", p, debug.Stack())
			}
			c.db.poison(cause)
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
	_ = g.commit() // commit passes its error to the requests
	sound = true
}

// next removes the request that has waited longest from c.waiting, and returns it; nil if no request waits.
func (c *committer) next() *request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nextLocked()
}

// nextLocked is like next, but the caller must hold c.mu.
func (c *committer) nextLocked() *request {
	if len(c.waiting) == 0 {
		return nil
	}
	r := c.waiting[0]
	c.waiting[0] = nil
	c.waiting = c.waiting[1:]
	return r
}

// pass ends the leadership of the current leader. The caller of the request that has waited longest becomes the leader.
// If the store accepts no more transactions, pass makes all waiting requests fail instead.
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

// close waits until no request runs. It reports whether this is the first call of close. Before the call, the caller
// must make the store reject new transactions.
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

// A group has the requests whose writes are committed together.
type group struct {
	*committer
	db     *DB
	reader Reader
	done   []*request // requests that ran without an error and wait for the commit of the group
	failed []*request
	now    *request // the running request; nil if none runs
	ran    int      // number of requests that have run
	full   bool
}

// run runs the function of the request r. The function sees the writes of the earlier requests of the group. If the
// writes of r do not fit in the group, the next group commits them, and the function of r does not run again.
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

// carry commits the requests that ran before the request r, and begins the next group with the writes of r. It
// returns ErrTooLarge if the writes of r alone exceed the limits of a group. If the commit fails, carry returns its
// error, because r has seen writes that were not committed.
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

// open opens a reader of the last commit, unless the group has a reader already. It returns an error if the store
// accepts no more transactions.
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

// call calls the function of the request r. It returns the error of the function, an error of the backend, or an
// error that describes a panic of the function.
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

// commit commits the writes of the group, if it has any, and ends the requests of the group.
func (g *group) commit() error {
	g.closeReader()
	p := g.pending
	var err error
	if !p.empty() {
		g.writes = p.writes(g.writes[:0])
		if err = g.store(g.writes); err == nil {
			g.feed.committed(g.writes)
		}
		g.writes = emptied(g.writes)
		p.reset()
	}
	g.finish(err)
	return err
}

// closeReader closes the reader of the group before the commit. Otherwise a commit that must enlarge bbolt's mapping of
// the file would wait for this reader forever.
func (g *group) closeReader() {
	if g.reader == nil {
		return
	}
	if err := g.reader.Close(); err != nil {
		g.db.poison(err)
	}
	g.reader = nil
}

// abandon makes all requests of the group fail, including the running one.
func (g *group) abandon() {
	g.closeReader()
	g.pending.reset()
	if g.now != nil {
		g.now.err = g.db.Err()
		g.failed = append(g.failed, g.now)
	}
	g.finish(g.db.Err())
}

// finish ends the requests of a group. err is the error of the commit. If err is nil, finish runs the OnCommit
// functions. Then it reports the commit, and lets the callers of Update return.
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

// store commits writes. It returns an error and commits nothing if the store accepts no more transactions or the
// guard rejects the commit. It poisons the store if the commit fails with an error other than ErrFull.
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

// write passes writes to the backend. If c.timed is not nil, write measures the duration of the commit for the
// report.
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

// runAll calls functions that were passed to OnCommit. If a function panics, runAll poisons the store, because data
// in memory may differ from the committed records.
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
