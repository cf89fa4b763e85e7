package samples_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"sigs.k8s.io/yaml"

	"addon-operator/e2e/operator"
)

// A monitoredMetric is a metric in the input of the command e2e/promtool/expressions. The source of that command
// describes the fields.
type monitoredMetric struct {
	Counts bool     `json:"counts"`
	Labels []string `json:"labels"`
}

// A monitoringExpression is a PromQL expression of the dashboard or of an alert, in the input of the command
// e2e/promtool/expressions.
type monitoringExpression struct {
	Where  string   `json:"where"`
	Expr   string   `json:"expr"`
	Labels []string `json:"labels"`
}

// scrapeLabels are the labels that Prometheus adds to each series that it scrapes from a pod.
var scrapeLabels = []string{"job", "instance", "namespace", "pod", "service", "container", "endpoint"}

// TestTheDashboardAndTheAlertsFitTheMetrics compares the PromQL expressions of the dashboard and the alerts with the
// metrics of a running operator. An expression must use only metrics and labels that exist, and its result must have
// the labels that its legend or annotations use.
func TestTheDashboardAndTheAlertsFitTheMetrics(t *testing.T) {
	_, environment := newHome(t)
	p := start(t, environment)
	input, err := json.Marshal(map[string]any{
		"metrics": exportedMetrics(t, p), "expressions": append(dashboardExpressions(t), alertExpressions(t)...),
	})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "expressions")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", filepath.Join(root, "e2e", "promtool"), "-o", program, "./expressions")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	check := exec.CommandContext(t.Context(), program)
	check.Stdin, check.Stderr = bytes.NewReader(input), os.Stderr
	problems, err := check.Output()
	if err != nil {
		t.Fatal(err)
	}
	for problem := range strings.Lines(string(problems)) {
		t.Error(strings.TrimSpace(problem))
	}
}

// exportedMetrics returns the metrics of the operator, with their labels. Metrics that have no series yet, such as
// counters of errors, are read from docs/reference/metrics.md. A test of package metrics compares this page with the
// code.
func exportedMetrics(t *testing.T, p *operator.Process) map[string]monitoredMetric {
	t.Helper()
	page, err := get(t, p, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]monitoredMetric{"up": {Labels: scrapeLabels}}
	add := func(name, kind string, labels []string) {
		labels = slices.Concat(labels, scrapeLabels)
		if kind != "histogram" {
			all[name] = monitoredMetric{kind == "counter", labels}
			return
		}
		for suffix, more := range map[string][]string{"_bucket": {"le"}, "_sum": nil, "_count": nil} {
			all[name+suffix] = monitoredMetric{true, slices.Concat(labels, more)}
		}
	}
	for name, f := range families {
		labels := map[string]bool{}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = true
			}
		}
		add(name, strings.ToLower(f.GetType().String()), slices.Sorted(maps.Keys(labels)))
	}
	reference, err := os.ReadFile(filepath.Join(root, "docs", "reference", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := regexp.MustCompile("(?m)^\\| `(addon_operator_\\w+)` \\| (counter|gauge|histogram) \\| ([^|]*)\\|").FindAllStringSubmatch(string(reference), -1)
	for _, row := range listed {
		labels := strings.FieldsFunc(row[3], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		f, served := families[row[1]]
		if !served {
			add(row[1], row[2], labels)
		} else if got := labelsOf(f); !slices.Equal(got, slices.Sorted(slices.Values(labels))) {
			t.Errorf("%s has the labels %v, the reference says %v", row[1], got, labels)
		}
	}
	if len(listed) < 30 {
		t.Errorf("the reference lists only %d metrics", len(listed))
	}
	return all
}

// labelsOf returns the names of the labels of a metric's first series, sorted.
func labelsOf(f *dto.MetricFamily) (names []string) {
	for _, l := range f.GetMetric()[0].GetLabel() {
		names = append(names, l.GetName())
	}
	return slices.Sorted(slices.Values(names))
}

// dashboardExpressions returns the PromQL expressions of the dashboard's panels, with the labels that their legends
// use.
func dashboardExpressions(t *testing.T) (all []monitoringExpression) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "dashboard.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			Title   string `json:"title"`
			Targets []struct {
				Expr         string `json:"expr"`
				LegendFormat string `json:"legendFormat"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			all = append(all, monitoringExpression{
				"panel " + panel.Title, target.Expr, named(regexp.MustCompile(`\{\{\s*(\w+)\s*\}\}`), target.LegendFormat),
			})
		}
	}
	if want := strings.Count(string(text), `"expr"`); len(all) != want || want == 0 {
		t.Errorf("%d expressions are in panels, of %d", len(all), want)
	}
	return all
}

// alertExpressions returns the PromQL expressions of the alerts, with the labels that their annotations use.
func alertExpressions(t *testing.T) (all []monitoringExpression) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "deploy", "monitoring", "prometheusrule.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec struct {
			Groups []struct {
				Rules []struct {
					Alert, Expr string
					Annotations map[string]string
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatal(err)
	}
	for _, group := range object.Spec.Groups {
		for _, rule := range group.Rules {
			all = append(all, monitoringExpression{
				"alert " + rule.Alert, rule.Expr, named(regexp.MustCompile(`\$labels\.(\w+)`), fmt.Sprint(rule.Annotations)),
			})
		}
	}
	return all
}

// named searches text for all matches of a pattern, and returns the first group of each match.
func named(form *regexp.Regexp, text string) (names []string) {
	for _, match := range form.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	return names
}
