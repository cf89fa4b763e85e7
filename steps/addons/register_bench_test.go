package addons

import (
	"errors"
	"fmt"
	"testing"

	"addon-operator/internal/catalog"
	"addon-operator/steps/addons/registry"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// BenchmarkRegisterAddons measures the transaction that registers the addons of a configuration. No other transaction
// can commit during this transaction.
func BenchmarkRegisterAddons(b *testing.B) {
	for _, n := range []int{200, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := &Runtime{DB: storetest.Memory(b)}
			result := store.RepositoryResult{URL: "https://h/index.yaml"}
			var round store.ID
			if err := r.DB.Update(func(tx *store.Tx) (err error) {
				round, _, err = registry.Begin(tx, registry.Owner{Name: "c", UID: "u", Generation: 1})
				return err
			}); err != nil {
				b.Fatal(err)
			}
			content := registry.Parsed{Name: "x", Loaded: &catalog.Loaded{Addon: catalog.Addon{ID: "X", Chart: catalog.Chart{Digest: "d"}}, Archive: []byte("a")}}
			if err := registry.Put(b.Context(), r.DB, store.RoundHolder(round), content); err != nil {
				b.Fatal(err)
			}
			for i := range n {
				name := fmt.Sprintf("addon-%d", i)
				result.Addons = append(result.Addons, store.AddonResult{
					Entry: name, EntryVersion: "1.0.0", ID: name, Name: name, Version: "1.0.0", Content: content.Name,
					Source: []byte(`{"etag":"\"0123456789abcdef0123456789abcdef\"","digest":"0123456789abcdef0123456789abcdef"}`),
				})
			}
			if err := r.DB.Update(func(tx *store.Tx) error {
				return registry.SaveResult(tx, registry.Cluster, "c", round, 0, result)
			}); err != nil {
				b.Fatal(err)
			}
			step := &registerStep{r}
			out, err := step.Do(b.Context(), taskOf("c"))
			if err != nil {
				b.Fatal(err)
			}
			undone := errors.New("undone")
			for b.Loop() {
				if err := r.DB.Update(func(tx *store.Tx) error {
					if _, err := step.Apply(tx, taskOf("c"), out); err != nil {
						return err
					}
					return undone
				}); !errors.Is(err, undone) {
					b.Fatal(err)
				}
			}
		})
	}
}
