package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// bucket is the only bucket of a store's file.
var bucket = []byte("addon-operator")

// fillPercent is the share of a page that bbolt fills when it splits the page. Most new keys of queues and of the
// history are greater than the existing keys. With bbolt's default, the pages that are split for such keys would stay
// half full.
const fillPercent = 0.9

// bolt is the backend that stores its data in a bbolt file.
type bolt struct {
	db      *bbolt.DB
	file    *os.File // the file of db, which db closes
	ballast ballast
	free    bool // result of mostlyFree when the file was opened

	committing sync.Mutex
	durable    atomic.Int64 // bbolt's number of the last transaction known to be on disk
}

// openBolt verifies the file f and opens it with bbolt. The caller must hold the lock of f. If openBolt returns an
// error, f is closed.
func openBolt(f *os.File, readOnly bool) (b *bolt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("%v", p)
		}
		if err != nil {
			_ = f.Close() // fails if bbolt has already closed the file
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	verified, err := inspectBolt(f, info.Size())
	if err != nil {
		return nil, err
	}
	db, err := bbolt.Open(f.Name(), 0o600, boltOptions(f, readOnly))
	if err != nil {
		return nil, err
	}
	return newBoltOver(db, f, verified)
}

// boltOptions returns the options with which bbolt opens the file f. The caller must hold the lock of f.
func boltOptions(f *os.File, readOnly bool) *bbolt.Options {
	return &bbolt.Options{
		OpenFile: held(f),
		Timeout:  time.Nanosecond, // the caller holds the lock
		ReadOnly: readOnly,
		// By default, bbolt keeps the free pages in an array. If the array is large, a search in it takes longer than
		// the write of a commit.
		FreelistType: bbolt.FreelistMapType,
		// Without this option, bbolt commits a list of free pages as soon as it opens a file without one; see listFree.
		NoFreelistSync: true,
		// This is the minimum size of the mapping. It needs address space, not memory. As long as the file is smaller
		// than this size, a commit that enlarges the file need not wait for readers.
		InitialMmapSize: 1 << 30,
	}
}

// mostListed is the number of free pages above which a commit does not list them in the file.
const mostListed = 1000

// listFree decides whether the next commit writes the list of free pages. With the list, bbolt opens
// the file without a search for free pages. That search visits all pages and lasts about as long as
// their verification. After many deletions, the list would be the largest part of each commit, so a
// long list is not written.
func (b *bolt) listFree() {
	s := b.db.Stats()
	b.db.NoFreelistSync = s.FreePageN+s.PendingPageN > mostListed
}

// newBoltOver returns the backend for the file f, which bbolt has opened as db. The argument verified is the verifier
// that has verified the file.
func newBoltOver(db *bbolt.DB, f *os.File, verified *verifier) (*bolt, error) {
	b := &bolt{db: db, file: f, free: verified.mostlyFree()}
	return b, db.View(func(tx *bbolt.Tx) error {
		b.durable.Store(int64(tx.ID()))
		return nil
	})
}

// held returns a value for bbolt's option OpenFile, with which bbolt uses the open file f instead of opening a file.
func held(f *os.File) func(string, int, os.FileMode) (*os.File, error) {
	return func(string, int, os.FileMode) (*os.File, error) { return f, nil }
}

// newBolt locks the empty file f, and creates a store without records in it. If newBolt returns an error, f is closed.
func newBolt(f *os.File) (*bolt, error) {
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{
		OpenFile: held(f), Timeout: time.Second, FreelistType: bbolt.FreelistMapType, NoFreelistSync: true,
	})
	if err != nil {
		_ = f.Close() // fails if bbolt has already closed the file
		return nil, err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bolt{db: db, file: f}, nil
}

func (b *bolt) Limits() Limits { return Limits{Ops: 20_000, Bytes: 16 << 20} }

func (b *bolt) Close() error { return b.db.Close() }

// Reader opens a view of the last durable commit. bbolt shows a commit to readers before the commit is on disk. If the
// new view includes a commit that is not on disk, Reader waits until the commit has ended, and returns an error if the
// commit has failed.
func (b *bolt) Reader() (Reader, error) { return b.reader() }

