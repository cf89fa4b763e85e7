package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/values"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// verb runs a command in this process. verb returns the output of the command, its error with the exit code, and the
// text that it wrote to stderr.
func verb(t *testing.T, argv ...string) (out, failed, stderr string) {
	t.Helper()
	var stdout, warned bytes.Buffer
	root := newRoot()
	root.SetArgs(argv)
	root.SetOut(&stdout)
	root.SetErr(&warned)
	if err := root.ExecuteContext(t.Context()); err != nil {
		failed = fmt.Sprintf("%d: %v", exitCode(err), err)
	}
	return stdout.String(), failed, warned.String()
}

// stoppedStore returns the path of the store file of a stopped operator. The store has the modules web and db, two
// hooks of web, a global hook, and an event of a hook of web. The event is in the queue pods and has failed twice.
func stoppedStore(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	db := makeStore(t, path)
	if err := db.Update(func(tx *store.Tx) error {
		task := &store.Task{
			ID: store.ID{Epoch: tx.Epoch(), N: tx.NextID()}, Pos: store.Pos{Queue: "pods", Slot: store.FirstSlot}, Graph: lifecycle.Graph.Name,
			Node: string(lifecycle.ModuleKubernetesEvent), Subject: graph.Subject{Module: "web", Hook: "hooks/pods.sh", Binding: "pods"}, Run: 1,
			Failed: &store.Failure{Count: 2, Error: "no such host"},
		}
		return errors.Join(
			store.Save(tx, store.ModuleKey("web"), store.Module{State: store.On, RanInStart: 1, Enabled: true, Order: 10, Why: "enabled by values.yaml"}),
			store.Save(tx, store.ModuleKey("db"), store.Module{State: store.Off, Order: 20, Why: "nobody enables it"}),
			store.Save(tx, store.HookKey("web", "hooks/pods.sh"), store.Hook{Config: json.RawMessage(`{"kubernetes":[{}]}`)}),
			store.Save(tx, store.HookKey("web", "hooks/tick.sh"), store.Hook{Config: json.RawMessage(`{"schedule":[{}]}`)}),
			store.Save(tx, store.HookKey("", "global.sh"), store.Hook{Config: json.RawMessage(`{"ordered":{"onStartup":1}}`)}),
			store.Save(tx, store.BindingKey("web", "hooks/pods.sh", "pods"), store.Binding{Kind: store.Kubernetes, Queue: "pods", Config: json.RawMessage(`{"kind":"Pod"}`)}),
			store.Save(tx, store.BindingKey("web", "hooks/tick.sh", "hour"), store.Binding{Kind: store.Schedule, Queue: "main", Config: json.RawMessage(`{"crontab":"0 * * * *"}`)}),
			store.Save(tx, store.RunKey(1), store.Run{ID: 1, Graph: lifecycle.Graph.Name, Trigger: string(lifecycle.OnModuleKubeEvent), Subject: task.Subject, Began: tx.Now(), Open: 1}),
			store.SaveTask(tx, task),
		)
	}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, db)
	return path
}

