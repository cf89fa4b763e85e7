package addons

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/metrics"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
)

// registeredAddons returns a store with n registered addons in each of the scopes, and without
// configurations.
func registeredAddons(tb testing.TB, n int, scopes ...registry.Scope) *store.DB {
	tb.Helper()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	for _, scope := range scopes {
		for i := 0; i < n; {
			if err := db.Update(func(tx *store.Tx) error {
				for ; i < n && !tx.Spent(); i++ {
					id := fmt.Sprintf("0123456789abcdef-%d", i)
					if err := store.Save(tx, store.AddonKey(string(scope), id), store.RegisteredAddon{
						Name: id, Version: "1.0.0", Normal: "1.0.0", Configuration: "c", URL: "https://h/index.yaml", Content: "2-" + id,
					}); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				tb.Fatal(err)
			}
		}
	}
	return db
}

func TestRegisteredAddonsAreCountedByScope(t *testing.T) {
	t.Parallel()
	db := registeredAddons(t, 3, registry.Cluster, "stage", "stage-2")
	var state metrics.State
	if err := db.View(func(tx *store.Tx) error { return AddState(tx, &state) }); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"cluster": 3, "ns/stage": 3, "ns/stage-2": 3}, state.Addons); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// BenchmarkAddonsState measures how long a scrape of the metrics reads a store with 20,000 registered
// addons.
func BenchmarkAddonsState(b *testing.B) {
	db := registeredAddons(b, 20_000, registry.Cluster)
	for b.Loop() {
		var state metrics.State
		if err := db.View(func(tx *store.Tx) error { return AddState(tx, &state) }); err != nil {
			b.Fatal(err)
		}
	}
}
