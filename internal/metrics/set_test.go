package metrics

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// scraped returns the samples of s whose names begin with prefix, except the buckets of histograms.
func scraped(t *testing.T, s *Set, prefix string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	s.Page().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	var samples []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) && !strings.Contains(line, "_bucket{") {
			samples = append(samples, strings.TrimSpace(line))
		}
	}
	return samples
}

func nothing() (State, error) { return State{}, nil }

func TestEachEventIsCountedUnderItsDocumentedName(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name string
		do   func(*Set)
		want []string
	}{
		{"task_wait", func(s *Set) { s.TaskWaited(Binding{"m", "h", "b", "q"}, 1500*time.Millisecond) }, []string{
			`p_task_wait_in_queue_seconds_total{binding="b",hook="h",module="m",queue="q"} 1.5`,
		}},
		{"task_wait", func(s *Set) { s.TaskWaited(Binding{}, -time.Hour) }, []string{ // the clock was set back
			`p_task_wait_in_queue_seconds_total{binding="",hook="",module="",queue=""} 0`,
		}},
		{"module_run", func(s *Set) { s.ModuleRan("m", "OperatorStartup", time.Second, ""); s.ModuleRunFailed("m") }, []string{
			`p_module_run_errors_total{module="m"} 1`,
			`p_module_run_seconds_sum{activation="OperatorStartup",module="m"} 1`, `p_module_run_seconds_count{activation="OperatorStartup",module="m"} 1`,
		}},
		{"module_delete", func(s *Set) { s.ModuleDeleteFailed("m") }, []string{`p_module_delete_errors_total{module="m"} 1`}},
		{"modules_", func(s *Set) { s.DiscoveryFailed(); s.ObjectsAbsent("m", []string{"ns/Service/a", "ns/Service/b"}) }, []string{
			`p_modules_absent_resources_total{module="m",resource="ns/Service/a"} 1`, `p_modules_absent_resources_total{module="m",resource="ns/Service/b"} 1`,
			`p_modules_discover_errors_total 1`, `p_modules_helm_release_redeployed_total{module="m"} 1`,
		}},
		{"config_", (*Set).ConfigRefused, []string{"p_config_values_errors_total 1"}},
		{"convergence", func(s *Set) { s.Converged("", 2*time.Second); s.Converged("", time.Second/2) }, []string{
			`p_convergence_seconds{activation=""} 2.5`, `p_convergence_total{activation=""} 2`,
		}},
		{"helm_", func(s *Set) { s.HelmDid("m", "", "upgrade", time.Second, "") }, []string{
			`p_helm_operation_seconds_sum{activation="",module="m",operation="upgrade"} 1`, `p_helm_operation_seconds_count{activation="",module="m",operation="upgrade"} 1`,
		}},
		{"addons_fetch", func(s *Set) { s.AddonsFetched("ns", "FetchingIndexError", 2*time.Second) }, []string{
			`p_addons_fetch_seconds_sum{reason="FetchingIndexError",scope="ns"} 2`, `p_addons_fetch_seconds_count{reason="FetchingIndexError",scope="ns"} 1`,
		}},
		{"module_helm", func(s *Set) { s.ModuleHelmDid("m", "", time.Second, "") }, []string{
			`p_module_helm_seconds_sum{activation="",module="m"} 1`, `p_module_helm_seconds_count{activation="",module="m"} 1`,
		}},
		{"module_hook", func(s *Set) {
			run := HookRun{Binding: Binding{"m", "h", "name", "q"}, Type: "b", Took: 2 * time.Second, User: time.Second, System: time.Second, MaxRSS: 7}
			s.HookRan(run)
			run.Failed = true
			s.HookRan(run)
			run.Allowed = true
			s.HookRan(run)
		}, []string{
			`p_module_hook_allowed_errors_total{activation="",binding="b",hook="h",module="m",queue="q"} 1`,
			`p_module_hook_errors_total{activation="",binding="b",hook="h",module="m",queue="q"} 1`,
			`p_module_hook_run_max_rss_bytes{activation="",binding="b",hook="h",module="m",queue="q"} 7`,
			`p_module_hook_run_seconds_sum{activation="",binding="b",hook="h",module="m",queue="q"} 6`,
			`p_module_hook_run_seconds_count{activation="",binding="b",hook="h",module="m",queue="q"} 3`,
			`p_module_hook_run_sys_cpu_seconds_sum{activation="",binding="b",hook="h",module="m",queue="q"} 3`,
			`p_module_hook_run_sys_cpu_seconds_count{activation="",binding="b",hook="h",module="m",queue="q"} 3`,
			`p_module_hook_run_user_cpu_seconds_sum{activation="",binding="b",hook="h",module="m",queue="q"} 3`,
			`p_module_hook_run_user_cpu_seconds_count{activation="",binding="b",hook="h",module="m",queue="q"} 3`,
			`p_module_hook_success_total{activation="",binding="b",hook="h",module="m",queue="q"} 1`,
		}},
		{"global_hook_s", func(s *Set) { s.HookRan(HookRun{Binding: Binding{Hook: "h", Name: "name", Queue: "q"}, Type: "b"}) }, []string{
			`p_global_hook_success_total{activation="",binding="b",hook="h",queue="q"} 1`,
		}},
		{"kube_jq", func(s *Set) { s.FilterTook(Binding{"m", "h", "b", "q"}, "Pod", time.Second) }, []string{
			`p_kube_jq_filter_duration_seconds_sum{binding="b",hook="h",kind="Pod",module="m",queue="q"} 1`,
			`p_kube_jq_filter_duration_seconds_count{binding="b",hook="h",kind="Pod",module="m",queue="q"} 1`,
		}},
		{"kube_event", func(s *Set) { s.EventTook(Binding{"m", "h", "b", "q"}, "Pod", time.Second) }, []string{
			`p_kube_event_duration_seconds_sum{binding="b",hook="h",kind="Pod",module="m",queue="q"} 1`,
			`p_kube_event_duration_seconds_count{binding="b",hook="h",kind="Pod",module="m",queue="q"} 1`,
		}},
		{"tasks_queue_action", func(s *Set) { s.QueueActed("main", "transition", time.Second) }, []string{
			`p_tasks_queue_action_duration_seconds_sum{queue_action="transition",queue_name="main"} 1`,
			`p_tasks_queue_action_duration_seconds_count{queue_action="transition",queue_name="main"} 1`,
		}},
		{"store_", func(s *Set) { s.Committed(time.Second, 6) }, []string{
			`p_store_commit_seconds_sum 1`, `p_store_commit_seconds_count 1`, `p_store_full 0`, `p_store_readable 1`, `p_store_size_bytes 0`, `p_store_writes_total 6`,
		}},
		{"hook_metrics", func(s *Set) { s.HookMetricsDropped("m", "h", "type", 2) }, []string{
			`p_hook_metrics_dropped_total{hook="h",module="m",reason="type"} 2`,
		}},
	} {
		s := New("p_", nothing)
		test.do(s)
		if d := cmp.Diff(test.want, scraped(t, s, "p_"+test.name)); d != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, d)
		}
	}
}