func TestAMistakeInACommandIsAUsageErrorThatSaysWhatToType(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"workflw":                            `2: there is no command "workflw"; see addon-operator --help`,
		"queue lst":                          "2: there is no addon-operator queue lst; see addon-operator queue --help",
		"status --no-such-flag":              "2: unknown flag: --no-such-flag; see addon-operator status --help",
		"status now":                         `2: unknown command "now" for "addon-operator status"; usage: addon-operator status [flags]`,
		"queue list -o xml":                  `2: --output must be one of text, wide, json, yaml (got "xml")`,
		"queue list -w -t 10ms":              "2: --watchInterval must be at least 100ms (got 10ms)",
		"module values web -o wide":          `2: --output must be one of yaml, json, text (got "wide")`,
		"why":                                "2: accepts between 1 and 2 arg(s), received 0; usage: addon-operator why SUBJECT [flags]",
		"why web now":                        "2: name one subject; usage: addon-operator why SUBJECT [flags]",
		"values diff web 0":                  `2: "0" is not the number of a run; addon-operator workflow list shows the numbers`,
		"values diff web 1 two":              `2: "two" is not the number of a run; addon-operator workflow list shows the numbers`,
		"pause module web":                   "2: a pause needs a reason, which is shown to others: add --reason TEXT",
		"pause all --reason=\t":              "2: a pause needs a reason, which is shown to others: add --reason TEXT",
		"pause all now --reason=x":           `2: unknown command "now" for "addon-operator pause all"; usage: addon-operator pause all --reason TEXT [flags]`,
		"task skip 1-2":                      "2: a skip needs a reason, which is stored in the history: add --reason TEXT",
		"workflow graph --graph none":        `2: there is no graph "none"; the graphs are lifecycle and addons`,
		"workflow graph 1 --graph addons":    "2: --graph cannot be used with a run: a run is drawn in its own graph",
		"workflow graph -o png":              `2: --output must be one of text, mermaid, dot (got "png")`,
		"diagnose --bundle=- --show-secrets": "2: --bundle leaves secrets out: remove --show-secrets",
		"raw /x?%zz":                         `2: invalid URL escape "%zz"`,
		"store dump --store /no/such":        "2: --store: stat /no/such: no such file or directory",
		"start --lease=maybe":                `2: --lease must be required or off (got "maybe")`,
	} {
		out, failed, _ := verb(t, strings.Split(line, " ")...)
		if failed != want || out != "" {
			t.Errorf("%s: error %q, output %q, want the error %q", line, failed, out, want)
		}
	}
	if _, failed, _ := verb(t, "timeline", "--since", "yesterday"); !strings.HasPrefix(failed, `2: --since is "yesterday": it must be a duration such as 2h or a time such as 20`) {
		t.Errorf("a wrong --since: %q", failed)
	}
}

func TestWithoutAnOperatorACommandNamesTheSocketsThatItTried(t *testing.T) {
	dir := t.TempDir()
	dead := filepath.Join(dir, "dead")
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", dead)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // the network is unix
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{dead: "nobody listens; the operator has ended", filepath.Join(dir, "none"): "there is no such socket"} {
		want := "1: no running operator answers:\n  " + path + ": " + why + "\nread the store of a stopped one with --store FILE (in its pod: " + settings.DefaultStore +
			"), name the socket of a running one with --debug-unix-socket, or start one"
		if _, failed, _ := verb(t, "status", "--debug-unix-socket", path); failed != want {
			t.Errorf("the flag: %s\nwant: %s", failed, want)
		}
		t.Setenv(settings.SocketVariable, path)
		if _, failed, _ := verb(t, "status"); failed != want {
			t.Errorf("the variable: %s\nwant: %s", failed, want)
		}
	}
	t.Setenv(settings.SocketVariable, "")
	if got := (&sourceFlags{}).sockets(); !slices.Equal(got, []string{".run/debug.socket", settings.DefaultSocket}) {
		t.Errorf("the default sockets are %q", got)
	}
	if got := describeDial("s", fmt.Errorf("dial: %w", os.ErrPermission)); got != "s: permission denied: use the operator's user" {
		t.Errorf("a socket of another user: %q", got)
	}
}

func TestACommandOfAStoppedStoreSaysHowOldItsDataIs(t *testing.T) {
	t.Parallel()
	path := stoppedStore(t)
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
	out, failed, stderr := verb(t, "module", "list", "--utc", "--store", path)
	if begins := "# store " + path + " as of 2026-03-04T05:06:07Z ("; failed != "" || !strings.HasPrefix(stderr, begins) || !strings.HasSuffix(stderr, " ago), epoch 1\n") {
		t.Errorf("error %q, stderr %q, want %q", failed, stderr, begins)
	}
	for _, want := range []string{"web", "enabled by values.yaml", "db", "nobody enables it"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing:\n%s", want, out)
		}
	}
}

