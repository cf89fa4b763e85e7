package metrics

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// documented lists the metrics of flant/addon-operator that this operator must have too, with name, type and labels.
// Metrics without a meaning in this operator are left out.
const documented = `
live_ticks counter
binding_count gauge module hook
config_values_errors_total counter
modules_discover_errors_total counter
module_run_seconds histogram module activation
module_run_errors_total counter module
module_delete_errors_total counter module
modules_helm_release_redeployed_total counter module
modules_absent_resources_total counter module resource
module_hook_run_seconds histogram module hook binding queue activation
module_hook_run_user_cpu_seconds histogram module hook binding queue activation
module_hook_run_sys_cpu_seconds histogram module hook binding queue activation
module_hook_run_max_rss_bytes gauge module hook binding queue activation
module_hook_errors_total counter module hook binding queue activation
module_hook_allowed_errors_total counter module hook binding queue activation
module_hook_success_total counter module hook binding queue activation
global_hook_run_seconds histogram hook binding queue activation
global_hook_run_user_cpu_seconds histogram hook binding queue activation
global_hook_run_sys_cpu_seconds histogram hook binding queue activation
global_hook_run_max_rss_bytes gauge hook binding queue activation
global_hook_errors_total counter hook binding queue activation
global_hook_allowed_errors_total counter hook binding queue activation
global_hook_success_total counter hook binding queue activation
convergence_seconds counter activation
convergence_total counter activation
module_helm_seconds histogram module activation
helm_operation_seconds histogram module activation operation
task_wait_in_queue_seconds_total counter module hook binding queue
tasks_queue_length gauge queue
tasks_queue_head_info gauge queue module task_type hook
tasks_queue_action_duration_seconds histogram queue_name queue_action
mm_module_info gauge module enabled critical
mm_module_enabled gauge module version
mm_module_maintenance gauge module state
kube_snapshot_objects gauge module hook binding queue
kube_jq_filter_duration_seconds histogram module hook binding queue kind
kube_event_duration_seconds histogram module hook binding queue kind
kubernetes_client_watch_errors_total counter error_type
kubernetes_client_request_result_total counter code method host
kubernetes_client_request_latency_seconds histogram verb host
kubernetes_client_rate_limiter_latency_seconds histogram verb host
`

func TestDocumentedMetricsHaveTheirNamesTypesAndLabels(t *testing.T) {
	t.Parallel()
	listed := map[string]metric{}
	for _, m := range New("p_", nothing).metrics() {
		if _, twice := listed[m.Name]; twice || m.Help == "" {
			t.Errorf("%+v is listed twice, or its help is empty", m)
		}
		listed[m.Name] = m
	}
	for line := range strings.Lines(strings.TrimSpace(documented)) {
		words := strings.Fields(line)
		m := listed["p_"+words[0]]
		if got := append([]string{m.Type}, m.Labels...); !slices.Equal(words[1:], got) {
			t.Errorf("%s is %v", strings.TrimSpace(line), got)
		}
		if m.Type == typeHistogram && !slices.Equal(m.Buckets[:len(buckets)], []float64{0, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10}) {
			t.Errorf("%s has the buckets %v", words[0], m.Buckets)
		}
	}
}

func TestThePageServesWhatIsListed(t *testing.T) {
	t.Parallel()
	b := Binding{"m", "h", "b", "q"}
	s := New("p_", func() (State, error) {
		return State{
			Queues:   []Queue{{Name: "main", Length: 1, State: waiting}},
			Bindings: []Seen{{Binding: b, Kubernetes: true}}, Modules: []Module{{Name: "m", Maintenance: "on"}},
			Addons: map[string]int{"cluster": 1}, Configurations: []Configuration{{Scope: "cluster", Name: "c", Phase: "Ready"}}, OrphanedModules: []string{"m"},
			Problems: map[Problem]int{{Kind: "failing", Module: "m"}: 1},
		}, nil
	})
	for _, run := range []HookRun{{}, {Failed: true}, {Failed: true, Allowed: true}} {
		s.HookRan(run)
		run.Binding = b
		s.HookRan(run)
	}
	s.TaskWaited(b, 1)
	s.TaskEnded("n", "done")
	s.ModuleRan("m", "", 1, "")
	s.ModuleRunFailed("m")
	s.ModuleDeleteFailed("m")
	s.Converged("", 1)
	s.HelmDid("m", "", "upgrade", 1, "")
	s.ModuleHelmDid("m", "", 1, "")
	s.AddonsFetched("cluster", "", 1)
	s.ObjectsAbsent("m", []string{"o"})
	s.Looped("n", "m")
	s.RecordDamaged("queues")
	s.FilterFailed(b, "Pod")
	s.WatchFailed("Gone")
	s.HookMetricsDropped("m", "h", "type", 1)
	s.HookSlow("m", "h")
	s.QueueActed("main", "put", 1)
	s.FilterTook(b, "Pod", 1)
	s.EventTook(b, "Pod", 1)
	s.Reviewed(Review{Binding: b})
	s.client.latency.WithLabelValues("GET", "h").Observe(1)
	s.client.limited.WithLabelValues("GET", "h").Observe(1)
	s.client.results.WithLabelValues("200", "GET", "h").Inc()

	families, err := s.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	served := map[string]string{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "p_") {
			continue
		}
		words := []string{strings.ToLower(f.GetType().String())}
		for _, l := range f.GetMetric()[0].GetLabel() {
			words = append(words, l.GetName())
		}
		served[f.GetName()] = strings.Join(words, " ") + ": " + f.GetHelp()
	}
	listed := map[string]string{}
	for _, m := range s.metrics() {
		labels := slices.Sorted(slices.Values(m.Labels))
		listed[m.Name] = strings.Join(append([]string{m.Type}, labels...), " ") + ": " + m.Help
	}
	if d := cmp.Diff(listed, served); d != "" {
		t.Errorf("(-listed +served):\n%s", d)
	}
}

var update = flag.Bool("update", false, "write the list in the reference")

// TestTheReferenceListsWhatIsServed compares the list of metrics on the reference page with the metrics in the code.
func TestTheReferenceListsWhatIsServed(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "docs", "reference", "metrics.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- Made from the code by go test ./internal/metrics -update. -->\n", "<!-- Until here. -->\n"
	before, rest, ok1 := strings.Cut(string(page), begin)
	got, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no place for the list", path)
	}
	var want strings.Builder
	want.WriteString("\n| metric | type | labels | |\n|---|---|---|---|\n")
	for _, m := range New("addon_operator_", nothing).metrics() {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, m.Help)
	}
	want.WriteString("\n")
	if *update {
		got = want.String()
		if err := os.WriteFile(path, []byte(before+begin+got+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want.String(), got); d != "" {
		t.Errorf("%s is not what go test ./internal/metrics -update writes (-want +got):\n%s", path, d)
	}
}
