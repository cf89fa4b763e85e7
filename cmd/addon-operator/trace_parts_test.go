package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/e2e/cluster"
	"addon-operator/e2e/collector"
)

// partsOf returns a text for each part of an attempt at the given node, in the order in which the parts ended. A part
// has a span below the span of its attempt. The text has the name of the parent span, and the name, the attributes and
// the error of the part.
func partsOf(spans []collector.Span, node string) (parts []string) {
	names := map[string]collector.Span{}
	for _, s := range spans {
		names[s.Trace+s.ID] = s
	}
	of := func(s collector.Span) (attempt collector.Span) {
		for attempt = s; attempt.Parent != "" && attempt.Attributes["addon_operator.node"] == ""; {
			attempt = names[attempt.Trace+attempt.Parent]
		}
		return attempt
	}
	for _, s := range spans {
		if s.Attributes["addon_operator.node"] != "" || of(s).Attributes["addon_operator.node"] != node {
			continue
		}
		text := []string{names[s.Trace+s.Parent].Name + " > " + s.Name}
		for _, name := range []string{"release", "revision", "verb", "kind", "name", "wait", "answer"} {
			if value := s.Attributes["addon_operator."+name]; value != "" {
				text = append(text, name+"="+value)
			}
		}
		if s.Failed {
			text = append(text, "failed: "+s.Error)
		}
		parts = append(parts, strings.Join(text, " "))
	}
	return parts
}

// TestPartsOfAttemptsAreSpans installs, upgrades and uninstalls the release of a module, whose hooks write objects and
// the ConfigMap. Each write and each Helm operation must have a span below the span of its attempt.
func TestPartsOfAttemptsAreSpans(t *testing.T) {
	sendSoon(t)
	c := cluster.Start(t)
	spans := collector.Start(t)
	s := newFixture(t)
	namespace := c.Namespace(t)
	c.AwaitGarbageCollector(t, namespace)
	t.Setenv("NS", namespace)
	s.file("modules/values.yaml", "webEnabled: true\nweb: {size: 1, token: none}\n")
	s.file("modules/010-web/Chart.yaml", "apiVersion: v2\nname: web\nversion: 1.0.0\n")
	s.file("modules/010-web/templates/all.yaml", `apiVersion: v1
kind: ConfigMap
metadata: {name: web}
data: {size: "{{ .Values.web.size }}"}
---
apiVersion: batch/v1
kind: Job
metadata: {name: prepare, annotations: {helm.sh/hook: pre-install}}
spec: {template: {spec: {restartPolicy: Never, containers: [{name: prepare, image: prepare}]}}}
`)
	s.file("modules/010-web/hooks/writes.sh", hookText(`{"configVersion":"v1","beforeHelm":1,"afterDeleteHelm":1}`, `
if [[ -e `+s.path("wrote")+` ]]; then exit 0; fi
echo '[{"op":"add","path":"/web/token","value":"hunter2"}]' > $CONFIG_VALUES_JSON_PATCH_PATH
cat > $KUBERNETES_PATCH_PATH <<END
{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"written","namespace":"$NS"},"data":{"a":"hunter2"}}}
{"operation":"JQPatch","apiVersion":"v1","kind":"ConfigMap","name":"written","namespace":"$NS","jqFilter":".data.b=\"hunter2\""}
{"operation":"Delete","apiVersion":"v1","kind":"ConfigMap","name":"written","namespace":"$NS"}
END
touch `+s.path("wrote")))
	s.start(c.Kubeconfig(), namespace, "--tracing-otlp-endpoint", spans.GRPC)
	s.converged()
	patch := func(data string) {
		t.Helper()
		if _, err := client(t, c).CoreV1().ConfigMaps(namespace).Patch(t.Context(), "addon-operator", types.MergePatchType,
			[]byte(`{"data":`+data+`}`), metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	actions := func(node string, n int) {
		t.Helper()
		s.until("the action at "+node+" is sent", func() bool {
			return len(spansOf(spans, map[string]string{"node": node})) >= n && len(partsOf(spans.Spans(), node)) >= n
		})
	}
	patch(`{"web":"{size: 2}"}`)
	actions("release-upgrade", 2)
	patch(`{"webEnabled":"false"}`)
	actions("release-delete", 1)
	if err := s.end(); err != nil {
		t.Fatal(err)
	}
	got := map[string][]string{}
	for _, node := range []string{"module-beforehelm", "release-upgrade", "release-delete"} {
		got[node] = partsOf(spans.Spans(), node)
	}
	got["module-beforehelm"] = slices.DeleteFunc(got["module-beforehelm"], func(part string) bool { // the beforeHelm step can already render the chart for the release check
		return part == "module-beforehelm > helm template release=web"
	})
	want := map[string][]string{
		"module-beforehelm": {
			"module-beforehelm > kubernetes patch verb=patch kind=ConfigMap name=written answer=NotFound",
			"module-beforehelm > kubernetes create verb=create kind=ConfigMap name=written",
			"module-beforehelm > kubernetes update verb=update kind=ConfigMap name=written",
			"module-beforehelm > kubernetes delete verb=delete kind=ConfigMap name=written",
			"module-beforehelm > kubernetes wait kind=ConfigMap name=written wait=deletion",
			"module-beforehelm > kubernetes create verb=create kind=ConfigMap name=addon-operator",
		},
		"release-upgrade": {
			"helm install > helm hook release=web kind=Job name=prepare",
			"release-upgrade > helm install release=web revision=1",
			"release-upgrade > helm upgrade release=web revision=2",
		},
		"release-delete": {"release-delete > helm uninstall release=web revision=2"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("parts of attempts (-want +got):\n%s", d)
	}
	for _, span := range spans.Spans() {
		for name, value := range span.Attributes {
			if strings.Contains(value+span.Error, "hunter2") {
				t.Errorf("span %s has a value in %s", span.Name, name)
			}
		}
	}
}
