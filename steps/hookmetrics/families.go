package hookmetrics

import (
	"fmt"
	"strings"

	"addon-operator/internal/series"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// The limits of the metrics of all hooks together. A hook that reaches a limit usually puts values from an unbounded
// set into a name or a label.
const (
	maxFamilies = 1_000
	maxSeries   = 10_000 // maximum number of series of one metric
)

// families holds the families that a transaction has read and changed.
type families struct {
	tx     *store.Tx
	read   map[string]*family
	stored int // number of families in the store; -1 if not counted yet
	added  int // number of families that the transaction added, minus the number that it left without series
}

// A family is the family of one metric, with the changes of the transaction.
type family struct {
	series.Family
	before int // number of series before the transaction
}

func newFamilies(tx *store.Tx) *families {
	return &families{tx: tx, read: map[string]*family{}, stored: -1}
}

// family returns the family called name. If the family does not exist, family returns one without series.
func (a *families) family(name string) (*family, error) {
	if f := a.read[name]; f != nil {
		return f, nil
	}
	stored, _, err := store.Load[series.Family](a.tx, store.FamilyKey(name))
	f := &family{Family: stored, before: stored.Series}
	a.read[name] = f
	return f, err
}

// deleteShard deletes the shard with the key k, and subtracts its series from the counts of their families.
func (a *families) deleteShard(k store.Key) error {
	count, err := countSeries(a.tx, k)
	if err != nil {
		return err
	}
	a.tx.Delete(k)
	return a.subtract(count)
}

// subtract reduces the numbers of series of families. The map count has the number to subtract, by the name of the
// family.
func (a *families) subtract(count map[string]int) error {
	for name, n := range count {
		f, err := a.family(name)
		if err != nil {
			return err
		}
		a.add(f, -n)
	}
	return nil
}

// add adds n to the number of series of f.
func (a *families) add(f *family, n int) {
	before := f.Series
	f.Series = max(0, f.Series+n)
	switch {
	case before == 0 && f.Series > 0:
		a.added++
	case before > 0 && f.Series == 0:
		a.added--
	}
}

// refusal returns the reason why op cannot create its metric: first as a word for a label, and second as a text for
// people. If op can create the metric, both are empty.
func (a *families) refusal(op series.Op) (reason, why string, err error) {
	if a.total() >= maxFamilies {
		return "names", fmt.Sprintf("there are already %d metrics, the maximum; look for metric names with an unbounded set of values in them", maxFamilies), nil
	}
	for _, suffix := range []string{"_bucket", "_count", "_sum"} {
		if stem, ok := strings.CutSuffix(op.Name, suffix); ok {
			if f, err := a.family(stem); err != nil || f.Series > 0 && f.Type == series.Histogram {
				return "name", fmt.Sprintf("it is a part of the histogram %s", stem), err
			}
		}
		if op.Type() == series.Histogram {
			if f, err := a.family(op.Name + suffix); err != nil || f.Series > 0 {
				return "name", fmt.Sprintf("the histogram needs the name %s, which a %s already has", op.Name+suffix, f.Type), err
			}
		}
	}
	return "", "", nil
}

// total returns the number of families in the store after the changes of the transaction.
func (a *families) total() int {
	if a.stored < 0 {
		a.stored = 0
		for range a.tx.Range(store.Families()) {
			a.stored++
		}
	}
	return a.stored + a.added
}

// save writes the families that have changed, and deletes the families that have lost their last series.
func (a *families) save() error {
	for name, f := range a.read {
		key := store.FamilyKey(name)
		switch {
		case f.Series == 0 && f.before > 0:
			a.tx.Delete(key)
		case f.Series == 0:
		case !f.equalsStored(a.tx, key):
			if err := store.Save(a.tx, key, f.Family); err != nil {
				return err
			}
		}
	}
	return nil
}

// equalsStored reports whether the store has the family f with equal content under key.
func (f *family) equalsStored(tx *store.Tx, key store.Key) bool {
	if f.Series != f.before {
		return false
	}
	stored, ok, err := store.Load[series.Family](tx, key)
	return err == nil && ok && stored.Equal(f.Family)
}

// loadShard returns the shard with the key k. If the store has no record with this key, it returns an empty shard.
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

// countSeries returns the number of series of each name in the shard with the key k.
func countSeries(tx *store.Tx, k store.Key) (map[string]int, error) {
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

// Forget deletes the series of the hooks for which the function gone returns true.
func Forget(tx *store.Tx, gone func(graph.Subject) bool) error {
	all := newFamilies(tx)
	for k := range tx.Range(store.Shards()) {
		s, _, err := store.ParseShardKey(k)
		if err != nil {
			return err
		}
		if gone(s) {
			if err := all.deleteShard(k); err != nil {
				return err
			}
		}
	}
	return all.save()
}

// Snapshot returns the metrics of all hooks. Each scrape calls Snapshot and reads the store, because a copy in memory
// could differ from the store. Reading the store takes less time than writing the page.
func Snapshot(tx *store.Tx) (series.Snapshot, error) {
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
