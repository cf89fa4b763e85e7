package store_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"addon-operator/store"
)

func redactionSecret(t *testing.T, db *store.DB) (secret []byte) {
	t.Helper()
	if err := db.View(func(tx *store.Tx) error {
		secret = store.RedactionSecret(tx)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return secret
}

// TestTheSecretOfRedactedValuesStaysWithTheStore checks that a store keeps its secret when a
// snapshot of it is restored, and that another store has another secret.
func TestTheSecretOfRedactedValuesStaysWithTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, snapshot := filepath.Join(dir, "store.db"), filepath.Join(dir, "snapshot")
	open := func(path string) *store.DB {
		t.Helper()
		db, err := store.Open(path, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return db
	}
	db := open(path)
	secret := redactionSecret(t, db)
	if len(secret) != 32 || bytes.Equal(secret, make([]byte, 32)) {
		t.Fatalf("the secret is %x", secret)
	}
	if err := db.SnapshotFile(snapshot); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Restore(path, snapshot, store.RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	for name, same := range map[string]bool{path: true, filepath.Join(dir, "other.db"): false} {
		db := open(name)
		if got := redactionSecret(t, db); bytes.Equal(got, secret) != same || len(got) != 32 {
			t.Errorf("%s has the same secret: %t", name, !same)
		}
		// A store of an older version, without the record, gets a secret when it is opened.
		if err := db.Update(func(tx *store.Tx) error {
			tx.Delete(store.At(store.Meta).Str("redaction"))
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if redactionSecret(t, db) != nil {
			t.Error("a store without the record has a secret")
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open(name)
		if len(redactionSecret(t, db)) != 32 {
			t.Error("the next start created no secret")
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
