package metrics

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"
)

const prometheusAccepts = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"

// page returns the metrics page of s, as served to a client whose Accept header is accept.
func page(t *testing.T, s *Set, accept string) (contentType, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
	r.Header.Set("Accept", accept)
	w := httptest.NewRecorder()
	s.Page().ServeHTTP(w, r)
	return w.Header().Get("Content-Type"), w.Body.String()
}

func TestTracedRunsAreExemplarsInOpenMetrics(t *testing.T) {
	t.Parallel()
	const trace = "0af7651916cd43dd8448eb211c80319c"
	s := New("p_", nothing)
	s.Exemplars = true
	s.HookRan(HookRun{Binding: Binding{"m", "traced", "b", "q"}, Type: "schedule", Took: time.Second, User: time.Second, System: time.Second, Trace: trace})
	s.HookRan(HookRun{Binding: Binding{"m", "other", "b", "q"}, Type: "schedule", Took: time.Second})
	s.ModuleRan("m", "", time.Second, trace)
	s.HelmDid("m", "", "upgrade", time.Second, trace)
	s.ModuleHelmDid("m", "", time.Second, trace)
	s.Converged("", time.Second)

	contentType, open := page(t, s, prometheusAccepts)
	if !strings.HasPrefix(contentType, "application/openmetrics-text") {
		t.Errorf("content type %q", contentType)
	}
	exemplar := `le="1.0"[^}]*\} 1 # \{trace_id="` + trace + `"\} 1\.0 `
	for _, want := range []string{
		`p_module_hook_run_seconds_bucket\{[^}]*hook="traced"[^}]*` + exemplar, `p_module_hook_run_user_cpu_seconds_bucket\{[^}]*hook="traced"[^}]*` + exemplar,
		`p_module_hook_run_sys_cpu_seconds_bucket\{[^}]*hook="traced"[^}]*` + exemplar,
		`p_module_run_seconds_bucket\{[^}]*` + exemplar, `p_helm_operation_seconds_bucket\{[^}]*` + exemplar, `p_module_helm_seconds_bucket\{[^}]*` + exemplar,
		`\np_convergence_seconds\{activation=""\} 1\.0\n`, `\n# TYPE p_convergence_seconds unknown\n`, // counters keep their names
		`\np_convergence_total\{activation=""\} 1\.0\n`, `\n# TYPE p_convergence counter\n`,
	} {
		if !regexp.MustCompile(want).MatchString(open) {
			t.Errorf("no %s in:\n%s", want, open)
		}
	}
	if regexp.MustCompile(`hook="other".*trace_id`).MatchString(open) {
		t.Error("a run that is not traced has an exemplar")
	}
	contentType, text := page(t, s, "text/plain;version=0.0.4")
	if !strings.HasPrefix(contentType, "text/plain") || strings.Contains(text, "trace_id") || !strings.Contains(text, "# TYPE p_convergence_seconds counter\n") {
		t.Errorf("content type %q:\n%s", contentType, text)
	}
}

func TestOpenMetricsIsServedOnlyWithExemplars(t *testing.T) {
	t.Parallel()
	if contentType, _ := page(t, New("p_", nothing), prometheusAccepts); !strings.HasPrefix(contentType, "text/plain") {
		t.Errorf("content type %q, want text/plain", contentType)
	}
}
