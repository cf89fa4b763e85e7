package store

import "slices"

// pending holds the uncommitted writes of a group of transactions. pending also records the changes
// of the running transaction, so that rollback can revert them.
type pending struct {
	set   sorted
	bytes int
	undo  []undo // states of keys before the writes of the running transaction, in order
	own   Limits // number and size of the writes of the running transaction; only the last write of each key is counted
	run   uint64 // number of the running transaction, which is also stored in its writes
	moved uint64 // increases with every write; if it has increased, a Range searches for its next pending write again
}

// An undo is the state of a key before a write.
type undo struct {
	key Key
	old Write
	was bool // whether the key had a pending write; the field old is that write
}

func (p *pending) empty() bool { return p.set.len == 0 }

func (p *pending) get(k Key) (Write, bool) {
	if p.empty() {
		return Write{}, false
	}
	return p.set.get(k)
}

func (p *pending) put(w Write) {
	w.run = p.run
	old, was := p.set.put(w)
	if was && old.run == p.run {
		p.own.Bytes -= old.size()
	} else {
		p.own.Ops++
	}
	p.own.Bytes += w.size()
	p.undo = append(p.undo, undo{key: w.Key, old: old, was: was})
	p.bytes += w.size() - old.size()
	p.moved++
}

// next returns the first write with from <= key < to or, if down is set, the last such write. If to
// is nil, there is no upper bound.
func (p *pending) next(from, to Key, down bool) (w Write, ok bool) {
	p.set.visit(from, to, down, func(found Write) bool {
		w, ok = found, true
		return false
	})
	return w, ok
}

// accept ends the running transaction and keeps its writes in the group.
func (p *pending) accept() {
	p.undo = emptied(p.undo)
	p.own = Limits{}
	p.run++
}

// emptied returns s with length 0 for reuse. emptied returns nil if s has a capacity of more than
// 1024, so that the memory of a large commit is freed.
func emptied[T any](s []T) []T {
	if cap(s) > 1024 {
		return nil
	}
	clear(s)
	return s[:0]
}

// mine returns the writes of the running transaction.
func (p *pending) mine() (own sorted) {
	for _, u := range p.undo {
		w, _ := p.set.get(u.key)
		own.put(w)
	}
	return own
}

// rollback ends the running transaction and reverts its writes.
func (p *pending) rollback() {
	for _, u := range slices.Backward(p.undo) {
		now, _ := p.set.get(u.key)
		p.bytes += u.old.size() - now.size()
		if u.was {
			p.set.put(u.old)
		} else {
			p.set.remove(u.key)
		}
	}
	p.moved++
	p.accept()
}

// within reports whether all pending writes fit in one commit with the limits l.
func (p *pending) within(l Limits) bool { return p.set.len <= l.Ops && p.bytes <= l.Bytes }

// writes appends all pending writes to out, in the order of the keys.
func (p *pending) writes(out []Write) []Write { return p.set.all(out) }

func (p *pending) reset() {
	p.set.reset()
	p.bytes = 0
	p.moved++
	p.accept()
}
