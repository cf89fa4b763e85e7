package store

import (
	"bytes"
	"slices"
)

// A sorted is a set of writes in the order of their keys. A sorted has at most one write for each
// key. A sorted is optimized for a small set that fits in one leaf, such as the writes of a
// transition, but is also fast for the hundred thousand writes that a Memory can have. The zero
// value is empty.
type sorted struct {
	leaves []*leaf // in the order of their keys; a leaf can be empty only if it is the only one
	len    int
	owner  *mark // owner of the leaves that this set may change in place
}

// A leaf holds some of the writes of a set. Before a set changes a leaf that it shares with a
// clone, the set replaces the leaf with a copy.
type leaf struct {
	writes []Write
	owner  *mark
}

// A mark identifies an owner of leaves by its address: each owner has its own mark.
type mark struct{ _ byte }

const leafSize = 64

// clone returns an independent set with the same content. Both sets share the leaves until they
// change them.
func (s *sorted) clone() sorted {
	s.owner = new(mark) // neither set owns the shared leaves
	return sorted{leaves: slices.Clone(s.leaves), len: s.len, owner: new(mark)}
}

// reset empties the set and keeps one leaf for later use.
func (s *sorted) reset() {
	if len(s.leaves) > 0 && s.leaves[0].owner == s.owner {
		clear(s.leaves[0].writes)
		s.leaves[0].writes = s.leaves[0].writes[:0]
		clear(s.leaves[1:])
		s.leaves = s.leaves[:1]
	} else {
		s.leaves = nil
	}
	s.len = 0
}

// find returns the position of k, which is the number n of its leaf and its index i in that leaf,
// and true. If the set does not have k, find returns the position at which k must be inserted, and
// false.
func (s *sorted) find(k Key) (n, i int, ok bool) {
	n, ok = slices.BinarySearchFunc(s.leaves, k, func(l *leaf, k Key) int {
		if len(l.writes) == 0 {
			return 1
		}
		return bytes.Compare(l.writes[0].Key, k)
	})
	if ok {
		return n, 0, true
	}
	if n = max(n-1, 0); n == len(s.leaves) {
		return n, 0, false
	}
	i, ok = slices.BinarySearchFunc(s.leaves[n].writes, k, func(w Write, k Key) int { return bytes.Compare(w.Key, k) })
	return n, i, ok
}

// get returns the write of k, and whether there is one.
func (s *sorted) get(k Key) (Write, bool) {
	n, i, ok := s.find(k)
	if !ok {
		return Write{}, false
	}
	return s.leaves[n].writes[i], true
}

// put adds w. If the set has a write of its key, put replaces and returns that write.
func (s *sorted) put(w Write) (old Write, was bool) {
	n, i, ok := s.find(w.Key)
	if n == len(s.leaves) {
		s.leaves = append(s.leaves, &leaf{owner: s.owner, writes: make([]Write, 0, 16)})
	}
	l := s.own(n)
	if ok {
		old, l.writes[i] = l.writes[i], w
		return old, true
	}
	l.writes = slices.Insert(l.writes, i, w)
	s.len++
	if len(l.writes) > leafSize {
		// If the new write is the last one of the leaf, only this write moves to a new leaf, and
		// the leaf stays full. So leaves stay full when each new key is greater than all other
		// keys, which is frequent. If the new write is not the last one, the leaf is split in the
		// middle.
		at := leafSize / 2
		if i == leafSize {
			at = leafSize
		}
		next := &leaf{owner: s.owner, writes: append(make([]Write, 0, leafSize+1), l.writes[at:]...)}
		clear(l.writes[at:])
		l.writes = l.writes[:at]
		s.leaves = slices.Insert(s.leaves, n+1, next)
	}
	return Write{}, false
}

// remove deletes the write of k.
func (s *sorted) remove(k Key) {
	n, i, ok := s.find(k)
	if !ok {
		return
	}
	s.len--
	l := s.own(n)
	l.writes = slices.Delete(l.writes, i, i+1)
	if len(l.writes) == 0 && len(s.leaves) > 1 {
		s.leaves = slices.Delete(s.leaves, n, n+1)
	}
}

// own returns leaf n so that the caller can change it. If the leaf is shared, own first replaces it
// with a copy.
func (s *sorted) own(n int) *leaf {
	l := s.leaves[n]
	if l.owner != s.owner {
		l = &leaf{owner: s.owner, writes: append(make([]Write, 0, leafSize+1), l.writes...)}
		s.leaves[n] = l
	}
	return l
}

// seek returns the leaf and the index of the first write whose key is not below k. If all keys are
// below k, seek returns the position after the last write.
func (s *sorted) seek(k Key) (n, i int) {
	n, i, _ = s.find(k)
	if n < len(s.leaves) && i == len(s.leaves[n].writes) {
		return n + 1, 0
	}
	return n, i
}

// visit calls yield for the writes with from <= key < to until yield returns false: in ascending
// order or, if down is set, in descending order. If to is nil, there is no upper bound. yield must
// not change the set.
func (s *sorted) visit(from, to Key, down bool, yield func(Write) bool) {
	n, i := s.seek(from)
	end, j := len(s.leaves), 0
	if to != nil {
		end, j = s.seek(to)
	}
	if !down {
		for ; n < end || n == end && i < j; i++ {
			if i == len(s.leaves[n].writes) {
				n, i = n+1, -1
				continue
			}
			if !yield(s.leaves[n].writes[i]) {
				return
			}
		}
		return
	}
	for end > n || end == n && j > i {
		if j == 0 {
			end--
			j = len(s.leaves[end].writes)
			continue
		}
		j--
		if !yield(s.leaves[end].writes[j]) {
			return
		}
	}
}

// all appends the writes to out, in the order of their keys.
func (s *sorted) all(out []Write) []Write {
	for _, l := range s.leaves {
		out = append(out, l.writes...)
	}
	return out
}
