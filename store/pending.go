package store

import "slices"

// pending is what a group of transactions has written and no commit holds
// yet. It remembers what the transaction that runs now has changed, so that
// this alone can be taken back.
type pending struct {
	set   sorted
	bytes int
	undo  []undo // what the running transaction did, in order
	own   Limits // keys and bytes of the running transaction, each key once
	run   uint64 // number of the running transaction; its writes carry it
	moved uint64 // changes with every write, so that a Range knows to look again
}

// undo is what a key was before a write.
type undo struct {
	key Key
	old Write
	was bool // there was one pending
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

// next returns the first write with from <= key < to, or with down the last
// one; a nil to is behind all keys.
func (p *pending) next(from, to Key, down bool) (w Write, ok bool) {
	p.set.visit(from, to, down, func(found Write) bool {
		w, ok = found, true
		return false
	})
	return w, ok
}

// keep ends the running transaction: its writes are the group's from now on.
func (p *pending) keep() {
	p.undo = emptied(p.undo)
	p.own = Limits{}
	p.run++
}

// emptied returns s without elements and what they hold, to be used again
// unless one large commit has made it large.
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

// rollback ends the running transaction and takes its writes back.
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
	p.keep()
}

// within reports whether a commit of everything pending keeps to the limits.
func (p *pending) within(l Limits) bool { return p.set.len <= l.Ops && p.bytes <= l.Bytes }

// writes appends everything pending to out, in the order of the keys.
func (p *pending) writes(out []Write) []Write { return p.set.all(out) }

func (p *pending) reset() {
	p.set.reset()
	p.bytes = 0
	p.moved++
	p.keep()
}
