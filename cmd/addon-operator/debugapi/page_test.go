package debugapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/metrics"
	"addon-operator/store"
	"addon-operator/store/storetest"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

func TestAPageIsEncodedInItsFormat(t *testing.T) {
	t.Parallel()
	data := map[string]any{"name": "<web>", "order": 10}
	withText := Page{data, func(layout inspect.Layout) string {
		return fmt.Sprintf("%s, %d wide, whole %t\n", layout.Program, layout.Width, layout.Whole)
	}}
	const (
		asJSON = "{\n  \"name\": \"\\u003cweb\\u003e\",\n  \"order\": 10\n}\n"
		asYAML = "name: <web>\norder: 10\n"
		plain  = "text/plain; charset=utf-8"
	)
	for name, c := range map[string]struct {
		page   Page
		format string
		want   string
		header string
	}{
		"JSON":                        {withText, "json", asJSON, "application/json"},
		"YAML":                        {withText, "yaml", asYAML, plain},
		"text":                        {withText, "text", fmt.Sprintf("addon-operator, %d wide, whole true\n", inspect.Unlimited), plain},
		"no format":                   {withText, "", fmt.Sprintf("addon-operator, %d wide, whole true\n", inspect.Unlimited), plain},
		"text of a page without text": {Page{Data: data}, "text", asYAML, plain},
		"no format without text":      {Page{Data: data}, "", asYAML, plain},
		"no data":                     {Page{}, "json", "null\n", "application/json"},
	} {
		w := httptest.NewRecorder()
		if err := c.page.Write(w, c.format); err != nil || w.Body.String() != c.want || w.Header().Get("Content-Type") != c.header {
			t.Errorf("%s: %q of type %q, error %v, want %q of type %q", name, w.Body, w.Header().Get("Content-Type"), err, c.want, c.header)
		}
	}
	for _, format := range []string{"xml", "JSON", "json.json", "text.json"} {
		var out bytes.Buffer
		err := withText.Encode(&out, format)
		if want := fmt.Sprintf("format %q is not served here: ask for json, yaml or text", format); err == nil || err.Error() != want || out.Len() > 0 {
			t.Errorf("%s: %q, error %v", format, out.String(), err)
		}
	}
	if err := (Page{Data: make(chan int)}).Encode(new(bytes.Buffer), "json"); err == nil {
		t.Error("data that JSON cannot have is encoded")
	}
}

func TestTheFormatIsTheSuffixOfTheLastPartOfAPath(t *testing.T) {
	t.Parallel()
	for path, want := range map[string][2]string{
		"":                        {"", ""},
		"list":                    {"list", ""},
		"list.json":               {"list", "json"},
		"list.":                   {"list", ""},
		"a/b.sh/snapshots":        {"a/b.sh/snapshots", ""},
		"a/b.sh/snapshots.yaml":   {"a/b.sh/snapshots", "yaml"},
		"a/b.tar.gz":              {"a/b", "tar.gz"},
		"a.json/":                 {"a.json/", ""},
		"web/hooks/pods.sh/x.txt": {"web/hooks/pods.sh/x", "txt"},
	} {
		if what, format := cutFormat(path); what != want[0] || format != want[1] {
			t.Errorf("%q: %q and %q, want %q", path, what, format, want)
		}
	}
}

func TestTheStatusOfAnErrorIsThatOfItsCause(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"404 no module is called web\n":       notFound("no module is called %s", "web"),
		"400 read it: bad\n":                  fmt.Errorf("read it: %w", BadRequest("bad")),
		"409 " + errNotRunning.Error() + "\n": errNotRunning,
		"500 the disk is full\n":              errors.New("the disk is full"),
		"404 one\ntwo\n":                      errors.Join(notFound("one"), errors.New("two")),
	} {
		w := httptest.NewRecorder()
		Fail(w, err)
		if got := fmt.Sprintf("%d %s", w.Code, w.Body); got != want {
			t.Errorf("%v: %q, want %q", err, got, want)
		}
	}
	if err := notFound("%w; look again", os.ErrNotExist); !errors.Is(err, os.ErrNotExist) {
		t.Error("the cause of an error is lost")
	}
}

func TestADurationIsShortAndNeverNegative(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		-time.Hour: "0s", 0: "0s", 149 * time.Microsecond: "100µs", 150 * time.Microsecond: "200µs", 9949 * time.Microsecond: "9.9ms",
		10 * time.Millisecond: "10ms", 999499 * time.Microsecond: "999ms", time.Second: "1s", 1249 * time.Millisecond: "1.2s", 9949 * time.Millisecond: "9.9s",
		10 * time.Second: "10s", 10499 * time.Millisecond: "10s", 90*time.Second + 600*time.Millisecond: "1m31s", 49 * time.Hour: "49h0m0s",
	} {
		if got := Short(d); got != want {
			t.Errorf("%s is shown as %s, want %s", d, got, want)
		}
	}
}

