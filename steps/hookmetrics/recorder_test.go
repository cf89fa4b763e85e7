package hookmetrics

import (
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
	"addon-operator/workflow/graph"
)

// A fixture has a store, a recorder, and the operations that the recorder has dropped.
type fixture struct {
	t        testing.TB
	db       *store.DB
	recorder *Recorder
	dropped  []string
}

func newFixture(t testing.TB, db *store.DB) *fixture {
	t.Helper()
	f := &fixture{t: t, db: db}
	f.recorder = &Recorder{Log: zerolog.Nop(), Observer: f, Prefix: "p_"}
	return f
}

func (f *fixture) MetricsDropped(d Dropped) {
	f.dropped = append(f.dropped, fmt.Sprintf("%s %s ×%d", d.Name, d.Reason, d.Operations))
}

func (f *fixture) update(fn func(tx *store.Tx) error) {
	f.t.Helper()
	if err := f.db.Update(fn); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) parse(module, hook, text string) Operations {
	f.t.Helper()
	ops, err := f.recorder.Parser(module, hook)([]byte(text))
	if err != nil {
		f.t.Fatal(err)
	}
	return ops
}

// run simulates one run of a hook that writes text to its metrics file. The argument hook has the form module/hook.
func (f *fixture) run(hook, text string) {
	f.t.Helper()
	module, name, _ := strings.Cut(hook, "/")
	ops := f.parse(module, name, text)
	f.update(func(tx *store.Tx) error {
		if tx.Get(store.HookKey(module, name)) == nil {
			if err := store.Save(tx, store.HookKey(module, name), store.Hook{}); err != nil {
				return err
			}
		}
		return f.recorder.Record(tx, module, name, ops)
	})
}

