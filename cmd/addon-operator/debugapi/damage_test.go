package debugapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
)

func TestADamagedBindingIsAnErrorOfEachPageThatNeedsIt(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) { w.task() })
	save(t, db, map[string]any{
		string(store.ModuleKey("web")): store.Module{Enabled: true}, string(store.HookKey("web", "hooks/a.sh")): store.Hook{Config: json.RawMessage(`{}`)},
		string(store.BindingKey("web", "hooks/a.sh", "pods")): "damaged",
	})
	api := &API{DB: db, Now: time.Now, Snapshot: func(graph.Subject) []*kube.Object { return nil }}
	for _, path := range []string{"/hook/list", "/module/web/snapshots", "/hook/web/hooks/a.sh/snapshots"} {
		if status, text := ask(api.Routes(), path); status != http.StatusInternalServerError || !strings.Contains(text, "bindings") {
			t.Errorf("%s: status %d, %q", path, status, text)
		}
	}
	for _, path := range []string{"/queue/list", "/queue"} {
		if status, text := ask(api.Routes(), path); status != http.StatusOK {
			t.Errorf("%s: status %d, %q", path, status, text)
		}
	}
}

func TestAQueueIsListedWithoutTheTasksThatCannotBeRead(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		w.task()
		w.task()
		w.add(func(_ *store.Tx, task *store.Task) { task.Slot, task.Due = 0, twelve.Add(-time.Second) })
	})
	save(t, db, map[string]any{
		string(store.QueueKey("side").Uint(store.FirstSlot).Uint32(1)): "damaged", string(store.QueueKey("lost").Uint(store.FirstSlot).Uint32(1)): "damaged",
		string(store.At(store.Deferred).Str("")): "damaged", string(store.At(store.Lanes).Str("shut").Str("side").Str("web").Str("").Str("module-run")): "damaged",
	})
	const want = `Queue 'lost': length 1, status: 'no task can be read, see addon-operator status'
     and 1 more

Queue 'side': length 3, status: 'waits'
  1. module-run:side:web [1-1]
  2. module-run:side:web [1-2]
     and 1 more

Later, in no queue yet:
  1. module-run:side:web [1-3], due now
     and 1 more

Empty queues: 'main'

Summary:
- 'main' queue: empty.
- other queues: 4 tasks in 2 queues.
- in all: 6 tasks.
`
	got := list(t, db, false).Text(inspect.Layout{Width: inspect.Unlimited, Whole: true})
	if diff := cmp.Diff(want, strings.ReplaceAll(got, "  [", " [")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// If a damaged record made a scrape fail, no alert about any other problem could fire.
func TestAScrapeCountsADamagedRecordAndHasTheRest(t *testing.T) {
	t.Parallel()
	for name, damaged := range map[string]store.Key{
		"a binding":            store.BindingKey("web", "hooks/a.sh", "pods"),
		"the content in force": store.AppliedConfigKey(),
		"the head of a queue":  store.QueueKey("side").Uint(1).Uint32(1),
		"a problem":            store.At(store.Problems).Str(string(store.FailingFilter)).Str("web"),
	} {
		db := queued(t, func(w *queueWriter) { w.task() })
		save(t, db, map[string]any{
			string(store.ModuleKey("web")):                           store.Module{Enabled: true, Broken: "no values.yaml"},
			string(store.BindingKey("web", "hooks/a.sh", "secrets")): store.Binding{Kind: store.Kubernetes, Queue: "secrets"},
			string(damaged): "damaged",
		})
		api := &API{DB: db, Now: time.Now, Engine: new(workflow.Engine), Snapshot: func(graph.Subject) []*kube.Object { return nil }}
		s, err := api.State()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		broken, unreadable := metrics.Problem{Kind: string(inspect.KindBroken), Module: "web"}, metrics.Problem{Kind: string(store.DamagedRecord)}
		if s.Problems[broken] != 1 || s.Problems[unreadable] != 1 || len(s.Bindings) != 1 || len(s.Modules) != 1 || len(s.Queues) != 3 {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestADamagedReleaseIsAnErrorOfTheMonitoredObjectsOnly(t *testing.T) {
	t.Parallel()
	db := queued(t, func(*queueWriter) {})
	save(t, db, map[string]any{string(store.ModuleKey("web")): store.Module{Enabled: true}, string(store.ReleaseKey("web")): "damaged"})
	h := (&API{DB: db, Now: time.Now}).Routes()
	for path, want := range map[string]int{"/module/list": http.StatusOK, "/module/resource-monitor": http.StatusInternalServerError} {
		if status, text := ask(h, path); status != want {
			t.Errorf("%s: status %d, want %d: %s", path, status, want, text)
		}
	}
}

func TestEnabledModulesAreSortedByNameAndModulesByTheirOrder(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	save(t, db, map[string]any{
		string(store.ModuleKey("z")): store.Module{Enabled: true, Order: 10}, string(store.ModuleKey("long-name")): store.Module{Enabled: true, Order: 10},
		string(store.ModuleKey("a")): store.Module{Enabled: true, Order: 20}, string(store.ModuleKey("b")): store.Module{Order: 5},
	})
	list, ok := decoded(t, (&API{DB: db, Now: time.Now}).Routes(), "/module/list.json").(map[string]any)
	if !ok {
		t.Fatalf("the list is %v", list)
	}
	var names []any
	all, _ := list["modules"].([]any)
	for _, m := range all {
		if module, ok := m.(map[string]any); ok {
			names = append(names, module["name"])
		}
	}
	if diff := cmp.Diff([]any{"a", "long-name", "z"}, list["enabledModules"]) + cmp.Diff([]any{"b", "long-name", "z", "a"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestAMaskedValueHasTheDateOfItsLastChange requests pages with a secret that the ConfigMap sets and a hook has
// patched. In the values of the module, the mask of the secret must have the date of the patch.
func TestAMaskedValueHasTheDateOfItsLastChange(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	saved, err := json.Marshal([]values.Saved{{
		Op: values.Op{Op: "add", Path: "/web/password", Value: json.RawMessage(`"hunter2"`)}, Hook: "web/a.sh", Origin: values.Origin{At: at},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h := valuesOfStore(t, map[string]any{
		string(store.ModuleKey("web")):   store.Module{Enabled: true},
		string(store.AppliedConfigKey()): store.AppliedConfig{Config: []byte(`{"sections":{"web":{"password":"hunter1"},"global":{"password":"hunter0"}}}`)},
		string(store.SavedKey("web")):    string(saved),
	})
	marks := regexp.MustCompile(`\(redacted[^)]*\)`)
	for path, want := range map[string]int{ // the number of masks with the date of the patch
		"/module/web/values": 1, "/module/web/values?global=true": 1, "/module/web/config": 0, "/module/web/config?global=true": 0, "/module/web/origins": 0, "/global/values": 0,
	} {
		_, text := ask(h, path)
		dated := 0
		for _, mark := range marks.FindAllString(text, -1) {
			if strings.Contains(mark, "since 2026-03-04 05:06Z") {
				dated++
			}
		}
		if dated != want || !marks.MatchString(text) {
			t.Errorf("%s has %d marks with the date, want %d:\n%s", path, dated, want, text)
		}
	}
}

func TestAnObjectOfASnapshotHasTheFieldsThatAreKnown(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	saveWeb(t, db)
	h := (&API{DB: db, Now: time.Now, Snapshot: func(s graph.Subject) []*kube.Object {
		if s.Binding == "secrets" {
			return nil
		}
		return []*kube.Object{
			{Name: "full", Namespace: "shop", Raw: json.RawMessage(`{"kind":"Pod"}`), FilterResult: json.RawMessage(`null`)}, {Name: "bare"},
		}
	}}).Routes()
	type object = map[string]any
	want := object{"hooks/pods.sh": []any{
		object{"binding": "pods", "queue": "pods", "kind": "Pod", "count": 2.0, "objects": []any{
			object{"name": "full", "kind": "Pod", "namespace": "shop", "object": object{"kind": "Pod"}, "filterResult": nil}, object{"name": "bare", "kind": "Pod"},
		}},
		object{"binding": "secrets", "queue": "main", "kind": "Secret", "count": 0.0, "objects": []any{}},
	}}
	got, _ := decoded(t, h, "/module/web/snapshots.json?show-secrets=true").(object)
	if all, ok := got["hooks/pods.sh"].([]any); ok { // the answer has the bindings in the order of their keys in the store
		slices.SortFunc(all, func(a, b any) int { return strings.Compare(toJSON(t, a), toJSON(t, b)) })
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAChartIsRenderedAsTheQueryRequires(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	saveWeb(t, db)
	asked := ""
	h := (&API{DB: db, Now: time.Now, Render: func(_ context.Context, module string, loose, withReleased bool) (string, string, error) {
		asked = module
		if loose {
			asked += " loose"
		}
		if withReleased {
			asked += " released"
		}
		return "a: 1\n---\nb: 2\n", "a: 1\n", nil
	}}).Routes()
	for query, want := range map[string]string{"": "web", "?debug=true": "web loose", "?diff=true": "web released", "?diff=true&debug=true": "web loose released", "?diff=yes&debug=1": "web"} {
		_, text := ask(h, "/module/web/render"+query)
		if asked != want || !strings.Contains(query, "diff=true") && text != "---\na: 1\n---\nb: 2\n" {
			t.Errorf("%q asks for %q, want %q, and answers %q", query, asked, want, text)
		}
	}
}

func TestAListOfQueuesIsTextWithABlankLineAfterEachPart(t *testing.T) {
	t.Parallel()
	db := queued(t, func(w *queueWriter) {
		w.add(func(_ *store.Tx, task *store.Task) { task.Queue = "main" })
		w.task()
		w.add(func(_ *store.Tx, task *store.Task) { task.Slot, task.Due = 0, twelve.Add(-time.Second) })
	})
	save(t, db, map[string]any{string(store.BindingKey("web", "h", "b")): store.Binding{Queue: "idle"}})
	const want = `Queue 'main': length 1, status: 'waits'
  1. module-run:main:web  [1-1]

Queue 'side': length 1, status: 'waits'
  1. module-run:side:web  [1-2]

Later, in no queue yet:
  1. module-run:side:web  [1-3], due now

Empty queues: 'idle'

Summary:
- 'main' queue: 1 task.
- other queues: 1 task in 1 queue.
- in all: 3 tasks.
`
	got := list(t, db, false).Text(inspect.Layout{Width: inspect.Unlimited, Whole: true})
	if diff := cmp.Diff(strings.ReplaceAll(want, "  [", " ["), strings.ReplaceAll(got, "  [", " [")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMissedTicksAreProblemsOfTheOperatorThatWorksOnly(t *testing.T) {
	t.Parallel()
	standby := func(name string) func() Standby {
		return func() Standby { return Standby{Text: name} }
	}
	for name, c := range map[string]struct {
		pages runPages
		want  bool
	}{
		"a running operator":        {runPages{engine: new(workflow.Engine)}, true},
		"the leader":                {runPages{engine: new(workflow.Engine), standby: standby("")}, true},
		"a standby":                 {runPages{engine: new(workflow.Engine), standby: standby("pod-2")}, false},
		"a stopped operator":        {runPages{}, false},
		"a stopped operator of two": {runPages{standby: standby("")}, false},
	} {
		if got := c.pages.reader().Missed != nil; got != c.want {
			t.Errorf("%s reads missed ticks: %t, want %t", name, got, c.want)
		}
	}
}

func TestAStandbySaysForWhomItWaits(t *testing.T) {
	t.Parallel()
	pages := runPages{db: queued(t, func(*queueWriter) {}), engine: new(workflow.Engine), standby: func() Standby { return Standby{Text: "pod-2 works"} }}
	_, err := pages.inspect(inspect.Request{})
	if status := (*routeError)(nil); !errors.As(err, &status) || status.status != http.StatusNotFound || !strings.HasPrefix(err.Error(), "standby: pod-2 works; ") {
		t.Errorf("without a run: error %v", err)
	}
	save(t, pages.db, map[string]any{string(store.RunKey(1)): store.Run{ID: 1, Graph: "lifecycle", Trigger: "reload requested"}})
	if run, err := pages.inspect(inspect.Request{Run: 1}); err != nil || run.Standby != "pod-2 works" {
		t.Errorf("a run: %+v, error %v", run, err)
	}
}

func TestAnEndedStreamIsNoReaderOfTheFeed(t *testing.T) {
	t.Parallel()
	api := &API{DB: storetest.Memory(t), Now: time.Now, Changes: new(ChangeFeed)}
	save(t, api.DB, map[string]any{string(store.RunKey(1)): store.Run{ID: 1, Graph: "lifecycle", Trigger: "reload requested"}})
	for _, path := range []string{"/workflow/timeline/follow", "/workflow/logs/follow", "/workflow/watch", "/workflow/watch?run=9"} {
		api.Routes().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if n := len(api.Changes.watchers); n > 0 {
			t.Errorf("after %s, the feed has %d readers", path, n)
		}
	}
}

func TestAStalledQueueDoesNotWakeFollowers(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	follower, stop := changes.watch(true)
	defer stop()
	changes.noteStuck("main", errors.New("no"))
	changes.noteProcessing("main")
	if woken(follower.wake) {
		t.Error("a reader of changes is woken without a change")
	}
}