func TestStateIsReadAtEachScrape(t *testing.T) {
	t.Parallel()
	ticks := 0.0
	s := New("p_", func() (State, error) {
		ticks++
		return State{
			Ticks: ticks, StoreFull: true, StoreBytes: 4096,
			Queues: []Queue{{Name: "main", Length: 3, Node: "module-run", Module: "m", State: "retrying"}, {Name: "idle"}},
			Bindings: []Seen{
				{Binding: Binding{"m", "h", "pods", "q"}, Kubernetes: true, Objects: 5}, {Binding: Binding{"m", "h", "tick", "q"}},
			},
			Modules:        []Module{{Name: "m", Enabled: true, Maintenance: "NoResourceReconciliation"}, {Name: "n"}},
			Addons:         map[string]int{"cluster": 2, "ns/stage": 1},
			Configurations: []Configuration{{"cluster", "c1", "Ready"}}, OrphanedModules: []string{"redis"},
			Problems: map[Problem]int{{"failing", "m"}: 2, {"disk full", ""}: 1},
		}, nil
	})
	scraped(t, s, "p_")
	for prefix, want := range map[string][]string{
		"p_live_ticks": {"p_live_ticks 2"},
	} {
		if d := cmp.Diff(want, scraped(t, s, prefix)); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	got := strings.Join(scraped(t, s, "p_"), "\n")
	for _, line := range []string{
		"p_store_size_bytes 4096", `p_tasks_queue_length{queue="main"} 3`, `p_tasks_queue_length{queue="idle"} 0`,
		`p_tasks_queue_head_info{hook="",module="m",queue="main",task_type="module-run"} 1`,
		`p_tasks{queue="main",state="retrying"} 1`, `p_tasks{queue="main",state="waiting"} 2`,
		`p_binding_count{hook="h",module="m"} 2`, `p_kube_snapshot_objects{binding="pods",hook="h",module="m",queue="q"} 5`,
		`p_mm_module_info{critical="true",enabled="true",module="m"} 1`, `p_mm_module_enabled{module="n",version=""} 0`,
		`p_mm_module_maintenance{module="m",state="NoResourceReconciliation"} 1`, "p_store_readable 1", "p_store_full 1",
		`p_addons_registered{scope="cluster"} 2`, `p_addons_registered{scope="ns/stage"} 1`,
		`p_addons_config_phase{name="c1",phase="Ready",scope="cluster"} 1`, `p_addon_module_orphaned{module="redis"} 1`,
		`p_problems{kind="failing",module="m"} 2`, `p_problems{kind="disk full",module=""} 1`,
	} {
		if !strings.Contains(got, line) {
			t.Errorf("there is no %s", line)
		}
	}
	if strings.Contains(got, `binding="tick"`) {
		t.Error("a schedule has a snapshot")
	}
}

func TestAStoreThatCannotBeReadLeavesTheOtherMetrics(t *testing.T) {
	t.Parallel()
	s := New("p_", func() (State, error) { return State{}, errors.New("closed") })
	s.ConfigRefused()
	got := strings.Join(scraped(t, s, "p_"), "\n")
	if !strings.Contains(got, "p_store_readable 0") || !strings.Contains(got, "p_config_values_errors_total 1") || strings.Contains(got, "p_live_ticks") {
		t.Errorf("scraped:\n%s", got)
	}
}
