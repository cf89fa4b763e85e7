package hookmetrics

import (
	"bytes"
	"slices"

	"addon-operator/internal/series"
	"addon-operator/store"
)

// maxGroupBytes is the maximum size in bytes of the series of one hook in one group.
const maxGroupBytes = 4 << 20

// A group has the series of one hook in one group of metrics, with the changes of a transaction. It reads only the
// shards that contain series of the operations.
type group struct {
	tx    *store.Tx
	owner series.Owner
	name  string

	stored []uint64 // first place (see series.Entry.Place) of each shard in the store, in ascending order
	starts []uint64 // first place of each shard after the changes, in ascending order; starts[0] is always 0
	read   map[uint64]*series.Shard
	size   int
}

func newGroup(tx *store.Tx, owner series.Owner, name string) (*group, error) {
	g := &group{tx: tx, owner: owner, name: name, read: map[uint64]*series.Shard{}}
	for k, text := range tx.Range(g.key(0)) {
		_, start, err := store.ParseShardKey(k)
		if err != nil {
			return nil, err
		}
		g.stored = append(g.stored, start)
		g.size += len(text)
	}
	if g.starts = slices.Clone(g.stored); len(g.starts) == 0 || g.starts[0] != 0 {
		g.starts = slices.Insert(g.starts, 0, 0)
	}
	return g, nil
}

func (g *group) key(start uint64) store.Key {
	return store.ShardKey(g.name, g.owner.Module, g.owner.Hook, start)
}

// owns reports whether k is the key of a shard of the group.
func (g *group) owns(k store.Key) bool { return bytes.HasPrefix(k, g.key(0)) }

// shard returns the shard to which the series with this place belongs; see [series.Entry.Place].
func (g *group) shard(place uint64) (*series.Shard, error) {
	i, exact := slices.BinarySearch(g.starts, place)
	if !exact {
		i-- // i stays at least 0, because the first shard begins at place 0
	}
	start := g.starts[i]
	if s := g.read[start]; s != nil {
		return s, nil
	}
	s, err := loadShard(g.tx, g.key(start))
	if err == nil {
		g.read[start] = s
	}
	return s, err
}

// expire deletes all series of the group, and subtracts them from the counts of their families.
func (g *group) expire(all *families) error {
	for _, start := range g.starts {
		count, err := countSeries(g.tx, g.key(start))
		if s := g.read[start]; s != nil {
			count, err = s.Count(), nil
		}
		if err == nil {
			err = all.subtract(count)
		}
		if err != nil {
			return err
		}
	}
	g.starts, g.size = []uint64{0}, 0
	g.read = map[uint64]*series.Shard{0: series.NewShard(g.owner)}
	return nil
}

// save writes the changed shards. It divides shards that are too large after the changes, and deletes shards that are
// empty.
func (g *group) save() error {
	kept := map[uint64]bool{}
	for _, start := range g.starts {
		s := g.read[start]
		if s == nil {
			kept[start] = true
			continue
		}
		for _, part := range s.Divide(start) {
			text, err := part.Shard.Encode()
			if err != nil {
				return err
			}
			if text == nil {
				continue
			}
			kept[part.From] = true
			if k := g.key(part.From); !bytes.Equal(text, g.tx.Get(k)) {
				g.tx.Put(k, text)
			}
		}
	}
	for _, start := range g.stored {
		if !kept[start] {
			g.tx.Delete(g.key(start))
		}
	}
	return nil
}