func TestEachFormatHasTheSameQueues(t *testing.T) {
	t.Parallel()
	path := stoppedStore(t)
	for format, wants := range map[string][]string{
		"text": {"Queue 'pods': length 1", "web/hooks/pods.sh pods:failures 2:no such host", "'main' queue: empty."},
		"json": {`"name": "pods"`, `"tasksCount": 1`}, "yaml": {"- name: pods", "  tasksCount: 1"},
	} {
		out, failed, _ := verb(t, "queue", "list", "-o", format, "--store", path)
		for _, want := range wants {
			if failed != "" || !strings.Contains(out, want) {
				t.Errorf("%s: error %q, %q is missing:\n%s", format, failed, want, out)
			}
		}
	}
	for line, want := range map[string]string{
		"raw queue/list.json":                `"name": "pods"`,
		"raw /queue/show.yaml?queue=pods":    "name: pods\n",
		"queue show pods -o json":            `"name": "pods"`,
		"hook list":                          "(global)  global.sh",
		"global list -o text":                "global.sh\n",
		"values explain web --modules-dir /": "no values\n",
		"workflow graph":                     "module-run",
		"workflow graph -o dot":              "digraph",
		"workflow graph -o mermaid":          "flowchart",
		"store check":                        "store " + path + " is sound (epoch 1)\n",
		"store dump bindings":                `"table":"bindings"`,
	} {
		argv := append(strings.Fields(line), "--store", path)
		if out, failed, _ := verb(t, argv...); failed != "" || !strings.Contains(out, want) {
			t.Errorf("%s: error %q, %q is missing:\n%.500s", line, failed, want, out)
		}
	}
	for line, want := range map[string]string{
		"queue show none":        `1: no queue is called "none"; see addon-operator queue list --show-empty`,
		"module values web":      "1: the store holds no values files: name the directories of the modules with --modules-dir",
		"reload":                 "1: no operator runs: start it, and leave --store out",
		"hook snapshot web/x.sh": `1: no hook is called "web/x.sh"; see addon-operator hook list`,
		"workflow inspect 9":     "1: run 9: there is no such run",
	} {
		argv := append(strings.Fields(line), "--store", path)
		if _, failed, _ := verb(t, argv...); !strings.HasPrefix(failed, want) {
			t.Errorf("%s: error %q, want %q", line, failed, want)
		}
	}
}

