package store

import "crypto/rand"

// redactionKey returns the key of the record with the secret that [RedactionSecret] returns.
func redactionKey() Key { return At(Meta).Str("redaction") }

// redaction is the record with the secret for redacted values. [Dump] always redacts the whole
// record.
type redaction struct {
	Secret []byte `json:"secret"`
}

func newRedaction() redaction {
	r := redaction{Secret: make([]byte, 32)}
	_, _ = rand.Read(r.Secret) // rand.Read never returns an error
	return r
}

// addRedaction creates a secret if the store has none.
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

// RedactionSecret returns random bytes that only this store and its snapshots have. A mark with a
// hash replaces each redacted value, and these bytes are the key of the hash. So nobody without the
// store can find out a value by hashing guesses. The first start of an operator creates the secret.
// RedactionSecret returns nil if the store has no secret or its record cannot be read; the next
// start then creates a new one.
func RedactionSecret(tx *Tx) []byte {
	r, _, err := Load[redaction](tx, redactionKey())
	if err != nil {
		return nil
	}
	return r.Secret
}
