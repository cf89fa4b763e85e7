package store

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
)

func schemaKey() Key { return At(Meta).Str("schema") }
func idKey() Key     { return At(Meta).Str("id") }
func epochKey() Key  { return At(Meta).Str("epoch") }

// An identity has the schema, the id and the epoch of a store. Each store has these three records
// from its creation on.
type identity struct {
	schema int
	id     string
	epoch  uint64
}

// raiseEpoch raises the stored epoch by at least 1, to a number above the argument used, and sets the schema. After
// raiseEpoch, commits of earlier epochs fail with ErrStale.
func raiseEpoch(b Backend, i *identity, used uint64) error {
	next := max(i.epoch, used) + 1
	raise := []Write{{Key: epochKey(), Value: number(next)}, {Key: schemaKey(), Value: number(schema)}}
	if err := b.Commit(i.epoch, raise); err != nil {
		return err
	}
	i.epoch = next
	i.schema = schema
	return nil
}

// identify reads the identity of the store in b.
func identify(b Backend) (i identity, err error) {
	r, err := b.Reader()
	if err != nil {
		return i, err
	}
	defer r.Close()
	for _, f := range []struct {
		key  Key
		into any
	}{{schemaKey(), &i.schema}, {idKey(), &i.id}, {epochKey(), &i.epoch}} {
		v, err := r.Get(f.key)
		if err != nil {
			return i, err
		}
		if v == nil {
			return i, corrupt("record %s is missing", f.key)
		}
		if err := damageOf(f.key, v); err != nil {
			return i, err
		}
		if err := json.Unmarshal(v, f.into); err != nil {
			return i, corrupt("record %s: %w", f.key, err)
		}
		if i.schema > schema {
			return i, fmt.Errorf("%w: schema %d, this version knows %d", ErrNewer, i.schema, schema)
		}
	}
	return i, nil
}

// newIdentity returns the first records of a new store.
func newIdentity() []Write {
	id := []byte(strconv.Quote(rand.Text()))
	writes := []Write{{Key: schemaKey(), Value: number(schema)}, {Key: idKey(), Value: id}, {Key: epochKey(), Value: number(0)}}
	slices.SortFunc(writes, func(a, b Write) int { return bytes.Compare(a.Key, b.Key) })
	return writes
}

// number returns n as a JSON number.
func number(n uint64) []byte { return strconv.AppendUint(nil, n, 10) }

// checkEpoch compares the given epoch with the record of the epoch in the store, whose bytes are in the parameter
// stored. It returns ErrStale if they differ. A new store, which has no record yet, has epoch 0.
func checkEpoch(stored []byte, epoch uint64) error {
	if stored == nil && epoch == 0 || string(stored) == strconv.FormatUint(epoch, 10) {
		return nil
	}
	return fmt.Errorf("%w: the store has epoch %s, and this process has epoch %d", ErrStale, stored, epoch)
}