func (b *bolt) reader() (r *boltReader, err error) {
	tx, err := b.db.Begin(false)
	if err != nil {
		return nil, err
	}
	if int64(tx.ID()) > b.durable.Load() {
		b.committing.Lock()
		//nolint:staticcheck // the lock is only taken to wait for the end of the commit
		b.committing.Unlock()
		if int64(tx.ID()) > b.durable.Load() {
			return nil, errors.Join(errors.New("the last commit failed"), tx.Rollback())
		}
	}
	r = &boltReader{tx: tx}
	if err := r.find(); err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return r, nil
}

func (b *bolt) Commit(epoch uint64, writes []Write) (err error) {
	b.committing.Lock()
	defer b.committing.Unlock()
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	id := int64(tx.ID())
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("%v", p)
		}
		if err != nil {
			_ = tx.Rollback() // fails if bbolt has already ended the transaction
			err = b.judge(err)
			return
		}
		b.durable.Store(id)
	}()
	bk := tx.Bucket(bucket)
	bk.FillPercent = fillPercent
	stored, _ := unseal(epochKey(), bk.Get(epochKey()))
	if err := checkEpoch(stored, epoch); err != nil {
		return err
	}
	for _, w := range writes {
		if w.Value == nil {
			err = bk.Delete(w.Key)
		} else {
			// The value needs its own memory, because bbolt uses the slice until the commit is done.
			err = bk.Put(w.Key, seal(make([]byte, 0, sealSize+len(w.Value)), w.Key, w.Value))
		}
		if err != nil {
			return err
		}
	}
	b.listFree()
	return tx.Commit()
}

// judge returns the error of a commit that failed with err. If the disk was full and a new reader does not see the
// transaction of the commit, the meta page of the commit was not written, so the commit has no effect. In this case,
// judge deletes the ballast, so that the next commit has space, and returns ErrFull. If the reader sees the
// transaction, judge returns err, because the meta page may be on disk.
func (b *bolt) judge(err error) error {
	if !isFull(err) {
		return err
	}
	tx, berr := b.db.Begin(false)
	if berr != nil {
		return errors.Join(err, berr)
	}
	defer tx.Rollback() //nolint:errcheck // a read transaction has no changes to lose
	if int64(tx.ID()) > b.durable.Load() {
		return err
	}
	b.ballast.free()
	return fullOr(err)
}

// Recovered creates the ballast again, if the disk has enough space.
func (b *bolt) Recovered() { b.ballast.refill() }

// Damaged reads the pages of the last commit from the file, and not from bbolt's mapping of the file: mapped pages that
// were read count as memory of the process. bbolt does not overwrite these pages while the reader is open.
func (b *bolt) Damaged() (damaged []Key, err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	r, err := b.reader()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	size, pageSize := r.tx.Size(), b.db.Info().PageSize
	high := uint64(size) / uint64(pageSize) //nolint:gosec // the sizes are positive
	v := &verifier{verifiedFile: verifiedFile{
		file: b.file, size: size, seen: make([]atomic.Bool, high),
		meta: boltMeta{pageSize: uint32(pageSize), root: uint64(r.tx.Cursor().Bucket().Root()), high: high}, //nolint:gosec // the size of a page is limited
	}}
	err = v.content((*levelPart).sealed)
	return v.damaged, err
}

// isFull reports whether the cause of err is a full disk. If bbolt cannot enlarge the file, its error
// contains the cause only as text.
func isFull(err error) bool {
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG} {
		if errors.Is(err, full) || strings.HasSuffix(err.Error(), ": "+full.Error()) {
			return true
		}
	}
	return false
}

func (b *bolt) Snapshot(w io.Writer) error {
	r, err := b.reader()
	if err != nil {
		return err
	}
	_, err = r.tx.WriteTo(w)
	return errors.Join(err, r.Close())
}