// page returns the samples on the metrics page.
func (f *fixture) page() []string {
	f.t.Helper()
	w := httptest.NewRecorder()
	series.Page(func() (snapshot series.Snapshot, err error) {
		err = f.db.View(func(tx *store.Tx) error { snapshot, err = Snapshot(tx); return err })
		return snapshot, err
	}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusOK {
		f.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	var samples []string
	for line := range strings.Lines(w.Body.String()) {
		if !strings.HasPrefix(line, "#") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

func (f *fixture) want(claim string, samples ...string) {
	f.t.Helper()
	if d := cmp.Diff(samples, f.page()); d != "" {
		f.t.Errorf("%s (-want +got):\n%s", claim, d)
	}
	f.checkFamilies()
}

// checkFamilies checks that the number of series in the record of each family is the number of its series in all
// shards, and that no shard is empty.
func (f *fixture) checkFamilies() {
	f.t.Helper()
	if err := f.db.View(func(tx *store.Tx) error {
		count := map[string]int{}
		for k := range tx.Range(store.Shards()) {
			s, err := loadShard(tx, k)
			if err != nil {
				return err
			}
			if len(s.Count()) == 0 {
				f.t.Errorf("shard %s is empty", k)
			}
			for name, n := range s.Count() {
				count[name] += n
			}
		}
		families := map[string]int{}
		for k := range tx.Range(store.Families()) {
			family, _, err := store.Load[series.Family](tx, k)
			if err != nil {
				return err
			}
			p, err := k.Parts()
			if err != nil {
				return err
			}
			_ = p.Str()
			families[p.Str()] = family.Series
		}
		if d := cmp.Diff(count, families); d != "" {
			f.t.Errorf("number of series in shards and families (-shards +families):\n%s", d)
		}
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
}

func TestCountersWithoutAGroupAccumulateAndGaugesStay(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.Memory(t))
	f.run("mod/h.sh", `{"name":"runs","add":1}{"name":"{PREFIX}size","set":5}`)
	f.run("mod/h.sh", `{"name":"runs","add":1}{"name":"runs","add":0.5,"labels":{"kind":"pod"}}`)
	f.run("mod/h.sh", ``)
	f.run("/g.sh", `{"name":"runs","add":9}`)
	f.want("after four runs",
		`p_size{hook="h.sh",module="mod"} 5`,
		`runs{hook="g.sh",kind="",module=""} 9`, `runs{hook="h.sh",kind="",module="mod"} 2`, `runs{hook="h.sh",kind="pod",module="mod"} 0.5`,
	)
}

func TestAGroupExpiresForAllHooksBeforeTheRunIsApplied(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.Memory(t))
	f.run("a/h.sh", `{"group":"g","name":"x","set":1,"labels":{"of":"a"}}{"group":"other","name":"x","set":2}{"name":"x","set":3,"labels":{"of":"none"}}`)
	f.run("b/h.sh", `{"group":"g","name":"y","add":4}{"group":"g","name":"y","add":4}`)
	f.want("b's run expired a's series of the group",
		`x{hook="h.sh",module="a",of=""} 2`, `x{hook="h.sh",module="a",of="none"} 3`, `y{hook="h.sh",module="b"} 8`)
	f.run("b/h.sh", `{"group":"g","name":"y","add":1}`)
	f.want("a counter in a group starts at zero again", `x{hook="h.sh",module="a",of=""} 2`, `x{hook="h.sh",module="a",of="none"} 3`, `y{hook="h.sh",module="b"} 1`)
	f.run("a/h.sh", `{"group":"g","name":"z","set":1}{"group":"g","action":"expire"}{"group":"g","name":"y","set":6}`)
	f.want("expire in the middle deletes the series before it, and the name is free for another type",
		`x{hook="h.sh",module="a",of=""} 2`, `x{hook="h.sh",module="a",of="none"} 3`, `y{hook="h.sh",module="a"} 6`)
	f.run("a/h.sh", `{"group":"g","action":"expire"}{"group":"other","action":"expire"}{"group":"never","action":"expire"}`)
	f.want("all groups are expired", `x{hook="h.sh",module="a",of="none"} 3`)
	if f.dropped != nil {
		t.Error(f.dropped)
	}
}

func TestAMetricKeepsItsTypeWhileItHasSeries(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.Memory(t))
	f.run("a/h.sh", `{"name":"x","add":1}{"name":"x","set":9}{"name":"h","action":"observe","value":3,"buckets":[1,5]}`)
	f.run("b/h.sh", `{"name":"x","set":9}{"name":"x","set":8}{"name":"h_count","set":1}{"name":"h","action":"observe","value":3,"buckets":[2]}`)
	f.run("b/h.sh", `{"name":"part_sum","set":1}{"name":"part","action":"observe","value":1,"buckets":[1]}`)
	f.want("contradictory operations are dropped, and the existing buckets are used",
		`h_bucket{hook="h.sh",module="a",le="1"} 0`, `h_bucket{hook="h.sh",module="a",le="5"} 1`, `h_bucket{hook="h.sh",module="a",le="+Inf"} 1`,
		`h_sum{hook="h.sh",module="a"} 3`, `h_count{hook="h.sh",module="a"} 1`,
		`h_bucket{hook="h.sh",module="b",le="1"} 0`, `h_bucket{hook="h.sh",module="b",le="5"} 1`, `h_bucket{hook="h.sh",module="b",le="+Inf"} 1`,
		`h_sum{hook="h.sh",module="b"} 3`, `h_count{hook="h.sh",module="b"} 1`,
		`part_sum{hook="h.sh",module="b"} 1`, `x{hook="h.sh",module="a"} 1`,
	)
	if d := cmp.Diff([]string{"x type ×1", "x type ×2", "h_count name ×1", "part name ×1"}, f.dropped); d != "" {
		t.Errorf("dropped (-want +got):\n%s", d)
	}
	f.update(func(tx *store.Tx) error {
		return Forget(tx, func(s graph.Subject) bool { return s.Module == "a" })
	})
	f.run("b/h.sh", `{"name":"x","set":9}`)
	if !slices.Contains(f.page(), `x{hook="h.sh",module="b"} 9`) {
		t.Error("the name is not free after its last series was deleted", f.page())
	}
	f.checkFamilies()
}

func TestOperationsOfARemovedHookAreIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.Memory(t))
	f.run("a/h.sh", `{"name":"x","set":1}`)
	f.update(func(tx *store.Tx) error {
		tx.Delete(store.HookKey("a", "h.sh"))
		return Forget(tx, func(s graph.Subject) bool { return s.Module == "a" && s.Hook == "h.sh" })
	})
	f.want("after the hook was removed")
	f.update(func(tx *store.Tx) error {
		return f.recorder.Record(tx, "a", "h.sh", f.parse("a", "h.sh", `{"name":"x","set":1}`))
	})
	f.want("after the end of a run that began before")
}

func TestMetricsWithoutAGroupExpireIfConfigured(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.Memory(t))
	f.recorder.UngroupedExpire = true
	f.run("a/h.sh", `{"name":"x","add":1,"labels":{"of":"a"}}{"name":"y","add":1}`)
	f.run("b/h.sh", `{"name":"x","add":1}`)
	f.run("a/h.sh", `{"name":"y","add":1}`)
	f.run("a/h.sh", ``)
	f.want("a's second run expired what a's first wrote", `x{hook="h.sh",module="b"} 1`, `y{hook="h.sh",module="a"} 1`)
}

