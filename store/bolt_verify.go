package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// bbolt does not verify the pages that it reads: a damaged page causes a panic, or a fault that ends the process.
// Therefore the verifier reads and checks a file before bbolt maps it. The verifier reads the pages of each level of
// the tree in their order in the file. It reads a large level in several parts in parallel. The memory that the
// verifier needs is a few percent of the size of the file, mostly for the first key of each page.
//
// bbolt's own check, tx.Check, cannot replace the verifier: bbolt must first open and map the file, and tx.Check
// visits the pages on a goroutine of its own, where the caller cannot recover from a fault. In a trial with 171 files
// that the tests of this package had damaged, bbolt 1.5.0 ended the process for four files (SIGBUS, SIGSEGV), and did
// not return for two files, in which a page refers back to itself.
//
// The verified format is version 2 of bbolt's file format. Numbers have the byte order of the machine. The file
// begins with two meta pages; bbolt uses the newer valid one. A meta page refers to the root of a tree of branch and
// leaf pages, and to a list of free pages.

const (
	pageHeader  = 16 // size of a page's header in bytes: id 8, flags 2, count 2, overflow 4
	pageElement = 16
	metaSize    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	bucketElement = 0x01
	// The header of a bucket has 8 bytes for the number of the root page and 8 for the sequence. If the number is 0,
	// the bucket's only page follows the header.
	bucketHeader = 16
)

const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2
	noFreelist  = 1<<64 - 1
	largestNode = 256 << 20 // far larger than the page of the largest value that a commit can write
)

// mostDamaged is the maximum number of damaged records that a verifier lists.
const mostDamaged = 100

// A boltMeta has the fields of a meta page that a verifier uses.
type boltMeta struct {
	pageSize             uint32
	root, freelist, high uint64 // page numbers; high is the lowest number that was never used
	txid                 uint64
}

// verifiedFile is the file that a verifier reads, with the pages visited so far.
type verifiedFile struct {
	file io.ReaderAt
	size int64
	meta boltMeta
	seen []atomic.Bool // whether a page was visited, by page number
}

// verifier visits the pages of one file.
type verifier struct {
	verifiedFile

	used    int64 // number of pages in use, without the meta pages and the list of free pages
	records int
	damaged []Key // keys of records whose checksum does not match, if the checksums are verified
}

// verifyBolt verifies all pages in use of a bbolt file of size bytes. It returns ErrNotStore if the file is not a
// store, ErrCorrupt if a page is damaged, or the error of a read. It does not verify the checksums of the records.
func verifyBolt(file io.ReaderAt, size int64) error {
	_, err := inspectBolt(file, size)
	return err
}

// inspectBolt verifies the file like verifyBolt, and also returns the verifier, which has the numbers of records and of
// pages in use.
func inspectBolt(file io.ReaderAt, size int64) (*verifier, error) {
	v := &verifier{verifiedFile: verifiedFile{file: file, size: size}}
	if err := v.readMeta(); err != nil {
		return nil, err
	}
	if err := v.content((*levelPart).record); err != nil {
		return nil, err
	}
	for i := range v.seen {
		if v.seen[i].Load() {
			v.used++
		}
	}
	return v, v.freelist()
}

// content visits all pages of the store's content, and calls yield for each record, as tree does.
func (v *verifier) content(yield func(*levelPart, element) error) error {
	root, err := v.buckets()
	if err != nil {
		return err
	}
	return v.bucket(root, yield)
}

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrCorrupt, fmt.Errorf(format, args...))
}

// readMeta finds the newer valid meta page of the file. The first meta page is at the beginning of the file, and the
// second one directly after the first. The size of a page is unknown, so readMeta looks for the second meta page at
// each possible page size.
func (v *verifier) readMeta() error {
	if v.size == 0 {
		return corrupt("the file is empty")
	}
	found, bolt := false, false
	for at := int64(0); at < v.size && at <= 16<<20; at = max(1024, at*2) {
		b := make([]byte, pageHeader+metaSize)
		if _, err := v.file.ReadAt(b, at); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		m, magic, ok := parseMeta(b[pageHeader:])
		bolt = bolt || magic
		if ok && (at == 0 || at == int64(m.pageSize)) && (!found || m.txid > v.meta.txid) {
			found, v.meta = true, m
		}
	}
	if !bolt {
		return ErrNotStore
	}
	if !found {
		return corrupt("neither meta page is valid")
	}
	if err := v.meta.check(v.size); err != nil {
		return err
	}
	v.seen = make([]atomic.Bool, v.meta.high)
	return nil
}

