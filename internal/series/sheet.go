package series

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Type is what a metric is to Prometheus.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// A Family is what all series of one name have in common.
type Family struct {
	Type Type `json:"type"`
	// Buckets are a histogram's upper bounds, without the infinite one.
	Buckets []float64 `json:"buckets,omitempty"`
	// Series is how many series there are, in all sheets.
	Series int `json:"series"`
}

// FamilyOf returns the family that op makes when it is the first of its name.
func FamilyOf(op Op) Family {
	f := Family{Type: op.Type()}
	if f.Type == Histogram {
		f.Buckets = op.Buckets
	}
	return f
}

// Equal reports whether f and g say the same.
func (f Family) Equal(g Family) bool {
	return f.Type == g.Type && f.Series == g.Series && slices.Equal(f.Buckets, g.Buckets)
}

// Type returns the type of the metric that op is for.
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

// An Owner is a hook. Module is empty for a global one.
type Owner struct{ Module, Hook string }

// labels returns the labels every series of the owner has.
func (o Owner) labels() map[string]string {
	own := map[string]string{"hook": o.Hook}
	if o.Module != "" {
		own["module"] = o.Module
	}
	return own
}

// A value is one series. A histogram's Value is its sum, Counts the number of
// values in each bucket and beyond the last.
type value struct {
	Labels map[string]string `json:"l,omitempty"`
	Value  float64           `json:"v"`
	Counts []uint64          `json:"c,omitempty"`
}

// A Sheet is what one owner holds in one group. Make one with [NewSheet].
type Sheet struct {
	owner Owner
	names map[string]map[string]*value // by name, then by labels
	size  int
}

// Bounds of a sheet, and what a series takes of it beside its labels.
const (
	maxSheet   = 4 << 20
	seriesSize = 48
	countSize  = 4
)

// NewSheet returns an empty sheet of owner.
func NewSheet(owner Owner) *Sheet {
	return &Sheet{owner: owner, names: map[string]map[string]*value{}}
}

// ReadSheet returns the sheet of owner that [Sheet.Encode] has written.
func ReadSheet(owner Owner, text []byte) (*Sheet, error) {
	var rows map[string][]*value
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("metrics of hook %q of module %q: %w", owner.Hook, owner.Module, err)
	}
	s := NewSheet(owner)
	for name, all := range rows {
		s.names[name] = make(map[string]*value, len(all))
		for _, v := range all {
			if v == nil {
				continue
			}
			key := keyOf(v.Labels)
			s.names[name][key] = v
			s.size += v.size(key)
		}
	}
	return s, nil
}

// Encode writes the sheet, or nothing if it holds nothing. Equal sheets are
// equal texts.
func (s *Sheet) Encode() ([]byte, error) {
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
func (s *Sheet) Count() map[string]int {
	count := make(map[string]int, len(s.names))
	for name, all := range s.names {
		count[name] = len(all)
	}
	return count
}

// Has reports whether the series op is for is there.
func (s *Sheet) Has(op Op) bool {
	_, ok := s.names[op.Name][keyOf(s.labels(op))]
	return ok
}

// Fits reports whether the sheet has room for the series that op would begin.
func (s *Sheet) Fits(op Op) bool {
	v := value{Counts: make([]uint64, len(op.Buckets)+1)}
	return s.size+v.size(keyOf(s.labels(op))) <= maxSheet
}

// Apply does op, which is of a family's type and no Expire. A histogram counts in
// the family's buckets, whatever op's are.
func (s *Sheet) Apply(op Op, f Family) {
	all := s.names[op.Name]
	if all == nil {
		all = map[string]*value{}
		s.names[op.Name] = all
	}
	labels := s.labels(op)
	key := keyOf(labels)
	v := all[key]
	if v == nil {
		v = &value{Labels: labels}
		if f.Type == Histogram {
			v.Counts = make([]uint64, len(f.Buckets)+1)
		}
		all[key] = v
		s.size += v.size(key)
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

// labels returns op's labels as a sheet keeps them: without those that say
// nothing and those the owner gives every series.
func (s *Sheet) labels(op Op) map[string]string {
	own := s.owner.labels()
	labels := make(map[string]string, len(op.Labels))
	for name, value := range op.Labels {
		if _, is := own[name]; !is && value != "" {
			labels[name] = value
		}
	}
	return labels
}

func (v *value) size(key string) int { return seriesSize + len(key) + countSize*len(v.Counts) }

// finite returns v, or the number nearest to it that JSON can hold.
func finite(v float64) float64 { return max(-math.MaxFloat64, min(math.MaxFloat64, v)) }

// keyOf returns a text that no other labels have.
func keyOf(labels map[string]string) string {
	var key strings.Builder
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key.WriteString(name)
		key.WriteByte(0xff) // which no UTF-8 text holds
		key.WriteString(labels[name])
		key.WriteByte(0xff)
	}
	return key.String()
}
