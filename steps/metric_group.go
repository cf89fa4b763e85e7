package steps

import (
	"bytes"
	"slices"

	"addon-operator/internal/series"
	"addon-operator/store"
)

// maxHeld is how many bytes a hook's series in one group may take.
const maxHeld = 4 << 20

// A metricGroup is what one hook holds in one group, as a transaction leaves it. Of
// its shards only those that are asked for are read.
type metricGroup struct {
	tx    *store.Tx
	owner series.Owner
	group string

	stored []uint64 // where the shards begin that are in the store, in order
	froms  []uint64 // and those there are now; there is always one that begins at 0
	read   map[uint64]*series.Shard
	size   int
}

func newMetricGroup(tx *store.Tx, owner series.Owner, group string) (*metricGroup, error) {
	h := &metricGroup{tx: tx, owner: owner, group: group, read: map[uint64]*series.Shard{}}
	for k, text := range tx.Range(h.key(0)) {
		_, from, err := store.ParseShardKey(k)
		if err != nil {
			return nil, err
		}
		h.stored = append(h.stored, from)
		h.size += len(text)
	}
	if h.froms = slices.Clone(h.stored); len(h.froms) == 0 || h.froms[0] != 0 {
		h.froms = slices.Insert(h.froms, 0, 0)
	}
	return h, nil
}

func (h *metricGroup) key(from uint64) store.Key {
	return store.ShardKey(h.group, h.owner.Module, h.owner.Hook, from)
}

// owns reports whether k is the key of one of the holding's shards.
func (h *metricGroup) owns(k store.Key) bool { return bytes.HasPrefix(k, h.key(0)) }

// shard returns the one that the series at a place belongs in.
func (h *metricGroup) shard(place uint64) (*series.Shard, error) {
	i, begins := slices.BinarySearch(h.froms, place)
	if !begins {
		i-- // the first begins at 0
	}
	from := h.froms[i]
	if s := h.read[from]; s != nil {
		return s, nil
	}
	s, err := loadShard(h.tx, h.key(from))
	if err == nil {
		h.read[from] = s
	}
	return s, err
}

// expire ends all series of the holding and takes them from their families.
func (h *metricGroup) expire(all *metricFamilies) error {
	for _, from := range h.froms {
		count, err := countIn(h.tx, h.key(from))
		if s := h.read[from]; s != nil {
			count, err = s.Count(), nil
		}
		if err == nil {
			err = all.less(count)
		}
		if err != nil {
			return err
		}
	}
	h.froms, h.size = []uint64{0}, 0
	h.read = map[uint64]*series.Shard{0: series.NewShard(h.owner)}
	return nil
}

// save writes the shards that are others than in the store, dividing those that
// have become large, and deletes those that are no more.
func (h *metricGroup) save() error {
	kept := map[uint64]bool{}
	for _, from := range h.froms {
		s := h.read[from]
		if s == nil {
			kept[from] = true
			continue
		}
		for _, part := range s.Divide(from) {
			text, err := part.Shard.Encode()
			if err != nil {
				return err
			}
			if text == nil {
				continue
			}
			kept[part.From] = true
			if k := h.key(part.From); !bytes.Equal(text, h.tx.Get(k)) {
				h.tx.Put(k, text)
			}
		}
	}
	for _, from := range h.stored {
		if !kept[from] {
			h.tx.Delete(h.key(from))
		}
	}
	return nil
}
