package store

import (
	"bytes"
	"runtime/debug"
	"sync"
	"sync/atomic"
)

// The method each yields the records of a range. The function decode turns the stored value of a key into the value to
// yield.
func (r pagesReader) each(from, to Key, down bool, decode func(Key, []byte) []byte, yield func(Key, []byte) bool) error {
	visit := &rangeVisit{pages: r.boltPages, from: from, to: to, down: down, decode: decode, yield: yield}
	defer visit.stopAhead()
	_, err := visit.visit(r.root, 0)
	return err
}

// A rangeVisit is one visit of the records of a range.
type rangeVisit struct {
	pages    *boltPages
	from, to Key
	down     bool
	decode   func(k Key, stored []byte) []byte
	yield    func(Key, []byte) bool
	records  []stored // the records of the current leaf, with the values to yield

	leaves int            // number of leaves read so far; starts at fewLeaves if the visit must not read ahead
	ahead  sync.WaitGroup // the goroutine that reads ahead
	ended  atomic.Bool    // stops the goroutine that reads ahead
}

// visit yields the records of the range that are in the page of the span s and in the pages below it. It returns
// false if yield has returned false, or after an error.
func (r *rangeVisit) visit(s span, level int) (more bool, err error) {
	p, err := r.open(s, level)
	if err != nil {
		return false, err
	}
	if isLeaf(p.page) {
		return r.leaf(p)
	}
	for i := range p.end - p.first {
		next, err := r.below(p.page, s, r.at(p, i))
		if err != nil {
			return false, err
		}
		if more, err := r.visit(next, level+1); !more || err != nil {
			return false, err
		}
	}
	return true, nil
}

// A pagePart is a page and the numbers of its elements to visit: from first up to, but not including,
// end.
type pagePart struct {
	page       []byte
	first, end int
}

// open returns the part of the page of the span s whose elements are in the range, or lead to pages with keys in the
// range.
func (r *rangeVisit) open(s span, level int) (part pagePart, err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	p, err := r.pages.page(s, level)
	if err != nil {
		return part, err
	}
	first, end := 0, elementCount(p)
	if bytes.Compare(s.low, r.from) < 0 {
		first = search(p, r.from)
	}
	if r.to != nil && (s.high == nil || bytes.Compare(r.to, s.high) < 0) {
		end = search(p, r.to)
	}
	if !isLeaf(p) && first > 0 && (first == elementCount(p) || !bytes.Equal(elementOf(p, first).key, r.from)) {
		first-- // the page of the previous element begins before r.from, but can have keys after r.from
	}
	return pagePart{p, first, end}, nil
}

// at returns the number of the element of p that the visit reaches after i other elements of p.
func (r *rangeVisit) at(p pagePart, i int) int {
	if r.down {
		return p.end - 1 - i
	}
	return p.first + i
}

// below returns the page to which element i of the branch page p leads.
func (r *rangeVisit) below(p []byte, s span, i int) (next span, err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	return below(p, s, i), nil
}

// leaf yields the records in p, which is a part of a leaf page. It reads all elements before it yields the first one,
// because the function yield must not run under a guard.
func (r *rangeVisit) leaf(p pagePart) (more bool, err error) {
	if err := r.read(p); err != nil {
		return false, err
	}
	if r.leaves++; r.leaves == fewLeaves && len(r.records) > 0 {
		r.readAhead(r.records[0].key)
	}
	for i := range r.records {
		if !r.yield(r.records[i].key, r.records[i].value) {
			return false, nil
		}
	}
	return true, nil
}

// read reads the records in p, which is a part of a leaf page, into r.records, in the order of the visit.
func (r *rangeVisit) read(p pagePart) (err error) {
	defer guard(debug.SetPanicOnFault(true), &err)
	r.records = r.records[:0]
	for i := range p.end - p.first {
		e := elementOf(p.page, r.at(p, i))
		r.records = append(r.records, stored{e.key, r.decode(e.key, e.value)})
	}
	return nil
}

// fewLeaves is the number of leaves that a visit reads before another goroutine reads ahead.
const fewLeaves = 64

// readAhead starts a goroutine that visits the rest of the range, from k on or, in descending order, down from k. The
// goroutine verifies the pages and loads the beginning of each value into the cache of the processor. It is faster
// than the visit r, because it does nothing with the values. It ignores errors, because r returns the error of a
// damaged page when r reaches the page.
func (r *rangeVisit) readAhead(k Key) {
	rest := &rangeVisit{pages: r.pages, from: k, to: r.to, down: r.down, decode: skimmed, leaves: fewLeaves}
	if r.down {
		rest.from, rest.to = r.from, k
	}
	rest.yield = func(Key, []byte) bool { return !r.ended.Load() }
	r.ahead.Go(func() { _, _ = rest.visit(rest.pages.root, 0) })
}

// stopAhead stops the goroutine that reads ahead, and waits for its end.
func (r *rangeVisit) stopAhead() {
	r.ended.Store(true)
	r.ahead.Wait()
}
