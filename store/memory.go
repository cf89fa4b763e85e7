package store

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"sync"
)

// A Memory is the content of a store without a file, for tests, simulations and plans. Like a file,
// a Memory keeps its content after the DB that uses the Memory is closed. So a test that opens a
// Memory again simulates a restart. The zero value is an empty store.
type Memory struct {
	// Before and After, if they are set, are called before and after each commit. The argument n is
	// the number of the commit, counted from 1 over all epochs of this Memory. A test can simulate
	// a full disk with a Before that returns ErrFull. Any other error of Before simulates a crash
	// before the commit: nothing is stored. An error from After simulates a crash after the commit:
	// the writes are stored, but the caller gets the error.
	Before, After func(n int) error
	// Entering, if it is set, is called by each Update before the function of the Update waits for
	// its turn. A simulation blocks in Entering to choose the order of these functions.
	Entering func()

	mu      sync.Mutex
	set     sorted
	version uint64 // number of changes of set
	commits int
	exits   []uint64 // epochs whose processes noted a clean exit
	crashed bool     // set after Before or After has simulated a crash
}

// Commits returns the number of commits that have begun, over all epochs.
func (m *Memory) Commits() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.commits
}

// Clone returns an independent copy of the content, without Before, After and Entering.
func (m *Memory) Clone() *Memory {
	m.mu.Lock()
	exits := m.exits
	m.mu.Unlock()
	return &Memory{set: m.view(), exits: exits}
}

// view returns a copy of the current content. Later commits do not change the copy.
func (m *Memory) view() sorted {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.set.clone()
}

// memory is the backend over a Memory.
type memory struct{ *Memory }

func (m memory) Reader() (Reader, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &memoryReader{m.set.clone(), m.version}, nil
}

func (m memory) Limits() Limits { return Limits{Ops: 20_000, Bytes: 16 << 20} }

func (m memory) Recovered() {}

func (m memory) Damaged() ([]Key, error) { return nil, nil }

func (m memory) Check() error { return nil }

func (m memory) Close() error { return nil }

func (m memory) Commit(epoch uint64, writes []Write) error {
	next := m.view()
	stored, _ := next.get(epochKey())
	if err := checkEpoch(stored.Value, epoch); err != nil {
		return err
	}
	for _, w := range writes {
		if w.Value == nil {
			next.remove(w.Key)
			continue
		}
		next.put(w)
	}
	m.mu.Lock()
	m.commits++
	n := m.commits
	m.mu.Unlock()
	if m.Before != nil {
		if err := m.Before(n); err != nil {
			return m.crash(err)
		}
	}
	m.mu.Lock()
	m.set = next
	m.version++
	m.mu.Unlock()
	if m.After != nil {
		return m.crash(m.After(n))
	}
	return nil
}

// crash sets m.crashed if err simulates a crash. It always returns err.
func (m *Memory) crash(err error) error {
	if err != nil && !errors.Is(err, ErrFull) {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.crashed = true
	}
	return err
}

// Snapshot writes the content in a form that RestoreMemory reads.
func (m memory) Snapshot(w io.Writer) error {
	set := m.view()
	return gob.NewEncoder(w).Encode(set.all(nil))
}

// RestoreMemory returns a Memory with the content of a snapshot that was made from a Memory.
func RestoreMemory(r io.Reader) (*Memory, error) {
	var writes []Write
	if err := gob.NewDecoder(r).Decode(&writes); err != nil {
		return nil, fmt.Errorf("store: read the snapshot of a memory: %w: %w", ErrNotStore, err)
	}
	m := new(Memory)
	for _, w := range writes {
		m.set.put(Write{Key: w.Key, Value: append([]byte{}, w.Value...)}) // because gob decodes empty slices as nil
	}
	return m, nil
}

// memoryReader is one version of a Memory's content.
type memoryReader struct {
	set     sorted
	version uint64
}

func (r *memoryReader) Close() error { return nil }

func (r *memoryReader) Version() uint64 { return r.version }

func (r *memoryReader) Get(k Key) ([]byte, error) {
	w, _ := r.set.get(k)
	return w.Value, nil
}

func (r *memoryReader) Range(from, to Key, down bool, yield func(Key, []byte) bool) error {
	r.set.visit(from, to, down, func(w Write) bool { return yield(w.Key, w.Value) })
	return nil
}

func (r *memoryReader) Skim(from, to Key, down bool, yield func(Key, []byte) bool) error {
	return r.Range(from, to, down, yield)
}
