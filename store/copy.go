package store

import (
	"bytes"
	"slices"
)

// CopyOf returns a Memory with the current records of the given tables of db. If tables includes Meta, the copy has the
// identity of db. Without Meta, OpenMemory opens the copy only if the copy has no records.
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