// Check calls bbolt's check of the pages. Commits wait until the check ends, because bbolt compares its data in
// memory with the disk.
func (b *bolt) Check() error {
	b.committing.Lock()
	defer b.committing.Unlock()
	var found []error
	err := b.db.View(func(tx *bbolt.Tx) error {
		n := 0
		for err := range tx.Check() {
			if n++; n <= maxFindings {
				found = append(found, err)
			}
		}
		if n > maxFindings {
			found = append(found, fmt.Errorf("and %d more", n-maxFindings))
		}
		return nil
	})
	if len(found) > 0 {
		return corrupt("%w", errors.Join(found...))
	}
	return err
}

// boltReader is a Reader over one read transaction of bbolt.
type boltReader struct {
	tx     *bbolt.Tx
	bucket *bbolt.Bucket
}

func (r *boltReader) find() (err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	r.bucket = r.tx.Bucket(bucket)
	return nil
}

func (r *boltReader) Close() error { return r.tx.Rollback() }

func (r *boltReader) Version() uint64 { return uint64(r.tx.ID()) } //nolint:gosec // the numbers of transactions start at 1

func (r *boltReader) Get(k Key) (v []byte, err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	v, _ = unseal(k, r.bucket.Get(k)) // the caller detects damage with damageOf
	return v, nil
}

func (r *boltReader) Range(from, to Key, down bool, yield func(Key, []byte) bool) error {
	return r.each(from, to, down, func(k Key, stored []byte) bool {
		v, _ := unseal(k, stored) // the function yield detects damage with damageOf
		return yield(k, v)
	})
}

func (r *boltReader) Skim(from, to Key, down bool, yield func(Key, []byte) bool) error {
	return r.each(from, to, down, func(k Key, stored []byte) bool { return yield(k, unchecked(stored)) })
}

// mostAhead is the maximum number of records that a loop over a range reads before it yields them.
const mostAhead = 64

// The method each yields all keys k with from <= k < to and their stored values, in ascending order or, if down is
// true, in descending order. It reads several records, up to mostAhead, under one guard, because setting up a guard
// takes longer than reading a record.
func (r *boltReader) each(from, to Key, down bool, yield func(Key, []byte) bool) error {
	c := cursor{Cursor: r.bucket.Cursor(), from: from, to: to, down: down}
	var ahead [mostAhead]stored
	for most := 1; !c.ended; most = min(2*most, mostAhead) {
		n, err := c.read(ahead[:most])
		for _, s := range ahead[:n] {
			if !yield(s.key, s.value) {
				return nil
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// A cursor visits the records of a range.
type cursor struct {
	*bbolt.Cursor

	from, to Key
	down     bool
	begun    bool
	ended    bool
}

// stored is the key and the value of a record. A boltReader keeps the value as it is in the file, with its checksum.
type stored struct{ key, value []byte }

// read reads the next records of the range into ahead, and returns the number of records.
func (c *cursor) read(ahead []stored) (n int, err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	for n < len(ahead) {
		k, v := c.next()
		if k == nil || c.down && bytes.Compare(k, c.from) < 0 || !c.down && c.to != nil && bytes.Compare(k, c.to) >= 0 {
			c.ended = true
			return n, nil
		}
		ahead[n] = stored{k, v}
		n++
	}
	return n, nil
}

// next moves the cursor to the next record. The first call moves it to the first key k with k >= from or, in
// descending order, to the last key k with k < to.
func (c *cursor) next() (k, v []byte) {
	switch {
	case c.begun && c.down:
		return c.Prev()
	case c.begun:
		return c.Next()
	}
	c.begun = true
	if !c.down {
		return c.Seek(c.from)
	}
	if c.to != nil {
		if k, _ = c.Seek(c.to); k != nil {
			return c.Prev()
		}
	}
	return c.Last()
}

// guard is deferred by functions that read mapped pages. A damaged page causes a panic, and a page of the file that the
// disk cannot read causes a fault. guard turns both into an error. The argument before must be the result of
// debug.SetPanicOnFault(true), which is the previous setting; guard restores this setting.
func guard(before bool, err *error) {
	debug.SetPanicOnFault(before)
	if p := recover(); p != nil {
		*err = corrupt("%v", p)
	}
}
