package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/webui"
	"addon-operator/e2e/cputime"
	"addon-operator/e2e/operator"
	"addon-operator/steps/desired"
	"addon-operator/steps/scan"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/inspect/inspecttest"
	"addon-operator/workflow/lifecycle"
)

// firstByteWithin is the target for the time to the first byte of an answer, in milliseconds.
const firstByteWithin = 100

// askedModule and askedHook are the module and the hook that measured requests name.
var (
	askedModule = inspecttest.Module(7)
	askedHook   = askedModule + "/" + inspecttest.Hooks[1]
)

// commands are the measured commands. Each can read a running operator or the store of a stopped one.
var commands = [][]string{
	{"status"},
	{"diagnose"},
	{"why", askedModule},
	{"why", askedHook},
	{"why", "queue-0"},
	{"why", "7"},
	{"timeline"},
	{"timeline", askedModule},
	{"timeline", "1"},
	{"timeline", "-n", "1000"},
	{"logs"},
	{"logs", askedHook},
	{"queue", "list"},
	{"queue", "show", "queue-0"},
	{"module", "list"},
	{"module", "values", askedModule},
	{"workflow", "list"},
	{"workflow", "list", "-n", "5000"},
	{"workflow", "inspect"},
	{"workflow", "inspect", "1"},
	{"workflow", "graph"},
	{"hook", "list"},
	{"values", "explain", askedModule},
	{"values", "diff", askedModule},
	{"global", "list"},
	{"addons", "list"},
}

// routes are the measured routes of the debug socket.
var routes = []string{
	"/status.json", "/diagnosis.json", "/workflow/why.json?subject=" + askedModule, "/workflow/why.json?subject=" + askedHook, "/workflow/why.json?subject=queue-0",
	"/workflow/timeline.json", "/workflow/timeline.json?subject=" + askedModule, "/workflow/logs.json", "/workflow/logs.json?subject=" + askedHook,
	"/queue/list.json", "/queue/show.json?queue=queue-0", "/module/list.json", "/module/" + askedModule + "/values.json",
	"/workflow/list.json", "/workflow/list.json?limit=5000", "/workflow/inspect.json", "/workflow/inspect.json?run=1", "/hook/list.json",
	"/module/" + askedModule + "/origins.json", "/module/" + askedModule + "/changes.json", "/addons/list.json",
}

// views are the measured views of the web page.
var views = []string{
	"/", "/modules", "/module/" + askedModule, "/runs", "/run/1", "/run/1?all=true", "/run/7", "/queues", "/queue/queue-0", "/hooks", "/hook/" + askedHook,
	"/values/" + askedModule, "/releases", "/release/" + askedModule, "/timeline", "/timeline?subject=" + askedModule, "/logs", "/why?subject=" + askedModule,
}

