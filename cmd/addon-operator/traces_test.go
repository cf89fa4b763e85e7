package main

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/collector"
)

// sendSoon makes the operators of the test send their spans after 50 ms.
func sendSoon(t *testing.T) {
	t.Helper()
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
}

// spansOf returns the spans in the collector c that have these attributes, sorted by the number of
// the attempt.
func spansOf(c *collector.Collector, attributes map[string]string) (found []collector.Span) {
	for _, s := range c.Spans() {
		matches := true
		for name, value := range attributes {
			matches = matches && s.Attributes["addon_operator."+name] == value
		}
		if matches {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b collector.Span) int {
		return strings.Compare(a.Attributes["addon_operator.attempt"], b.Attributes["addon_operator.attempt"])
	})
	return found
}

// lines returns the lines of a file in the directory of the fixture; nil if the file does not
// exist.
func (s *fixture) lines(name string) (lines []string) {
	s.t.Helper()
	f, err := os.Open(s.path(name))
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	defer f.Close()
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		lines = append(lines, scanner.Text())
	}
	return lines
}

// TestRunsAreTracesAndAttemptsAreSpans runs a module whose hook fails once and then writes an object,
// which another hook watches.
func TestRunsAreTracesAndAttemptsAreSpans(t *testing.T) {
	sendSoon(t)
	c := cluster.Start(t)
	spans := collector.Start(t)
	s := newFixture(t)
	s.file("modules/values.yaml", "webEnabled: true\n")
	s.file("modules/010-web/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\n")
	s.file("modules/010-web/enabled", "#!/bin/bash\necho \"enabled ${TRACEPARENT:-none}\" >> "+s.path("other")+"\necho true > $MODULE_ENABLED_RESULT\n")
	s.file("modules/010-web/hooks/writes.sh", "#!/bin/bash\nif [[ $1 == --config ]]; then echo \"config ${TRACEPARENT:-none}\" >> "+s.path("other")+
		`; echo '{"configVersion":"v1","beforeHelm":1}'; exit 0; fi
echo "$TRACEPARENT" >> `+s.path("writes")+`
if [[ $ADDON_OPERATOR_ATTEMPT == 1 ]]; then echo "cannot reach it with password=hunter2" >&2; exit 3; fi
echo '{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"written","namespace":"'$NS'"},"data":{"a":"b"}}}' > $KUBERNETES_PATCH_PATH
`)
	namespace := c.Namespace(t)
	t.Setenv("NS", namespace)
	s.file("global-hooks/watches.sh", hookText(
		`{"configVersion":"v1","kubernetes":[{"name":"written","kind":"ConfigMap","queue":"side","namespace":{"nameSelector":{"matchNames":["`+namespace+`"]}},`+
			`"nameSelector":{"matchNames":["written"]},"executeHookOnSynchronization":false}]}`,
		`echo "$TRACEPARENT" >> `+s.path("watches")))
	s.start(c.Kubeconfig(), namespace, "--tracing-otlp-endpoint", spans.GRPC, "--tracing-otlp-auth-token", "tok-123")
	s.converged()
	s.until("the run of the event is sent", func() bool {
		return len(spansOf(spans, map[string]string{"hook": "watches.sh", "cause.event": "Added"})) > 0
	})
	metrics := ""
	s.until("the upgrade and the run of the module are measured", func() bool {
		metrics = s.openMetrics(t)
		return regexp.MustCompile(`(?s)helm_operation_seconds_bucket\{[^}]*operation="upgrade"[^}]*\} \d+ # .*module_run_seconds_bucket\{[^}]*module="web"[^}]*\} \d+ # `).MatchString(metrics)
	})
	s.until("the span of the module's run is sent", func() bool {
		attempts := spansOf(spans, map[string]string{"hook": "hooks/writes.sh", "node": "module-beforehelm"})
		return len(attempts) > 0 && slices.ContainsFunc(spansOf(spans, map[string]string{"run": attempts[0].Attributes["addon_operator.run"]}),
			func(span collector.Span) bool { return span.Parent == "" })
	})
	if err := s.end(); err != nil {
		t.Fatal(err)
	}

	// Check the spans of the hook's failed attempt and of its successful attempt.
	attempts := spansOf(spans, map[string]string{"hook": "hooks/writes.sh", "node": "module-beforehelm"})
	if len(attempts) != 2 {
		t.Fatalf("attempts of the hook: %+v", attempts)
	}
	var traceparents []string
	for _, a := range attempts {
		traceparents = append(traceparents, fmt.Sprintf("00-%s-%s-01", a.Trace, a.ID))
	}
	if got := s.lines("writes"); !slices.Equal(got, traceparents) {
		t.Errorf("the hook got %q, want %q", got, traceparents)
	}
	for _, line := range s.lines("other") {
		if !strings.HasSuffix(line, " none") {
			t.Errorf("an enabled script, or a call of a hook with --config, received a trace parent: %s", line)
		}
	}
	first, second := attempts[0], attempts[1]
	if !first.Failed || !strings.Contains(first.Error, "cannot reach it") || strings.Contains(first.Error, "hunter2") || first.Attributes["addon_operator.outcome"] != "failed" {
		t.Errorf("the first attempt: %+v", first)
	}
	if second.Failed || second.Attributes["addon_operator.outcome"] != "done" || second.Attributes["addon_operator.previous"] != "failed" {
		t.Errorf("the second attempt: %+v", second)
	}
	for name, want := range map[string]string{"module": "web", "queue": "main", "attempt": "2", "epoch": "1"} {
		if got := second.Attributes["addon_operator."+name]; got != want {
			t.Errorf("attribute %s is %q, want %q", name, got, want)
		}
	}

	// Check the spans of the run to which the second attempt belongs.
	run := map[string]string{"run": second.Attributes["addon_operator.run"]}
	var root collector.Span
	nodes := map[string]bool{}
	for _, span := range spansOf(spans, run) {
		if span.Trace != second.Trace {
			t.Errorf("span %s of run %s is in another trace", span.Name, run["run"])
		}
		if nodes[span.Name] = true; span.Parent == "" {
			root = span
		}
	}
	for _, span := range spansOf(spans, run) {
		if span.ID != root.ID && span.Parent != root.ID {
			t.Errorf("span %s has parent %q, want that of the run, %q", span.Name, span.Parent, root.ID)
		}
	}
	for _, node := range []string{"discover-modules", "module-run", "release-check", "release-upgrade"} {
		if !nodes[node] {
			t.Errorf("run %s has no span for %s: %v", run["run"], node, nodes)
		}
	}
	if root.Attributes["addon_operator.trigger"] == "" || root.Process["service.name"] != "addon-operator" || root.Nanoseconds <= 0 {
		t.Errorf("the run: %+v", root)
	}

	// Check the span of the run that the written object caused.
	caused := spansOf(spans, map[string]string{"hook": "watches.sh", "cause.event": "Added"})
	if len(caused) != 1 || !slices.Contains(caused[0].Links, collector.Link{Trace: second.Trace, ID: second.ID, Why: "cause"}) {
		t.Errorf("the run of the event has no link to %s: %+v", second.ID, caused)
	} else if got := s.lines("watches"); len(got) != 1 || !strings.HasPrefix(got[0], "00-"+caused[0].Trace+"-") {
		t.Errorf("the hook of the event got %q, want trace %s", got, caused[0].Trace)
	}

	// Check the token that the collector received with the spans, and the exemplars of the metrics.
	if tokens := spans.Tokens(); !slices.Contains(tokens, "Bearer tok-123") {
		t.Errorf("tokens: %q", tokens)
	}
	for _, want := range []string{
		`addon_operator_module_hook_run_seconds_bucket\{[^}]*hook="hooks/writes.sh"[^}]*\} \d+ # \{trace_id="` + second.Trace + `"\}`,
		`addon_operator_module_run_seconds_bucket\{[^}]*module="web"[^}]*\} \d+ # \{trace_id="` + second.Trace + `"\}`,
		`addon_operator_helm_operation_seconds_bucket\{[^}]*operation="upgrade"[^}]*\} \d+ # \{trace_id="` + second.Trace + `"\}`,
		`\naddon_operator_live_ticks \d`, `# EOF\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(metrics) {
			t.Errorf("OpenMetrics has no %s", want)
		}
	}
	if strings.Contains(s.log.String(), "tok-123") {
		t.Error("the log has the token")
	}
}

// openMetrics returns the metrics in the format OpenMetrics. openMetrics checks that clients which do not request
// OpenMetrics get the Prometheus text format without exemplars.
func (s *fixture) openMetrics(t *testing.T) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/metrics"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/openmetrics-text") {
		t.Fatalf("content type %q: %v", response.Header.Get("Content-Type"), err)
	}
	if text := s.get("/metrics"); strings.Contains(text, "trace_id") || !strings.Contains(text, "# TYPE addon_operator_live_ticks counter") {
		t.Error("the text format has exemplars, or other types")
	}
	return string(body)
}

// TestARunIsOneTraceOverRestarts kills an operator while a hook runs, and starts it again. Both
// attempts of the hook must belong to the same trace.
func TestARunIsOneTraceOverRestarts(t *testing.T) {
	sendSoon(t)
	c := cluster.Start(t)
	spans := collector.Start(t)
	s := newFixture(t)
	namespace := c.Namespace(t)
	s.file("modules/values.yaml", "")
	s.file("global-hooks/waits.sh", hookText(
		`{"configVersion":"v1","kubernetes":[{"name":"maps","kind":"ConfigMap","queue":"side","nameSelector":{"matchNames":["awaited"]},"executeHookOnSynchronization":false}]}`,
		`echo "$ADDON_OPERATOR_PREVIOUS $TRACEPARENT" >> `+s.path("waits")+`; until [[ -e `+s.path("go")+` ]]; do sleep 0.05; done`))
	endpoint := []string{"--tracing-otlp-endpoint", spans.GRPC}
	killed := process(t, append(append([]string{"start"}, s.flags(c.Kubeconfig(), namespace)...), endpoint...)...)
	killed.Stdout, killed.Stderr = &s.log, &s.log
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	s.converged()
	if _, err := client(t, c).CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "awaited"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	s.until("the hook runs", func() bool { return len(s.lines("waits")) == 1 })
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = killed.Wait() // the error says only that the process was killed
	s.file("go", "")
	s.start(c.Kubeconfig(), namespace, endpoint...)
	s.until("the run has ended", func() bool {
		return len(spansOf(spans, map[string]string{"hook": "waits.sh", "cause.event": "Added"})) > 0
	})
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	form := regexp.MustCompile(`^(none|interrupted) 00-([0-9a-f]{32})-([0-9a-f]{16})-01$`)
	var got [][]string
	for _, line := range s.lines("waits") {
		parts := form.FindStringSubmatch(line)
		if parts == nil {
			t.Fatalf("the hook got %q", line)
		}
		got = append(got, parts)
	}
	if len(got) != 2 || got[0][1] != "none" || got[1][1] != "interrupted" || got[0][2] != got[1][2] || got[0][3] == got[1][3] {
		t.Fatalf("the hook got %q, want two spans of one trace", s.lines("waits"))
	}
	attempts := spansOf(spans, map[string]string{"hook": "waits.sh", "node": "global-kubernetes-event"})
	if len(attempts) != 1 || attempts[0].ID != got[1][3] || attempts[0].Trace != got[1][2] ||
		attempts[0].Attributes["addon_operator.previous"] != "interrupted" || attempts[0].Attributes["addon_operator.epoch"] != strconv.Itoa(2) {
		t.Errorf("the attempts: %+v", attempts)
	}
}

// TestACollectorThatHangsDelaysNothing starts an operator, and stops it after the converge, while the collector accepts
// requests and never answers. Neither the converge nor the stop may wait for the collector.
func TestACollectorThatHangsDelaysNothing(t *testing.T) {
	sendSoon(t)
	c := cluster.Start(t)
	for name, flags := range map[string]func(c *collector.Collector) []string{
		"grpc": func(c *collector.Collector) []string { return []string{"--tracing-otlp-endpoint", c.GRPC} },
		"http": func(c *collector.Collector) []string {
			return []string{"--tracing-otlp-endpoint", "http://" + c.HTTP, "--tracing-otlp-protocol", "http/protobuf"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			hanging := collector.StartHanging(t)
			s := newFixture(t)
			s.file("modules/values.yaml", "webEnabled: true\n")
			s.file("modules/010-web/hooks/a.sh", hookText(`{"configVersion":"v1","beforeHelm":1}`, "true"))
			s.start(c.Kubeconfig(), c.Namespace(t), flags(hanging)...)
			s.until("the collector has a request", func() bool { return len(hanging.Spans()) > 0 })
			s.converged()
			if err := s.end(); err != nil {
				t.Errorf("the operator did not end well: %v", err)
			}
			if log := s.log.String(); !strings.Contains(log, "the last spans are not sent") || !strings.Contains(log, "operator stopped") {
				t.Errorf("the log does not say that spans are lost:\n%s", log)
			}
		})
	}
}

// TestWithoutACollectorNothingIsTraced checks that hooks and metrics have no data of traces.
func TestWithoutACollectorNothingIsTraced(t *testing.T) {
	t.Setenv("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01") // set by the program that starts the operator; hooks must not inherit it
	c := cluster.Start(t)
	s := newFixture(t)
	s.file("modules/values.yaml", "")
	s.file("global-hooks/a.sh", hookText(`{"configVersion":"v1","onStartup":1}`, `echo "${TRACEPARENT:-none}" >> `+filepath.Join(s.dir, "given")))
	s.start(c.Kubeconfig(), c.Namespace(t))
	s.converged()
	if got := s.lines("given"); !slices.Equal(got, []string{"none"}) {
		t.Errorf("the hook got %q, want none", got)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url("/metrics"), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept", "application/openmetrics-text")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Type"); !strings.HasPrefix(got, "text/plain") {
		t.Errorf("content type %q, want text/plain", got)
	}
}
