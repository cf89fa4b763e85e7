package steps

import (
	"fmt"
	"strings"

	"addon-operator/internal/series"
	"addon-operator/store"
)

// Bounds of what all hooks together may count: more is mostly a name, or a label,
// made of something that has no end.
const (
	maxFamilies = 1_000
	maxSeries   = 10_000 // of one name
)

// metricFamilies are those a transaction has looked at, as it leaves them.
type metricFamilies struct {
	tx    *store.Tx
	known map[string]*family
	count int // of all in the store; -1 while nobody asked
	born  int // how many more there are now
}

// A family is one as it is in the store and as it is to be.
type family struct {
	series.Family
	was int // series there were
}

func newMetricFamilies(tx *store.Tx) *metricFamilies {
	return &metricFamilies{tx: tx, known: map[string]*family{}, count: -1}
}

// family returns the family called name; one that is not there has no series.
func (a *metricFamilies) family(name string) (*family, error) {
	if f := a.known[name]; f != nil {
		return f, nil
	}
	kept, _, err := store.Load[series.Family](a.tx, store.FamilyKey(name))
	f := &family{kept, kept.Series}
	a.known[name] = f
	return f, err
}

// forget deletes the shard under k and takes its series from their families.
func (a *metricFamilies) forget(k store.Key) error {
	count, err := countIn(a.tx, k)
	if err != nil {
		return err
	}
	a.tx.Delete(k)
	return a.less(count)
}

// less takes as many series from each family as count says.
func (a *metricFamilies) less(count map[string]int) error {
	for name, n := range count {
		f, err := a.family(name)
		if err != nil {
			return err
		}
		a.add(f, -n)
	}
	return nil
}

// add changes how many series of f there are.
func (a *metricFamilies) add(f *family, n int) {
	before := f.Series
	f.Series = max(0, f.Series+n)
	switch {
	case before == 0 && f.Series > 0:
		a.born++
	case before > 0 && f.Series == 0:
		a.born--
	}
}

// refuses returns why there cannot be a new metric of op's name, or no reason.
func (a *metricFamilies) refuses(op series.Op) (reason, why string, err error) {
	if a.total() >= maxFamilies {
		return "names", fmt.Sprintf("there are %d metrics, which is the most: look for a name that is made of something without end", maxFamilies), nil
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if stem, ok := strings.CutSuffix(op.Name, suffix); ok {
			if f, err := a.family(stem); err != nil || f.Series > 0 && f.Type == series.Histogram {
				return "name", fmt.Sprintf("it is a part of the histogram %s", stem), err
			}
		}
		if op.Type() == series.Histogram {
			if f, err := a.family(op.Name + suffix); err != nil || f.Series > 0 {
				return "name", fmt.Sprintf("there is a %s called %s, as a part of the histogram would be", f.Type, op.Name+suffix), err
			}
		}
	}
	return "", "", nil
}

// total returns how many families there are.
func (a *metricFamilies) total() int {
	if a.count < 0 {
		a.count = 0
		for range a.tx.Range(store.Families()) {
			a.count++
		}
	}
	return a.count + a.born
}

// save writes the families whose number of series has changed. While there are
// any, nothing else of a family changes.
func (a *metricFamilies) save() error {
	for name, f := range a.known {
		key := store.FamilyKey(name)
		switch {
		case f.Series == 0 && f.was > 0:
			a.tx.Delete(key)
		case f.Series == 0:
		case !f.same(a.tx, key):
			if err := store.Save(a.tx, key, f.Family); err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether what is under key says what f says.
func (f *family) same(tx *store.Tx, key store.Key) bool {
	if f.Series != f.was {
		return false
	}
	kept, ok, err := store.Load[series.Family](tx, key)
	return err == nil && ok && kept.Equal(f.Family)
}

// loadShard returns the shard under k, an empty one if there is none.
func loadShard(tx *store.Tx, k store.Key) (*series.Shard, error) {
	s, _, err := store.ParseShardKey(k)
	if err != nil {
		return nil, err
	}
	owner := series.Owner{Module: s.Module, Hook: s.Hook}
	text := tx.Get(k)
	if text == nil {
		return series.NewShard(owner), nil
	}
	shard, err := series.ReadShard(owner, text)
	if err != nil {
		return nil, fmt.Errorf("store: record %s: %w: %w", k, store.ErrCorrupt, err)
	}
	return shard, nil
}

// countIn returns how many series of each name the shard under k holds.
func countIn(tx *store.Tx, k store.Key) (map[string]int, error) {
	text := tx.Get(k)
	if text == nil {
		return nil, nil
	}
	count, err := series.CountIn(text)
	if err != nil {
		return nil, fmt.Errorf("store: record %s: %w: %w", k, store.ErrCorrupt, err)
	}
	return count, nil
}

// forgetMetrics ends the series of the hooks that gone is true of.
func forgetMetrics(tx *store.Tx, gone func(store.Subject) bool) error {
	all := newMetricFamilies(tx)
	for k := range tx.Range(store.Shards()) {
		s, _, err := store.ParseShardKey(k)
		if err != nil {
			return err
		}
		if gone(s) {
			if err := all.forget(k); err != nil {
				return err
			}
		}
	}
	return all.save()
}

// HookMetrics returns what hooks have counted. It is read at each scrape: that
// takes less than to write the page, and there is no copy that could differ.
func HookMetrics(tx *store.Tx) (series.Snapshot, error) {
	snapshot := series.Snapshot{Families: map[string]series.Family{}}
	for k := range tx.Range(store.Shards()) {
		s, err := loadShard(tx, k)
		if err != nil {
			return snapshot, err
		}
		snapshot.Shards = append(snapshot.Shards, s)
		for name := range s.Count() {
			if _, ok := snapshot.Families[name]; ok {
				continue
			}
			if snapshot.Families[name], _, err = store.Load[series.Family](tx, store.FamilyKey(name)); err != nil {
				return snapshot, err
			}
		}
	}
	return snapshot, nil
}