// measureAnswers measures the time to the first byte of answers. The operator has 500 modules, 100,000 attempts in
// its history and 100,000 waiting events. measureAnswers measures routes and views in this process, commands over the
// socket, and commands that read the store of the stopped operator.
func measureAnswers(ctx context.Context, rounds int, progress *log.Logger) (figures []figure, err error) {
	dir, err := os.MkdirTemp("", "answers-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	a := &answers{dir: dir, rounds: rounds, progress: progress}
	progress.Print("build the operator")
	if a.program, err = operator.Build(filepath.Join(dir, "bin")); err != nil {
		return nil, err
	}
	progress.Print("fill the store")
	if err := a.fill(); err != nil {
		return nil, err
	}
	if err := a.running(ctx); err != nil {
		return nil, err
	}
	progress.Print("commands that read the store")
	return a.figures, a.commands(ctx, "store", "--store", a.store(), "--modules-dir", filepath.Join(dir, "modules"))
}

// answers has the state of [measureAnswers]: its files, and the figures measured so far.
type answers struct {
	dir      string
	program  string
	rounds   int
	progress *log.Logger
	figures  []figure
}

func (a *answers) store() string { return filepath.Join(a.dir, "store.db") }

// fill creates the store and the directories of the modules.
func (a *answers) fill() error {
	began := time.Now()
	db, err := store.Open(a.store(), store.Options{Clock: time.Now})
	if err != nil {
		return err
	}
	if err := errors.Join(inspecttest.Fill(db, inspecttest.Large), db.Close()); err != nil {
		return err
	}
	took := time.Since(began)
	info, err := os.Stat(a.store())
	if err != nil {
		return err
	}
	a.figures = append(a.figures, figure{Name: "fill the store", Unit: "s", Measured: took.Seconds(), Note: fmt.Sprintf("%d MB", info.Size()/1e6)})
	var flags strings.Builder
	for i := range inspecttest.Large.Modules {
		name := inspecttest.Module(i)
		key := strings.ReplaceAll(name, "-", "")
		_, _ = fmt.Fprintf(&flags, "%sEnabled: true\n", key)
		for path, content := range map[string]string{
			"Chart.yaml":  "apiVersion: v2\nname: " + name + "\nversion: 0.1.0\n",
			"values.yaml": key + ": {replicas: 2, image: {name: web, tag: v1}}\n",
		} {
			if err := write(filepath.Join(a.dir, "modules", fmt.Sprintf("%03d-%s", i, name), path), content); err != nil {
				return err
			}
		}
	}
	return write(filepath.Join(a.dir, "modules", "values.yaml"), flags.String())
}

// running measures routes, views and commands as in a running operator: this process has the store open. The engine is
// not started, so that no task is processed during the measurement.
func (a *answers) running(ctx context.Context) (err error) {
	var changes debugapi.ChangeFeed
	db, err := store.Open(a.store(), store.Options{Clock: time.Now, Committed: changes.Committed})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	engine, err := workflow.New(db, workflow.Observer{}, idleSteps(lifecycle.Graph))
	if err != nil {
		return err
	}
	files := scan.New(scan.Options{DB: db, ModulesDirs: []string{filepath.Join(a.dir, "modules")}, UnnumberedOrder: 1}, nil)
	if _, err := files.Scan(); err != nil {
		return err
	}
	api := &debugapi.API{
		DB: db, Now: time.Now, Path: a.store(), Began: time.Now(), Engine: engine, Changes: &changes, Scans: new(inspect.ScanCache), Slow: new(debugapi.SlowRuns),
		Values: func() (*desired.Values, error) { return files.Values, nil },
	}
	page := webui.Handler(webui.Options{API: api.Routes(), Commits: changes.Commits, Graphs: debugapi.Graphs})
	a.progress.Print("routes, views and the scrape of metrics in one process")
	for _, path := range routes {
		if err := a.served("route "+path, api.Routes(), path); err != nil {
			return err
		}
	}
	for _, path := range views {
		if err := a.served("view "+path, page, path); err != nil {
			return err
		}
	}
	if err := a.measure("scrape of the state and the problems", func() (answer, error) {
		began, cpu := time.Now(), cputime.Used()
		_, err := api.State()
		took := time.Since(began)
		return answer{took, took, cputime.Used() - cpu}, err
	}); err != nil {
		return err
	}
	if err := a.updates(ctx, db, page); err != nil {
		return err
	}
	a.progress.Print("commands that ask the socket")
	return a.overSocket(ctx, api.Routes())
}

// idleSteps returns steps for all nodes of g. The steps do nothing and are never called, because the engine is not
// started.
func idleSteps(g *graph.Graph) workflow.Implementation {
	code := map[graph.NodeID]workflow.Step{}
	for _, n := range g.Nodes {
		if !n.Junction && !n.JoinsRunning {
			code[n.ID] = idleStep{}
		}
	}
	return workflow.Implementation{Graph: g, Steps: code}
}

type idleStep struct{}

func (idleStep) Do(context.Context, workflow.Task) (workflow.Outcome, error) {
	return workflow.Outcome{}, nil
}

func (idleStep) Items(*store.Tx, workflow.Task) ([]graph.Item, json.RawMessage, error) {
	return nil, nil, nil
}

// An answer has the durations of one measured request: the time to the first byte of the response, the time to the end
// of the response, and the used CPU time.
type answer struct{ first, all, cpu time.Duration }

// measure adds a figure with the median of several answers. The first answer is not counted.
func (a *answers) measure(name string, ask func() (answer, error)) error {
	var all []answer
	for range max(a.rounds, 3) + 1 {
		one, err := ask()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, one)
	}
	all = all[1:]
	mid := func(of func(answer) time.Duration) float64 {
		values := make([]time.Duration, len(all))
		for i := range all {
			values[i] = of(all[i])
		}
		slices.Sort(values)
		return float64(values[len(values)/2].Microseconds()) / 1000
	}
	a.figures = append(a.figures, figure{
		Name: name, Unit: "ms", Measured: mid(func(a answer) time.Duration { return a.first }), AtMost: firstByteWithin,
		Note: fmt.Sprintf("whole answer %s ms, CPU %s ms", round(mid(func(a answer) time.Duration { return a.all })), round(mid(func(a answer) time.Duration { return a.cpu }))),
	})
	return nil
}

