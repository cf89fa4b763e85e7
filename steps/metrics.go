package steps

import (
	"fmt"
	"slices"

	"addon-operator/internal/series"
	"addon-operator/store"
)

// hookMetrics count the metric operations of hooks.
type hookMetrics struct {
	log      *logger
	observer Observer
	prefix   string // replaces {PREFIX} in names
	// ungroupedExpire makes metrics without a group expire at each run of their hook.
	ungroupedExpire bool
}

// metricsOf returns what reads the operations that a hook has written. Where
// metrics without a group are to expire, they are given one: the hook's own.
func (m *hookMetrics) metricsOf(module, hook string) func(text []byte) ([]series.Op, error) {
	return func(text []byte) ([]series.Op, error) {
		ops, err := series.Parse(text, m.prefix)
		if m.ungroupedExpire {
			for i := range ops {
				if ops[i].Group == "" {
					ops[i].Group = nameOf(module, hook)
				}
			}
		}
		return ops, err
	}
}

// count writes what the operations of one run of a hook lead to. First all groups
// that occur are expired, whoever wrote them; then the operations count in order.
// Those of a hook that went while it ran do not: nothing would end their series.
func (m *hookMetrics) count(tx *store.Tx, module, hook string, ops []series.Op) error {
	if len(ops) == 0 || tx.Get(store.HookKey(module, hook)) == nil {
		return nil
	}
	t := tally{owner: series.Owner{Module: module, Hook: hook}, held: map[string]*metricGroup{}, metricFamilies: newMetricFamilies(tx)}
	for _, op := range ops {
		if err := t.begin(op.Group); err != nil {
			return err
		}
	}
	for _, op := range ops {
		if err := t.do(op); err != nil {
			return err
		}
	}
	if len(t.dropped) > 0 {
		tx.OnCommit(func() { m.sayDropped(t.dropped) })
	}
	return t.save()
}

// mostLines bounds the lines of the log about one run.
const mostLines = 10

// sayDropped logs what did not count, and tells of it.
func (m *hookMetrics) sayDropped(all []Dropped) {
	for i, d := range all {
		if d.Operations > 0 {
			m.observer.MetricsDropped(d)
		}
		if i == mostLines {
			m.log.Warn().Str("module", d.Module).Str("hook", d.Hook).Int("metrics", len(all)-i).Msg("more metric operations of the hook did not count")
		}
		if i >= mostLines {
			continue
		}
		m.log.Warn().Str("module", d.Module).Str("hook", d.Hook).Str("metric", d.Name).Int("operations", d.Operations).
			Str("reason", d.Why).Msg("metric operations of a hook did not count as they were written")
	}
}

// A tally is what one run of a hook changes of metrics.
type tally struct {
	*metricFamilies
	owner   series.Owner
	held    map[string]*metricGroup // by group
	dropped []Dropped
}

// begin expires group and makes the owner's holding of it. What has no group does
// not expire.
func (t *tally) begin(group string) error {
	if t.held[group] != nil {
		return nil
	}
	h, err := newMetricGroup(t.tx, t.owner, group)
	if err != nil {
		return err
	}
	t.held[group] = h
	if group == "" {
		return nil
	}
	if err := h.expire(t.metricFamilies); err != nil {
		return err
	}
	for k := range t.tx.Range(store.ShardsOf(group)) {
		if h.owns(k) {
			continue
		}
		if err := t.forget(k); err != nil {
			return err
		}
	}
	return nil
}

// do counts op, or drops it with a reason.
func (t *tally) do(op series.Op) error {
	own := t.held[op.Group]
	if op.Action == series.Expire {
		return own.expire(t.metricFamilies)
	}
	f, err := t.family(op.Name)
	if err != nil {
		return err
	}
	if f.Series == 0 {
		if reason, why, err := t.refuses(op); reason != "" || err != nil {
			t.drop(op, reason, why, 1)
			return err
		}
		f.Family = series.FamilyOf(op)
	}
	switch {
	case f.Type != op.Type():
		t.drop(op, "type", fmt.Sprintf("it is a %s, and cannot be a %s as long as there are series of it", f.Type, op.Type()), 1)
		return nil
	case !slices.Equal(f.Buckets, op.Buckets):
		t.drop(op, "buckets", fmt.Sprintf("it has the buckets %v, and counts in these", f.Buckets), 0)
	}
	entry := t.owner.Entry(op)
	shard, err := own.shard(entry.Place())
	if err != nil {
		return err
	}
	if !shard.Has(entry) {
		switch cost := entry.Cost(); {
		case f.Series >= maxSeries:
			t.drop(op, "series", fmt.Sprintf("there are %d series of it, which is the most: look for a label whose values have no end", maxSeries), 1)
			return nil
		case own.size+cost > maxHeld:
			t.drop(op, "size", "the hook's series in this group take 4 MiB, which is the most", 1)
			return nil
		default:
			own.size += cost
		}
		t.add(f, 1)
	}
	shard.Apply(entry, f.Family)
	return nil
}

// drop notes that op does not count as it was written.
func (t *tally) drop(op series.Op, reason, why string, operations int) {
	for i, d := range t.dropped {
		if d.Name == op.Name && d.Reason == reason || reason == "names" && d.Reason == reason {
			t.dropped[i].Operations += operations
			return
		}
	}
	t.dropped = append(t.dropped, Dropped{
		Module: t.owner.Module, Hook: t.owner.Hook, Name: op.Name, Reason: reason, Why: why, Operations: operations,
	})
}

// save writes what is another than before.
func (t *tally) save() error {
	for _, h := range t.held {
		if err := h.save(); err != nil {
			return err
		}
	}
	return t.metricFamilies.save()
}
