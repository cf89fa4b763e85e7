package store

import "crypto/rand"

// redactionKey returns the key of the record with the secret that [RedactionSecret] returns.
func redactionKey() Key { return At(Meta).Str("redaction") }

// redaction is the record of that secret. [DB.Dump] always redacts the whole record.
type redaction struct {
	Secret []byte `json:"secret"`
}

func newRedaction() redaction {
	r := redaction{Secret: make([]byte, 32)}
	_, _ = rand.Read(r.Secret) // it never returns an error
	return r
}

// addRedaction adds the record to a store that has none.
func addRedaction(db *DB) error {
	missing := false
	if err := db.View(func(tx *Tx) error {
		missing = tx.Get(redactionKey()) == nil
		return nil
	}); err != nil || !missing {
		return err
	}
	return db.Update(func(tx *Tx) error { return Save(tx, redactionKey(), newRedaction()) })
}

// RedactionSecret returns random bytes that only this store and its snapshots have. They are the
// key of the hashes that replace redacted values, so that nobody can find a value by trying without
// the store. The first start of an operator creates them. It returns nil if the store has none, or
// if the record cannot be read; the next start then creates others.
func RedactionSecret(tx *Tx) []byte {
	r, _, err := Load[redaction](tx, redactionKey())
	if err != nil {
		return nil
	}
	return r.Secret
}
