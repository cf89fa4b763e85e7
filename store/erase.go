package store

import "context"

// Erase deletes the records whose keys begin with prefix, until the budget of tx is spent. Erase
// reports whether such records are left.
func (tx *Tx) Erase(prefix Key) (more bool) {
	for k := range tx.Range(prefix) {
		if tx.Spent() {
			return true
		}
		tx.Delete(k)
	}
	return false
}

// Erase deletes the records whose keys begin with one of prefixes, in transactions of bounded size.
// If the disk is full, Erase waits for free space.
func (db *DB) Erase(ctx context.Context, prefixes ...Key) error {
	for _, prefix := range prefixes {
		for more := true; more; {
			if err := db.UpdateWithRoom(ctx, func(tx *Tx) error {
				more = tx.Erase(prefix)
				return nil
			}); err != nil {
				return err
			}
		}
	}
	return nil
}
