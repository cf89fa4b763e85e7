package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/api"
	"addon-operator/internal/metrics"
	"addon-operator/steps/addons/registry"
	"addon-operator/steps/report"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

func TestInvalidConfigMapIsReportedOnceForEachContent(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := &lifecycleObserver{
		log: zerolog.New(&log), notices: newNotices(nil, &settings.Settings{}, zerolog.Nop()), converged: new(atomic.Bool),
		metrics: metrics.New("p_", func() (metrics.State, error) { return metrics.State{}, nil }),
	}
	o.ConfigRefused("1", "a is not a number")
	o.ConfigRefused("1", "a is not a number")
	if got := strings.Count(log.String(), "a is not a number"); got != 1 {
		t.Errorf("content refused twice is logged %d times, want once:\n%s", got, &log)
	}
	o.ConfigRefused("2", "a is not a number")
	if got := strings.Count(log.String(), "a is not a number"); got != 2 {
		t.Errorf("two refused contents are logged %d times, want twice:\n%s", got, &log)
	}
}

func TestMetricsAreLabeledAsStartupUntilTheFirstConvergeEnds(t *testing.T) {
	t.Parallel()
	converged := new(atomic.Bool)
	o := &lifecycleObserver{converged: converged}
	if got := o.activation(); got != "OperatorStartup" {
		t.Errorf("before the first converge ends: activation %q, want OperatorStartup", got)
	}
	converged.Store(true)
	if got := o.activation(); got != "" {
		t.Errorf("after the first converge: activation %q, want none", got)
	}
}

func TestSlowEnabledScriptIsLoggedAndShownWithItsEffect(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := &lifecycleObserver{
		log: zerolog.New(&log), notices: newNotices(nil, &settings.Settings{}, zerolog.Nop()), slow: new(debugapi.SlowRuns),
		metrics: metrics.New("p_", func() (metrics.State, error) { return metrics.State{}, nil }),
	}
	script := store.Task{Node: string(lifecycle.DiscoverModules), Subject: graph.Subject{Module: "web", Hook: "enabled"}}
	ended := o.HookSlow(report.SlowRun{Node: lifecycle.DiscoverModules, Task: workflow.Task{Task: script}, After: 10 * time.Minute})
	ended()
	for _, want := range []string{
		`"module":"web","hook":"enabled"`, "enabled script has been running for 10m0s; no converge installs, upgrades or deletes a module until it ends",
		"slow enabled script has ended",
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, &log)
		}
	}
	want := "discover-modules web/enabled has been running for 10m0s; no converge installs, upgrades or deletes a module until it ends. "
	if n := <-o.notices.queue; !strings.HasPrefix(n.message, want) {
		t.Errorf("the notice is %q, want %q", n.message, want)
	}
}

