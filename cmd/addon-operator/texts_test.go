package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// fieldsOf returns the fields of each line of a log in JSON, without their times.
func fieldsOf(t *testing.T, log *bytes.Buffer) (lines []map[string]any) {
	t.Helper()
	for line := range strings.Lines(log.String()) {
		fields := map[string]any{}
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		delete(fields, zerolog.TimestampFieldName)
		lines = append(lines, fields)
	}
	return lines
}

// logTo returns a log in JSON that writes to out.
func logTo(out *bytes.Buffer) zerolog.Logger {
	nameLogFields()
	return zerolog.New(out)
}

func TestARecordIsLoggedWithTheFieldsThatItHas(t *testing.T) {
	began := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	var out bytes.Buffer
	log := logTo(&out)
	base := store.Record{Node: "n", Run: 3, Task: store.ID{Epoch: 1, N: 2}, Queue: "main", State: store.Done}
	full := base
	full.Node, full.Subject, full.Began, full.Ended, full.Try = string(lifecycle.ModuleBeforeHelm), graph.Subject{Module: "web"}, began, began.Add(1500*time.Millisecond), 2
	full.Again, full.Detail, full.Warning = true, "detail", "warning"
	failed, allowed := base, base
	failed.State, failed.Error, failed.Try = store.Failed, "no such host", 1
	allowed.State, allowed.Error = store.Allowed, "no"
	for _, r := range []store.Record{base, full, failed, allowed} {
		logRecord(log, r)
	}
	common := func(level, message string, more map[string]any) map[string]any {
		fields := map[string]any{"level": level, zerolog.MessageFieldName: message, "node": "n", "run": 3.0, "task.id": "1-2", "queue": "main"}
		maps.Copy(fields, more)
		return fields
	}
	want := []map[string]any{
		common("info", "done", nil),
		common("info", "done", map[string]any{
			"node": "module-beforehelm", "event.type": "beforeHelm", "subject": "web", "took": "1.5s", "try": 2.0, "again": true, "detail": "detail", "warning": "warning",
		}),
		common("error", "failed", map[string]any{"error": "no such host"}),
		common("error", "allowed", map[string]any{"error": "no"}),
	}
	if diff := cmp.Diff(want, fieldsOf(t, &out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestEachRequestToTheAPIServerIsLoggedWithoutItsBody(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "secret answer", http.StatusTeapot) }))
	var out bytes.Buffer
	client := http.Client{Transport: requestLog(logTo(&out))(http.DefaultTransport)}
	send := func() error {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/api/v1/pods?limit=1", strings.NewReader("secret body"))
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		return err
	}
	if err := send(); err != nil {
		t.Error(err)
	}
	server.Close()
	if err := send(); err == nil {
		t.Error("a closed server answers")
	}
	lines := fieldsOf(t, &out)
	if len(lines) != 2 || strings.Contains(out.String(), "secret") {
		t.Fatalf("the log is\n%s", out.String())
	}
	for i, line := range lines {
		if line["method"] != "POST" || line["path"] != "/api/v1/pods?limit=1" || line["took"] == nil || line["level"] != "info" {
			t.Errorf("line %d is %v", i, line)
		}
	}
	if lines[0]["status"] != 418.0 || lines[0]["error"] != nil || lines[1]["status"] != nil || lines[1]["error"] == nil {
		t.Errorf("the results are %v and %v", lines[0], lines[1])
	}
}

