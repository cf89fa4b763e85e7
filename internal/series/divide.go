package series

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// shardSize is the size in bytes above which a shard is divided. Because shards are small, a run of a hook that
// changes one of ten thousand series writes only a small part of the series again.
const shardSize = 16 << 10

func placeOf(name, key string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(name)) // a hash never fails
	_, _ = sum.Write([]byte{0xff}) // a separator, which cannot be a part of UTF-8 text
	_, _ = sum.Write([]byte(key))
	return sum.Sum64()
}

// A Part is a shard, and the lowest place (see [Entry.Place]) that a series in this shard may have.
type Part struct {
	From  uint64
	Shard *Shard
}

// Divide divides the shard into parts, and returns the parts in the order of From. The argument from is the lowest
// place that a series in the shard may have. If the shard is not larger than shardSize, it is the only part. Equal
// shards are divided into equal parts.
func (s *Shard) Divide(from uint64) []Part {
	if s.size <= shardSize {
		return []Part{{from, s}}
	}
	type placed struct {
		place     uint64
		name, key string
	}
	var all []placed
	for name, those := range s.names {
		for key := range those {
			all = append(all, placed{placeOf(name, key), name, key})
		}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.name, b.name), cmp.Compare(a.key, b.key))
	})
	parts := []Part{{from, NewShard(s.owner)}}
	for i, p := range all {
		last := parts[len(parts)-1].Shard
		// The size of a part is about half of shardSize, so that it is not divided again as soon as a few series are added.
		if i > 0 && last.size >= shardSize/2 && p.place > all[i-1].place {
			last = NewShard(s.owner)
			parts = append(parts, Part{p.place, last})
		}
		last.put(p.name, p.key, s.names[p.name][p.key])
	}
	return parts
}
