package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// bucket is the one bucket a store's file has.
var bucket = []byte("addon-operator")

// bolt is the backend over a bbolt file.
type bolt struct {
	db *bbolt.DB

	committing sync.Mutex
	durable    atomic.Int64 // bbolt's number of the last transaction known to be on disk
}

// openBolt opens the file that open returns. The caller holds its lock, and
// has verified what it holds.
func openBolt(path string, readOnly bool, open func(string, int, os.FileMode) (*os.File, error)) (b *bolt, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		OpenFile: open,
		ReadOnly: readOnly,
		// Lookups in a large array freelist take longer than the commit.
		FreelistType: bbolt.FreelistMapType,
		// Address space, not memory: commits need not wait for readers to map
		// more of the file until it is larger than this.
		InitialMmapSize: 1 << 30,
		NoStatistics:    true,
		Timeout:         1, // the lock is held already
	})
	if err != nil {
		return nil, err
	}
	db.AllocSize = 1 << 20
	b = &bolt{db: db}
	return b, db.View(func(tx *bbolt.Tx) error {
		b.durable.Store(int64(tx.ID()))
		if tx.Bucket(bucket) == nil {
			return errors.Join(ErrNotStore, b.Close())
		}
		return nil
	})
}

// newBolt makes an empty store of the empty file f, whose lock the caller holds.
func newBolt(f *os.File) (*bolt, error) {
	db, err := bbolt.Open(f.Name(), 0o600, &bbolt.Options{OpenFile: held(f), Timeout: 1})
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucket(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &bolt{db: db}, nil
}

func (b *bolt) Limits() Limits { return Limits{Ops: 20_000, Bytes: 16 << 20} }

func (b *bolt) Close() error { return b.db.Close() }

// Reader opens a view of the last durable commit. bbolt shows a commit to
// readers before it is on disk; a reader that sees such a commit waits for it.
func (b *bolt) Reader() (Reader, error) {
	tx, err := b.db.Begin(false)
	if err != nil {
		return nil, err
	}
	if int64(tx.ID()) > b.durable.Load() {
		b.committing.Lock()
		//nolint:staticcheck // waiting is all there is to do
		b.committing.Unlock()
		if int64(tx.ID()) > b.durable.Load() {
			return nil, errors.Join(errors.New("the last commit failed"), tx.Rollback())
		}
	}
	return &boltReader{tx: tx, bucket: tx.Bucket(bucket)}, nil
}

func (b *bolt) Commit(epoch uint64, writes []Write) (err error) {
	b.committing.Lock()
	defer b.committing.Unlock()
	tx, err := b.db.Begin(true)
	if err != nil {
		return err
	}
	id := int64(tx.ID())
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrCorrupt, p)
		}
		if err != nil {
			_ = tx.Rollback() // frees the lock; the error to tell is the first
			err = b.judge(err)
			return
		}
		b.durable.Store(id)
	}()
	bk := tx.Bucket(bucket)
	if err := checkEpoch(bk.Get(epochKey()), epoch); err != nil {
		return err
	}
	for _, w := range writes {
		if w.Value == nil {
			err = bk.Delete(w.Key)
		} else {
			err = bk.Put(w.Key, w.Value)
		}
		if err != nil {
			return err
		}
	}
	return tx.Commit()
}

// judge makes ErrFull of an error of a commit that is known to have left
// nothing: space was missing, and no reader sees a newer transaction than the
// last durable one. An error after the meta page was written is not known to
// have left nothing, whatever it is.
func (b *bolt) judge(err error) error {
	if !isFull(err) {
		return err
	}
	tx, berr := b.db.Begin(false)
	if berr != nil {
		return errors.Join(err, berr)
	}
	defer tx.Rollback() //nolint:errcheck // a reader has nothing to lose
	if int64(tx.ID()) > b.durable.Load() {
		return err
	}
	return fmt.Errorf("%w: %w", ErrFull, err)
}

// isFull reports whether err says that there is no space. bbolt passes on the
// error of growing the file as text only.
func isFull(err error) bool {
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT, unix.EFBIG, berrors.ErrMaxSizeReached} {
		if errors.Is(err, full) || strings.HasSuffix(err.Error(), ": "+full.Error()) {
			return true
		}
	}
	return false
}

func (b *bolt) Snapshot(w io.Writer) error {
	r, err := b.Reader()
	if err != nil {
		return err
	}
	_, err = r.(*boltReader).tx.WriteTo(w)
	return errors.Join(err, r.Close())
}

func (b *bolt) Check() error {
	r, err := b.Reader()
	if err != nil {
		return err
	}
	for e := range r.(*boltReader).tx.Check() {
		err = errors.Join(err, e)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return errors.Join(err, r.Close())
}

// boltReader is one read transaction.
type boltReader struct {
	tx     *bbolt.Tx
	bucket *bbolt.Bucket
}

func (r *boltReader) Close() error { return r.tx.Rollback() }

func (r *boltReader) Get(k Key) ([]byte, error) { return r.bucket.Get(k), nil }

func (r *boltReader) Range(from, to Key, down bool, yield func(Key, []byte) bool) error {
	c := r.bucket.Cursor()
	if down {
		var k, v []byte
		if to == nil {
			k, v = c.Last()
		} else if k, v = c.Seek(to); k == nil {
			k, v = c.Last()
		} else {
			k, v = c.Prev()
		}
		for ; k != nil && bytes.Compare(k, from) >= 0; k, v = c.Prev() {
			if !yield(k, v) {
				return nil
			}
		}
		return nil
	}
	for k, v := c.Seek(from); k != nil && (to == nil || bytes.Compare(k, to) < 0); k, v = c.Next() {
		if !yield(k, v) {
			return nil
		}
	}
	return nil
}