// check returns an error if m cannot belong to a file of size bytes.
func (m boltMeta) check(size int64) error {
	if m.pageSize < 1024 || m.pageSize > 16<<20 || m.pageSize&(m.pageSize-1) != 0 {
		return corrupt("the page size is %d bytes, which is not valid", m.pageSize)
	}
	if m.high > uint64(size)/uint64(m.pageSize) {
		return corrupt("the file has %d bytes, %d pages of %d bytes are in use", size, m.high, m.pageSize)
	}
	return nil
}

// parseMeta parses a meta page without its header. The result magic reports whether b is a meta page, and the result
// ok reports whether the meta page is valid.
func parseMeta(b []byte) (m boltMeta, magic, ok bool) {
	n := binary.NativeEndian
	h := fnv.New64a()
	_, _ = h.Write(b[:56]) // a write to a hash never fails
	m = boltMeta{
		pageSize: n.Uint32(b[8:]),
		root:     n.Uint64(b[16:]),
		freelist: n.Uint64(b[32:]),
		high:     n.Uint64(b[40:]),
		txid:     n.Uint64(b[48:]),
	}
	magic = n.Uint32(b) == boltMagic
	return m, magic, magic && n.Uint32(b[4:]) == boltVersion && n.Uint64(b[56:]) == h.Sum64()
}

// A levelPart visits some pages of one level of a tree, and collects the results. Several goroutines can visit the
// parts of a level at the same time.
type levelPart struct {
	*verifiedFile

	buf       []byte
	ahead     []byte // the bytes of the pages that were read ahead
	aheadFrom uint64 // number of the first page in ahead

	below   []span // the pages below the visited ones
	records int
	damaged []Key
	err     error
}

// page reads the page with the number id and its overflow pages, and marks all these pages as visited.
func (v *levelPart) page(id uint64) ([]byte, error) {
	if id < 2 || id >= v.meta.high {
		return nil, corrupt("page %d does not exist: the file has %d pages", id, v.meta.high)
	}
	p, err := v.read(id, 1)
	if err != nil {
		return nil, err
	}
	more, err := v.meta.overflow(id, p)
	if err != nil {
		return nil, err
	}
	for i := id; i <= id+more; i++ {
		if v.seen[i].Swap(true) {
			return nil, corrupt("page %d is used twice", i)
		}
	}
	if more > 0 {
		return v.read(id, more+1)
	}
	return p, nil
}

// overflow returns the number of overflow pages that follow the page with the number id. The argument head has the
// first bytes of the page.
func (m boltMeta) overflow(id uint64, head []byte) (uint64, error) {
	n := binary.NativeEndian
	if self := n.Uint64(head); self != id {
		return 0, corrupt("page %d says it is page %d", id, self)
	}
	more := uint64(n.Uint32(head[12:]))
	if more >= m.high-id || more*uint64(m.pageSize) > largestNode {
		return 0, corrupt("page %d claims %d overflow pages", id, more)
	}
	return more, nil
}

// read returns the bytes of consecutive pages. The argument id is the number of the first page, and pages is the
// count. The result is valid until the next call of read or readAhead.
func (v *levelPart) read(id, pages uint64) ([]byte, error) {
	size := uint64(v.meta.pageSize)
	if from := (id - v.aheadFrom) * size; id >= v.aheadFrom && from+pages*size <= uint64(len(v.ahead)) {
		return v.ahead[from : from+pages*size], nil
	}
	v.buf = resize(v.buf, int64(pages*size))       //nolint:gosec // the caller has checked the page numbers
	_, err := v.file.ReadAt(v.buf, int64(id*size)) //nolint:gosec // the pages are inside the file
	return v.buf, err
}

// readAhead reads aheadSize bytes at once if the caller wants more than 1/aheadShare of the pages in these bytes.
const (
	aheadSize  = 256 << 10
	aheadShare = 4
)