func TestBindingsOfAHookAreNamedOrCounted(t *testing.T) {
	t.Parallel()
	for config, want := range map[string][]string{
		`{"ordered":{"onStartup":1,"beforeHelm":10},"kubernetes":[{},{}],"schedule":[{}]}`: {"beforeHelm", "kubernetes×2", "onStartup", "schedule×1"},
		`{"kubernetes":[],"settings":{"executionMinInterval":"5s"},"version":"v1"}`:        nil,
		`{}`: nil, `[]`: nil, ``: nil, `{"ordered":{"a":"first"}}`: nil, `{"kubernetes":[1,`: nil,
	} {
		if diff := cmp.Diff(want, BindingsOf(json.RawMessage(config))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config, diff)
		}
	}
}

func TestHooksAreListedWithTheirModules(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hooks := []HookLine{
		{Name: "settings.sh", Config: json.RawMessage(`{"ordered":{"onStartup":1}}`)},
		{Module: "web", Name: "hooks/pods.sh", Config: json.RawMessage(`{}`), Schedules: []ScheduleLine{{Next: now.Add(time.Hour)}, {Next: now.Add(time.Minute)}, {}}},
	}
	var rows [][]string
	for line := range strings.Lines(HooksText(hooks, inspect.Layout{Width: inspect.Unlimited, Now: now, Zone: time.UTC})) {
		rows = append(rows, strings.Fields(line))
	}
	want := [][]string{{"MODULE", "HOOK", "NEXT", "TICK", "BINDINGS"}, {"(global)", "settings.sh", "-", "onStartup"}, {"web", "hooks/pods.sh", "12:01:00Z"}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for want, hook := range map[string]HookLine{"settings.sh": hooks[0], "web/hooks/pods.sh": hooks[1]} {
		if got := hook.FullName(); got != want {
			t.Errorf("the name of the hook is %q, want %q", got, want)
		}
	}
}

// TestADumpOfSomeTablesIsTheSameInAnyPieces writes a dump in random pieces. The output must be the
// lines of the selected tables.
func TestADumpOfSomeTablesIsTheSameInAnyPieces(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	saveWeb(t, db)
	var whole bytes.Buffer
	if err := store.Dump(db, &whole); err != nil {
		t.Fatal(err)
	}
	tables := []store.Table{store.Hooks, store.Modules}
	want := ""
	for line := range strings.Lines(whole.String()) {
		if strings.Contains(line, `"table":"`+store.Hooks.String()+`"`) || strings.Contains(line, `"table":"`+store.Modules.String()+`"`) {
			want += line
		}
	}
	if n := strings.Count(want, "\n"); n != 5 {
		t.Fatalf("the dump has %d lines of the tables, want 5:\n%s", n, whole.String())
	}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // a test with a fixed seed
		var got bytes.Buffer
		w := &ofTables{to: &got, tables: tables}
		for rest := whole.Bytes(); len(rest) > 0; {
			n := 1 + random.IntN(len(rest))
			written, err := w.Write(rest[:n])
			if written != n || err != nil {
				t.Fatalf("seed %d: %d of %d bytes, error %v", seed, written, n, err)
			}
			rest = rest[n:]
		}
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
	if _, err := (&ofTables{to: &whole, tables: tables}).Write([]byte("no JSON\n")); err == nil {
		t.Error("a line that is not JSON is passed over")
	}
}

func TestAllTablesHaveTheirNamesInTheList(t *testing.T) {
	t.Parallel()
	names := TableList()
	for _, want := range []string{"meta", "modules", "hooks", "bindings", "values"} {
		if !strings.Contains(", "+TableNames()+", ", ", "+want+", ") {
			t.Errorf("%s is missing in %s", want, TableNames())
		}
	}
	seen := map[string]bool{}
	for _, name := range names {
		if _, err := store.ParseTable(name); err != nil || seen[name] {
			t.Errorf("table %q is listed, twice: %t, error %v", name, seen[name], err)
		}
		seen[name] = true
	}
}

// TestACopyOfTheStoreIsAStore opens the file that the route of the command "store snapshot" serves.
// The file must be a store with the same hooks.
func TestACopyOfTheStoreIsAStore(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	saveWeb(t, db)
	h := (&API{DB: db, Now: time.Now, Path: path}).Routes()
	if status, text := ask(h, "/store/check"); status != http.StatusOK || text != fmt.Sprintf("store %s is sound (epoch %d)\n", path, db.Epoch()) {
		t.Errorf("the check answers %d %q", status, text)
	}
	status, body := ask(h, "/store/snapshot")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	copied := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(copied, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	other, err := store.Open(copied, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = other.Close() })
	_, want := ask(h, "/hook/list")
	if _, got := ask((&API{DB: other, Now: time.Now}).Routes(), "/hook/list"); got != want || !strings.Contains(got, "pods.sh") {
		t.Errorf("the copy has the hooks\n%swant\n%s", got, want)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/store/check", "/store/snapshot", "/store/dump"} {
		if status, text := ask(h, path); status != http.StatusInternalServerError || text == "" {
			t.Errorf("%s of a closed store: status %d, %q", path, status, text)
		}
	}
}

func TestEachPathOfTheDebugPortIsServedAndLinked(t *testing.T) {
	t.Parallel()
	db := storetest.Memory(t)
	saveWeb(t, db)
	pages := (&API{DB: db, Now: time.Now, Version: "v1.2.3"}).Pages()
	_, index := ask(pages, "/")
	_, list := ask(pages, "/discovery")
	if list != strings.Join(Paths, "\n")+"\n" || !strings.Contains(index, "<h1>Addon operator v1.2.3</h1>") {
		t.Errorf("the paths are listed as %q, and linked in\n%s", list, index)
	}
	for _, path := range Paths {
		if status, body := ask(pages, path); status != http.StatusOK || body == "" {
			t.Errorf("%s: status %d, %q", path, status, body)
		}
		if !strings.Contains(index, fmt.Sprintf("<a href=%q>%s</a>", path, path)) {
			t.Errorf("%s is not linked:\n%s", path, index)
		}
	}
	for path, want := range map[string]string{"/queue?output=json": "{\n  \"active\": []", "/queue?output=yaml": "active: []\n", "/queue": "Empty queues: 'main', 'pods'"} {
		if _, body := ask(pages, path); !strings.HasPrefix(body, want) {
			t.Errorf("%s begins with %q, want %q", path, body, want)
		}
	}
}

func TestSlowRunsAreProblemsUntilTheyEnd(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	var slow SlowRuns
	if found := slow.problems(); len(found) > 0 {
		t.Errorf("without a slow run, the problems are %+v", found)
	}
	remove := map[uint64]func(){}
	for _, n := range []uint64{2, 3, 1} {
		remove[n] = slow.Add(inspect.Problem{Task: store.ID{Epoch: 1, N: n}, At: at.Add(time.Duration(n) * time.Minute)})
	}
	tasks := func() (all []uint64) {
		for _, p := range slow.problems() {
			all = append(all, p.Task.N)
		}
		return all
	}
	if diff := cmp.Diff([]uint64{1, 2, 3}, tasks()); diff != "" {
		t.Errorf("oldest first (-want +got):\n%s", diff)
	}
	remove[2]()
	remove[2]()
	if diff := cmp.Diff([]uint64{1, 3}, tasks()); diff != "" {
		t.Errorf("after the end of task 2 (-want +got):\n%s", diff)
	}
}

func TestTheTimeOfASnapshotIsNoChangeOfARun(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	run := func(at time.Time) *inspect.Run {
		return &inspect.Run{ID: 3, At: at, Problems: []inspect.Problem{{Error: "now", At: at}, {Error: "before", At: at.Add(-time.Hour)}}}
	}
	given := run(at)
	want := &inspect.Run{ID: 3, Problems: []inspect.Problem{{Error: "now"}, {Error: "before", At: at.Add(-time.Hour)}}}
	if diff := cmp.Diff(want, undated(given)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(run(at), given); diff != "" {
		t.Errorf("the run itself is changed (-want +got):\n%s", diff)
	}
}

func TestAWatchRestsBeforeItsNextSnapshot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var changes ChangeFeed
		at, stop := changes.watch(false)
		defer stop()
		began := time.Now()
		changes.Committed(store.Commit{})
		if !at.next(t.Context(), 4*time.Second) || time.Since(began) != 4*time.Second {
			t.Errorf("the next snapshot is after %s, want 4s", time.Since(began))
		}
		began = time.Now()
		time.AfterFunc(7*time.Second, func() { changes.Committed(store.Commit{}) })
		if !at.next(t.Context(), time.Second) || time.Since(began) != 7*time.Second {
			t.Errorf("the next snapshot is after %s, want 7s, at the next commit", time.Since(began))
		}
	})
}

