package series_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"addon-operator/internal/series"
)

func scrape(t testing.TB, snapshot series.Snapshot) string {
	t.Helper()
	w := httptest.NewRecorder()
	series.Page(func() (series.Snapshot, error) { return snapshot, nil }).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusOK {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// snapshotOf returns a snapshot with one shard for each owner. The shard is the result of the operations in the text
// of the owner.
func snapshotOf(t testing.TB, shards map[series.Owner]string) series.Snapshot {
	t.Helper()
	snapshot := series.Snapshot{Families: map[string]series.Family{}}
	for owner, text := range shards {
		ops, err := series.Parse([]byte(text), "")
		if err != nil {
			t.Fatal(err)
		}
		s := series.NewShard(owner)
		for _, op := range ops {
			if _, known := snapshot.Families[op.Name]; !known {
				snapshot.Families[op.Name] = series.FamilyOf(op)
			}
			s.Apply(owner.Entry(op), snapshot.Families[op.Name])
		}
		snapshot.Shards = append(snapshot.Shards, s)
	}
	return snapshot
}

func TestThePageIsWhatHooksCounted(t *testing.T) {
	t.Parallel()
	snapshot := snapshotOf(t, map[series.Owner]string{
		{Module: "mod", Hook: "hooks/a.sh"}: `
			{"name":"runs_total","add":1,"labels":{"kind":"pod"}}
			{"name":"runs_total","add":1.5,"labels":{"kind":"pod"}}
			{"name":"runs_total","add":1}
			{"name":"size","set":5,"labels":{"of":"x","hook":"mine","module":"mine"}}
			{"name":"size","set":-3,"labels":{"of":"x","none":""}}
			{"name":"took","action":"observe","value":0.5,"buckets":[1,2]}
			{"name":"took","action":"observe","value":1,"buckets":[1,2]}
			{"name":"took","action":"observe","value":2.5,"buckets":[1,2]}`,
		{Hook: "hooks/g.sh"}: `{"name":"runs_total","add":7,"labels":{"module":"of its own","zone":"z"}}`,
	})
	want := `# HELP runs_total runs_total
# TYPE runs_total counter
runs_total{hook="hooks/a.sh",kind="",module="mod",zone=""} 1
runs_total{hook="hooks/a.sh",kind="pod",module="mod",zone=""} 2.5
runs_total{hook="hooks/g.sh",kind="",module="of its own",zone="z"} 7
# HELP size size
# TYPE size gauge
size{hook="hooks/a.sh",module="mod",of="x"} -3
# HELP took took
# TYPE took histogram
took_bucket{hook="hooks/a.sh",module="mod",le="1"} 2
took_bucket{hook="hooks/a.sh",module="mod",le="2"} 2
took_bucket{hook="hooks/a.sh",module="mod",le="+Inf"} 3
took_sum{hook="hooks/a.sh",module="mod"} 4
took_count{hook="hooks/a.sh",module="mod"} 3
`
	if d := cmp.Diff(want, scrape(t, snapshot)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestSeriesWithTheSameLabelsAreShownOnce(t *testing.T) {
	t.Parallel()
	snapshot := snapshotOf(t, map[series.Owner]string{{Hook: "h"}: `{"name":"x","set":1}`})
	snapshot.Shards = append(snapshot.Shards, snapshotOf(t, map[series.Owner]string{{Hook: "h"}: `{"name":"x","set":2}`}).Shards...)
	if got := scrape(t, snapshot); !strings.Contains(got, `x{hook="h"} 1`) || strings.Contains(got, `x{hook="h"} 2`) {
		t.Error(got)
	}
}

func TestASnapshotThatCannotBeReadIsAnErrorOfThePage(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	series.Page(func() (series.Snapshot, error) { return series.Snapshot{}, errors.New("closed") }).
		ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), "closed") {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}

func TestAShardIsTheSameAfterItWasKept(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owner := series.Owner{Module: "m", Hook: "h"}
		families := map[string]series.Family{}
		kept, once := series.NewShard(owner), series.NewShard(owner)
		for range rapid.IntRange(0, 20).Draw(t, "operations") {
			op := series.Op{
				Action: rapid.SampledFrom([]series.Action{series.Add, series.Set, series.Observe}).Draw(t, "action"),
				Value:  rapid.Float64Range(0, 1e308).Draw(t, "value"),
				Labels: map[string]string{"a": rapid.SampledFrom([]string{"", "b", "c"}).Draw(t, "a"), "hook": rapid.String().Draw(t, "hook")},
			}
			op.Name = "of_" + string(op.Action)
			if op.Action == series.Observe {
				op.Buckets = []float64{1, 1e300}
			}
			families[op.Name] = series.FamilyOf(op)
			once.Apply(owner.Entry(op), families[op.Name])
			kept.Apply(owner.Entry(op), families[op.Name])
			text, err := kept.Encode()
			if err != nil {
				t.Fatal(err)
			}
			if kept, err = series.ReadShard(owner, text); err != nil {
				t.Fatal(err)
			}
		}
		a, err1 := once.Encode()
		b, err2 := kept.Encode()
		if string(a) != string(b) || err1 != nil || err2 != nil {
			t.Errorf("%s, %v\n%s, %v", a, err1, b, err2)
		}
	})
}

func BenchmarkScrapeTenThousandSeries(b *testing.B) {
	var text strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&text, `{"name":"pods","set":%d,"labels":{"pod":"a-pod-with-some-name-%d","namespace":"default"}}`, i, i)
	}
	snapshot := snapshotOf(b, map[series.Owner]string{{Hook: "h"}: text.String()})
	stored, err := snapshot.Shards[0].Encode()
	if err != nil {
		b.Fatal(err)
	}
	page := series.Page(func() (series.Snapshot, error) {
		s, err := series.ReadShard(series.Owner{Hook: "h"}, stored)
		snapshot.Shards[0] = s
		return snapshot, err
	})
	b.ReportAllocs()
	b.SetBytes(int64(len(stored)))
	for b.Loop() {
		page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
	}
}