// readAhead reads aheadSize bytes with one system call, beginning at the first wanted page, if that takes less time
// than reading the wanted pages one by one. The caller must have sorted the wanted pages by number.
func (v *levelPart) readAhead(wanted []*span) {
	pages, first := uint64(aheadSize/v.meta.pageSize), wanted[0].page
	if first >= v.aheadFrom && (first-v.aheadFrom+1)*uint64(v.meta.pageSize) <= uint64(len(v.ahead)) {
		return
	}
	if n := int(pages / aheadShare); n == 0 || len(wanted) <= n || wanted[n].page >= first+pages || first+pages > v.meta.high { //nolint:gosec // the number is small
		return
	}
	v.ahead, v.aheadFrom = resize(v.ahead, aheadSize), first
	if _, err := v.file.ReadAt(v.ahead, int64(first)*int64(v.meta.pageSize)); err != nil { //nolint:gosec // inside the file
		v.ahead = v.ahead[:0] // a page that is not wanted may cause the error, so the wanted pages are read one by one
	}
}

func resize(b []byte, n int64) []byte {
	if int64(cap(b)) < n {
		return make([]byte, n)
	}
	return b[:n]
}

// buckets visits the tree of buckets. It returns the value of the store's bucket, which must be the
// only one.
func (v *verifier) buckets() ([]byte, error) {
	var own []byte
	err := v.tree(v.meta.root, func(_ *levelPart, e element) error {
		if e.flags != bucketElement || !bytes.Equal(e.key, bucket) {
			return fmt.Errorf("%w: it is a bbolt file of another program", ErrNotStore)
		}
		own = bytes.Clone(e.value)
		return nil
	})
	if err == nil && own == nil {
		err = fmt.Errorf("%w: it is a bbolt file without content", ErrNotStore)
	}
	return own, err
}

// bucketRoot returns the number of the root page of a bucket, given the bucket's value. The value of a small bucket
// contains the only page of the bucket. For a small bucket, bucketRoot returns the number 0 and the bytes of that
// page.
func bucketRoot(value []byte) (root uint64, inline []byte, err error) {
	if len(value) < bucketHeader {
		return 0, nil, corrupt("the bucket has a header of %d bytes", len(value))
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return root, nil, nil
	}
	p := value[bucketHeader:]
	if len(p) < pageHeader || binary.NativeEndian.Uint16(p[8:]) != leafPage {
		return 0, nil, corrupt("the inline page of the bucket is not a leaf page")
	}
	return 0, p, nil
}

// bucket visits all records of the store. The argument value is the value of the store's bucket.
func (v *verifier) bucket(value []byte, yield func(*levelPart, element) error) error {
	root, p, err := bucketRoot(value)
	if err != nil {
		return err
	}
	if root != 0 {
		return v.tree(root, yield)
	}
	part := &levelPart{verifiedFile: &v.verifiedFile}
	err = elements(p, span{}, func(e element) error { return yield(part, e) })
	v.merge(part)
	return err
}

// record checks that the element e of a leaf is a record, and counts it. It does not verify the checksum of the record.
func (v *levelPart) record(e element) error {
	if e.flags != 0 {
		return corrupt("key %x has the flags %x", e.key, e.flags)
	}
	v.records++
	return nil
}

// sealed does the same as the method record. If the checksum of e does not match, sealed also adds the key of e to
// v.damaged, up to mostDamaged keys.
func (v *levelPart) sealed(e element) error {
	if err := v.record(e); err != nil {
		return err
	}
	if _, ok := unseal(e.key, e.value); !ok && len(v.damaged) < mostDamaged {
		v.damaged = append(v.damaged, bytes.Clone(e.key))
	}
	return nil
}

// merge adds the number of records and the damaged records of a part to those of the verifier.
func (v *verifier) merge(part *levelPart) {
	v.records += part.records
	v.damaged = append(v.damaged, part.damaged[:min(len(part.damaged), mostDamaged-len(v.damaged))]...)
}

// span is a page of a tree and a range of keys: the keys in the page and in the pages below it must have low <= key <
// high.
type span struct {
	page      uint64
	low, high []byte // nil means that there is no bound
}

// partPages is the number of pages in a part of a level, except in the last part. A much smaller part would not be
// worth the cost of its goroutine.
const partPages = 512

