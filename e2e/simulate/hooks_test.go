package simulate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"addon-operator/internal/hook"
)

// moduleNames are the names of the simulated modules, in the order in which they run.
var moduleNames = []string{"alpha", "beta", "gamma"}

// files are the files of the modules and global hooks, except charts. The content of a hook file is the configuration
// that the hook prints for --config.
var files = map[string]string{
	"modules/values.yaml": "alphaEnabled: true\nbetaEnabled: true\ngammaEnabled: true\n",

	"modules/010-alpha/hooks/watch": `
configVersion: v1
onStartup: 1
afterHelm: 1
kubernetes:
- {name: objects, apiVersion: v1, kind: ConfigMap, queue: alpha, jqFilter: .data, includeSnapshotsFrom: [objects],
   namespace: {nameSelector: {matchNames: [apps]}}, labelSelector: {matchLabels: {for: alpha}}}
schedule:
- {name: ticks, crontab: "7 * * * *", queue: alpha, includeSnapshotsFrom: [objects]}
`,
	"modules/020-beta/hooks/watch": `
configVersion: v1
onStartup: 5
beforeHelm: 1
kubernetes:
- {name: objects, apiVersion: v1, kind: ConfigMap, jqFilter: .data,
   namespace: {nameSelector: {matchNames: [apps]}}, labelSelector: {matchLabels: {for: beta}}}
`,
	"modules/020-beta/hooks/turn": `
configVersion: v1
schedule:
- {name: ticks, crontab: "0 */6 * * *", queue: shared}
`,
	"modules/030-gamma/hooks/watch": `
configVersion: v1
onStartup: 1
afterHelm: 10
beforeDeleteHelm: 1
afterDeleteHelm: 1
settings: {executionMinInterval: 3s, executionBurst: 1}
kubernetes:
- {name: objects, apiVersion: v1, kind: ConfigMap, queue: shared, jqFilter: .data, waitForSynchronization: false,
   namespace: {nameSelector: {matchNames: [apps]}}, labelSelector: {matchLabels: {for: gamma}}}
`,
	"global-hooks/fleet": `
configVersion: v1
onStartup: 1
beforeAll: 1
afterAll: 1
kubernetes:
- {name: objects, apiVersion: v1, kind: ConfigMap, queue: shared, jqFilter: .data,
   namespace: {nameSelector: {matchNames: [apps]}}, labelSelector: {matchLabels: {for: fleet}}}
schedule:
- {name: ticks, crontab: "30 3 * * *", queue: shared}
`,
}

