package store

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A Tx is one transaction, which Update or View passes to a function. A Tx sees the commits before
// it, the earlier transactions of the same commit, and its own writes. Only one goroutine may use a
// Tx, and only until the function returns.
//
// Get, Range and the other methods that read return no errors. After a failure of the backend, they find nothing, and
// the transaction fails, whatever its function returns.
type Tx struct {
	db       *DB
	reader   Reader
	pending  *pending // nil in a View
	now      time.Time
	err      error
	onCommit []func()
}

// Version returns the number of the commit that the transaction of a View reads. As long as the
// store is open, Views with the same number read the same records.
func (tx *Tx) Version() uint64 { return tx.reader.Version() }

// Now returns the time of the transaction, which is the same at every call. The time is in UTC and
// has no monotonic clock reading, like a time that was read from a record.
func (tx *Tx) Now() time.Time {
	if tx.now.IsZero() {
		tx.now = tx.db.clock().Round(0).UTC()
	}
	return tx.now
}

// Epoch returns the same number as [DB.Epoch].
func (tx *Tx) Epoch() uint64 { return tx.db.identity.epoch }

// NextID returns 1, 2, 3… in each epoch. Together with the epoch, the number is unique forever.
// Numbers of a failed transaction are not used again.
func (tx *Tx) NextID() uint64 { return tx.db.ids.Add(1) }

// Budget returns the number of writes, and their total size in bytes, at which a transaction should stop if another
// transaction can continue its work. The budget is half of the backend's limits. The other half is for the writes at
// the end of the transaction.
func (tx *Tx) Budget() Limits {
	l := tx.db.commits.limits
	return Limits{Ops: l.Ops / 2, Bytes: l.Bytes / 2}
}

// Spent reports whether the transaction has used up its budget. When the budget is used up, a loop
// that another transaction can continue should stop.
func (tx *Tx) Spent() bool {
	budget, written := tx.Budget(), tx.Written()
	return written.Ops >= budget.Ops || written.Bytes >= budget.Bytes
}

// OnCommit makes fn run after the commit of this transaction and before Update returns. fn is not called if the
// transaction is a View, or if the transaction or its commit fails. The functions run in the order of their
// transactions, and the next commit waits for them: fn must return quickly, and must not call Update or Close.
func (tx *Tx) OnCommit(fn func()) { tx.onCommit = append(tx.onCommit, fn) }

// fail makes the transaction fail with err, unless an earlier error is recorded already.
func (tx *Tx) fail(err error) {
	if tx.err == nil {
		tx.err = err
	}
}

// Get returns the value under k; nil if there is none. The value must not be changed, and must be
// copied for use after the transaction.
func (tx *Tx) Get(k Key) []byte {
	if tx.err != nil || tx.reader == nil {
		return nil
	}
	if tx.pending != nil {
		if w, ok := tx.pending.get(k); ok {
			return w.Value
		}
	}
	v, err := tx.reader.Get(k)
	if err != nil {
		tx.fail(fmt.Errorf("store: read %s: %w", k, err))
		return nil
	}
	return v
}

// Put writes v under k. Put keeps copies of k and v.
func (tx *Tx) Put(k Key, v []byte) {
	b := make([]byte, len(k)+len(v))
	copy(b, k)
	copy(b[len(k):], v)
	tx.write(Write{Key: b[:len(k):len(k)], Value: b[len(k):]})
}

// Delete deletes k. The deletion is a write even if k does not exist.
func (tx *Tx) Delete(k Key) { tx.write(Write{Key: append(Key(nil), k...)}) }

// Written returns the number of keys that the transaction has written so far, each counted once,
// and the bytes of these keys and their values. If Written exceeds the limits of the backend,
// Update returns ErrTooLarge.
func (tx *Tx) Written() Limits {
	if tx.pending == nil {
		return Limits{}
	}
	return tx.pending.own
}

// maxKey and maxValue are the maximum sizes in bytes of a key and of a value in bbolt. These
// maximum sizes apply to every backend.
const (
	maxKey   = 32768
	maxValue = 1<<31 - 2
)

func (tx *Tx) write(w Write) {
	switch {
	case tx.reader == nil:
	case tx.pending == nil:
		tx.fail(fmt.Errorf("store: write %s: %w", w.Key, ErrReadOnly))
	case len(w.Key) == 0 || len(w.Key) > maxKey || len(w.Value) > maxValue:
		tx.fail(fmt.Errorf("store: write a key of %d bytes and a value of %d: %w", len(w.Key), len(w.Value), ErrTooLarge))
	default:
		// Even after a failure, the write is added to the pending ones, so that Written counts it.
		// Otherwise a loop that writes until the budget is spent would never end.
		tx.pending.put(w)
	}
}

// Range yields the keys that begin with prefix and their values, in ascending order. Range sees the
// transaction's own writes. The body of the loop may write and delete keys of the range; the loop
// then also visits new keys that are after the current one. A key may be kept after the
// transaction. A value must not be changed, and must be copied for use after the transaction.
func (tx *Tx) Range(prefix Key) iter.Seq2[Key, []byte] {
	return func(yield func(Key, []byte) bool) { tx.scan(prefix, prefix.end(), false, yield) }
}

