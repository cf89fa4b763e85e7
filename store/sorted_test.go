package store

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shortKeys generates few different keys, so that writes often have the same key.
func shortKeys() *rapid.Generator[string] {
	return rapid.StringOfN(rapid.SampledFrom([]rune("abcdefgh")), 0, 3, -1)
}

func TestASortedSetIsAMapInOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var set sorted
		model := map[string]string{}
		type pair struct {
			set   sorted
			model map[string]string
		}
		var clones []pair
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := shortKeys().Draw(t, "key"), rapid.StringN(0, 2, -1).Draw(t, "value")
				was, ok := model[k]
				old, had := set.put(Write{Key: Key(k), Value: []byte(v)})
				if had != ok || string(old.Value) != was {
					t.Fatalf("put replaced %q (%t), the model %q (%t)", old.Value, had, was, ok)
				}
				model[k] = v
			},
			"putMany": func(t *rapid.T) {
				for _, k := range rapid.SliceOfN(shortKeys(), 0, 3*leafSize).Draw(t, "keys") {
					set.put(Write{Key: Key(k), Value: []byte("many")})
					model[k] = "many"
				}
			},
			"remove": func(t *rapid.T) {
				k := shortKeys().Draw(t, "key")
				set.remove(Key(k))
				delete(model, k)
			},
			"removeMany": func(t *rapid.T) {
				for k := range model {
					if k > "d" {
						set.remove(Key(k))
						delete(model, k)
					}
				}
			},
			"clone": func(*rapid.T) {
				clones = append(clones, pair{set.clone(), maps.Clone(model)})
			},
			"goOnWithAClone": func(t *rapid.T) {
				if len(clones) > 0 {
					c := clones[rapid.IntRange(0, len(clones)-1).Draw(t, "clone")]
					set, model = c.set.clone(), maps.Clone(c.model)
				}
			},
			"reset": func(*rapid.T) {
				set.reset()
				clear(model)
			},
			"": func(t *rapid.T) {
				same(t, &set, model)
				for _, c := range clones {
					same(t, &c.set, c.model)
				}
			},
		})
	})
}

// same compares the set with the model: all writes, and those of a random range.
func same(t *rapid.T, set *sorted, model map[string]string) {
	t.Helper()
	if set.len != len(model) {
		t.Fatalf("the set has %d, the model %d", set.len, len(model))
	}
	for k, v := range model {
		if w, ok := set.get(Key(k)); !ok || string(w.Value) != v {
			t.Fatalf("%q is %q (%t), in the model %q", k, w.Value, ok, v)
		}
	}
	from, to := shortKeys().Draw(t, "from"), shortKeys().Draw(t, "to")
	open := rapid.Bool().Draw(t, "open")
	var want []string
	for _, k := range slices.Sorted(maps.Keys(model)) {
		if k >= from && (open || k < to) {
			want = append(want, k)
		}
	}
	high := Key(to)
	if open {
		high = nil
	} else if high == nil {
		high = Key{}
	}
	if !open && bytes.Compare(Key(from), high) > 0 {
		return
	}
	for _, down := range []bool{false, true} {
		var got []string
		set.visit(Key(from), high, down, func(w Write) bool {
			got = append(got, string(w.Key))
			return true
		})
		if down {
			slices.Reverse(got)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("from %q to %q, down %t (-want +got):\n%s", from, to, down, diff)
		}
	}
}

func TestPendingCountsWhatItHoldsAndTakesBackWhatFailed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var p pending
		kept, now := map[string]string{}, map[string]string{}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				k, v := shortKeys().Draw(t, "key"), rapid.StringN(0, 5, -1).Draw(t, "value")
				p.put(Write{Key: Key(k), Value: []byte(v)})
				now[k] = v
			},
			"keep": func(*rapid.T) {
				p.accept()
				kept = maps.Clone(now)
			},
			"rollback": func(*rapid.T) {
				p.rollback()
				now = maps.Clone(kept)
			},
			"reset": func(*rapid.T) {
				p.reset()
				clear(now)
				clear(kept)
			},
			"": func(t *rapid.T) {
				same(t, &p.set, now)
				size := 0
				for k, v := range now {
					size += len(k) + len(v)
				}
				if p.bytes != size {
					t.Fatalf("counts %d bytes, holds %d", p.bytes, size)
				}
				own, left := p.mine(), p.own
				for _, w := range own.all(nil) {
					if now[string(w.Key)] != string(w.Value) {
						t.Fatalf("its own %q is %q", w.Key, w.Value)
					}
					left.Ops--
					left.Bytes -= w.size()
				}
				for k, v := range now {
					if _, is := own.get(Key(k)); !is && kept[k] != v {
						t.Fatalf("%q is new and not its own", k)
					}
				}
				if left != (Limits{}) {
					t.Fatalf("the count of the transaction's own writes is wrong by %+v", left)
				}
			},
		})
	})
}
