package store_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"addon-operator/store"
	"addon-operator/store/storetest"
)

func filePlace(path string) storetest.Place {
	return storetest.Place{
		Open: func() (*store.DB, error) { return store.Open(path, store.Options{LockWait: 1}) },
		Restore: func(t *testing.T, snapshot []byte) storetest.Place {
			t.Helper()
			path := filepath.Join(t.TempDir(), "restored.db")
			if err := os.WriteFile(path, snapshot, 0o600); err != nil {
				t.Fatal(err)
			}
			return filePlace(path)
		},
	}
}

func memoryPlace(m *store.Memory) storetest.Place {
	return storetest.Place{
		Open: func() (*store.DB, error) { return store.OpenMemory(m, store.Options{}) },
		Restore: func(t *testing.T, snapshot []byte) storetest.Place {
			t.Helper()
			m, err := store.RestoreMemory(bytes.NewReader(snapshot))
			if err != nil {
				t.Fatal(err)
			}
			return memoryPlace(m)
		},
	}
}

// places has a function for each kind of backend. The function returns a [storetest.Place] for a new store.
var places = map[string]func(t *testing.T) storetest.Place{
	"Bolt": func(t *testing.T) storetest.Place {
		t.Helper()
		return filePlace(filepath.Join(t.TempDir(), "store.db"))
	},
	"Memory": func(*testing.T) storetest.Place { return memoryPlace(new(store.Memory)) },
}

func TestEveryBackendKeepsTheStoresPromises(t *testing.T) {
	t.Parallel()
	for name, fresh := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Exercise(t, fresh)
		})
	}
}
