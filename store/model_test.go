package store_test

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/store"
)

// A model maps the keys of a store to their values. The model is compared with the store.
type model map[string]string

func (m model) list(prefix, from string, down bool) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if len(k) >= len(prefix) && k[:len(prefix)] == prefix && k >= from {
			out = append(out, k+"="+m[k])
		}
	}
	if down {
		slices.Reverse(out)
	}
	return out
}

// keys generates keys in two tables. There are only a few different keys, so that they repeat, and
// some keys are prefixes of others.
func keys() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		table := rapid.SampledFrom([]store.Table{store.Payloads, store.Unique}).Draw(t, "table")
		parts := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xff}), 0, 2).Draw(t, "parts")
		return string(append(store.At(table), parts...))
	})
}

func TestAStoreIsAMapWithTransactions(t *testing.T) {
	t.Parallel()
	for name, fresh := range places {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(r *rapid.T) {
				place := fresh(t)
				db, err := place.Open()
				if err != nil {
					r.Fatal(err)
				}
				committed := model{}
				for range rapid.IntRange(1, 6).Draw(r, "transactions") {
					next := maps.Clone(committed)
					fails := rapid.IntRange(0, 4).Draw(r, "fails") == 0
					undo := errors.New("undo")
					err := db.Update(func(tx *store.Tx) error {
						transaction(r, tx, next)
						if fails {
							return undo
						}
						return nil
					})
					if fails && !errors.Is(err, undo) || !fails && err != nil {
						r.Fatalf("fails %t, returned %v", fails, err)
					}
					if !fails {
						committed = next
					}
					if rapid.IntRange(0, 3).Draw(r, "reopen") == 0 {
						if err := db.Close(); err != nil {
							r.Fatal(err)
						}
						if db, err = place.Open(); err != nil {
							r.Fatal(err)
						}
					}
					if err := db.View(func(tx *store.Tx) error { compare(r, tx, committed); return nil }); err != nil {
						r.Fatal(err)
					}
				}
				if err := db.Close(); err != nil {
					r.Fatal(err)
				}
			})
		})
	}
}

// transaction applies the same random writes to tx and to m.
func transaction(t *rapid.T, tx *store.Tx, m model) {
	write := func() {
		k := keys().Draw(t, "key")
		if rapid.Bool().Draw(t, "delete") {
			tx.Delete(store.Key(k))
			delete(m, k)
			return
		}
		v := rapid.StringN(0, 3, -1).Draw(t, "value")
		tx.Put(store.Key(k), []byte(v))
		m[k] = v
	}
	for range rapid.IntRange(0, 8).Draw(t, "steps") {
		switch rapid.IntRange(0, 3).Draw(t, "step") {
		case 0, 1:
			write()
		case 2:
			compare(t, tx, m)
		case 3:
			wander(t, tx, m, write)
		}
	}
}

// wander ranges over keys while it writes, and compares each step with the model.
func wander(t *rapid.T, tx *store.Tx, m model, write func()) {
	prefix := keys().Draw(t, "prefix")
	down := rapid.Bool().Draw(t, "down")
	visit := tx.Range
	if down {
		visit = tx.Backwards
	}
	left := func(last string, begun bool) []string {
		return slices.DeleteFunc(m.list(prefix, "", down), func(kv string) bool {
			k := kv[:slices.Index([]byte(kv), '=')]
			return begun && (k == last || (k < last) != down)
		})
	}
	last, begun := "", false
	for k, v := range visit(store.Key(prefix)) {
		if want := left(last, begun); len(want) == 0 || want[0] != string(k)+"="+string(v) {
			t.Fatalf("down %t: after %q came %q, want the first of %q", down, last, k, want)
		}
		last, begun = string(k), true
		for range rapid.IntRange(0, 2).Draw(t, "writes") {
			write()
		}
	}
	if want := left(last, begun); len(want) > 0 {
		t.Fatalf("down %t: the range ended after %q, %q is left", down, last, want)
	}
}

// compare reads a random key and random ranges of tx, and compares the results with the model. It uses every method of
// Tx that reads records.
func compare(t *rapid.T, tx *store.Tx, m model) {
	k := keys().Draw(t, "get")
	if v, ok := m[k]; string(tx.Get(store.Key(k))) != v || (tx.Get(store.Key(k)) != nil) != ok {
		t.Fatalf("%q is %q, want %q (%t)", k, tx.Get(store.Key(k)), v, ok)
	}
	prefix, from := keys().Draw(t, "prefix"), keys().Draw(t, "from")
	for name, c := range map[string]struct {
		got  []string
		want []string
	}{
		"Range":     {collect(tx.Range(store.Key(prefix))), m.list(prefix, "", false)},
		"RangeFrom": {collect(tx.RangeFrom(store.Key(prefix), store.Key(from))), m.list(prefix, from, false)},
		"Backwards": {collect(tx.Backwards(store.Key(prefix))), m.list(prefix, "", true)},

		"Skim":          {collect(tx.Skim(store.Key(prefix))), m.list(prefix, "", false)},
		"SkimBackwards": {collect(tx.SkimBackwards(store.Key(prefix))), m.list(prefix, "", true)},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Fatalf("%s of %q from %q (-want +got):\n%s", name, prefix, from, diff)
		}
	}
}

func collect(seq func(func(store.Key, []byte) bool)) []string {
	var out []string
	for k, v := range seq {
		out = append(out, string(k)+"="+string(v))
	}
	return out
}
