package store

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxFindings is how many findings of one kind a check tells in full.
const maxFindings = 20

// Check looks for everything that can be wrong with the store: in the
// backend's structure, in single records, between queues and their tasks,
// between addons and their configurations.
// What it finds is ErrCorrupt. It reads the whole store, and commits may wait
// for it.
func (db *DB) Check() error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.backend.Check(); err != nil {
		return fmt.Errorf("store: check %s: %w", db.path, err)
	}
	err := db.View(func(tx *Tx) error {
		return errors.Join(checkRecords(tx), checkQueues(tx), checkAddons(tx))
	})
	if err != nil {
		return fmt.Errorf("store: check %s: %w: %w", db.path, ErrCorrupt, err)
	}
	return nil
}

// checkRecords reports keys of no table and records that are not JSON but should be.
func checkRecords(tx *Tx) error {
	var found []error
	n := 0
	bad := func(err error) {
		if n++; n <= maxFindings {
			found = append(found, err)
		}
	}
	for k, v := range tx.Range(nil) {
		if t := k.Table(); !t.known() {
			bad(fmt.Errorf("key %x belongs to no table", []byte(k)))
		} else if err := damageOf(k, v); err != nil {
			bad(err)
		} else if !tables[t].raw && !json.Valid(v) {
			bad(fmt.Errorf("record %s is not JSON", k))
		}
	}
	if n > maxFindings {
		found = append(found, fmt.Errorf("and %d more", n-maxFindings))
	}
	return errors.Join(found...)
}
