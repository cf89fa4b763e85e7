package series_test

import (
	stdcmp "cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/series"
)

var hook = series.Owner{Module: "web", Hook: "a.sh"}

// fataler has the methods that unit tests and property tests have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
}

// encoded returns the text of a shard.
func encoded(t fataler, s *series.Shard) string {
	t.Helper()
	text, err := s.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestAnOperationChangesItsSeriesByTheTypeOfTheMetric(t *testing.T) {
	t.Parallel()
	op := func(action series.Action, value float64) series.Op {
		return series.Op{Action: action, Name: "x", Value: value, Buckets: []float64{1, 2, 5}}
	}
	for name, test := range map[string]struct {
		ops  []series.Op
		want string
	}{
		"a counter adds":                {[]series.Op{op(series.Add, 1), op(series.Add, 2.5)}, `{"x":[{"v":3.5}]}`},
		"a gauge is set":                {[]series.Op{op(series.Set, 1), op(series.Set, -2.5)}, `{"x":[{"v":-2.5}]}`},
		"a histogram counts":            {[]series.Op{op(series.Observe, 1), op(series.Observe, 1.5), op(series.Observe, 7)}, `{"x":[{"v":9.5,"c":[1,1,0,1]}]}`},
		"a bound belongs to its bucket": {[]series.Op{op(series.Observe, 2), op(series.Observe, 5)}, `{"x":[{"v":7,"c":[0,1,1,0]}]}`},
		"below all bounds":              {[]series.Op{op(series.Observe, -3)}, `{"x":[{"v":-3,"c":[1,0,0,0]}]}`},
		"a sum stays finite":            {[]series.Op{op(series.Add, math.MaxFloat64), op(series.Add, math.MaxFloat64)}, `{"x":[{"v":1.7976931348623157e+308}]}`},
		"a sum below stays finite": {
			[]series.Op{op(series.Observe, -math.MaxFloat64), op(series.Observe, -math.MaxFloat64)}, `{"x":[{"v":-1.7976931348623157e+308,"c":[2,0,0,0]}]}`,
		},
	} {
		s := series.NewShard(hook)
		family := series.FamilyOf(test.ops[0])
		for _, op := range test.ops {
			s.Apply(hook.Entry(op), family)
		}
		if got := encoded(t, s); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestAHistogramUsesTheBucketsOfItsFamily(t *testing.T) {
	t.Parallel()
	s := series.NewShard(hook)
	family := series.Family{Type: series.Histogram, Buckets: []float64{10}}
	for _, buckets := range [][]float64{{1, 2, 3}, nil, {10}} {
		s.Apply(hook.Entry(series.Op{Action: series.Observe, Name: "x", Value: 4, Buckets: buckets}), family)
	}
	if got := encoded(t, s); got != `{"x":[{"v":12,"c":[3,0]}]}` {
		t.Error(got)
	}
}

func TestSeriesWithOtherLabelsAreOtherSeries(t *testing.T) {
	t.Parallel()
	counter := series.Family{Type: series.Counter}
	s := series.NewShard(hook)
	add := func(name string, labels map[string]string) series.Entry {
		e := hook.Entry(series.Op{Action: series.Add, Name: name, Value: 1, Labels: labels})
		s.Apply(e, counter)
		return e
	}
	same := []map[string]string{
		{"a": "1"}, {"a": "1", "b": ""}, {"a": "1", "hook": "other"}, {"a": "1", "module": "other"}, // empty labels and the labels "hook" and "module" are omitted
	}
	for _, labels := range same {
		add("x", labels)
	}
	others := []map[string]string{nil, {"a": "2"}, {"b": "1"}, {"a": "1", "b": "2"}, {"a": "1b"}}
	for _, labels := range others {
		add("x", labels)
	}
	if !s.Has(add("y", map[string]string{"a": "1"})) || s.Has(hook.Entry(series.Op{Name: "z"})) || s.Has(hook.Entry(series.Op{Name: "x", Labels: map[string]string{"c": "1"}})) {
		t.Error("Has finds other series than those that were added")
	}
	if diff := cmp.Diff(map[string]int{"x": 1 + len(others), "y": 1}, s.Count()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := encoded(t, s); !strings.Contains(got, `{"l":{"a":"1"},"v":4}`) {
		t.Errorf("the equal series are not summed up: %s", got)
	}
}

func TestAGlobalHookMaySetTheLabelOfAModule(t *testing.T) {
	t.Parallel()
	global := series.Owner{Hook: "g.sh"}
	s := series.NewShard(global)
	s.Apply(global.Entry(series.Op{Action: series.Set, Name: "x", Value: 1, Labels: map[string]string{"module": "web", "hook": "other"}}), series.Family{Type: series.Gauge})
	if got := encoded(t, s); got != `{"x":[{"l":{"module":"web"},"v":1}]}` {
		t.Error(got)
	}
}

func TestEqualShardsHaveEqualTextsAndParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var entries []series.Entry
		for i := range rapid.IntRange(0, 200).Draw(t, "series") {
			entries = append(entries, hook.Entry(series.Op{
				Action: series.Set, Name: fmt.Sprintf("n%d", i%5), Value: float64(i), Labels: map[string]string{"l": strings.Repeat("x", 50) + fmt.Sprint(i)},
			}))
		}
		shard := func(entries []series.Entry) *series.Shard {
			s := series.NewShard(hook)
			for _, e := range entries {
				s.Apply(e, series.Family{Type: series.Gauge})
			}
			return s
		}
		shuffled := slices.Clone(entries)
		order := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 0)) //nolint:gosec // the order must be reproducible
		order.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		one, other := shard(entries), shard(shuffled)
		if a, b := encoded(t, one), encoded(t, other); a != b {
			t.Fatalf("%s and %s", a, b)
		}
		read, err := series.ReadShard(hook, []byte(encoded(t, one)))
		if len(entries) == 0 {
			read, err = series.NewShard(hook), nil // an empty shard has no text
		}
		if err != nil {
			t.Fatal(err)
		}
		wanted := one.Divide(7)
		for name, s := range map[string]*series.Shard{"in another order": other, "read again": read} {
			got := s.Divide(7)
			if len(got) != len(wanted) {
				t.Fatalf("%s: %d parts, want %d", name, len(got), len(wanted))
			}
			for i := range got {
				if got[i].From != wanted[i].From || encoded(t, got[i].Shard) != encoded(t, wanted[i].Shard) {
					t.Fatalf("%s: part %d from %d differs from that from %d", name, i, got[i].From, wanted[i].From)
				}
			}
		}
		count, err := series.CountIn([]byte(stdcmp.Or(encoded(t, one), "{}")))
		if err != nil || !maps.Equal(count, one.Count()) {
			t.Fatalf("%v series are counted in the text, %v in the shard; %v", count, one.Count(), err)
		}
	})
}