func TestSeriesAndNamesAreLimited(t *testing.T) {
	t.Parallel()
	f := newFixture(t, storetest.Memory(t))
	var many, names strings.Builder
	for i := range maxSeries + 5 {
		fmt.Fprintf(&many, `{"name":"x","set":1,"labels":{"of":"%d"}}`, i)
	}
	for i := range maxFamilies + 5 {
		fmt.Fprintf(&names, `{"name":"x_%d","set":1}`, i)
	}
	f.run("a/h.sh", many.String())
	f.run("a/h.sh", `{"name":"x","set":2,"labels":{"of":"0"}}`)
	f.run("b/h.sh", names.String())
	if n := len(f.page()); n != maxSeries+maxFamilies-1 {
		t.Errorf("%d series are shown", n)
	}
	if d := cmp.Diff([]string{"x series ×5", "x_999 names ×6"}, f.dropped); d != "" {
		t.Errorf("dropped (-want +got):\n%s", d)
	}
	if !slices.Contains(f.page(), `x{hook="h.sh",module="a",of="0"} 2`) {
		t.Error("an existing series cannot be set any more")
	}
	f.run("a/big.sh", strings.Repeat(`{"name":"x_1","set":1,"labels":{"v":"`+strings.Repeat("v", 4000)+`"}}`, 2))
	f.checkFamilies()
}