func TestNamesAreCompletedFromTheSource(t *testing.T) {
	t.Parallel()
	from := &sourceFlags{store: stoppedStore(t)}
	for name, c := range map[string]struct {
		list  lister
		begun string
		want  []string
	}{
		"modules":                          {listModules, "", []string{"web\ton", "db\toff"}},
		"modules with w":                   {listModules, "w", []string{"web\ton"}},
		"hooks":                            {listHooks, "", []string{"global.sh\tonStartup", "web/hooks/pods.sh\tkubernetes×1", "web/hooks/tick.sh\tschedule×1"}},
		"scheduled hooks":                  {listScheduledHooks, "", []string{"web/hooks/tick.sh\t0 * * * *"}},
		"queues":                           {listQueues, "", []string{"pods\tfailed, is tried again", "main\twaits for tasks"}},
		"failed tasks":                     {listTasks(hasFailed), "1-", []string{"1-1\tmodule-kubernetes-event:pods:web/hooks/pods.sh pods:failures 2:no such host"}},
		"running tasks":                    {listTasks(isRunning), "", nil},
		"quarantined tasks":                {listQuarantined, "", nil},
		"both":                             {listAll(listTasks(nil), listModules), "", []string{"1-1\tmodule-kubernetes-event:pods:web/hooks/pods.sh pods:failures 2:no such host", "web\ton", "db\toff"}},
		"parameters of a stopped operator": {listParams, "", nil},
		"both, of which one fails":         {listAll(listModules, listParams), "", nil},
	} {
		if diff := cmp.Diff(c.want, from.names(t.Context(), c.list, c.begun)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := (&sourceFlags{store: "/no/such"}).names(t.Context(), listModules, ""); got != nil {
		t.Errorf("without a store: %q", got)
	}
	if _, directive := from.complete(listModules)(new(cobra.Command), []string{"web"}, ""); directive != cobra.ShellCompDirectiveNoFileComp {
		t.Errorf("a second argument is completed with directive %d", directive)
	}
}

func TestALongDescriptionOfACompletionIsCut(t *testing.T) {
	t.Parallel()
	for about, want := range map[string]string{
		"a\n b\tc": "name\ta b c", strings.Repeat("ü", 80): "name\t" + strings.Repeat("ü", 80), strings.Repeat("ü", 81): "name\t" + strings.Repeat("ü", 79) + "…",
	} {
		if got := described("name", about); got != want {
			t.Errorf("%q is described as %q, want %q", about, got, want)
		}
	}
}

func TestACopyOfTheStoreNeverReplacesAFile(t *testing.T) {
	t.Parallel()
	path, dir := stoppedStore(t), t.TempDir()
	copied := filepath.Join(dir, "copy.db")
	out, failed, _ := verb(t, "store", "snapshot", copied, "--store", path)
	info, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	if failed != "" || out != fmt.Sprintf("%s: %d bytes, verified\n", copied, info.Size()) {
		t.Errorf("error %q, output %q", failed, out)
	}
	if out, failed, _ := verb(t, "store", "snapshot", copied, "--store", path); out != "" || !strings.HasSuffix(failed, "file exists; give the path of a new file") {
		t.Errorf("a second copy: error %q, output %q", failed, out)
	}
	if _, failed, _ := verb(t, "store", "check", "--store", copied); failed != "" {
		t.Errorf("the copy: %s", failed)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v, error %v", entries, err)
	}
}

func TestEachErrorHasItsExitCode(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"success":              {nil, 0},
		"any error":            {errors.New("no"), 1},
		"a usage error":        {&codedError{exitUsage, errors.New("no")}, 2},
		"an invalid setting":   {fmt.Errorf("start: %w", settings.Invalid("no")), 2},
		"attention":            {&codedError{exitAttention, errors.New("")}, 3},
		"a locked store":       {fmt.Errorf("open: %w", store.ErrLocked), 10},
		"a damaged store":      {fmt.Errorf("open: %w", store.ErrCorrupt), 11},
		"no store":             {store.ErrNotStore, 11},
		"a newer store":        {store.ErrNewer, 12},
		"a full disk":          {store.ErrFull, 13},
		"a full disk of tmp":   {&os.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, 13},
		"a code before a kind": {&codedError{exitUsage, store.ErrFull}, 2},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: code %d, want %d", name, got, c.want)
		}
	}
}

func TestARepeatedOutputIsFramedByItsFormat(t *testing.T) {
	t.Parallel()
	cmd := new(cobra.Command)
	cmd.SetOut(new(bytes.Buffer))
	for format, want := range map[string]string{"json": "{\"a\":[1,2]}\n", "yaml": "---\n{\n \"a\": [1, 2]\n}\n"} {
		got, err := framed(cmd, new(sourceFlags), &output{format: format}, []byte("{\n \"a\": [1, 2]\n}\n"))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, error %v, want %q", format, got, err, want)
		}
	}
	if _, err := framed(cmd, new(sourceFlags), &output{format: "json"}, []byte("{")); err == nil {
		t.Error("damaged JSON is printed")
	}
	got, err := framed(cmd, &sourceFlags{utc: true}, &output{format: "text"}, []byte("body\n"))
	clock, body, _ := strings.Cut(string(got), "\n")
	if _, wrong := time.Parse(time.TimeOnly, clock); err != nil || wrong != nil || body != "body\n" {
		t.Errorf("text: %q, error %v", got, err)
	}
}