func TestChangesAreLostOnlyForTheReadersThatWantThem(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	all, stop := changes.watch(true)
	defer stop()
	some, stop := changes.watch(true)
	defer stop()
	changes.narrow(some, func(change inspect.Change) bool { return change.Began.ID%2 == 0 })
	for i := range uint64(mostChanges + 2) {
		changes.publish(inspect.Change{Began: &store.Run{ID: i}})
	}
	got, lost := changes.drain(some)
	if len(got) != mostChanges/2+1 || lost != 0 || got[1].Began.ID != 2 {
		t.Errorf("%d wanted changes, %d lost", len(got), lost)
	}
	if got, lost := changes.drain(all); len(got) != mostChanges || lost != 2 || got[mostChanges-1].Began.ID != mostChanges-1 {
		t.Errorf("%d changes, %d lost; the last one is %+v", len(got), lost, got[len(got)-1].Began)
	}
}

func TestTheRecordOfStalledQueuesIsACopy(t *testing.T) {
	t.Parallel()
	var changes ChangeFeed
	changes.noteStuck("main", errors.New("the disk is full"))
	changes.noteStuck("side", errors.New("no"))
	changes.noteProcessing("side")
	got := changes.standing()
	if diff := cmp.Diff(map[string]string{"main": "the disk is full"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	delete(got, "main")
	if len(changes.standing()) != 1 {
		t.Error("a reader changes the record")
	}
}

func TestMetricsNameNodesAsAddonOperatorDoes(t *testing.T) {
	t.Parallel()
	for node, want := range map[graph.NodeID]string{
		lifecycle.ReleaseUpgrade: "ModuleRun", lifecycle.ModuleKubernetesEvent: "ModuleHookRun", lifecycle.GlobalOnStartup: "GlobalHookRun",
		lifecycle.DiscoverModules: "ConvergeModules", lifecycle.ConfigMapChanged: "ApplyKubeConfigValues", "a-later-node": "a-later-node",
	} {
		if got := TaskType(string(node)); got != want {
			t.Errorf("the type of a task at node %s is %q, want %q", node, got, want)
		}
	}
	for node := range taskTypes {
		if _, known := lifecycle.Graph.Node(node); !known {
			t.Errorf("the graph has no node %s", node)
		}
	}
	subject := graph.Subject{Module: "web", Hook: "hooks/a.sh", Binding: "pods"}
	if got, want := BindingOf(subject, string(lifecycle.ModuleBeforeHelm), "q"), (metrics.Binding{Module: "web", Hook: "hooks/a.sh", Name: "pods", Queue: "q"}); got != want {
		t.Errorf("labels %+v, want %+v", got, want)
	}
	subject.Binding = ""
	if got := BindingOf(subject, string(lifecycle.ModuleBeforeHelm), "q").Name; got != "beforeHelm" {
		t.Errorf("a binding without a name is labeled %q, want its type", got)
	}
}

func TestTheStatusNamesTheStoresOfOtherClusters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "store.db")
	db, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	api := &API{DB: db, Now: time.Now, Path: path, Version: "v1", Namespace: "n"}
	o := api.operator()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if o.StoreBytes != info.Size() || o.FreeBytes == nil || *o.FreeBytes == 0 || o.Aside != nil || !o.AsideSince.IsZero() || o.Store != path || o.Version != "v1" || o.Namespace != "n" {
		t.Errorf("the operator is %+v, with a store of %d bytes", o, info.Size())
	}
	aside := []string{path + ".cluster-1", path + ".cluster-2"}
	for _, other := range append([]string{filepath.Join(dir, "other.db.cluster-3")}, aside...) {
		if err := os.WriteFile(other, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	before := time.Now().Add(-time.Hour)
	o = api.operator()
	if diff := cmp.Diff(aside, o.Aside); diff != "" || o.AsideSince.Before(before) || o.AsideSince.Location() != time.UTC {
		t.Errorf("renamed at %s (-want +got):\n%s", o.AsideSince, diff)
	}
}

func TestAStandbyThatCannotReadTheLeaseIsNotCalledASecondOperator(t *testing.T) {
	t.Parallel()
	api := &API{DB: storetest.Memory(t)}
	for want, is := range map[inspect.Pattern]Standby{
		inspect.SecondOperator:   {Text: "waiting for Lease ops/l, which pod-1 holds"},
		inspect.UnavailableLease: {Text: "waiting for Lease ops/l: no route", Error: "no route"},
	} {
		api.Standby = func() Standby { return is }
		page, err := api.diagnosis()
		if err != nil {
			t.Fatal(err)
		}
		d, ok := page.Data.(*inspect.Diagnosis)
		if !ok || len(d.Findings) == 0 || d.Findings[0].Pattern != want {
			t.Errorf("%+v: the diagnosis is %+v", is, page.Data)
		}
	}
}