func TestSlowHookIsLoggedCountedAndShownUntilItEnds(t *testing.T) {
	t.Parallel()
	db, err := store.OpenMemory(new(store.Memory), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	began := time.Now().Add(-10 * time.Minute).UTC()
	task := store.Task{
		ID: store.ID{Epoch: 1, N: 7}, Graph: lifecycle.Graph.Name, Node: string(lifecycle.ModuleKubernetesEvent), Run: 3, Queued: began,
		Pos:     store.Pos{Queue: "q", Slot: store.FirstSlot},
		Subject: graph.Subject{Module: "web", Hook: "hooks/copy.sh", Binding: "pods"}, Claim: &store.Claim{Epoch: 1, Since: began},
	}
	if err := db.Update(func(tx *store.Tx) error {
		run := store.Run{ID: task.Run, Graph: task.Graph, Trigger: string(lifecycle.OnModuleKubeEvent), Began: began, Open: 1}
		if err := store.Save(tx, store.RunKey(run.ID), run); err != nil {
			return err
		}
		return store.SaveTask(tx, &task)
	}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := &lifecycleObserver{
		log: zerolog.New(&log), slow: new(debugapi.SlowRuns), notices: newNotices(nil, &settings.Settings{}, zerolog.Nop()),
		metrics: metrics.New("p_", func() (metrics.State, error) { return metrics.State{}, nil }),
	}
	api := debugapi.API{DB: db, Now: time.Now, Slow: o.slow}
	asked := func(h http.Handler, path string) string {
		t.Helper()
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if answer.Code != http.StatusOK {
			t.Fatalf("GET %s: status %d: %s", path, answer.Code, answer.Body)
		}
		return answer.Body.String()
	}
	pages := map[string]string{
		"/workflow/inspect.text?run=3": "unusually long",
		"/workflow/inspect.json?run=3": `"kind": "slow"`,
		"/status.text":                 "unusually long",
		"/status.json":                 `"kind": "slow"`,
	}
	gauge := `p_hook_runs_slow{hook="hooks/copy.sh",module="web"} `

	ended := o.HookSlow(report.SlowRun{
		Node: lifecycle.ModuleKubernetesEvent, Task: workflow.Task{Task: task}, Since: began, After: 10 * time.Minute, Longest: 2 * time.Second,
	})
	for path, want := range pages {
		if page := asked(api.Routes(), path); !strings.Contains(page, want) {
			t.Errorf("%s lacks %q:\n%s", path, want, page)
		}
	}
	if page := asked(o.metrics.Page(), "/metrics"); !strings.Contains(page, gauge+"1") {
		t.Errorf("metrics lack %s1:\n%s", gauge, page)
	}
	for _, want := range []string{`"level":"warn"`, `"hook":"hooks/copy.sh"`, `"task":"1-7"`, "hook has been running for 10m0s; its longest run with this code took 2s"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, log.String())
		}
	}

	ended()
	for path, not := range pages {
		if page := asked(api.Routes(), path); strings.Contains(page, not) {
			t.Errorf("%s still has %q:\n%s", path, not, page)
		}
	}
	if page := asked(o.metrics.Page(), "/metrics"); !strings.Contains(page, gauge+"0") {
		t.Errorf("metrics lack %s0:\n%s", gauge, page)
	}
}

func TestStepOfANode(t *testing.T) {
	t.Parallel()
	for number, want := range map[string]string{"5": "5", "5c": "5", "5g": "5", "16": "16"} {
		if got := stepOf(&graph.Node{Number: number}); got != want {
			t.Errorf("node %s: step %q, want %q", number, got, want)
		}
	}
}

func TestMetricsOfTimesHaveNoSeriesForEachConfiguration(t *testing.T) {
	t.Parallel()
	o := &lifecycleObserver{
		queueActions: true, metrics: metrics.New("p_", func() (metrics.State, error) { return metrics.State{}, nil }),
	}
	acted := o.timeActions(workflow.Observer{}).Acted
	acted("main", workflow.PutTime, time.Second)
	for _, id := range []api.Identity{{Name: "cluster-wide"}, {Namespace: "stage", Name: "c"}, {Namespace: "prod", Name: "c"}} {
		subject := graph.Subject{Configuration: id.String()}
		acted(subject.Queue(), workflow.PutTime, time.Second)
		o.metrics.TaskWaited(waitedAs(subject, string(addons.FetchRepositories), subject.Queue()), time.Second)
		o.addonsFetches(registry.Scope(id.Namespace))("")
	}
	answer := httptest.NewRecorder()
	o.metrics.Page().ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
	page := answer.Body.String()
	for _, want := range []string{
		`p_tasks_queue_action_duration_seconds_count{queue_action="put",queue_name="main"} 1`,
		`p_tasks_queue_action_duration_seconds_count{queue_action="put",queue_name="configuration/*"} 3`,
		`p_task_wait_in_queue_seconds_total{binding="fetch-repositories",hook="",module="",queue="configuration/*"} 3`,
		`p_addons_fetch_seconds_count{reason="",scope="cluster"} 1`,
		`p_addons_fetch_seconds_count{reason="",scope="ns"} 2`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	for line := range strings.Lines(page) {
		if strings.Contains(line, "cluster-wide") || strings.Contains(line, "stage") || strings.Contains(line, "prod") {
			t.Errorf("a series names a configuration or a namespace: %s", line)
		}
	}
}