func TestAFollowedEntryIsPrintedInItsFormat(t *testing.T) {
	t.Parallel()
	cmd := new(cobra.Command)
	cmd.SetOut(new(bytes.Buffer))
	entry := &inspect.Entry{At: time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC), What: inspect.RunBegan, Run: 3}
	for format, want := range map[string]string{
		"json": "{\"at\":\"2026-03-04T05:06:07Z\",\"what\":\"" + inspect.RunBegan + "\",\"run\":3}\n", "yaml": "---\nat: \"2026-03-04T05:06:07Z\"\nrun: 3\nwhat: " + inspect.RunBegan + "\n",
		"text": "run 3, wide false", "wide": "run 3, wide true",
	} {
		table := &table[inspect.Timeline]{from: new(sourceFlags), output: output{format: format}}
		got, err := followed(cmd, table, entry, func(e *inspect.Entry, layout inspect.Layout) string {
			return fmt.Sprintf("run %d, wide %t", e.Run, layout.Wide)
		})
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, error %v, want %q", format, got, err, want)
		}
	}
}

func TestTheOriginsOfValuesAreATable(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	layout := inspect.Layout{Now: at.Add(time.Hour), Zone: time.UTC, Width: 200}
	printed := []values.LayerValue{
		{Path: "/web/port", Value: 8080, Layer: values.HookLayer, By: "web/hooks/a.sh", Origin: values.Origin{At: at, Outdated: true}},
		{Path: "/web/port", Value: 80, Overridden: true, Layer: values.ConfigMapLayer},
		{Path: "/web/text", Value: strings.Repeat("x", 40), Layer: values.ConfigMapLayer},
	}
	rows := func(layout inspect.Layout, all bool) (rows []string) {
		for line := range strings.Lines(explained(printed, layout, all)) {
			rows = append(rows, strings.Join(strings.Fields(line), " "))
		}
		return rows
	}
	cut := `/web/text "` + strings.Repeat("x", 31) + "… (10 more) - " + printed[2].Source()
	short := []string{"PATH VALUE SINCE FROM", "/web/port 8080 05:06:07Z " + printed[0].Source() + " (its earlier code)", cut}
	if diff := cmp.Diff(short, rows(layout, false)); diff != "" {
		t.Errorf("effective values (-want +got):\n%s", diff)
	}
	overrides := "overrides 80 - " + printed[1].Source()
	if diff := cmp.Diff(slices.Insert(slices.Clone(short), 2, overrides), rows(layout, true)); diff != "" {
		t.Errorf("all values (-want +got):\n%s", diff)
	}
	layout.Wide = true
	if got := rows(layout, false); len(got) != 4 || got[2] != overrides || !strings.Contains(got[3], `"`+strings.Repeat("x", 40)+`"`) {
		t.Errorf("wide: %q", got)
	}
	if got := explained(printed[1:2], inspect.Layout{}, false); got != "no values\n" {
		t.Errorf("without an effective value: %q", got)
	}
}

func TestTheRouteOfASectionHasItsNameEscaped(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"global": "/global/origins", "web": "/module/web/origins", "a/b?c": "/module/a%2Fb%3Fc/origins"} {
		if got := sectionRoute(name, "origins"); got != want {
			t.Errorf("the route of %q is %s, want %s", name, got, want)
		}
	}
}