// chart returns the files of a chart with one ConfigMap, which shows the values of the module.
func chart(module string) map[string]string {
	return map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: " + module + "\nversion: 1.0.0\n",
		"values.yaml": module + ":\n  setting: initial\n  turn: none\n  objects: {}\n",
		"templates/state.yaml": fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata: {name: %[1]s-state}
data:
  setting: {{ .Values.%[1]s.setting | quote }}
  turn: {{ .Values.%[1]s.turn | quote }}
  objects: {{ .Values.%[1]s.objects | toJson | quote }}
`, module),
	}
}

// writeFiles writes the modules and global hooks below dir.
func writeFiles(t *testing.T, dir string) {
	t.Helper()
	all := maps.Clone(files)
	for i, module := range moduleNames {
		for name, text := range chart(module) {
			all[fmt.Sprintf("modules/%03d-%s/%s", 10*(i+1), module, name)] = text
		}
	}
	for name, text := range all {
		path := filepath.Join(dir, name)
		mode := os.FileMode(0o600)
		if filepath.Ext(name) == "" {
			mode = 0o700
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), mode)); err != nil {
			t.Fatal(err)
		}
	}
}

// A hookName identifies a hook by its module, which is empty for a global hook, and its file.
type hookName struct{ module, name string }

func (h hookName) String() string { return strings.TrimPrefix(h.module+" "+h.name, " ") }

// hooks simulates the programs of all hooks, and has the data that each hook remembers. The programs are not part of
// the operator, so a crash of the operator changes nothing here.
type hooks struct {
	simulation *simulation

	mu      sync.Mutex
	failing map[hookName]int           // number of times that each hook will fail from now on
	slow    map[hookName]time.Duration // duration of the next run of each hook
	known   map[hookName]map[string]string
	// added has the names of the objects that each hook has received in events. An event Deleted removes the name of
	// its object. A Synchronization does not change these names, because many real hooks do nothing on
	// Synchronization.
	added     map[hookName]map[string]bool
	succeeded map[string]bool // tasks for which a hook run has succeeded; each key is "TASK HOOK"
	ticks     map[hookName]int
	runs      int
	reported  string // last task for which the hook reporter has succeeded
	effected  string // last task whose object operation was executed
}

// reporter is the only hook that returns an object operation, and reportAddress is the address of the object.
var (
	reporter      = hookName{"gamma", "hooks/watch"}
	reportAddress = address{"configmaps", "apps", "report-gamma"}
)

// tookEffect records that the API server has executed the object operation of reporter. At this time the task has a
// journal, so that the next process continues with the journal after a crash.
func (hs *hooks) tookEffect() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.effected = hs.reported
}

// checkJournal reports a violation if the hook h runs again, after a crash and in the same container, for a task whose
// object operation was executed.
func (r *runner) checkJournal(h hookName, run hook.Run) {
	r.mu.Lock()
	effected := r.effected
	r.mu.Unlock()
	if h == reporter && run.Task == effected && run.Previous == hook.PreviousInterrupted && !r.process.newContainer {
		r.simulation.violated("journal: hook %s runs again for task %s, although its object operation was carried out", h, run.Task)
	}
}

func newHooks(w *simulation) *hooks {
	return &hooks{
		simulation: w, failing: map[hookName]int{}, slow: map[hookName]time.Duration{}, known: map[hookName]map[string]string{},
		added:     map[hookName]map[string]bool{},
		succeeded: map[string]bool{}, ticks: map[hookName]int{},
	}
}

// A runner runs the hooks of one process of the operator.
type runner struct {
	*hooks
	process *process
}

// Config implements hooks.Runner.
func (r *runner) Config(_ context.Context, file hook.File) (hook.Config, error) {
	text, err := os.ReadFile(file.Path)
	if err != nil {
		return hook.Config{}, err
	}
	return hook.Load(file.Scope, text)
}

// Enabled implements hooks.Runner. No module has an enabled script.
func (r *runner) Enabled(context.Context, hook.EnabledRun) (bool, string, error) {
	return false, "", errors.New("there is no enabled script")
}

// An element is one element of a binding context, as hooks read it.
type element struct {
	Binding      string            `json:"binding"`
	Type         string            `json:"type"`
	WatchEvent   string            `json:"watchEvent"`
	Object       *watched          `json:"object"`
	FilterResult json.RawMessage   `json:"filterResult"`
	Objects      []item            `json:"objects"`
	Snapshots    map[string][]item `json:"snapshots"`
}

type item struct {
	Object       *watched        `json:"object"`
	FilterResult json.RawMessage `json:"filterResult"`
}

type watched struct {
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
}

// Run implements hooks.Runner.
func (r *runner) Run(ctx context.Context, run hook.Run) (hook.Result, error) {
	h := hookName{run.Module, run.File.Name}
	var elements []element
	if err := json.Unmarshal(run.Context, &elements); err != nil {
		return hook.Result{}, err
	}
	about := summary(elements)
	r.process.pass("start " + h.String() + " " + run.Task)
	if r.process.dead.Load() {
		return hook.Result{}, hook.ErrInterrupted
	}
	r.simulation.note("hook "+h.String(), "starts for %s: task %s, attempt %d, previous %s", about, run.Task, run.Attempt, run.Previous)
	r.simulation.checks.started(h, elements)
	r.checkJournal(h, run)
	took := r.duration(h)
	if run.Started != nil {
		run.Started()
	}
	if err := r.process.until(ctx, took); err != nil {
		return hook.Result{}, fmt.Errorf("%w: %w", hook.ErrInterrupted, err)
	}
	r.process.pass("end " + h.String() + " " + run.Task)
	if r.process.dead.Load() || ctx.Err() != nil {
		return hook.Result{}, hook.ErrInterrupted
	}
	result, err := r.end(h, elements)
	result.Usage.Took = took
	word := "succeeds"
	if err != nil {
		word = "fails"
	}
	r.simulation.note("hook "+h.String(), "%s after %s: task %s", word, took, run.Task)
	if err == nil {
		r.mu.Lock()
		r.succeeded[run.Task+" "+h.String()] = true
		if h == reporter {
			r.reported = run.Task
		}
		r.mu.Unlock()
	}
	return result, err
}

// summary describes in short the binding context of a hook run.
func summary(elements []element) string {
	counts := map[string]int{}
	for _, e := range elements {
		counts[strings.TrimSpace(e.Type+" "+e.Binding)]++
	}
	var parts []string
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[what], what))
	}
	return strings.Join(parts, ", ")
}

// duration returns the duration of a run of h that begins now, in simulated time.
func (r *runner) duration(h hookName) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.runs++
	if d := r.slow[h]; d > 0 {
		delete(r.slow, h)
		return d
	}
	return time.Duration(10+r.process.below(500)) * time.Millisecond
}

// end returns the result of a run of h. If a failure is planned for h, the run fails; otherwise h remembers the
// objects in its binding context.
func (r *runner) end(h hookName, elements []element) (hook.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failing[h] > 0 {
		r.failing[h]--
		return hook.Result{}, &hook.ExitError{Code: 1, State: "exit status 1", Said: "it fails as planned"}
	}
	var result hook.Result
	for _, e := range elements {
		r.see(h, e)
		if of, ok := e.Snapshots["objects"]; ok && h.module == "alpha" {
			result.ValuesPatch = patch("/"+h.module+"/objects", contents(of))
		}
		if e.Type == "Schedule" {
			r.ticks[h]++
			if h.name == "hooks/turn" {
				result.ValuesPatch = patch("/beta/turn", r.process.now().Format(time.DateOnly))
			}
		}
		if e.Binding == "afterHelm" && h.module == "gamma" {
			result.Operations = marshal(map[string]any{"operation": "CreateOrUpdate", "object": map[string]any{
				"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "report-gamma", "namespace": "apps"},
				"data": map[string]any{"seen": string(marshal(r.known[h])), "run": strconv.Itoa(r.runs)}, // differs in each run, so that each run changes the object
			}})
		}
	}
	return result, nil
}

// see records that the hook h has received the objects in e.
func (r *runner) see(h hookName, e element) {
	switch e.Type {
	case "Synchronization":
		r.known[h] = contents(e.Objects)
	case "Event":
		if r.known[h] == nil {
			r.known[h] = map[string]string{}
		}
		if r.added[h] == nil {
			r.added[h] = map[string]bool{}
		}
		if name := e.Object.Metadata.Name; e.WatchEvent == "Deleted" {
			delete(r.known[h], name)
			delete(r.added[h], name)
		} else {
			r.known[h][name] = string(e.FilterResult)
			r.added[h][name] = true
		}
	}
}

// contents returns the filter results of items, by the name of the object.
func contents(items []item) map[string]string {
	out := map[string]string{}
	for _, i := range items {
		out[i.Object.Metadata.Name] = string(i.FilterResult)
	}
	return out
}

func patch(path string, value any) []byte {
	return marshal([]any{map[string]any{"op": "add", "path": path, "value": value}})
}

// seen returns the data of the objects that h knows, by name: those of its last Synchronization, updated by the events
// since then.
func (hs *hooks) seen(h hookName) map[string]string {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return maps.Clone(hs.known[h])
}

// undeleted returns the names of the objects that h has received in events, and whose deletion it has not
// received.
func (hs *hooks) undeleted(h hookName) []string {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return slices.Sorted(maps.Keys(hs.added[h]))
}

// lose forgets which objects the hooks of module have received in events. If the argument every is true, lose forgets
// this for the hooks of all modules, and for global hooks. It is called when the operator loses its record of delivered
// objects, and so cannot deliver their deletion.
func (hs *hooks) lose(module string, every bool) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	maps.DeleteFunc(hs.added, func(h hookName, _ map[string]bool) bool { return every || h.module == module })
}

// heal cancels the planned failures and delays of all hooks.
func (hs *hooks) heal() {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	clear(hs.failing)
	clear(hs.slow)
}
