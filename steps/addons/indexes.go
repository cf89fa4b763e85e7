package addons

import (
	"context"

	"k8s.io/utils/lru"

	"addon-operator/internal/catalog"
	"addon-operator/internal/catalog/source"
)

const (
	// mostIndexes is the maximum number of parsed indexes in the cache.
	mostIndexes = 64
	// largestIndex is the maximum size in bytes of an index whose entries are cached.
	largestIndex = 64 << 10
)

// indexes is a cache of the entries of the most recently parsed indexes, by digest. The cache is useful because many
// configurations name the same repositories, and parsing an index needs much more memory than its entries.
type indexes struct {
	turns  chan struct{} // a semaphore that limits how many indexes and addons are parsed at the same time
	recent *lru.Cache
}

// newIndexes returns an empty cache. The argument turns is the semaphore that parsers of indexes and addons share.
func newIndexes(turns chan struct{}) *indexes { return &indexes{turns, lru.New(mostIndexes)} }

// lookup returns the entries of the index with this digest, and whether they are in the cache. The caller must not
// change the entries.
func (x *indexes) lookup(digest string) ([]catalog.Entry, bool) {
	found, _ := x.recent.Get(digest)
	entries, ok := found.([]catalog.Entry)
	return entries, ok
}

// add stores the entries of an index in the cache, unless the size of the index in bytes is too large.
func (x *indexes) add(digest string, size int, entries []catalog.Entry) {
	if size <= largestIndex {
		x.recent.Add(digest, entries)
	}
}

// parse returns the entries of an index. The caller must not change the entries. If the entries are not in the cache,
// parse waits for the semaphore, which limits how many indexes are parsed at the same time. It returns an error if
// the index is invalid or ctx has ended.
func (x *indexes) parse(ctx context.Context, index source.Document) ([]catalog.Entry, error) {
	digest := index.Validators.Digest
	if entries, ok := x.lookup(digest); ok {
		return entries, nil
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case x.turns <- struct{}{}:
	}
	defer func() { <-x.turns }()
	if entries, ok := x.lookup(digest); ok {
		return entries, nil
	}
	entries, err := catalog.ParseIndex(index.Data)
	if err == nil {
		x.add(digest, len(index.Data), entries)
	}
	return entries, err
}