// TestARestartChangesNothing records random outputs of hooks. It checks that the metrics are the same before and
// after a restart.
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
			f := newFixture(t, db)
			f.run(rapid.SampledFrom([]string{"a/h", "b/h", "/g"}).Draw(rt, "hook"), drawOps(rt))
			f.checkFamilies()
			before := f.page()
			if err := db.Close(); err != nil {
				rt.Fatal(err)
			}
			db = open()
			if d := cmp.Diff(before, newFixture(t, db).page()); d != "" {
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

func TestARunWithEqualMetricsWritesNothing(t *testing.T) {
	t.Parallel()
	memory := &store.Memory{}
	db, err := store.OpenMemory(memory, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	f := newFixture(t, db)
	text := `{"group":"g","name":"x","set":1,"labels":{"a":"b"}}{"name":"y","set":2}`
	f.run("a/h.sh", text)
	before := memory.Commits()
	f.run("a/h.sh", text)
	if n := memory.Commits() - before; n != 0 {
		t.Errorf("%d commits", n)
	}
	if f.run("a/h.sh", strings.Replace(text, "2", "3", 1)); memory.Commits() != before+1 {
		t.Error("a change is not written")
	}
}

// records returns the records of all shards, by key.
func (f *fixture) records() map[string]string {
	f.t.Helper()
	records := map[string]string{}
	if err := f.db.View(func(tx *store.Tx) error {
		for k, text := range tx.Range(store.Shards()) {
			records[string(k)] = string(text)
		}
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return records
}

func TestARunRewritesOnlyTheShardsThatItChanges(t *testing.T) {
	t.Parallel()
	const many = 3000
	f := newFixture(t, storetest.Memory(t))
	var text strings.Builder
	for i := range many {
		fmt.Fprintf(&text, `{"name":"x","add":1,"labels":{"of":"%d"}}`, i)
	}
	for _, group := range []string{"", "g"} {
		f.run("a/h.sh", strings.ReplaceAll(text.String(), `"name"`, `"group":"`+group+`","name"`))
	}
	before := f.records()
	if len(before) < 10 {
		t.Fatalf("the series are in %d records", len(before))
	}
	for i := 0; i < many; i += 100 {
		was := f.records()
		f.run("a/h.sh", fmt.Sprintf(`{"name":"x","add":1,"labels":{"of":"%d"}}`, i))
		var rewritten []string
		for k, text := range f.records() {
			if was[k] != text {
				rewritten = append(rewritten, text)
			}
		}
		if len(rewritten) != 1 || len(rewritten[0]) > 32<<10 {
			t.Fatalf("a run that changes one series rewrites %d records", len(rewritten))
		}
	}
	f.checkFamilies()
	page := f.page()
	for i := range many {
		// Each of the two groups has a series with this name and these labels. The page shows only the first one.
		if want := fmt.Sprintf(`x{hook="h.sh",module="a",of="%d"} %d`, i, 1+max(0, 1-i%100)); !slices.Contains(page, want) {
			t.Fatalf("%s is not shown", want)
		}
	}
	f.run("b/h.sh", `{"group":"g","action":"expire"}`)
	if got := f.records(); len(got) >= len(before) {
		t.Errorf("%d records after their group has expired, %d before", len(got), len(before))
	}
	f.run("a/h.sh", `{"group":"g","name":"y","set":1}`)
	f.checkFamilies()
	f.update(func(tx *store.Tx) error {
		return Forget(tx, func(s graph.Subject) bool { return s.Module == "a" })
	})
	if got := f.records(); len(got) > 0 {
		t.Errorf("%d records of removed hooks are left", len(got))
	}
	f.checkFamilies()
}

// BenchmarkOneSeriesOfMany measures the transaction of a run that changes one of the many series of a hook.
func BenchmarkOneSeriesOfMany(b *testing.B) {
	db := storetest.Open(b)
	f := newFixture(b, db)
	var many strings.Builder
	for i := range maxSeries {
		fmt.Fprintf(&many, `{"name":"x","set":1,"labels":{"namespace":"default","pod":"a-pod-with-some-name-%d"}}`, i)
	}
	f.run("mod/h.sh", many.String())
	n := 0
	for b.Loop() {
		n++
		f.run("mod/h.sh", fmt.Sprintf(`{"name":"x","set":%d,"labels":{"namespace":"default","pod":"a-pod-with-some-name-%d"}}`, n, n%maxSeries))
	}
}

// BenchmarkGroupOfMany measures the transaction of a run that writes all series of a
// large group again.
func BenchmarkGroupOfMany(b *testing.B) {
	f := newFixture(b, storetest.Memory(b))
	ops := func(n int) Operations {
		var many strings.Builder
		for i := range maxSeries {
			fmt.Fprintf(&many, `{"group":"g","name":"x","set":%d,"labels":{"namespace":"default","pod":"a-pod-with-some-name-%d"}}`, n*(1/(i+1)), i)
		}
		return f.parse("mod", "h.sh", many.String())
	}
	f.run("mod/h.sh", `{"name":"y","set":1}`)
	two := []Operations{ops(1), ops(2)}
	n := 0
	for b.Loop() {
		n++
		f.update(func(tx *store.Tx) error { return f.recorder.Record(tx, "mod", "h.sh", two[n%2]) })
	}
}