func TestAnErrorOfTheAPIIsTheErrorOfTheCommand(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/gone" {
			panic(http.ErrAbortHandler)
		}
		if r.URL.Path != "/good" {
			http.Error(w, "  nothing at "+r.URL.RequestURI(), http.StatusNotFound)
			return
		}
		_, _ = fmt.Fprintf(w, "%s %s", r.Method, r.FormValue("a"))
	}))
	t.Cleanup(server.Close)
	damage := error(nil)
	s := &source{about: "operator at s", live: true, damage: func() error { return damage }}
	s.client.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}}
	t.Cleanup(s.client.CloseIdleConnections)
	var out bytes.Buffer
	if err := errors.Join(s.get(t.Context(), "/good", map[string][]string{"a": {"1 2"}}, &out), s.post(t.Context(), "/good", map[string][]string{"a": {"3&4"}}, &out)); err != nil || out.String() != "GET 1 2POST 3&4" {
		t.Errorf("%q, error %v", out.String(), err)
	}
	if err := s.get(t.Context(), "/bad", nil, io.Discard); err == nil || err.Error() != "nothing at /bad?" {
		t.Errorf("an error: %v", err)
	}
	if err := s.get(t.Context(), "/gone", nil, io.Discard); err == nil || !strings.HasPrefix(err.Error(), "operator at s: Get ") {
		t.Errorf("no answer: %v", err)
	}
	damage = store.ErrCorrupt
	for _, path := range []string{"/good", "/bad"} {
		if err := s.get(t.Context(), path, nil, io.Discard); !errors.Is(err, store.ErrCorrupt) {
			t.Errorf("%s of a damaged store: error %v", path, err)
		}
	}
}

func TestAPipeServesItsConnectionsUntilItIsClosed(t *testing.T) {
	t.Parallel()
	p := newPipe()
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }), ReadHeaderTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(p) }()
	client := http.Client{Transport: &http.Transport{DialContext: p.dial}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://operator/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil || string(body) != "hello" {
		t.Errorf("%q, error %v", body, err)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Errorf("the server ended with %v", err)
	}
	if _, err := p.dial(t.Context(), "", ""); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection to a closed pipe: error %v", err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := newPipe().dial(canceled, "", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled connection: error %v", err)
	}
}