// tree visits the pages of a tree level by level, and calls yield for the elements of its leaves in no particular
// order. It can use several goroutines at the same time. Each goroutine visits one part of a level after the other, and
// passes its levelPart to yield as the first argument.
func (v *verifier) tree(root uint64, yield func(*levelPart, element) error) error {
	below := [][]span{{{page: root}}} // the pages of the next level, in one slice for each goroutine that found them
	for {
		level, err := v.inOrder(below)
		if err != nil || len(level) == 0 {
			return err
		}
		parts := slices.Collect(slices.Chunk(level, partPages))
		var begun atomic.Int64 // number of parts that a goroutine has begun
		readers := make([]*levelPart, min(len(parts), runtime.GOMAXPROCS(0)))
		var running sync.WaitGroup
		for i := range readers {
			reader := &levelPart{verifiedFile: &v.verifiedFile}
			readers[i] = reader
			running.Go(func() {
				for n := begun.Add(1); reader.err == nil && n <= int64(len(parts)); n = begun.Add(1) {
					reader.err = reader.visit(parts[n-1], yield)
				}
			})
		}
		running.Wait()
		below = nil
		for _, reader := range readers {
			if reader.err != nil {
				return reader.err
			}
			v.merge(reader)
			below = append(below, reader.below)
		}
	}
}

// inOrder returns the pages of a level in their order in the file. For a large level, it does not sort by comparison,
// but uses an array that is indexed by page number. A comparison sort would take a large part of the time of the
// verification, because only one goroutine would sort.
func (v *verifier) inOrder(level [][]span) ([]*span, error) {
	pages := 0
	for _, spans := range level {
		pages += len(spans)
	}
	if pages < partPages {
		ordered := make([]*span, 0, pages)
		for _, spans := range level {
			for i := range spans {
				ordered = append(ordered, &spans[i])
			}
		}
		slices.SortFunc(ordered, func(a, b *span) int { return cmp.Compare(a.page, b.page) })
		return ordered, nil
	}
	slots := make([]*span, v.meta.high)
	for _, spans := range level {
		for i := range spans {
			s := &spans[i]
			if s.page >= v.meta.high {
				return nil, corrupt("page %d does not exist: the file has %d pages", s.page, v.meta.high)
			}
			if slots[s.page] != nil {
				return nil, corrupt("page %d is used twice", s.page)
			}
			slots[s.page] = s
		}
	}
	return slices.DeleteFunc(slots, func(s *span) bool { return s == nil }), nil
}

// visit visits the given pages of one level, which must be sorted by number. It returns a panic as ErrCorrupt,
// because a panic that is not recovered on this goroutine would end the process.
func (v *levelPart) visit(pages []*span, yield func(*levelPart, element) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = corrupt("%v", p)
		}
	}()
	for i, s := range pages {
		v.readAhead(pages[i:])
		p, err := v.page(s.page)
		if err != nil {
			return err
		}
		if v.below == nil && !isLeaf(p) {
			v.below = make([]span, 0, min(uint64(elementCount(p)*len(pages)), v.meta.high)) //nolint:gosec // it is positive
		}
		if v.below, err = treePage(p, *s, v.below, func(e element) error { return yield(v, e) }); err != nil {
			return err
		}
	}
	return nil
}

// treePage visits the page p of a tree. The argument s is the span of p. If p is a leaf, treePage calls yield for the
// elements. If p is a branch page, treePage appends the spans of the pages below p to the argument below.
func treePage(p []byte, s span, below []span, yield func(element) error) ([]span, error) {
	switch binary.NativeEndian.Uint16(p[8:]) {
	case leafPage:
		return below, elements(p, s, yield)
	case branchPage:
		first := len(below)
		// The spans keep the keys of p, but the bytes of p are overwritten when the next page is read. So p is copied,
		// once for all its keys.
		err := elements(bytes.Clone(p), s, func(e element) error {
			if len(below) > first {
				below[len(below)-1].high = e.key
			}
			below = append(below, span{page: e.page, low: e.key, high: s.high})
			return nil
		})
		if err == nil && len(below) == first {
			err = corrupt("branch page %d is empty", s.page)
		}
		return below, err
	default:
		return below, corrupt("page %d is neither branch nor leaf", s.page)
	}
}

