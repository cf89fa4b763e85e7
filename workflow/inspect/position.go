package inspect

import (
	"cmp"

	"addon-operator/store"
)

// position is the position of a record in the order in which the records were written: its epoch, and
// its number in the epoch.
type position struct{ epoch, number uint64 }

func (p position) compare(other position) int {
	return cmp.Or(cmp.Compare(p.epoch, other.epoch), cmp.Compare(p.number, other.number))
}

// A located is the key of a record of history. The key is valid until the transaction ends.
type located struct {
	position
	run uint64
	key store.Key
}

// locate returns the key k of a record of history, with the position and the run that it names.
func locate(k store.Key) (located, error) {
	parts, err := k.Parts()
	if err != nil {
		return located{}, err
	}
	at := located{run: parts.Uint(), position: position{parts.Uint(), parts.Uint()}, key: k}
	return at, parts.Err()
}
