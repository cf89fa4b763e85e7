package store

import (
	"encoding/json"
	"errors"
	"fmt"
)

// maxFindings is the maximum number of findings that bolt.Check, checkRecords and checkAddons each list. checkQueues
// lists all its findings.
const maxFindings = 20

// Check verifies the whole store: the structure of the backend, each record, the queues with their
// tasks, and the addons with their configurations. If it finds damage, it returns ErrCorrupt. It
// reads all records, and can delay commits.
func (db *DB) Check() error {
	if err := db.Err(); err != nil {
		return err
	}
	if err := db.backend.Check(); err != nil {
		return fmt.Errorf("store: check %s: %w", db.path, err)
	}
	var damage error
	if err := db.View(func(tx *Tx) error {
		damage = errors.Join(checkRecords(tx), checkQueues(tx), checkAddons(tx))
		return nil
	}); err != nil {
		return fmt.Errorf("store: check %s: %w", db.path, err)
	}
	if damage != nil {
		return fmt.Errorf("store: check %s: %w: %w", db.path, ErrCorrupt, damage)
	}
	return nil
}

// checkRecords reports keys that belong to no table, records whose checksum does not match, and
// records that should be JSON but are not.
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