// An element is an entry of a branch page or of a leaf page.
type element struct {
	key   []byte
	page  uint64 // number of the page below; only in a branch page
	flags uint32 // only in a leaf page
	value []byte // only in a leaf page
}

// elements calls yield for the elements of page p, which is the page of the span s. It returns an error if an element
// is not inside the page or does not directly follow the previous element. It also returns an error if the key of an
// element is out of order or not in the range of s.
func elements(p []byte, s span, yield func(element) error) error {
	count := elementCount(p)
	behind := uint64(pageHeader + count*pageElement) //nolint:gosec // it is positive
	if behind > uint64(len(p)) {
		return corrupt("page %d of %d bytes has %d elements", s.page, len(p), count)
	}
	var last []byte
	for i := range count {
		begin, klen, vlen := elementAt(p, i)
		if begin+klen+vlen > uint64(len(p)) {
			return corrupt("element %d of page %d does not lie within it", i, s.page)
		}
		if begin != behind {
			return corrupt("element %d of page %d begins at byte %d, and the one before it ends at byte %d", i, s.page, begin, behind)
		}
		behind = begin + klen + vlen
		e := elementOf(p, i)
		// Only the first and the last key of the page are compared with the bounds of s. All other keys are between
		// these two keys, because the keys must ascend.
		below := i == 0 && s.low != nil && bytes.Compare(e.key, s.low) < 0
		above := i == count-1 && s.high != nil && bytes.Compare(e.key, s.high) >= 0
		if below || above || i > 0 && bytes.Compare(e.key, last) <= 0 {
			return corrupt("element %d of page %d is out of order", i, s.page)
		}
		last = e.key
		if err := yield(e); err != nil {
			return err
		}
	}
	return nil
}

func isLeaf(p []byte) bool { return binary.NativeEndian.Uint16(p[8:]) == leafPage }

func elementCount(p []byte) int { return int(binary.NativeEndian.Uint16(p[10:])) }

// elementAt returns the offset in page p at which the key of element i begins, the length of the key,
// and the length of the value that follows it. A branch page has no values.
func elementAt(p []byte, i int) (begin, klen, vlen uint64) {
	n := binary.NativeEndian
	at := pageHeader + i*pageElement
	head := p[at : at+pageElement]
	if isLeaf(p) {
		return uint64(at) + uint64(n.Uint32(head[4:])), uint64(n.Uint32(head[8:])), uint64(n.Uint32(head[12:])) //nolint:gosec // it is positive
	}
	return uint64(at) + uint64(n.Uint32(head)), uint64(n.Uint32(head[4:])), 0 //nolint:gosec // it is positive
}

// elementOf returns element i of page p.
func elementOf(p []byte, i int) (e element) {
	begin, klen, vlen := elementAt(p, i)
	e.key, e.value = p[begin:begin+klen], p[begin+klen:begin+klen+vlen]
	head := p[pageHeader+i*pageElement:]
	if isLeaf(p) {
		e.flags = binary.NativeEndian.Uint32(head)
	} else {
		e.page = binary.NativeEndian.Uint64(head[8:])
	}
	return e
}

// freelist verifies the list of free pages, if the file has one. A page in the list must not be in use.
func (v *verifier) freelist() error {
	if v.meta.freelist == noFreelist {
		return nil
	}
	p, err := (&levelPart{verifiedFile: &v.verifiedFile}).page(v.meta.freelist)
	if err != nil {
		return err
	}
	n := binary.NativeEndian
	if n.Uint16(p[8:]) != freelistPage {
		return corrupt("page %d is not a list of free pages", v.meta.freelist)
	}
	ids, count := p[pageHeader:], uint64(n.Uint16(p[10:]))
	if count == 1<<16-1 && len(ids) >= 8 { // the count does not fit in the header, and follows the header
		ids, count = ids[8:], n.Uint64(ids)
	}
	if count > uint64(len(ids)/8) {
		return corrupt("the list of free pages claims %d pages, but has %d bytes", count, len(ids))
	}
	for i := range count {
		id := n.Uint64(ids[i*8:])
		if id < 2 || id >= v.meta.high || v.seen[id].Swap(true) {
			return corrupt("page %d is free and in use, or does not exist", id)
		}
	}
	return nil
}
