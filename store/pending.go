package store

import (
	"bytes"

	"github.com/google/btree"
)

// pending is what a group of transactions has written and no commit holds
// yet, in the order of the keys. It remembers what the transaction that runs
// now has changed, so that this alone can be taken back.
type pending struct {
	tree  *btree.BTreeG[entry]
	bytes int
	turn  uint64 // number of the running transaction
	undo  []undo // one for each key it wrote
	moved uint64 // changes with every write, so that a Range knows to look again
}

// entry is a key's newest write and the transaction that wrote it.
type entry struct {
	Write
	turn uint64
}

// undo is a key's entry before the running transaction wrote it, if there was one.
type undo struct {
	key  Key
	old  entry
	been bool
}

func newPending() *pending {
	return &pending{turn: 1, tree: btree.NewG(16, func(a, b entry) bool {
		return bytes.Compare(a.Key, b.Key) < 0
	})}
}

func at(k Key) entry { return entry{Write: Write{Key: k}} }

func (p *pending) get(k Key) (Write, bool) {
	if p.tree.Len() == 0 {
		return Write{}, false
	}
	e, ok := p.tree.Get(at(k))
	return e.Write, ok
}

func (p *pending) put(w Write) {
	old, been := p.tree.ReplaceOrInsert(entry{Write: w, turn: p.turn})
	if !been || old.turn != p.turn {
		p.undo = append(p.undo, undo{key: w.Key, old: old, been: been})
	}
	p.bytes += w.size()
	if been {
		p.bytes -= old.size()
	}
	p.moved++
}

// next returns the first write with from <= key < to, or with down the last
// one; a nil to is behind all keys.
func (p *pending) next(from, to Key, down bool) (w Write, ok bool) {
	take := func(e entry) bool {
		if down && to != nil && bytes.Equal(e.Key, to) {
			return true
		}
		w, ok = e.Write, true
		return false
	}
	switch {
	case p.tree.Len() == 0:
	case !down:
		p.tree.AscendGreaterOrEqual(at(from), take)
	case to == nil:
		p.tree.Descend(take)
	default:
		p.tree.DescendLessOrEqual(at(to), take)
	}
	if !ok || bytes.Compare(w.Key, from) < 0 || to != nil && bytes.Compare(w.Key, to) >= 0 {
		return Write{}, false
	}
	return w, true
}

// keep ends the running transaction: its writes are the group's from now on.
func (p *pending) keep() {
	clear(p.undo)
	p.undo = p.undo[:0]
	p.turn++
}

// rollback ends the running transaction, takes its writes back and returns
// them in the order in which their keys were first written.
func (p *pending) rollback() []Write {
	mine := make([]Write, len(p.undo))
	for i, u := range p.undo {
		now, _ := p.tree.Get(at(u.key))
		mine[i] = now.Write
		p.bytes -= now.size()
		if u.been {
			p.tree.ReplaceOrInsert(u.old)
			p.bytes += u.old.size()
		} else {
			p.tree.Delete(now)
		}
	}
	p.moved++
	p.keep()
	return mine
}

// within reports whether a commit of everything pending keeps to the limits.
func (p *pending) within(l Limits) bool { return p.tree.Len() <= l.Ops && p.bytes <= l.Bytes }

func (p *pending) empty() bool { return p.tree.Len() == 0 }

// writes appends everything pending to out, in the order of the keys.
func (p *pending) writes(out []Write) []Write {
	p.tree.Ascend(func(e entry) bool {
		out = append(out, e.Write)
		return true
	})
	return out
}

func (p *pending) reset() {
	p.tree.Clear(true)
	p.bytes = 0
	p.moved++
	p.keep()
}
