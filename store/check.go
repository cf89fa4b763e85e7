package store

import (
	"encoding/json"
	"errors"
	"fmt"
)

// Check looks for everything that can be wrong with the store: in the
// backend's structure, in single records, between queues and their tasks.
// Each finding is ErrCorrupt. It reads the whole store.
func (db *DB) Check() error {
	if err := db.backend.Check(); err != nil {
		return fmt.Errorf("store: check %s: %w", db.path, err)
	}
	err := db.View(func(tx *Tx) error {
		var errs []error
		for k, v := range tx.Range(nil) {
			if _, err := k.split(); err != nil {
				errs = append(errs, fmt.Errorf("key %s: %w", k, err))
			}
			if k.Table() != Payloads && !json.Valid(v) {
				errs = append(errs, fmt.Errorf("record %s is not JSON", k))
			}
		}
		return errors.Join(append(errs, checkQueues(tx))...)
	})
	if err != nil {
		return fmt.Errorf("store: check %s: %w: %w", db.path, ErrCorrupt, err)
	}
	return nil
}