// RangeFrom is like Range, but starts at the first key that is not less than the key from.
func (tx *Tx) RangeFrom(prefix, from Key) iter.Seq2[Key, []byte] {
	if bytes.Compare(from, prefix) < 0 {
		from = prefix
	}
	return func(yield func(Key, []byte) bool) { tx.scan(from, prefix.end(), false, yield) }
}

// Backwards is like Range, but in descending order.
func (tx *Tx) Backwards(prefix Key) iter.Seq2[Key, []byte] {
	return func(yield func(Key, []byte) bool) { tx.scan(prefix, prefix.end(), true, yield) }
}

// Skim is like Range, but is faster in a View, because it does not compare the values with their checksums there. It is
// for a View that decodes few of the records. To decode a record, the caller must read it again with Load. Keys and
// values are valid until the View ends.
func (tx *Tx) Skim(prefix Key) iter.Seq2[Key, []byte] { return tx.skim(prefix, false) }

// SkimBackwards is like Skim, but in descending order.
func (tx *Tx) SkimBackwards(prefix Key) iter.Seq2[Key, []byte] { return tx.skim(prefix, true) }

func (tx *Tx) skim(prefix Key, down bool) iter.Seq2[Key, []byte] {
	return func(yield func(Key, []byte) bool) {
		if tx.pending != nil {
			tx.scan(prefix, prefix.end(), down, yield)
			return
		}
		if tx.err != nil || tx.reader == nil {
			return
		}
		if err := tx.reader.Skim(prefix, prefix.end(), down, yield); err != nil {
			tx.fail(fmt.Errorf("store: read from %s: %w", prefix, err))
		}
	}
}

// scan yields the keys with from <= key < to and their values. A pending write of a key replaces
// its stored value.
func (tx *Tx) scan(from, to Key, down bool, yield func(Key, []byte) bool) {
	if tx.err != nil || tx.reader == nil || to != nil && bytes.Compare(from, to) >= 0 {
		return
	}
	m := merge{tx: tx, from: from, to: to, down: down, yield: yield}
	err := tx.reader.Range(from, to, down, m.stored)
	if err != nil {
		tx.fail(fmt.Errorf("store: read from %s: %w", from, err))
		return
	}
	if !m.stopped {
		m.written(nil)
	}
}

// A merge is the state of a scan.
type merge struct {
	tx       *Tx
	from, to Key
	down     bool
	yield    func(Key, []byte) bool
	last     Key // visited last
	stopped  bool

	next  Write  // the next pending write in the range
	found bool   // whether there is a next pending write
	known bool   // whether the fields next and found are valid; false after the write in the field next was visited
	moved uint64 // value of pending.moved when the field next was set
}

// stored visits the pending keys before the stored key k, and then k. A pending write
// or deletion of k replaces the stored value v.
func (m *merge) stored(k Key, v []byte) bool {
	if !m.written(k) {
		return false
	}
	if m.peek() && bytes.Equal(m.next.Key, k) {
		return m.visit(m.next.Key, m.next.Value)
	}
	return m.visit(bytes.Clone(k), v)
}

// written visits the pending writes whose keys the scan reaches before it reaches the key in limit;
// all pending writes if limit is nil.
func (m *merge) written(limit Key) bool {
	for m.peek() {
		if limit != nil {
			c := bytes.Compare(m.next.Key, limit)
			if c == 0 || (c > 0) != m.down {
				break
			}
		}
		if !m.visit(m.next.Key, m.next.Value) {
			return false
		}
	}
	return true
}

// peek finds the next pending write in the rest of the range, and reports whether there is one.
func (m *merge) peek() bool {
	p := m.tx.pending
	if p == nil || p.empty() {
		return false
	}
	if m.known && m.moved == p.moved {
		return m.found
	}
	if m.last != nil && m.down {
		m.to = m.last
	} else if m.last != nil {
		m.from = append(slices.Clip(m.last), 0) // the next possible key
	}
	m.next, m.found = p.next(m.from, m.to, m.down)
	m.known, m.moved = true, p.moved
	return m.found
}

// visit passes k and v to yield. A nil value means that k is deleted; such a key is skipped. visit
// reports whether the scan continues.
func (m *merge) visit(k Key, v []byte) bool {
	m.known = m.known && !bytes.Equal(m.next.Key, k)
	m.last = k
	if v != nil && (m.tx.err != nil || !m.yield(k, v)) {
		m.stopped = true
	}
	return !m.stopped
}

// Load returns the record under k, and whether there is one. If the record is damaged or cannot be
// decoded as a T, the error wraps a RecordError.
func Load[T any](tx *Tx, k Key) (v T, ok bool, err error) {
	b := tx.Get(k)
	if b == nil {
		return v, false, tx.err
	}
	if err := damageOf(k, b); err != nil {
		return v, false, fmt.Errorf("store: %w", err)
	}
	if err := json.Unmarshal(b, &v); err != nil {
		return v, false, fmt.Errorf("store: %w", recordError(k, fmt.Errorf("it is not a %T: %w", v, err)))
	}
	return v, true, nil
}

// records yields the records whose keys begin with prefix, in the order of their keys.
func records[T any](tx *Tx, prefix Key) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for k := range tx.Range(prefix) {
			if v, _, err := Load[T](tx, k); !yield(v, err) {
				return
			}
		}
	}
}

// Save writes v under k as a record.
func Save[T any](tx *Tx, k Key, v T) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("store: write record %s: %w", k, err)
	}
	tx.write(Write{Key: append(Key(nil), k...), Value: b})
	return tx.err
}