// TestTheDebugSocketReplacesADeadOneOnly is not parallel, because a process that another test starts would inherit the
// open socket for a moment.
func TestTheDebugSocketReplacesADeadOneOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run", "socket")
	first, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has the mode %v, error %v, want %v", file, info.Mode(), err, want)
		}
	}
	if _, err := listenSocket(t.Context(), path); err == nil || err.Error() != "another operator listens on the debug socket "+path+": name another with --debug-unix-socket" {
		t.Errorf("a second operator: error %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // the network is unix
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := listenSocket(t.Context(), path)
	if err != nil {
		t.Fatalf("after the end of the first operator: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := listenSocket(t.Context(), filepath.Join(t.TempDir(), strings.Repeat("x", 200))); err == nil || !strings.HasPrefix(err.Error(), "listen on the debug socket: ") || !strings.HasSuffix(err.Error(), "; name another with --debug-unix-socket") {
		t.Errorf("a path that is too long: error %v", err)
	}
}

func TestTheConvergeStatusIsThatOfAddonOperator(t *testing.T) {
	t.Parallel()
	const notStarted, inProgress, done = "STARTUP_CONVERGE_NOT_STARTED", "STARTUP_CONVERGE_IN_PROGRESS", "STARTUP_CONVERGE_DONE"
	for name, c := range map[string]struct {
		tasks            int
		begun, converged bool
		startup          store.Startup
		text             string
		set              map[string]any // the fields of the JSON that differ from those of an operator that has not started
	}{
		"before the start is stored": {0, false, false, store.Startup{}, inProgress + ": 1 tasks\n", map[string]any{notStarted: false, inProgress: 1.0}},
		"nothing was ever converged": {0, true, false, store.Startup{}, notStarted + "\n", nil},
		"the first converge":         {3, true, false, store.Startup{StartRun: 1}, inProgress + ": 3 tasks\n", map[string]any{notStarted: false, inProgress: 3.0}},
		"after it":                   {0, true, true, store.Startup{StartRun: 1, Converged: 1}, done + "\nCONVERGE_WAIT_TASK\n", map[string]any{notStarted: false, done: true, "CONVERGE_WAIT_TASK": true}},
		"a later converge":           {2, true, true, store.Startup{}, done + "\nCONVERGE_IN_PROGRESS: 2 tasks\n", map[string]any{notStarted: false, done: true, "CONVERGE_IN_PROGRESS": 2.0}},
		"a start without work":       {0, true, false, store.Startup{StartRun: 1, Converged: 1}, done + "\nCONVERGE_WAIT_TASK\n", map[string]any{notStarted: false, done: true, "CONVERGE_WAIT_TASK": true}},
		"a start after that":         {0, true, false, store.Startup{StartRun: 2, Converged: 1}, notStarted + "\n", nil},
		"converged in this process":  {1, true, false, store.Startup{StartRun: 2, Converged: 1, ConvergedIn: 1}, done + "\nCONVERGE_IN_PROGRESS: 1 tasks\n", map[string]any{notStarted: false, done: true, "CONVERGE_IN_PROGRESS": 1.0}},
	} {
		db, err := store.OpenMemory(new(store.Memory), store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := db.Update(func(tx *store.Tx) error {
			for i := range c.tasks {
				if err := store.SaveTask(tx, &store.Task{
					ID: store.ID{Epoch: 1, N: tx.NextID()}, Pos: store.Pos{Queue: workflow.Main, Slot: store.FirstSlot + uint64(i)}, //nolint:gosec // a small number
					Graph: lifecycle.Graph.Name, Node: string(lifecycle.ModuleRun),
				}); err != nil {
					return err
				}
			}
			return store.Save(tx, store.StartupKey(), c.startup)
		}); err != nil {
			t.Fatal(err)
		}
		s := &status{db: db, leadership: new(leadership)}
		s.begun.Store(c.begun)
		s.converged.Store(c.converged)
		w := httptest.NewRecorder()
		s.convergeStatus(w, httptest.NewRequest(http.MethodGet, "/status/converge", http.NoBody))
		if w.Code != http.StatusOK || w.Body.String() != c.text {
			t.Errorf("%s: status %d, %q, want %q", name, w.Code, w.Body, c.text)
		}
		want := map[string]any{notStarted: true, inProgress: nil, done: false, "CONVERGE_IN_PROGRESS": nil, "CONVERGE_WAIT_TASK": false}
		maps.Copy(want, c.set)
		w = httptest.NewRecorder()
		s.convergeStatus(w, httptest.NewRequest(http.MethodGet, "/status/converge?output=json", http.NoBody))
		var got map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, w.Body)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestDirectoriesOfAPlanAreFoundFromTheOperator(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dirs, want := range map[string]string{"": "", "/a:/b/../c": "/a:/c", "x:/b": here + "/x:/b", ".": here} {
		if got, err := absolute(dirs); got != want || err != nil {
			t.Errorf("%q is %q, error %v, want %q", dirs, got, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("data: {}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"": "", file: "data: {}"} {
		if got, err := readPlanConfig(path); string(got) != want || err != nil || (got == nil) != (path == "") {
			t.Errorf("%q has %q, error %v, want %q", path, got, err, want)
		}
	}
	if _, err := readPlanConfig(file + "x"); err == nil || err.Error() != "--config-map: open "+file+"x: no such file or directory" {
		t.Errorf("a missing file: error %v", err)
	}
}

func TestOnlyAnAllowedPurgeIsInTheRequestOfAReload(t *testing.T) {
	t.Parallel()
	for allowed, want := range map[uint]string{0: "", 3: "allow-purge=3"} {
		if got := reloadForm(allowed).Encode(); got != want {
			t.Errorf("a reload with up to %d deletions sends %q, want %q", allowed, got, want)
		}
	}
}

func TestEachGraphIsFoundByItsName(t *testing.T) {
	t.Parallel()
	for _, g := range debugapi.Graphs {
		if got, err := graphNamed(g.Name); got != g || err != nil {
			t.Errorf("graph %s: %v, error %v", g.Name, got, err)
		}
	}
}
