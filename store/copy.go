package store

import (
	"bytes"
	"slices"
)

// CopyOf returns a Memory with the records of tables as they are now. With the table Meta, the copy
// has the identity of the store; without it, it has a new one.
func CopyOf(db *DB, tables ...Table) (*Memory, error) {
	m := &Memory{}
	err := db.View(func(tx *Tx) error {
		for _, table := range tables {
			for k, v := range tx.Range(At(table)) {
				m.set.put(Write{Key: slices.Clone(k), Value: bytes.Clone(v)})
			}
		}
		return nil
	})
	return m, err
}
