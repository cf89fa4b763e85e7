package inspect

import (
	"slices"
	"sync"

	"addon-operator/store"
)

// Looks keeps the last look at the queues for the other questions about the same commit, such as those of one view of the web
// page. A question that comes while another one looks does not wait for it. The zero value is ready to use.
type Looks struct {
	mu      sync.Mutex
	version uint64
	last    *scan // without a transaction; nil if there is none
}

// look looks at the queues, or returns the last look if it was at the same commit.
func (r *Reader) look(tx *store.Tx) (*scan, error) {
	if r.Looks == nil {
		return look(tx, r.Live)
	}
	l := r.Looks
	if !l.mu.TryLock() {
		return look(tx, r.Live)
	}
	defer l.mu.Unlock()
	if l.last != nil && l.version == tx.Version() && l.last.live == r.Live {
		return l.last.in(tx), nil
	}
	s, err := look(tx, r.Live)
	if err == nil && (l.last == nil || l.version <= tx.Version()) {
		l.version, l.last = tx.Version(), s.in(nil)
	}
	return s, err
}

// in returns the look for another View of the same commit.
func (s *scan) in(tx *store.Tx) *scan {
	own := *s
	own.tx, own.unreadable = tx, &unreadable{tx: tx, records: slices.Clone(s.unreadable.records)}
	if tx != nil {
		own.now = tx.Now()
	}
	return &own
}
