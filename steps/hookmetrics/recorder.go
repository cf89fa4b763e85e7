package hookmetrics

import (
	"fmt"
	"slices"

	"github.com/rs/zerolog"

	"addon-operator/internal/series"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Operations are the metric operations of one run of a hook, in the order in which the hook wrote them.
type Operations []series.Op

// An Observer is notified of ignored metric operations.
type Observer interface {
	MetricsDropped(Dropped)
}

// A Dropped describes the operations of one run of a hook on one metric that were ignored for one reason. If there
// are too many metrics, one Dropped describes the operations on all metrics that could not be created; Name is the
// first of these metrics.
type Dropped struct {
	Module, Hook string
	// Name is the name of the metric. Reason is one word that says why the operations were ignored; it is the value
	// of a label. The field Why is the same reason as a text for people.
	Name, Reason, Why string
	// Operations is the number of ignored operations. It is 0 if the operations were applied, but with other
	// histogram buckets than the hook has written.
	Operations int
}

// A Recorder parses the metric operations of hooks and applies them to the metrics in the store.
type Recorder struct {
	Log      zerolog.Logger
	Observer Observer
	// Prefix replaces {PREFIX} in the names of metrics.
	Prefix string
	// If UngroupedExpire is true, a run of a hook that writes metrics without a group replaces all metrics without a
	// group that the hook has written before.
	UngroupedExpire bool
}

// Parser returns the function that parses the metrics file of a hook. If UngroupedExpire is set, the function puts
// metrics without a group in a group that only this hook has.
func (r *Recorder) Parser(module, hook string) func(text []byte) (Operations, error) {
	return func(text []byte) (Operations, error) {
		ops, err := series.Parse(text, r.Prefix)
		if r.UngroupedExpire {
			for i := range ops {
				if ops[i].Group == "" {
					ops[i].Group = graph.Subject{Module: module, Hook: hook}.String()
				}
			}
		}
		return ops, err
	}
}

// Record applies the operations of one run of a hook. First it deletes the series of all hooks in each group that the
// operations name. After that it applies the operations in order. If the hook was removed during the run, Record
// ignores the operations, because nothing would delete their series later.
func (r *Recorder) Record(tx *store.Tx, module, hook string, ops Operations) error {
	if len(ops) == 0 || tx.Get(store.HookKey(module, hook)) == nil {
		return nil
	}
	rec := recording{
		families: newFamilies(tx), owner: series.Owner{Module: module, Hook: hook}, groups: map[string]*group{},
	}
	for _, op := range ops {
		if err := rec.openGroup(op.Group); err != nil {
			return err
		}
	}
	for _, op := range ops {
		if err := rec.apply(op); err != nil {
			return err
		}
	}
	if len(rec.dropped) > 0 {
		tx.OnCommit(func() { r.reportDropped(rec.dropped) })
	}
	return rec.save()
}

// maxLogLines is the maximum number of dropped metrics that are logged for one run.
const maxLogLines = 10

// reportDropped logs the ignored operations and reports them to the observer.
func (r *Recorder) reportDropped(all []Dropped) {
	for i, d := range all {
		if d.Operations > 0 {
			r.Observer.MetricsDropped(d)
		}
		if i == maxLogLines {
			r.Log.Warn().Str("module", d.Module).Str("hook", d.Hook).Int("metrics", len(all)-i).
				Msg("further metric operations of the hook were ignored or changed")
		}
		if i >= maxLogLines {
			continue
		}
		r.Log.Warn().Str("module", d.Module).Str("hook", d.Hook).Str("metric", d.Name).Int("operations", d.Operations).
			Str("reason", d.Why).Msg("metric operations of a hook were ignored or changed")
	}
}

// A recording is the change of metrics by one run of a hook, in one transaction.
type recording struct {
	*families
	owner   series.Owner
	groups  map[string]*group // by name
	dropped []Dropped
}

// openGroup reads the group called name for the hook of the recording, and deletes the series of all hooks in this
// group. If name is empty, it deletes nothing, because metrics without a group do not expire.
func (r *recording) openGroup(name string) error {
	if r.groups[name] != nil {
		return nil
	}
	g, err := newGroup(r.tx, r.owner, name)
	if err != nil {
		return err
	}
	r.groups[name] = g
	if name == "" {
		return nil
	}
	if err := g.expire(r.families); err != nil {
		return err
	}
	for k := range r.tx.Range(store.ShardsOf(name)) {
		if g.owns(k) {
			continue
		}
		if err := r.deleteShard(k); err != nil {
			return err
		}
	}
	return nil
}

// apply applies op. If op cannot be applied, apply ignores it and records the reason.
func (r *recording) apply(op series.Op) error {
	own := r.groups[op.Group]
	if op.Action == series.Expire {
		return own.expire(r.families)
	}
	f, err := r.family(op.Name)
	if err != nil {
		return err
	}
	if f.Series == 0 {
		if reason, why, err := r.refusal(op); reason != "" || err != nil {
			r.drop(op, reason, why, 1)
			return err
		}
		f.Family = series.FamilyOf(op)
	}
	switch {
	case f.Type != op.Type():
		r.drop(op, "type", fmt.Sprintf("it is a %s, and cannot become a %s before all of its series are deleted", f.Type, op.Type()), 1)
		return nil
	case !slices.Equal(f.Buckets, op.Buckets):
		r.drop(op, "buckets", fmt.Sprintf("the values were counted in its existing buckets %v", f.Buckets), 0)
	}
	return r.applyTo(own, f, op)
}

// applyTo applies op to its series in g. If g does not have the series, applyTo adds the series to g and to the count
// of f. It ignores op if a limit is reached.
func (r *recording) applyTo(g *group, f *family, op series.Op) error {
	entry := r.owner.Entry(op)
	shard, err := g.shard(entry.Place())
	if err != nil {
		return err
	}
	if !shard.Has(entry) {
		switch cost := entry.Cost(); {
		case f.Series >= maxSeries:
			r.drop(op, "series", fmt.Sprintf("it already has %d series, the maximum; look for a label with an unbounded set of values", maxSeries), 1)
			return nil
		case g.size+cost > maxGroupBytes:
			r.drop(op, "size", "the hook's series in this group have reached the limit of 4 MiB", 1)
			return nil
		default:
			g.size += cost
		}
		r.add(f, 1)
	}
	shard.Apply(entry, f.Family)
	return nil
}

// drop records that op was ignored, or that op was applied with other histogram buckets than the hook has written. In
// the first case, the argument operations is 1, and in the second case it is 0.
func (r *recording) drop(op series.Op, reason, why string, operations int) {
	for i, d := range r.dropped {
		if d.Name == op.Name && d.Reason == reason || reason == "names" && d.Reason == reason {
			r.dropped[i].Operations += operations
			return
		}
	}
	r.dropped = append(r.dropped, Dropped{
		Module: r.owner.Module, Hook: r.owner.Hook, Name: op.Name, Reason: reason, Why: why, Operations: operations,
	})
}

// save writes the shards and families that have changed.
func (r *recording) save() error {
	for _, g := range r.groups {
		if err := g.save(); err != nil {
			return err
		}
	}
	return r.families.save()
}
