package inspect

import (
	"slices"
	"sync"

	"addon-operator/store"
)

// A ScanCache keeps the last scan of the queues. The methods of a [Reader] use this scan again for
// the same commit, for example when one view of the web page needs several snapshots. If one method
// is scanning, another method does not wait for it, but makes its own scan. The zero value is ready
// to use.
type ScanCache struct {
	mu      sync.Mutex
	version uint64
	last    *scan // the last scan, without its transaction; nil before the first scan
}

// scan scans the queues, or returns the last scan if that was made at the same commit.
func (r *Reader) scan(tx *store.Tx) (*scan, error) {
	if r.Scans == nil {
		return scanQueues(tx, r.Live)
	}
	l := r.Scans
	if !l.mu.TryLock() {
		return scanQueues(tx, r.Live)
	}
	defer l.mu.Unlock()
	if l.last != nil && l.version == tx.Version() && l.last.live == r.Live {
		return l.last.in(tx), nil
	}
	s, err := scanQueues(tx, r.Live)
	if err == nil && (l.last == nil || l.version <= tx.Version()) {
		l.version, l.last = tx.Version(), s.in(nil)
	}
	return s, err
}

// in returns a copy of the scan for another transaction at the same commit. If tx is nil, the copy
// has no transaction and can be kept.
func (s *scan) in(tx *store.Tx) *scan {
	own := *s
	own.tx, own.unreadable = tx, &unreadable{tx: tx, records: slices.Clone(s.unreadable.records)}
	if tx != nil {
		own.now = tx.Now()
	}
	return &own
}
