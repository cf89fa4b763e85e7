package series_test

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"addon-operator/internal/series"
)

// TestPartsOfAShardAreAllOfItByPlace divides random shards. It checks that each series is only in the part to which
// the hash of its name and labels belongs, and that no part is divided again.
func TestPartsOfAShardAreAllOfItByPlace(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owner := series.Owner{Module: "m", Hook: "h"}
		shard := series.NewShard(owner)
		var entries []series.Entry
		for i := range rapid.IntRange(0, 600).Draw(t, "series") {
			entries = append(entries, owner.Entry(series.Op{
				Action: series.Set, Name: fmt.Sprintf("n%d", i%3), Value: float64(i), Labels: map[string]string{"l": fmt.Sprint(i)},
			}))
			shard.Apply(entries[i], series.Family{Type: series.Gauge})
		}
		parts := shard.Divide(0)
		found := 0
		for i, part := range parts {
			for _, n := range part.Shard.Count() {
				found += n
			}
			if again := part.Shard.Divide(part.From); len(again) != 1 {
				t.Errorf("part %d of %d is divided again", i, len(parts))
			}
			for _, e := range entries {
				in := part.From <= e.Place() && (i+1 == len(parts) || e.Place() < parts[i+1].From)
				if in != part.Shard.Has(e) {
					t.Errorf("series %d: in the part from %d: %t, want the opposite", e.Place(), part.From, !in)
				}
			}
		}
		if found != len(entries) || parts[0].From != 0 {
			t.Errorf("%d series in parts from %d, want %d from 0", found, parts[0].From, len(entries))
		}
	})
}

// TestPlacesNeverChange compares the place of a series with a constant, because later versions of the operator must
// find the series in existing stores.
func TestPlacesNeverChange(t *testing.T) {
	t.Parallel()
	e := series.Owner{Module: "m", Hook: "h"}.Entry(series.Op{Name: "x", Labels: map[string]string{"b": "2", "a": "1", "hook": "no", "c": ""}})
	if e.Place() != 8143433936836871796 {
		t.Errorf("place %d", e.Place())
	}
}
