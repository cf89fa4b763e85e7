package store

import (
	"bytes"
	"maps"
	"slices"
	"sync"
)

// Changes returns a channel that receives a value after commits that wrote or deleted records whose keys begin with one
// of prefixes. The value arrives before Update returns, and before the functions that were passed to Tx.OnCommit run. A
// reader that has received the value sees the new records, but possibly not yet the changes that these functions make
// in memory. One value can represent several commits. The channel also receives a value if the writes of a commit do
// not change the records. The channel is never closed.
//
// Changes is for parts of the operator that react to records, such as triggers. The writers of a record do not know
// who reacts to it.
func Changes(db *DB, prefixes ...Key) <-chan struct{} {
	return db.commits.feed.add(prefixes, nil).changed
}

// ChangedKeys collects the keys of written and deleted records.
type ChangedKeys struct{ reader *feedReader }

// NewChangedKeys returns ChangedKeys for the keys that begin with one of prefixes. It collects the keys of all later
// commits, and keeps each key until [ChangedKeys.Take] returns it. If Take is never called, the number of kept keys can
// grow without limit, because the keys of deleted records are kept, too.
func NewChangedKeys(db *DB, prefixes ...Key) *ChangedKeys {
	return &ChangedKeys{db.commits.feed.add(prefixes, map[string]bool{})}
}

// C returns a channel that, like the channel of [Changes], receives a value after commits. Take can then return keys,
// unless an earlier call of Take has already returned them.
func (c *ChangedKeys) C() <-chan struct{} { return c.reader.changed }

// Take returns the collected keys in their order in the store. Later calls do not return a key again unless its record
// is written or deleted again.
func (c *ChangedKeys) Take() (keys []Key) {
	c.reader.mu.Lock()
	defer c.reader.mu.Unlock()
	for _, k := range slices.Sorted(maps.Keys(c.reader.keys)) {
		keys = append(keys, Key(k))
	}
	clear(c.reader.keys)
	return keys
}

// A feed has the readers of [Changes] and [ChangedKeys].
type feed struct {
	mu      sync.Mutex
	readers []*feedReader // guarded by mu
}

type feedReader struct {
	prefixes []Key
	changed  chan struct{} // buffers one value

	mu   sync.Mutex
	keys map[string]bool // nil if the reader does not need the keys; guarded by mu
}

func (f *feed) add(prefixes []Key, keys map[string]bool) *feedReader {
	r := &feedReader{prefixes: prefixes, changed: make(chan struct{}, 1), keys: keys}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readers = append(f.readers, r)
	return r
}

// committed wakes the readers of the keys in writes. It does not block.
func (f *feed) committed(writes []Write) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.readers {
		if r.collect(writes) {
			select {
			case r.changed <- struct{}{}:
			default: // the reader has not yet received the value of an earlier commit
			}
		}
	}
}

// collect reports whether a key in writes begins with a prefix of the reader. If the reader needs such keys, collect
// adds them to r.keys.
func (r *feedReader) collect(writes []Write) (found bool) {
	if r.keys == nil {
		return slices.ContainsFunc(writes, r.reads)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, w := range writes {
		if r.reads(w) {
			r.keys[string(w.Key)], found = true, true
		}
	}
	return found
}

func (r *feedReader) reads(w Write) bool {
	return slices.ContainsFunc(r.prefixes, func(prefix Key) bool { return bytes.HasPrefix(w.Key, prefix) })
}