func TestALargeShardIsDividedIntoHalfFullParts(t *testing.T) {
	t.Parallel()
	entry := func(i int) series.Entry {
		return hook.Entry(series.Op{Action: series.Set, Name: "n", Value: 1, Labels: map[string]string{"l": fmt.Sprintf("%09d", i)}})
	}
	const size = 48 + 12 // bytes of each series: a constant, and its label with a name of 1 byte, a value of 9 bytes and two separators
	s := series.NewShard(hook)
	n := 0
	for ; (n+1)*size <= 16<<10; n++ {
		s.Apply(entry(n), series.Family{Type: series.Gauge})
	}
	if parts := s.Divide(3); len(parts) != 1 || parts[0].From != 3 || parts[0].Shard != s {
		t.Errorf("%d series of %d bytes have %d parts", n, size, len(parts))
	}
	s.Apply(entry(n), series.Family{Type: series.Gauge})
	var sizes []int
	last := uint64(0)
	for i, part := range s.Divide(3) {
		sizes = append(sizes, part.Shard.Count()["n"])
		if i == 0 && part.From != 3 || i > 0 && part.From <= last {
			t.Errorf("part %d is from %d, after %d", i, part.From, last)
		}
		last = part.From
	}
	half := (8<<10 + size - 1) / size // a part gets no further series as soon as it is half full
	if diff := cmp.Diff([]int{half, n + 1 - half}, sizes); diff != "" {
		t.Errorf("series of the parts (-want +got):\n%s", diff)
	}
}

func TestATextThatIsNoShardIsAnError(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "[]", `{"x":1}`, `{"x":[{"v":"1"}]}`, `{"x":[{"v":1}]`} {
		if s, err := series.ReadShard(hook, []byte(text)); s != nil || err == nil || !strings.HasPrefix(err.Error(), `metrics of hook "a.sh" of module "web": `) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for _, text := range []string{"", "[]", `{"x":1}`} {
		if count, err := series.CountIn([]byte(text)); count != nil || err == nil {
			t.Errorf("%q has %v series, %v", text, count, err)
		}
	}
	s, err := series.ReadShard(hook, []byte(`{"x":[null,{"v":1}],"y":null}`))
	if err != nil || s.Count()["x"] != 1 {
		t.Errorf("with nulls: %v, %v", s.Count(), err)
	}
}

func TestFamiliesDifferInTypeBucketsAndNumberOfSeries(t *testing.T) {
	t.Parallel()
	f := series.Family{Type: series.Histogram, Buckets: []float64{1, 2}, Series: 3}
	if !f.Equal(series.Family{Type: series.Histogram, Buckets: []float64{1, 2}, Series: 3}) || !(series.Family{}).Equal(series.Family{Buckets: []float64{}}) {
		t.Error("equal families differ")
	}
	for name, g := range map[string]series.Family{
		"type": {Type: series.Gauge, Buckets: []float64{1, 2}, Series: 3}, "bounds": {Type: series.Histogram, Buckets: []float64{1, 3}, Series: 3},
		"number of bounds": {Type: series.Histogram, Buckets: []float64{1}, Series: 3}, "series": {Type: series.Histogram, Buckets: []float64{1, 2}, Series: 4},
	} {
		if f.Equal(g) {
			t.Errorf("families with another %s are equal", name)
		}
	}
	for action, want := range map[series.Action]series.Type{series.Add: series.Counter, series.Set: series.Gauge, series.Observe: series.Histogram} {
		got := series.FamilyOf(series.Op{Action: action, Name: "x", Buckets: []float64{1}})
		if got.Type != want || (got.Buckets != nil) != (want == series.Histogram) || got.Series != 0 {
			t.Errorf("the family of %s is %+v", action, got)
		}
	}
}
