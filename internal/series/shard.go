package series

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Type is a Prometheus metric type.
type Type string

// The types of metrics that hooks can report.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// A Family has the properties that all series of one name have in common.
type Family struct {
	Type Type `json:"type"`
	// Buckets are the upper bounds of a histogram, without the infinite bound.
	Buckets []float64 `json:"buckets,omitempty"`
	// Series is the number of series with this name in all shards.
	Series int `json:"series"`
}

// FamilyOf returns a new family, without series, for op, which is the first operation on a metric.
func FamilyOf(op Op) Family {
	f := Family{Type: op.Type()}
	if f.Type == Histogram {
		f.Buckets = op.Buckets
	}
	return f
}

// Equal reports whether f and g are equal.
func (f Family) Equal(g Family) bool {
	return f.Type == g.Type && f.Series == g.Series && slices.Equal(f.Buckets, g.Buckets)
}

// Type returns the type of the metric that op changes.
func (op Op) Type() Type {
	switch op.Action {
	case Set:
		return Gauge
	case Observe:
		return Histogram
	default:
		return Counter
	}
}

// An Owner is a hook. Module is empty for a global hook.
type Owner struct{ Module, Hook string }

// labels returns the labels that every series of the owner has.
func (o Owner) labels() map[string]string {
	own := map[string]string{"hook": o.Hook}
	if o.Module != "" {
		own["module"] = o.Module
	}
	return own
}

// value is one series. For a histogram, Value is the sum of the observed values, and Counts has the number of
// observed values in each bucket. The last element of Counts is the number of observed values above all bounds.
type value struct {
	Labels map[string]string `json:"l,omitempty"`
	Value  float64           `json:"v"`
	Counts []uint64          `json:"c,omitempty"`
}

// A Shard contains the series of one owner in one group. If the owner has many series in the group, a Shard contains
// only the series whose places are in one range: see [Entry.Place]. [NewShard] creates a shard.
type Shard struct {
	owner Owner
	names map[string]map[string]*value // series by name, and then by the text that keyOf returns for their labels
	size  int
}

// The approximate sizes in bytes of a series without its labels and counts, and of each count.
const (
	seriesSize = 48
	countSize  = 4
)

// NewShard returns an empty shard of owner.
func NewShard(owner Owner) *Shard {
	return &Shard{owner: owner, names: map[string]map[string]*value{}}
}

// ReadShard decodes a shard of owner from a text that [Shard.Encode] returned.
func ReadShard(owner Owner, text []byte) (*Shard, error) {
	var rows map[string][]*value
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("metrics of hook %q of module %q: %w", owner.Hook, owner.Module, err)
	}
	s := NewShard(owner)
	for name, all := range rows {
		s.names[name] = make(map[string]*value, len(all))
		for _, v := range all {
			if v != nil {
				s.put(name, keyOf(v.Labels), v)
			}
		}
	}
	return s, nil
}

// CountIn returns the number of series of each name in a text that [Shard.Encode] returned.
func CountIn(text []byte) (map[string]int, error) {
	var rows map[string][]struct{}
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, err
	}
	count := make(map[string]int, len(rows))
	for name, all := range rows {
		count[name] = len(all)
	}
	return count, nil
}

// Encode encodes the shard, or returns nil if it is empty. Equal shards have equal texts.
func (s *Shard) Encode() ([]byte, error) {
	rows := map[string][]*value{}
	for name, all := range s.names {
		for _, key := range slices.Sorted(maps.Keys(all)) {
			rows[name] = append(rows[name], all[key])
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return json.Marshal(rows)
}

// Count returns the number of series of each name.
func (s *Shard) Count() map[string]int {
	count := make(map[string]int, len(s.names))
	for name, all := range s.names {
		count[name] = len(all)
	}
	return count
}

// Has reports whether the shard contains the series of e.
func (s *Shard) Has(e Entry) bool {
	_, ok := s.names[e.op.Name][e.key]
	return ok
}

// Apply applies e to its series in the shard, and adds the series if it does not exist. The operation of e must have
// the type of f, and its action must not be Expire. For a histogram, Apply uses the buckets of f and ignores those of
// e.
func (s *Shard) Apply(e Entry, f Family) {
	op := e.op
	v := s.names[op.Name][e.key]
	if v == nil {
		v = &value{Labels: e.labels}
		if f.Type == Histogram {
			v.Counts = make([]uint64, len(f.Buckets)+1)
		}
		s.put(op.Name, e.key, v)
	}
	switch f.Type {
	case Gauge:
		v.Value = op.Value
	case Histogram:
		i, _ := slices.BinarySearch(f.Buckets, op.Value)
		if i < len(v.Counts) {
			v.Counts[i]++
		}
		v.Value = finite(v.Value + op.Value)
	default:
		v.Value = finite(v.Value + op.Value)
	}
}

// put adds a series.
func (s *Shard) put(name, key string, v *value) {
	if s.names[name] == nil {
		s.names[name] = map[string]*value{}
	}
	s.names[name][key] = v
	s.size += v.size(key)
}

func (v *value) size(key string) int { return seriesSize + len(key) + countSize*len(v.Counts) }

// finite returns v. If v is infinite, finite returns the nearest number that JSON can represent.
func finite(v float64) float64 { return max(-math.MaxFloat64, min(math.MaxFloat64, v)) }

// keyOf returns a text that is different for each set of labels.
func keyOf(labels map[string]string) string {
	names := make([]string, 0, len(labels))
	for name := range labels {
		names = append(names, name)
	}
	slices.Sort(names)
	var key strings.Builder
	for _, name := range names {
		key.WriteString(name)
		key.WriteByte(0xff) // a separator, which cannot be a part of UTF-8 text
		key.WriteString(labels[name])
		key.WriteByte(0xff)
	}
	return key.String()
}
