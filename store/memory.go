package store

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"io"
	"sync"

	"github.com/google/btree"
)

// Memory is a store's content without a file, for tests and simulation. It
// stays when the DB over it is closed or fails, as a disk would: opening it
// again is a restart. Its zero value is an empty store.
type Memory struct {
	// Before and After, when set, are called around commit n, counted from 1
	// over all lives of this Memory. An error from Before is a crash before
	// the commit: it fails and leaves nothing. An error from After is a crash
	// behind it: the commit is there, but nobody was told.
	Before, After func(n int) error

	mu      sync.Mutex
	tree    *btree.BTreeG[Write]
	commits int
}

func lessWrite(a, b Write) bool { return bytes.Compare(a.Key, b.Key) < 0 }

// Commits returns how many commits were begun, over all lives.
func (m *Memory) Commits() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits
}

// Clone returns a Memory of its own with the same content, without Before and After.
func (m *Memory) Clone() *Memory {
	return &Memory{tree: m.view()}
}

// view returns the content of now, which later commits do not change.
func (m *Memory) view() *btree.BTreeG[Write] {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tree == nil {
		m.tree = btree.NewG(32, lessWrite)
	}
	return m.tree.Clone()
}

// memory is the backend over a Memory.
type memory struct{ *Memory }

func (m memory) Reader() (Reader, error) { return memoryReader{m.view()}, nil }

func (m memory) Limits() Limits { return Limits{Ops: 20_000, Bytes: 16 << 20} }

func (m memory) Check() error { return nil }

func (m memory) Close() error { return nil }

func (m memory) Commit(epoch uint64, writes []Write) error {
	next := m.view()
	stored, _ := next.Get(Write{Key: epochKey()})
	if err := checkEpoch(stored.Value, epoch); err != nil {
		return err
	}
	for _, w := range writes {
		if w.Value == nil {
			next.Delete(w)
			continue
		}
		next.ReplaceOrInsert(Write{Key: bytes.Clone(w.Key), Value: append([]byte{}, w.Value...)})
	}
	m.mu.Lock()
	m.commits++
	n := m.commits
	m.mu.Unlock()
	if m.Before != nil {
		if err := m.Before(n); err != nil {
			return err
		}
	}
	m.mu.Lock()
	m.tree = next
	m.mu.Unlock()
	if m.After != nil {
		return m.After(n)
	}
	return nil
}

// Snapshot writes the content in a form that RestoreMemory reads.
func (m memory) Snapshot(w io.Writer) error {
	e := gob.NewEncoder(w)
	var err error
	m.view().Ascend(func(kv Write) bool {
		err = e.Encode(kv)
		return err == nil
	})
	return err
}

// RestoreMemory returns a Memory with the content of a snapshot of one.
func RestoreMemory(r io.Reader) (*Memory, error) {
	m := &Memory{tree: btree.NewG(32, lessWrite)}
	d := gob.NewDecoder(r)
	for {
		var kv Write
		err := d.Decode(&kv)
		if err == io.EOF {
			return m, nil
		}
		if err != nil {
			return nil, fmt.Errorf("store: read a snapshot: %w", err)
		}
		if kv.Value == nil {
			kv.Value = []byte{} // gob leaves out what is empty
		}
		m.tree.ReplaceOrInsert(kv)
	}
}

// memoryReader is one version of a Memory's content.
type memoryReader struct{ tree *btree.BTreeG[Write] }

func (r memoryReader) Close() error { return nil }

func (r memoryReader) Get(k Key) ([]byte, error) {
	w, _ := r.tree.Get(Write{Key: k})
	return w.Value, nil
}

func (r memoryReader) Range(from, to Key, down bool, yield func(Key, []byte) bool) error {
	step := func(w Write) bool {
		switch {
		case down && to != nil && bytes.Equal(w.Key, to):
			return true
		case down && bytes.Compare(w.Key, from) < 0:
			return false
		case !down && to != nil && bytes.Compare(w.Key, to) >= 0:
			return false
		}
		return yield(w.Key, w.Value)
	}
	switch {
	case !down:
		r.tree.AscendGreaterOrEqual(Write{Key: from}, step)
	case to == nil:
		r.tree.Descend(step)
	default:
		r.tree.DescendLessOrEqual(Write{Key: to}, step)
	}
	return nil
}