// served measures the answer of a handler in this process.
func (a *answers) served(name string, handler http.Handler, path string) error {
	return a.measure(name, func() (answer, error) {
		w := &timedResponse{ResponseRecorder: httptest.NewRecorder()}
		request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		began, cpu := time.Now(), cputime.Used()
		handler.ServeHTTP(w, request)
		one := answer{w.first.Sub(began), time.Since(began), cputime.Used() - cpu}
		if w.Code != http.StatusOK {
			return one, fmt.Errorf("status %d: %s", w.Code, w.Body)
		}
		return one, nil
	})
}

// A timedResponse records the time of its first byte.
type timedResponse struct {
	*httptest.ResponseRecorder
	first time.Time
}

func (w *timedResponse) Write(b []byte) (int, error) {
	if w.first.IsZero() {
		w.first = time.Now()
	}
	return w.ResponseRecorder.Write(b)
}

// updates measures the time from a commit until a browser has received the updated view.
func (a *answers) updates(ctx context.Context, db *store.DB, page http.Handler) (err error) {
	server := httptest.NewServer(page)
	defer server.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := get(ctx, server.URL+"/events")
	if err != nil {
		return err
	}
	defer events.Close()
	lines := bufio.NewScanner(events)
	event := func() error {
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "data:") {
				return nil
			}
		}
		return errors.Join(errors.New("the events ended"), lines.Err())
	}
	if err := event(); err != nil { // this event is sent when the connection is opened, not after a commit
		return err
	}
	for _, path := range []string{"/", "/module/" + askedModule, "/queues"} {
		if err := a.measure("update of the view "+path+" after a commit", func() (answer, error) {
			cpu := cputime.Used()
			if err := db.Update(func(tx *store.Tx) error { return store.AddAction(tx, store.Action{Verb: "reload"}) }); err != nil {
				return answer{}, err
			}
			began := time.Now()
			if err := event(); err != nil {
				return answer{}, err
			}
			body, err := get(ctx, server.URL+path)
			if err != nil {
				return answer{}, err
			}
			first := time.Since(began)
			_, err = io.Copy(io.Discard, body)
			return answer{first, time.Since(began), cputime.Used() - cpu}, errors.Join(err, body.Close())
		}); err != nil {
			return err
		}
	}
	return nil
}

// get requests url and returns the body of the response. The caller must close the body.
func get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	return response.Body, nil
}

// overSocket measures the commands over a socket. Their requests are answered by handler.
func (a *answers) overSocket(ctx context.Context, handler http.Handler) error {
	socket := filepath.Join(a.dir, "socket")
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", socket)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // ends when the server is closed
	return errors.Join(a.commands(ctx, "socket", "--debug-unix-socket", socket), server.Close())
}

// commands measures all commands. The flags in flags make them read the socket or the store. The text in source says
// which of the two.
func (a *answers) commands(ctx context.Context, source string, flags ...string) error {
	for _, command := range commands {
		name := source + ": " + strings.Join(command, " ")
		if err := a.measure(name, func() (answer, error) { return a.command(ctx, append(slices.Clone(command), flags...)) }); err != nil {
			return err
		}
	}
	return nil
}

// attention is the exit code of a command that has found problems.
const attention = 3

// command measures one run of the command. The measured CPU time includes the CPU time of this process, which serves
// the socket.
func (a *answers) command(ctx context.Context, args []string) (one answer, err error) {
	run := exec.CommandContext(ctx, a.program, args...)
	var stderr bytes.Buffer
	run.Stderr = &stderr
	stdout, err := run.StdoutPipe()
	if err != nil {
		return one, err
	}
	began, serving := time.Now(), cputime.Used()
	if err := run.Start(); err != nil {
		return one, err
	}
	n, err := stdout.Read(make([]byte, 1))
	one.first = time.Since(began)
	if n == 1 {
		_, err = io.Copy(io.Discard, stdout)
	}
	one.all = time.Since(began)
	ended := run.Wait()
	one.cpu = run.ProcessState.UserTime() + run.ProcessState.SystemTime() + cputime.Used() - serving
	if n == 0 || run.ProcessState.ExitCode() != attention && ended != nil {
		return one, errors.Join(err, ended, errors.New(stderr.String()))
	}
	return one, err
}
