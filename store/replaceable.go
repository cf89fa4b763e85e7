package store

import (
	"bytes"
	"errors"
	"slices"
)

// A replaceable record is a record of [Meta] without which the operator can continue. For example,
// the next start or converge writes the record again, or a person repeats the recorded action.
type replaceable struct {
	key  Key
	read func(*Tx) error
}

// replaceables returns the replaceable records. The other records of [Meta] are not replaceable:
// schema, id and epoch identify the store. The records of a preparation and of a copy must not be
// lost, because their existence has a meaning even if their content cannot be read.
func replaceables() []replaceable {
	return []replaceable{
		replaceableAs[Startup](StartupKey()),
		replaceableAs[Tenure](TenureKey()),
		replaceableAs[Ends](EndsKey()),
		replaceableAs[Ref](ExclusiveKey()),
		replaceableAs[AllowedPurge](AllowedPurgeKey()),
		replaceableAs[LostSpan](LostSpanKey()),
		replaceableAs[redaction](redactionKey()),
	}
}

func replaceableAs[T any](k Key) replaceable {
	return replaceable{key: k, read: func(tx *Tx) error {
		_, _, err := Load[T](tx, k)
		return err
	}}
}

// IsReplaceable reports whether the record under k is replaceable.
func IsReplaceable(k Key) bool {
	return slices.ContainsFunc(replaceables(), func(r replaceable) bool { return bytes.Equal(k, r.key) })
}

// UnreadableRecords returns an error for each replaceable record that cannot be read. The next start
// of the operator moves these records to the table of damaged records.
func UnreadableRecords(tx *Tx) (all []*RecordError, err error) {
	for _, r := range replaceables() {
		err := r.read(tx)
		if damaged := (*RecordError)(nil); errors.As(err, &damaged) {
			all = append(all, damaged)
		} else if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// moveUnreadable moves the replaceable records that cannot be read to the table of damaged records,
// and returns them.
func moveUnreadable(db *DB) (moved []Damaged, err error) {
	var damaged []*RecordError
	if err := db.View(func(tx *Tx) (err error) {
		damaged, err = UnreadableRecords(tx)
		return err
	}); err != nil || len(damaged) == 0 {
		return nil, err
	}
	err = db.Update(func(tx *Tx) error {
		moved = nil
		for _, record := range damaged {
			d, _, err := MoveDamaged(tx, ID{Epoch: tx.Epoch(), N: tx.NextID()}, record.Key, record.Err)
			if err != nil {
				return err
			}
			moved = append(moved, d)
		}
		return nil
	})
	return moved, err
}
