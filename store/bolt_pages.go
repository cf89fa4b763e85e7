package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sort"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// deepest is the maximum number of levels of a tree. If a tree seems to have more levels, a page of the tree is below
// itself.
const deepest = 64

// boltPages is a backend that reads a bbolt file without bbolt, because bbolt does not verify the pages that it
// reads. boltPages verifies each page when the page is first read. So the time to open a file does not depend on the
// size of the file.
//
// When boltPages verifies a branch page, it also reads the first key of each page below the branch page. That first
// key must be equal to the key in the branch page. Without this check, a damaged branch page could lead a search to
// the wrong page, so that the search would not find a key that the file has.
type boltPages struct {
	file   *os.File
	meta   boltMeta
	data   []byte        // the mapped file
	root   span          // the root page of the tree with the store's keys
	inline []byte        // the tree of a small store, if bbolt keeps it inside another page, without a page of its own; otherwise nil
	sound  []atomic.Bool // whether a page is verified, by page number

	readers sync.RWMutex // each open reader holds a read lock
	closed  bool
}

// openPages returns a backend that reads the file f. The caller must hold the lock of f. If openPages returns an
// error, f is closed.
func openPages(f *os.File) (b *boltPages, err error) {
	defer func() {
		if err != nil {
			_ = f.Close()
		}
	}()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	v := &verifier{verifiedFile: verifiedFile{file: f, size: info.Size()}}
	if err := v.readMeta(); err != nil {
		return nil, err
	}
	value, err := v.buckets()
	if err != nil {
		return nil, err
	}
	b = &boltPages{file: f, meta: v.meta, sound: make([]atomic.Bool, v.meta.high)}
	if b.root.page, b.inline, err = bucketRoot(value); err != nil {
		return nil, err
	}
	b.data, err = unix.Mmap(int(f.Fd()), 0, int(v.size), unix.PROT_READ, unix.MAP_SHARED)
	return b, err
}

// page returns the page of the span s in the tree with the store's keys. It verifies the page at the first read. The
// argument level is the depth of the page in the tree; 0 for the root.
func (b *boltPages) page(s span, level int) (p []byte, err error) {
	switch {
	case level > deepest:
		return nil, corrupt("page %d is below itself", s.page)
	case level == 0 && b.inline != nil:
		p = b.inline
	default:
		if p, err = b.mapped(s.page); err != nil {
			return nil, err
		}
	}
	if b.sound[s.page].Load() {
		return p, nil
	}
	if err := b.verify(p, s); err != nil {
		return nil, err
	}
	b.sound[s.page].Store(true)
	return p, nil
}

// mapped returns the bytes of the page with the number id, and of its overflow pages, in the mapped file.
func (b *boltPages) mapped(id uint64) ([]byte, error) {
	if id < 2 || id >= b.meta.high {
		return nil, corrupt("page %d does not exist: the file has %d pages", id, b.meta.high)
	}
	size := uint64(b.meta.pageSize)
	more, err := b.meta.overflow(id, b.data[id*size:(id+1)*size])
	if err != nil {
		return nil, err
	}
	return b.data[id*size : (id+more+1)*size], nil
}

// verify checks the elements of page p, which is the page of the span s. If p is a branch page, verify also checks
// the first key of each page below p. It reads one byte of each memory page of p, so that it finds a part of the file
// that the disk cannot read.
func (b *boltPages) verify(p []byte, s span) error {
	for at := 0; at < len(p); at += os.Getpagesize() {
		_ = p[at]
	}
	if _, err := treePage(p, s, nil, leafRecord); err != nil || isLeaf(p) {
		return err
	}
	for i := range elementCount(p) {
		e := elementOf(p, i)
		below, err := b.mapped(e.page)
		if err != nil {
			return err
		}
		if elementCount(below) == 0 {
			return corrupt("page %d is empty", e.page)
		}
		if first := elementOf(below, 0).key; !bytes.Equal(first, e.key) {
			return corrupt("page %d begins with the key %x, and page %d leads to it by the key %x", e.page, first, s.page, e.key)
		}
	}
	return nil
}

// leafRecord returns an error if the element e of a leaf has flags, which the elements of records do not have.
func leafRecord(e element) error {
	if e.flags != 0 {
		return corrupt("key %x has the flags %x", e.key, e.flags)
	}
	return nil
}

