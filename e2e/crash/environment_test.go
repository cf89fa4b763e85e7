package crash_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/operator"
	"addon-operator/store"
)

// An environment is the namespace and the files of one operator. The operator is restarted in it
// after each crash.
type environment struct {
	operator operator.Environment
	record   string // path of the file to which hooks append their binding contexts
	client   kubernetes.Interface
	test     string // name of the test that uses the environment
	// continues is set if the operator continues with the other modules after the failure of a module.
	continues bool
}

// build builds the operator with failpoints, once for all tests, and returns the path of the
// program.
func build(t *testing.T) string {
	t.Helper()
	program.once.Do(func() {
		program.dir, program.err = os.MkdirTemp("", "crash-") //nolint:usetesting // t.TempDir is removed after the first test, but later tests use the program too
		if program.err == nil {
			program.path, program.err = operator.Build(program.dir, "failpoint")
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

// newEnvironment creates a namespace with an empty ConfigMap of the operator, and the directories of an operator that
// has not run yet.
func newEnvironment(t *testing.T) *environment {
	t.Helper()
	c := cluster.Start(t)
	dir, err := os.MkdirTemp("", "crash-") //nolint:usetesting // the path of t.TempDir is too long for the socket
	if err != nil {
		t.Fatal(err)
	}
	w := &environment{record: filepath.Join(dir, "record"), test: t.Name()}
	if w.client, err = kubernetes.NewForConfig(c.Config()); err != nil {
		t.Fatal(err)
	}
	w.operator = operator.Environment{
		Program: build(t), Dir: dir, Kubeconfig: c.Kubeconfig(), Namespace: c.Namespace(t),
		ModulesDir: filepath.Join(dir, "modules"), GlobalHooksDir: filepath.Join(dir, "global-hooks"),
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the operator's log:\n%s", w.operator.EndOfLog())
			t.Logf("the runs:\n%s", w.runTexts())
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	w.create(t, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "addon-operator"}})
	return w
}

func (w *environment) create(t *testing.T, c *corev1.ConfigMap) {
	t.Helper()
	if _, err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).Create(t.Context(), c, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// start starts the operator with the additional environment variables env. At the end of the test, the operator is
// killed if it still runs.
func (w *environment) start(t *testing.T, env ...string) *operator.Process {
	t.Helper()
	if w.continues {
		env = append(env, "ADDON_OPERATOR_ON_MODULE_FAILURE=continue")
	}
	p, err := w.operator.Start(append(env, "RECORD="+w.record)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if p.Killed() {
			killed.add(w.test)
		}
		p.Kill()
	})
	return p
}

// namespace is a placeholder in the files of modules and hooks. lay replaces it by the namespace of the environment.
const namespace = "@namespace@"

// lay replaces the directories modules and global-hooks of the environment by the given files.
func (w *environment) lay(t *testing.T, files map[string]string) {
	t.Helper()
	for _, top := range []string{"modules", "global-hooks"} {
		if err := os.RemoveAll(filepath.Join(w.operator.Dir, top)); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		path := filepath.Join(w.operator.Dir, name)
		mode := os.FileMode(0o600)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o700
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(content, namespace, w.operator.Namespace)), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// script returns a hook with this config. Each run of the hook adds a line to the record, runs the shell code in work,
// and adds another line.
func script(name string, config map[string]any, work string) string {
	config["configVersion"] = "v1"
	text, err := json.Marshal(config)
	if err != nil {
		panic(err) // happens only if a literal of these tests is wrong
	}
	return fmt.Sprintf(recorder, text, name, work)
}

// watch returns the config of a hook that watches the ConfigMaps with the given label in the namespace of the
// environment.
func watch(label, queue string) map[string]any {
	binding := map[string]any{
		"name": "seen", "apiVersion": "v1", "kind": "ConfigMap", "jqFilter": "{name: .metadata.name, data}",
		"labelSelector":           map[string]any{"matchLabels": map[string]string{label: "yes"}},
		"namespace":               map[string]any{"nameSelector": map[string]any{"matchNames": []string{namespace}}},
		"keepFullObjectsInMemory": false,
	}
	if queue != "" {
		binding["queue"] = queue
	}
	return map[string]any{"kubernetes": []any{binding}}
}

// quiet waits until the operator has converged, hooks have received at least want deliveries, and no hook has started
// or ended for 300 ms. Then it stops the operator. If want is 0, quiet waits until hooks have received the current
// state of the ConfigMaps, and no hook has started or ended for two seconds.
func (w *environment) quiet(t *testing.T, p *operator.Process, want int) {
	t.Helper()
	if err := w.rest(t, p, want); err != nil {
		t.Error(err)
	}
}

// rest does the same as quiet, but returns an error if the operator is killed meanwhile, or if hooks do not receive the
// wanted number of deliveries in time.
func (w *environment) rest(t *testing.T, p *operator.Process, want int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	if err := p.Ready(ctx); p.Killed() {
		return err
	} else if err != nil {
		t.Fatalf("%v\nrecord: %v", err, deliveries(w.runs(t)))
	}
	silence := 300 * time.Millisecond
	if want == 0 {
		silence = 2 * time.Second
	}
	had, since := -1, time.Now()
	err := p.Until(ctx, "hooks to come to rest", func() bool {
		runs := w.runs(t)
		if len(runs) != had {
			had, since = len(runs), time.Now()
		}
		return time.Since(since) > silence && total(deliveries(runs)) >= want && (want > 0 || w.upToDate(t, runs))
	})
	if err != nil {
		err = fmt.Errorf("%w; hooks received %d of %d deliveries", err, total(deliveries(w.runs(t))), want)
	}
	err = errors.Join(err, p.Stop())
	w.noHooks(t, p.Killed())
	return err
}

func (w *environment) runs(t *testing.T) []run {
	t.Helper()
	runs, err := readRecord(w.record)
	if err != nil {
		t.Fatal(err)
	}
	return runs
}

// ended are the options to open the store of an operator that has ended. If the operator was killed
// while it started a hook, the child process keeps the lock until it executes the hook, which can
// take long on a loaded machine.
var ended = store.Options{LockWait: time.Minute}

// inStore opens the store of the stopped operator, checks the store, and calls fn with a read
// transaction.
func (w *environment) inStore(t *testing.T, fn func(*store.Tx) error) {
	t.Helper()
	db, err := store.OpenReadOnly(w.operator.Store(), ended)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Check(); err != nil {
		t.Error(err)
	}
	if err := db.View(fn); err != nil {
		t.Error(err)
	}
}

// upToDate reports whether the hooks that watch the ConfigMaps of the charts have received the current state of each of
// them, and whether the global hook has received the deletion of each deleted one.
func (w *environment) upToDate(t *testing.T, runs []run) bool {
	t.Helper()
	received := receivedConfigMaps(runs)
	list, err := w.client.CoreV1().ConfigMaps(w.operator.Namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "all=yes"})
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, c := range list.Items {
		exists["global/watch "+c.Name] = true
		for _, hook := range []string{"global/watch", c.Name + "/watch"} {
			if data, found := received[hook+" "+c.Name]; !found || !maps.Equal(data, c.Data) {
				return false
			}
		}
	}
	for key := range received {
		if strings.HasPrefix(key, "global/watch ") && !exists[key] {
			return false
		}
	}
	return true
}

// receivedConfigMaps returns, for each hook and ConfigMap, the last data that the hook has received. It leaves out
// ConfigMaps whose deletion the hook has received. A key is the hook and the name of the ConfigMap, separated by a
// space.
func receivedConfigMaps(runs []run) map[string]map[string]string {
	received := map[string]map[string]string{}
	for _, r := range runs {
		if r.word != "end" || !strings.HasSuffix(r.hook, "/watch") {
			continue
		}
		for _, e := range r.elements {
			results := []json.RawMessage{e.FilterResult}
			for _, o := range e.Objects {
				results = append(results, o.FilterResult)
			}
			for _, result := range results {
				var object struct {
					Name string            `json:"name"`
					Data map[string]string `json:"data"`
				}
				if json.Unmarshal(result, &object) != nil || object.Name == "" {
					continue
				}
				if received[r.hook+" "+object.Name] = object.Data; e.WatchEvent == "Deleted" {
					delete(received, r.hook+" "+object.Name)
				}
			}
		}
	}
	return received
}

// runTexts returns one line for each run in the history, the latest run first, with its cause. For a start run, the
// cause says why the process began it instead of resuming the previous one. If the store cannot be read, runTexts
// returns the error.
func (w *environment) runTexts() string {
	db, err := store.OpenReadOnly(w.operator.Store(), store.Options{Clock: time.Now})
	if err != nil {
		return err.Error()
	}
	var lines []string
	err = db.View(func(tx *store.Tx) error {
		for run, err := range store.RunsBackwards(tx) {
			if err != nil {
				return err
			}
			lines = append(lines, fmt.Sprintf("%d %s %s %s: %+v", run.ID, run.Began.Format(time.StampMilli), run.Trigger, run.Subject, run.Cause))
		}
		return nil
	})
	if err = errors.Join(err, db.Close()); err != nil {
		lines = append(lines, err.Error())
	}
	return strings.Join(lines, "\n")
}

// noHooks fails the test if a process of a hook still runs after its operator was stopped. If the operator was killed
// instead, noHooks waits up to a minute for the end of the processes: the kernel kills the hooks at once, but a program
// that a hook has started can end a moment later.
func (w *environment) noHooks(t *testing.T, killed bool) {
	t.Helper()
	db, err := store.OpenReadOnly(w.operator.Store(), ended)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	left := hooksOf(t, db.ID())
	for began := time.Now(); killed && len(left) > 0 && time.Since(began) < time.Minute; left = hooksOf(t, db.ID()) {
		time.Sleep(20 * time.Millisecond)
	}
	for _, pid := range left {
		t.Errorf("process %d of a hook still runs", pid)
	}
}

// hooksOf returns the process ids of running hooks of the operator whose store has this id. Each hook has the id in
// the environment variable ADDON_OPERATOR_STORE_ID.
func hooksOf(t *testing.T, id string) (pids []int) {
	t.Helper()
	environments, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range environments {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // the process has ended, or belongs to another user
		}
		var pid int
		if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && strings.Contains(string(content), "ADDON_OPERATOR_STORE_ID="+id) {
			pids = append(pids, pid)
		}
	}
	return pids
}
