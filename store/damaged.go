package store

import (
	"encoding/json"
	"fmt"
	"iter"
	"time"
)

// A Damaged is a record that could not be read. A Damaged keeps the key and the bytes of the
// unreadable record for inspection.
type Damaged struct {
	ID    ID        `json:"id"`
	Key   []byte    `json:"key"`
	Value []byte    `json:"value"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
}

// String names the record.
func (d Damaged) String() string {
	if p, err := ParsePos(d.Key); err == nil {
		return fmt.Sprintf("the task at slot %d, depth %d of queue %s", p.Slot, p.Depth, p.Queue)
	}
	return "record " + Key(d.Key).String()
}

func (d Damaged) key() Key { return damagedKey(d.ID) }

func damagedKey(id ID) Key { return At(DamagedRecords).Uint(id.Epoch).Uint(id.N) }

func (d Damaged) problem() Problem {
	return Problem{
		Kind: DamagedRecord, Object: d.ID.String(),
		Error: fmt.Sprintf("%s cannot be read and was moved to the table of damaged records: %s", d, d.Error),
		Fix: "repeat the work of the lost record: addon-operator reload for a converge, addon-operator module run NAME for a module. addon-operator store dump " +
			DamagedRecords.String() + " --show-secrets shows the bytes of the record",
		Command: []string{"task", "skip", d.ID.String(), "--reason", "seen"},
	}
}

// MoveDamaged moves the bytes of the record under k to the table of damaged records, and saves a
// problem about the record. The argument cause is the reason why the record cannot be read.
// MoveDamaged returns false if there is no record under k.
func MoveDamaged(tx *Tx, id ID, k Key, cause error) (d Damaged, ok bool, err error) {
	raw := tx.Get(k)
	if raw == nil {
		return d, false, nil
	}
	d = Damaged{ID: id, Key: append([]byte{}, k...), Value: append([]byte{}, raw...), Error: cause.Error(), At: tx.Now()}
	tx.Delete(k)
	if err := Save(tx, d.key(), d); err != nil {
		return d, false, err
	}
	_, err = SaveProblem(tx, d.problem())
	return d, err == nil, err
}

// ForgetDamaged deletes the damaged record with the given id and the problem about this record. It
// reports whether there was such a record.
func ForgetDamaged(tx *Tx, id ID) bool {
	if tx.Get(damagedKey(id)) == nil {
		return false
	}
	tx.Delete(damagedKey(id))
	tx.Delete(Damaged{ID: id}.problem().Key())
	return true
}

// AllDamaged yields the damaged records, oldest first.
func AllDamaged(tx *Tx) iter.Seq2[Damaged, error] {
	return records[Damaged](tx, At(DamagedRecords))
}

// HasDamaged reports whether there are damaged records.
func HasDamaged(tx *Tx) bool {
	for range tx.Range(At(DamagedRecords)) {
		return true
	}
	return false
}

// A PieceOf identifies the task to which a separately stored piece belongs. If the piece is an item of
// a fan-out task, IsItem is set, and Item is the number of the item.
type PieceOf struct {
	Task   ID
	Item   int
	IsItem bool
}

// ParsePiece parses the key of an item, of a journal, of a note, or of a part of a payload.
// ParsePiece returns false for all other keys.
func ParsePiece(k Key) (p PieceOf, ok bool) {
	switch k.Table() {
	case Payloads, Journal, Notes:
	default:
		return p, false
	}
	parts, err := k.Parts()
	if err != nil {
		return p, false
	}
	p.Task = ID{Epoch: parts.Uint(), N: parts.Uint()}
	if k.Table() == Payloads {
		if i := parts.Uint(); i >= firstItem {
			p.Item, p.IsItem = int(i-firstItem), true //nolint:gosec // an item's number is an int
		}
	}
	return p, parts.Err() == nil
}

// DropItem removes item i of the fan-out task id. The argument next is [FanOut.Next] of the task. DropItem increases
// the numbers of the items from next to i-1 by one, and returns the new value of FanOut.Next. DropItem deletes an
// unreadable item next instead of changing its number; then item next+1 keeps its content. The items from next+1 to i-1
// must be readable.
func DropItem(tx *Tx, id ID, next, i int) int {
	for ; i > next; i-- {
		if raw := tx.Get(itemKey(id, i-1)); raw != nil && json.Valid(raw) {
			tx.Put(itemKey(id, i), raw)
		}
	}
	tx.Delete(itemKey(id, next))
	return next + 1
}