// below returns the span of the page to which element i of the branch page p leads. The argument s is the span of p.
func below(p []byte, s span, i int) span {
	e := elementOf(p, i)
	next := span{page: e.page, low: e.key, high: s.high}
	if i+1 < elementCount(p) {
		next.high = elementOf(p, i+1).key
	}
	return next
}

// search returns the number of elements of page p whose keys are less than k.
func search(p []byte, k Key) int {
	return sort.Search(elementCount(p), func(i int) bool { return bytes.Compare(elementOf(p, i).key, k) >= 0 })
}

// Reader returns a view of the file. It fails after Close.
func (b *boltPages) Reader() (Reader, error) {
	b.readers.RLock()
	if b.closed {
		b.readers.RUnlock()
		return nil, ErrClosed
	}
	return pagesReader{b}, nil
}

// Close waits for readers and closes the file.
func (b *boltPages) Close() error {
	b.readers.Lock()
	defer b.readers.Unlock()
	b.closed = true
	return errors.Join(unix.Munmap(b.data), b.file.Close())
}

// Commit returns ErrReadOnly.
func (b *boltPages) Commit(uint64, []Write) error { return ErrReadOnly }

// Limits returns zero limits, because nothing can be committed.
func (b *boltPages) Limits() Limits { return Limits{} }

// Recovered does nothing, because nothing can be committed.
func (b *boltPages) Recovered() {}

// Damaged verifies the whole file, and returns the keys of the damaged records, up to a limit.
func (b *boltPages) Damaged() (damaged []Key, err error) {
	err = b.whole(func(whole *bolt) (err error) {
		damaged, err = whole.Damaged()
		return err
	})
	return damaged, err
}

// Snapshot verifies the whole file and copies it to w.
func (b *boltPages) Snapshot(w io.Writer) error {
	return b.whole(func(whole *bolt) error { return whole.Snapshot(w) })
}

// Check verifies the whole file.
func (b *boltPages) Check() error { return b.whole((*bolt).Check) }

// whole verifies the whole file, opens it with bbolt, and calls the function do with the opened backend.
func (b *boltPages) whole(do func(*bolt) error) error {
	f, err := lock(b.file.Name(), os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	mine, err := b.file.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	if same, err := f.Stat(); err != nil || !os.SameFile(mine, same) {
		return errors.Join(fmt.Errorf("%s has been replaced meanwhile; repeat the command", b.file.Name()), err, f.Close())
	}
	whole, err := openBolt(f, true)
	if err != nil {
		return err
	}
	return errors.Join(do(whole), whole.Close())
}

// pagesReader is the Reader of boltPages.
type pagesReader struct{ *boltPages }

// Close ends the view.
func (r pagesReader) Close() error {
	r.readers.RUnlock()
	return nil
}

// Version returns the number of the last transaction that was committed to the file.
func (r pagesReader) Version() uint64 { return r.meta.txid }

// Get returns the value under k; nil if there is none.
func (r pagesReader) Get(k Key) (v []byte, err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	s := r.root
	for level := 0; ; level++ {
		p, err := r.page(s, level)
		if err != nil {
			return nil, err
		}
		i := search(p, k)
		found := i < elementCount(p) && bytes.Equal(elementOf(p, i).key, k)
		switch {
		case !isLeaf(p) && found:
			s = below(p, s, i)
		case !isLeaf(p):
			s = below(p, s, max(i-1, 0))
		case !found:
			return nil, nil
		default:
			v, _ = unseal(k, elementOf(p, i).value) // the caller detects damage with damageOf
			return v, nil
		}
	}
}

// Range yields all records whose key k has from <= k < to, in ascending order or, if down is true, in descending
// order.
func (r pagesReader) Range(from, to Key, down bool, yield func(Key, []byte) bool) error {
	return r.each(from, to, down, func(k Key, stored []byte) []byte {
		v, _ := unseal(k, stored) // the function yield detects damage with damageOf
		return v
	}, yield)
}

// Skim is like Range, but does not compare the values with their checksums.
func (r pagesReader) Skim(from, to Key, down bool, yield func(Key, []byte) bool) error {
	return r.each(from, to, down, skimmed, yield)
}

func skimmed(_ Key, stored []byte) []byte { return unchecked(stored) }
