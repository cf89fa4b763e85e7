package addons

import (
	"context"

	"k8s.io/utils/lru"

	"addon-operator/internal/catalog"
	"addon-operator/internal/catalog/source"
)

const (
	// mostIndexes is how many parsed indexes are kept.
	mostIndexes = 64
	// largestIndex is the size in bytes above which a parsed index is not kept.
	largestIndex = 64 << 10
)

// indexes keeps the entries of the indexes that were parsed most recently, by digest. Many configurations
// name the same repositories: parsing an index takes much more time and memory than its entries.
type indexes struct {
	turns  chan struct{} // has an element for each index or addon that is being parsed
	recent *lru.Cache
}

// newIndexes returns indexes that parse when there is room in turns.
func newIndexes(turns chan struct{}) *indexes { return &indexes{turns, lru.New(mostIndexes)} }

// lookup returns the entries of an index. They must not be changed.
func (x *indexes) lookup(digest string) ([]catalog.Entry, bool) {
	found, _ := x.recent.Get(digest)
	entries, ok := found.([]catalog.Entry)
	return entries, ok
}

// add keeps the entries of an index of that many bytes.
func (x *indexes) add(digest string, size int, entries []catalog.Entry) {
	if size <= largestIndex {
		x.recent.Add(digest, entries)
	}
}

// parse returns the entries of an index. They must not be changed. It waits for its turn: few indexes
// are parsed at the same time. The error says what is wrong with the index, or that ctx has ended.
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