func TestALineOfALibraryIsOneMessage(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if n, err := (lines{logTo(&out)}).Write([]byte(" http: TLS handshake error\n")); n != 27 || err != nil {
		t.Errorf("%d bytes, error %v", n, err)
	}
	if diff := cmp.Diff([]map[string]any{{"level": "warn", zerolog.MessageFieldName: "http: TLS handshake error"}}, fieldsOf(t, &out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestErrorsOfTheKubernetesClientAreWarnings changes the log of the libraries and the log level, so it does not run in
// parallel.
func TestErrorsOfTheKubernetesClientAreWarnings(t *testing.T) {
	var out bytes.Buffer
	before, level := libraryLog.Load(), zerolog.GlobalLevel()
	t.Cleanup(func() { libraryLog.Store(before); zerolog.SetGlobalLevel(level) })
	log := logTo(&out)
	libraryLog.Store(&log)
	base := clientLog{}
	named := base.WithName("reflector").WithValues("kind", "Pod")
	other := base.WithName("other")
	named.Error(errors.New("no rights"), "list failed", "attempt", 2)
	zerolog.SetGlobalLevel(zerolog.DebugLevel)
	if !named.Enabled(0) || named.Enabled(1) {
		t.Error("with the log level debug, the client logs other levels than 0")
	}
	other.Info(0, "watching")
	zerolog.SetGlobalLevel(zerolog.InfoLevel)
	if named.Enabled(0) {
		t.Error("with the log level info, the client logs debug lines")
	}
	want := []map[string]any{
		{"level": "warn", "error": "no rights", "source": "kubernetes client", "client": "reflector", "kind": "Pod", "attempt": 2.0, zerolog.MessageFieldName: "list failed"},
		{"level": "debug", "source": "kubernetes client", "client": "other", zerolog.MessageFieldName: "watching"},
	}
	if diff := cmp.Diff(want, fieldsOf(t, &out)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAFailingFilterIsAProblemOfItsBinding(t *testing.T) {
	t.Parallel()
	failing := func(hook, binding string, objects ...kube.Failure) triggers.FailingFilter {
		return triggers.FailingFilter{Subject: graph.Subject{Module: "web", Hook: hook, Binding: binding}, Kind: "Pod", Objects: objects}
	}
	first := kube.Failure{Namespace: "default", Name: "a", Err: "cannot iterate over: null"}
	problems := filterProblems([]triggers.FailingFilter{failing("b.sh", "pods", first), failing("a.sh", "z", first), failing("a.sh", "c", first, first, first)})
	var got []string
	for _, p := range problems {
		got = append(got, p.Subject.Hook+" "+p.Subject.Binding+": "+p.Object)
	}
	if diff := cmp.Diff([]string{"a.sh c: Pod default/a", "a.sh z: Pod default/a", "b.sh pods: Pod default/a"}, got); diff != "" {
		t.Errorf("problems in order (-want +got):\n%s", diff)
	}
	want := store.Problem{
		Subject: graph.Subject{Module: "web", Hook: "a.sh", Binding: "c"}, Object: "Pod default/a", More: 2,
		Error: "the jqFilter of binding c of hook web/a.sh fails on Pod default/a, so the hook does not see changes of this object: cannot iterate over: null",
		Fix:   "correct the jqFilter in the hook's config, for instance with (.field // default), then run addon-operator reload",
	}
	if diff := cmp.Diff(want, problems[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestProblemsAreWrittenOnlyIfThereWereOrAreSome(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	problem := store.Problem{Kind: store.FailingFilter, Subject: graph.Subject{Module: "web"}, Error: "no"}
	if err := db.Update(func(tx *store.Tx) error {
		for _, c := range []struct {
			stored   store.ProblemKind
			problems []store.Problem
			want     bool
		}{
			{"", nil, false},
			{"", []store.Problem{problem}, true},
			{store.BadDirectories, nil, false},
			{store.FailingFilter, nil, true},
		} {
			if c.stored != "" {
				other := problem
				other.Kind = c.stored
				if _, err := store.SaveProblem(tx, other); err != nil {
					return err
				}
			}
			if got := differ(tx, store.FailingFilter, c.problems); got != c.want {
				t.Errorf("with %q in the store, %d problems differ: %t", c.stored, len(c.problems), got)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestARestorationIsDescribedInATable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	base := store.Restoration{
		ID: "abc", Epoch: 7, Lost: store.LostSpan{From: at, To: at.Add(90 * time.Minute)}, Replaces: true, Present: "abc", Aside: "/s.db.old",
		Kept: []store.TableCount{{Table: store.Modules, Records: 3}, {Table: store.Hooks, Records: 12}}, Bytes: 4096, Free: 1 << 20,
	}
	const table = `snapshot  /s.snapshot, of epoch 7 of store abc
replaces  /s.db, now named /s.db.old
lost      what happened from 2026-03-04T05:06:07Z to 2026-03-04T06:36:07Z, 1h30m0s
keeps     modules 3, hooks 12
drops     nothing
`
	for name, c := range map[string]struct {
		change func(*store.Restoration)
		dry    bool
		want   string
	}{
		"restored": {func(*store.Restoration) {}, false, table + "result    /s.db is restored; start the operator\n"},
		"a dry run": {
			func(r *store.Restoration) { r.Aside = "" }, true,
			strings.Replace(table, ", now named /s.db.old", "", 1) + "result    nothing was changed (--dry-run); about 4096 bytes are needed, 1048576 are free\n",
		},
		"restored before": {
			func(r *store.Restoration) { r.Before = true }, true,
			strings.Replace(table, "/s.db, now named /s.db.old", "nothing", 1) + "result    this snapshot was restored before, and no operator has started since; nothing to do\n",
		},
		"damaged": {func(r *store.Restoration) { r.Damaged = 2 }, false, strings.Replace(table, "replaces", "damaged   2 records of the snapshot cannot be read; see addon-operator store check --store /s.snapshot\nreplaces", 1) +
			"result    /s.db is restored; start the operator\n"},
	} {
		r := base
		c.change(&r)
		var out bytes.Buffer
		err := printRestoration(&out, "/s.db", "/s.snapshot", &r, c.dry)
		if diff := cmp.Diff(c.want, out.String()); err != nil || diff != "" {
			t.Errorf("%s: error %v (-want +got):\n%s", name, err, diff)
		}
	}
	for want, r := range map[string]store.Restoration{
		"no file":                 {},
		"/s.db":                   {Replaces: true, ID: "a", Present: "a"},
		"/s.db, another store: b": {Replaces: true, ID: "a", Present: "b"},
		"/s.db, now named x (not a store; whether the snapshot is of this store is not known)": {Replaces: true, ID: "a", Aside: "x", Unreadable: errors.New("not a store")},
	} {
		if got := describePresent("/s.db", &r); got != want {
			t.Errorf("the present file is %q, want %q", got, want)
		}
	}
}

func TestLikelySecretsAreNotInASupportArchive(t *testing.T) {
	t.Parallel()
	const document = `{"name":"web","password":"hunter1","error":"curl --header 'Authorization: Bearer hunter2'","list":["token=hunter3",7,null,true],"tokens":3,"nested":{"apiKey":"hunter4","n":9007199254740993}}`
	got, err := redacted([]byte(document))
	if err != nil || bytes.Contains(got, []byte("hunter")) {
		t.Fatalf("error %v:\n%s", err, got)
	}
	for _, want := range []string{`"name": "web"`, `"tokens": 3`, `"n": 9007199254740993`, "curl --header", "null", "true"} {
		if !bytes.Contains(got, []byte(want)) {
			t.Errorf("%s is missing:\n%s", want, got)
		}
	}
	if _, err := redacted([]byte("{")); err == nil {
		t.Error("a damaged document is in the archive")
	}
}

func TestATimeOfThePastIsADurationOrATime(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	for text, want := range map[string]time.Time{"2h": now.Add(-2 * time.Hour), "0s": now, "2026-03-04T00:00:00+01:00": time.Date(2026, 3, 3, 23, 0, 0, 0, time.UTC)} {
		if got, err := sinceTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %s, error %v, want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-2h", "2026-03-04", "2"} {
		if _, err := sinceTime(text, now); err == nil || err.Error() != `--since is "`+text+`": it must be a duration such as 2h or a time such as 2026-03-04T05:06:07Z` {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestAnErrorOfTheAPIServerIsCountedByItsReason(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		"NotFound": apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "a"), "Forbidden": apierrors.NewForbidden(schema.GroupResource{}, "a", nil), "connection": errors.New("dial tcp: connection refused"),
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%v is counted as %q, want %q", err, got, want)
		}
	}
}

func TestATextIsDrawnOverThePreviousOneLineByLine(t *testing.T) {
	t.Parallel()
	if got, want := inPlace("a\nb\n"), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestTheLayoutOutsideOfATerminalCutsNothing sets COLUMNS, so it does not run in parallel.
func TestTheLayoutOutsideOfATerminalCutsNothing(t *testing.T) {
	for columns, want := range map[string]int{"": inspect.Unlimited, "120": 120, "wide": inspect.Unlimited} {
		t.Setenv("COLUMNS", columns)
		l := (&paint{ascii: true}).layout(new(bytes.Buffer), time.UTC)
		if diff := cmp.Diff(inspect.Layout{ASCII: true, Zone: time.UTC, Whole: true, Width: want}, l, cmp.AllowUnexported(inspect.Layout{}), cmp.Comparer(func(a, b *time.Location) bool { return a == b })); diff != "" {
			t.Errorf("COLUMNS=%q (-want +got):\n%s", columns, diff)
		}
	}
}
