package steps

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	"pgregory.net/rapid"

	"addon-operator/internal/series"
	"addon-operator/store"
	"addon-operator/store/storetest"
)

// a counting is a store in which runs of hooks count.
type counting struct {
	t       testing.TB
	db      *store.DB
	metrics *hookMetrics
	dropped []string
}

func newCounting(t testing.TB, db *store.DB) *counting {
	t.Helper()
	c := &counting{t: t, db: db}
	c.metrics = &hookMetrics{log: &logger{Logger: zerolog.Nop()}, prefix: "p_", observer: droppedMetrics{report: func(d Dropped) {
		c.dropped = append(c.dropped, fmt.Sprintf("%s %s ×%d", d.Name, d.Reason, d.Operations))
	}}}
	return c
}

// droppedMetrics observes metric operations that were ignored.
type droppedMetrics struct {
	silent
	report func(Dropped)
}

func (d droppedMetrics) MetricsDropped(dropped Dropped) { d.report(dropped) }

// run counts what a run of a hook, named by module/hook, has written.
func (c *counting) run(hook, text string) {
	c.t.Helper()
	module, name, _ := strings.Cut(hook, "/")
	ops, err := c.metrics.metricsOf(module, name)([]byte(text))
	if err == nil {
		err = c.db.Update(func(tx *store.Tx) error {
			if tx.Get(store.HookKey(module, name)) == nil {
				if err := store.Save(tx, store.HookKey(module, name), store.Hook{}); err != nil {
					return err
				}
			}
			return c.metrics.count(tx, module, name, ops)
		})
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// page returns the samples that are served.
func (c *counting) page() []string {
	c.t.Helper()
	w := httptest.NewRecorder()
	series.Page(func() (snapshot series.Snapshot, err error) {
		err = c.db.View(func(tx *store.Tx) error { snapshot, err = HookMetrics(tx); return err })
		return snapshot, err
	}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusOK {
		c.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var samples []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

func (c *counting) want(claim string, samples ...string) {
	c.t.Helper()
	if d := cmp.Diff(samples, c.page()); d != "" {
		c.t.Errorf("%s (-want +got):\n%s", claim, d)
	}
	c.sound()
}

// sound compares what families say with the shards.
func (c *counting) sound() {
	c.t.Helper()
	if err := c.db.View(func(tx *store.Tx) error {
		count := map[string]int{}
		for k := range tx.Range(store.Shards()) {
			s, err := loadShard(tx, k)
			if err != nil {
				return err
			}
			if len(s.Count()) == 0 {
				c.t.Errorf("%s holds nothing", k)
			}
			for name, n := range s.Count() {
				count[name] += n
			}
		}
		families := map[string]int{}
		for k := range tx.Range(store.Families()) {
			f, _, err := store.Load[series.Family](tx, k)
			if err != nil {
				return err
			}
			p, err := k.Parts()
			if err != nil {
				return err
			}
			_ = p.Str()
			families[p.Str()] = f.Series
		}
		if d := cmp.Diff(count, families); d != "" {
			c.t.Errorf("series there are, and families say (-are +say):\n%s", d)
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
}

func TestCountersWithoutAGroupAccumulateAndGaugesStay(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	c.run("mod/h.sh", `{"name":"runs","add":1}{"name":"{PREFIX}size","set":5}`)
	c.run("mod/h.sh", `{"name":"runs","add":1}{"name":"runs","add":0.5,"labels":{"kind":"pod"}}`)
	c.run("mod/h.sh", ``)
	c.run("/g.sh", `{"name":"runs","add":9}`)
	c.want("after four runs",
		`p_size{hook="h.sh",module="mod"} 5`,
		`runs{hook="g.sh",kind="",module=""} 9`, `runs{hook="h.sh",kind="",module="mod"} 2`, `runs{hook="h.sh",kind="pod",module="mod"} 0.5`,
	)
}

func TestAGroupThatOccursExpiresFirstAcrossHooks(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	c.run("a/h.sh", `{"group":"g","name":"x","set":1,"labels":{"of":"a"}}{"group":"other","name":"x","set":2}{"name":"x","set":3,"labels":{"of":"none"}}`)
	c.run("b/h.sh", `{"group":"g","name":"y","add":4}{"group":"g","name":"y","add":4}`)
	c.want("b's run expired a's series of the group",
		`x{hook="h.sh",module="a",of=""} 2`, `x{hook="h.sh",module="a",of="none"} 3`, `y{hook="h.sh",module="b"} 8`)
	c.run("b/h.sh", `{"group":"g","name":"y","add":1}`)
	c.want("a counter in a group starts at zero again", `x{hook="h.sh",module="a",of=""} 2`, `x{hook="h.sh",module="a",of="none"} 3`, `y{hook="h.sh",module="b"} 1`)
	c.run("a/h.sh", `{"group":"g","name":"z","set":1}{"group":"g","action":"expire"}{"group":"g","name":"y","set":6}`)
	c.want("expire in the middle takes what stands before it, and the name is free for another type",
		`x{hook="h.sh",module="a",of=""} 2`, `x{hook="h.sh",module="a",of="none"} 3`, `y{hook="h.sh",module="a"} 6`)
	c.run("a/h.sh", `{"group":"g","action":"expire"}{"group":"other","action":"expire"}{"group":"never","action":"expire"}`)
	c.want("all groups are expired", `x{hook="h.sh",module="a",of="none"} 3`)
	if c.dropped != nil {
		t.Error(c.dropped)
	}
}

func TestAMetricKeepsItsTypeAsLongAsThereIsAnyOfIt(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	c.run("a/h.sh", `{"name":"x","add":1}{"name":"x","set":9}{"name":"h","action":"observe","value":3,"buckets":[1,5]}`)
	c.run("b/h.sh", `{"name":"x","set":9}{"name":"x","set":8}{"name":"h_count","set":1}{"name":"h","action":"observe","value":3,"buckets":[2]}`)
	c.run("b/h.sh", `{"name":"part_sum","set":1}{"name":"part","action":"observe","value":1,"buckets":[1]}`)
	c.want("what contradicts is dropped, other buckets are those there are",
		`h_bucket{hook="h.sh",module="a",le="1"} 0`, `h_bucket{hook="h.sh",module="a",le="5"} 1`, `h_bucket{hook="h.sh",module="a",le="+Inf"} 1`,
		`h_sum{hook="h.sh",module="a"} 3`, `h_count{hook="h.sh",module="a"} 1`,
		`h_bucket{hook="h.sh",module="b",le="1"} 0`, `h_bucket{hook="h.sh",module="b",le="5"} 1`, `h_bucket{hook="h.sh",module="b",le="+Inf"} 1`,
		`h_sum{hook="h.sh",module="b"} 3`, `h_count{hook="h.sh",module="b"} 1`,
		`part_sum{hook="h.sh",module="b"} 1`, `x{hook="h.sh",module="a"} 1`,
	)
	if d := cmp.Diff([]string{"x type ×1", "x type ×2", "h_count name ×1", "part name ×1"}, c.dropped); d != "" {
		t.Errorf("dropped (-want +got):\n%s", d)
	}
	if err := c.db.Update(func(tx *store.Tx) error {
		return forgetMetrics(tx, func(s store.Subject) bool { return s.Module == "a" })
	}); err != nil {
		t.Fatal(err)
	}
	c.run("b/h.sh", `{"name":"x","set":9}`)
	if !slices.Contains(c.page(), `x{hook="h.sh",module="b"} 9`) {
		t.Error("the name is not free after its last series went", c.page())
	}
	c.sound()
}

func TestAHookThatHasGoneCountsNothing(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	c.run("a/h.sh", `{"name":"x","set":1}`)
	if err := c.db.Update(func(tx *store.Tx) error {
		_, err := foundHooks{}.keep(tx, "a")
		return err
	}); err != nil {
		t.Fatal(err)
	}
	c.want("it went with its metrics")
	ops, err := c.metrics.metricsOf("a", "h.sh")([]byte(`{"name":"x","set":1}`))
	if err == nil {
		err = c.db.Update(func(tx *store.Tx) error { return c.metrics.count(tx, "a", "h.sh", ops) })
	}
	if err != nil {
		t.Fatal(err)
	}
	c.want("a run that was under way has ended")
}

func TestMetricsStartAtZeroWithOtherCodeOrConfigOfTheHook(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	keep := func(digest, config string) {
		t.Helper()
		if err := c.db.Update(func(tx *store.Tx) error {
			_, err := foundHooks{Hooks: map[string]store.Hook{
				"h.sh": {Digest: digest, Config: json.RawMessage(config)}, "i.sh": {Digest: "i", Config: json.RawMessage(`{}`)},
			}}.keep(tx, "a")
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	keep("1", `{}`)
	c.run("a/h.sh", `{"name":"x","add":1}`)
	c.run("a/i.sh", `{"name":"x","add":5}`)
	c.run("b/h.sh", `{"name":"x","add":9}`)
	keep("1", `{}`)
	c.want("the same code goes on", `x{hook="h.sh",module="a"} 1`, `x{hook="h.sh",module="b"} 9`, `x{hook="i.sh",module="a"} 5`)
	keep("2", `{}`)
	c.want("the counter starts at zero with other code", `x{hook="h.sh",module="b"} 9`, `x{hook="i.sh",module="a"} 5`)
	c.run("a/h.sh", `{"name":"x","add":1}`)
	keep("2", `{"onStartup":1}`)
	c.want("the counter starts at zero with another config", `x{hook="h.sh",module="b"} 9`, `x{hook="i.sh",module="a"} 5`)
}

func TestMetricsWithoutAGroupExpireWhereThatIsAskedFor(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	c.metrics.ungroupedExpire = true
	c.run("a/h.sh", `{"name":"x","add":1,"labels":{"of":"a"}}{"name":"y","add":1}`)
	c.run("b/h.sh", `{"name":"x","add":1}`)
	c.run("a/h.sh", `{"name":"y","add":1}`)
	c.run("a/h.sh", ``)
	c.want("a's second run expired what a's first wrote", `x{hook="h.sh",module="b"} 1`, `y{hook="h.sh",module="a"} 1`)
}

func TestSeriesWithoutEndAreBounded(t *testing.T) {
	t.Parallel()
	c := newCounting(t, storetest.Memory(t))
	var many, names strings.Builder
	for i := range maxSeries + 5 {
		fmt.Fprintf(&many, `{"name":"x","set":1,"labels":{"of":"%d"}}`, i)
	}
	for i := range maxFamilies + 5 {
		fmt.Fprintf(&names, `{"name":"x_%d","set":1}`, i)
	}
	c.run("a/h.sh", many.String())
	c.run("a/h.sh", `{"name":"x","set":2,"labels":{"of":"0"}}`)
	c.run("b/h.sh", names.String())
	if n := len(c.page()); n != maxSeries+maxFamilies-1 {
		t.Errorf("%d series are shown", n)
	}
	if d := cmp.Diff([]string{"x series ×5", "x_999 names ×6"}, c.dropped); d != "" {
		t.Errorf("dropped (-want +got):\n%s", d)
	}
	if !slices.Contains(c.page(), `x{hook="h.sh",module="a",of="0"} 2`) {
		t.Error("what there is cannot be set any more")
	}
	c.run("a/big.sh", strings.Repeat(`{"name":"x_1","set":1,"labels":{"v":"`+strings.Repeat("v", 4000)+`"}}`, 2))
	c.sound()
}

// TestARestartChangesNothing: whatever hooks write, what is shown after the store
// was closed and opened again is what was shown before.
func TestARestartChangesNothing(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		memory := &store.Memory{}
		open := func() *store.DB {
			db, err := store.OpenMemory(memory, store.Options{})
			if err != nil {
				rt.Fatal(err)
			}
			return db
		}
		db := open()
		for range rapid.IntRange(1, 6).Draw(rt, "runs") {
			c := newCounting(t, db)
			c.run(rapid.SampledFrom([]string{"a/h", "b/h", "/g"}).Draw(rt, "hook"), drawOps(rt))
			c.sound()
			before := c.page()
			if err := db.Close(); err != nil {
				rt.Fatal(err)
			}
			db = open()
			if d := cmp.Diff(before, newCounting(t, db).page()); d != "" {
				rt.Fatalf("(-before +after):\n%s", d)
			}
		}
		if err := db.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

func drawOps(t *rapid.T) string {
	var text strings.Builder
	for range rapid.IntRange(0, 8).Draw(t, "operations") {
		text.WriteString(rapid.SampledFrom([]string{
			`{"name":"x","add":1}`, `{"name":"x","set":2,"group":"g"}`, `{"name":"x","add":3,"labels":{"l":"v"},"group":"g"}`,
			`{"name":"y","add":1,"group":"other"}`, `{"group":"g","action":"expire"}`, `{"group":"other","action":"expire"}`,
			`{"name":"y","action":"observe","value":2,"buckets":[1,3]}`, `{"name":"y_sum","set":1,"group":"g"}`,
		}).Draw(t, "operation"))
	}
	return text.String()
}

func TestARunThatSaysTheSameWritesNothing(t *testing.T) {
	t.Parallel()
	memory := &store.Memory{}
	db, err := store.OpenMemory(memory, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	c := newCounting(t, db)
	text := `{"group":"g","name":"x","set":1,"labels":{"a":"b"}}{"name":"y","set":2}`
	c.run("a/h.sh", text)
	before := memory.Commits()
	c.run("a/h.sh", text)
	if n := memory.Commits() - before; n != 0 {
		t.Errorf("%d commits", n)
	}
	if c.run("a/h.sh", strings.Replace(text, "2", "3", 1)); memory.Commits() != before+1 {
		t.Error("a change is not written")
	}
}

// records returns the records that hold series, by key.
func (c *counting) records() map[string]string {
	c.t.Helper()
	records := map[string]string{}
	if err := c.db.View(func(tx *store.Tx) error {
		for k, text := range tx.Range(store.Shards()) {
			records[string(k)] = string(text)
		}
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	return records
}

func TestARunRewritesWhatItChangesAndNotAllThatItsHookHolds(t *testing.T) {
	t.Parallel()
	const many = 3000
	c := newCounting(t, storetest.Memory(t))
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, `{"name":"x","add":1,"labels":{"of":"%d"}}`, i)
	}
	for _, group := range []string{"", "g"} {
		c.run("a/h.sh", strings.ReplaceAll(text.String(), `"name"`, `"group":"`+group+`","name"`))
	}
	before := c.records()
	if len(before) < 10 {
		t.Fatalf("the series stand in %d records", len(before))
	}
	for i := 0; i < many; i += 100 {
		was := c.records()
		c.run("a/h.sh", fmt.Sprintf(`{"name":"x","add":1,"labels":{"of":"%d"}}`, i))
		var rewritten []string
		for k, text := range c.records() {
			if was[k] != text {
				rewritten = append(rewritten, text)
			}
		}
		if len(rewritten) != 1 || len(rewritten[0]) > 32<<10 {
			t.Fatalf("a run that changes one series rewrites %d records", len(rewritten))
		}
	}
	c.sound()
	page := c.page()
	for i := range many {
		// The two hold series of the same name and labels: the first is shown.
		if want := fmt.Sprintf(`x{hook="h.sh",module="a",of="%d"} %d`, i, 1+max(0, 1-i%100)); !slices.Contains(page, want) {
			t.Fatalf("%s is not shown", want)
		}
	}
	c.run("b/h.sh", `{"group":"g","action":"expire"}`)
	if got := c.records(); len(got) >= len(before) {
		t.Errorf("%d records after their group has expired, %d before", len(got), len(before))
	}
	c.run("a/h.sh", `{"group":"g","name":"y","set":1}`)
	c.sound()
	if err := c.db.Update(func(tx *store.Tx) error {
		return forgetMetrics(tx, func(s store.Subject) bool { return s.Module == "a" })
	}); err != nil {
		t.Fatal(err)
	}
	if got := c.records(); len(got) > 0 {
		t.Errorf("%d records are left of hooks that went", len(got))
	}
	c.sound()
}

// BenchmarkOneSeriesOfMany is what the transaction of a run costs that changes one
// series of a hook which holds many.
func BenchmarkOneSeriesOfMany(b *testing.B) {
	db := storetest.Open(b)
	c := newCounting(b, db)
	var many strings.Builder
	for i := range maxSeries {
		fmt.Fprintf(&many, `{"name":"x","set":1,"labels":{"namespace":"default","pod":"a-pod-with-some-name-%d"}}`, i)
	}
	c.run("mod/h.sh", many.String())
	n := 0
	for b.Loop() {
		n++
		c.run("mod/h.sh", fmt.Sprintf(`{"name":"x","set":%d,"labels":{"namespace":"default","pod":"a-pod-with-some-name-%d"}}`, n, n%maxSeries))
	}
}

// BenchmarkGroupOfMany measures the transaction of a run that writes all series of a
// large group again.
func BenchmarkGroupOfMany(b *testing.B) {
	c := newCounting(b, storetest.Memory(b))
	ops := func(n int) []series.Op {
		var many strings.Builder
		for i := range maxSeries {
			fmt.Fprintf(&many, `{"group":"g","name":"x","set":%d,"labels":{"namespace":"default","pod":"a-pod-with-some-name-%d"}}`, n*(1/(i+1)), i)
		}
		ops, err := c.metrics.metricsOf("mod", "h.sh")([]byte(many.String()))
		if err != nil {
			b.Fatal(err)
		}
		return ops
	}
	c.run("mod/h.sh", `{"name":"y","set":1}`)
	two := [][]series.Op{ops(1), ops(2)}
	n := 0
	for b.Loop() {
		n++
		if err := c.db.Update(func(tx *store.Tx) error { return c.metrics.count(tx, "mod", "h.sh", two[n%2]) }); err != nil {
			b.Fatal(err)
		}
	}
}
