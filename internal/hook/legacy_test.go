package hook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/hook"
)

func TestEveryFieldOfALegacyConfigIsRead(t *testing.T) {
	t.Parallel()
	got, err := hook.Load(hook.Module, []byte(`{
		"onStartup": 10, "beforeHelm": 1, "afterHelm": 2, "beforeDeleteHelm": 3, "afterDeleteHelm": 4,
		"schedule": [
			{"crontab": "*/5 * * * * *"},
			{"name": "nightly", "crontab": "0 3 * * *", "allowFailure": true, "queue": "ignored", "group": "ignored"}
		],
		"onKubernetesEvent": [
			{"kind": "pod"},
			{
				"name": "secrets", "kind": "Secret", "event": ["delete", "add", "add"], "objectName": "tls",
				"selector": {
					"matchLabels": {"app": "web"},
					"matchExpressions": [{"key": "tier", "operator": "In", "values": ["a"], "why": "?"}],
					"matchFields": {}
				},
				"namespaceSelector": {"matchNames": ["x", "y", "x"], "any": false}, "jqFilter": ".data", "allowFailure": true,
				"disableDebug": true, "queue": "ignored"
			},
			{"kind": "Node", "event": [], "selector": null, "namespaceSelector": {"any": true, "matchNames": ["x"]}}
		]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	all := []string{"Added", "Modified", "Deleted"}
	want := hook.Config{
		Version: "v0",
		Ordered: map[string]int{"onStartup": 10, "beforeHelm": 1, "afterHelm": 2, "beforeDeleteHelm": 3, "afterDeleteHelm": 4},
		Schedule: []hook.ScheduleBinding{
			{Name: "schedule", Crontab: "*/5 * * * * *", Queue: "main", Legacy: true},
			{Name: "nightly", Crontab: "0 3 * * *", AllowFailure: true, Queue: "main", Legacy: true},
		},
		Kubernetes: []hook.KubernetesBinding{
			{Name: "onKubernetesEvent", Kind: "pod", Events: all, Queue: "main", Legacy: true},
			{
				Name: "secrets", Kind: "Secret", Events: []string{"Added", "Deleted"}, NameSelector: []string{"tls"},
				LabelSelector: &metav1.LabelSelector{
					MatchLabels:      map[string]string{"app": "web"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "In", Values: []string{"a"}}},
				},
				Namespaces: hook.NamespaceSelector{Names: []string{"x", "y"}},
				JqFilter:   ".data", AllowFailure: true, Queue: "main", Legacy: true,
			},
			{Name: "onKubernetesEvent", Kind: "Node", Events: all, Queue: "main", Legacy: true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if !got.Legacy() || (hook.Config{Version: hook.V1}).Legacy() {
		t.Error("a config is legacy when it has no configVersion")
	}
}

func TestLegacyConfigErrorsNameTheirField(t *testing.T) {
	t.Parallel()
	event := func(rest string) string { return "{onKubernetesEvent: [{kind: Pod}, {kind: Pod, " + rest + "}]}" }
	for text, want := range map[string]string{
		"{kubernetes: [{kind: Pod}]}":            "kubernetes: needs configVersion: v1 in the config",
		"{settings: {executionBurst: 1}}":        "settings: needs configVersion: v1 in the config",
		"{kubernetesValidating: []}":             "kubernetesValidating: needs configVersion: v1 in the config",
		"{afterAll: 1}":                          "afterAll: a module hook cannot have this binding",
		"{onKubernetesEvents: []}":               "onKubernetesEvents: is no known key, did you mean onKubernetesEvent? known are configVersion, schedule, onKubernetesEvent, onStartup",
		"{onStartup: first}":                     "onStartup: must be an integer, not a string",
		"{onKubernetesEvent: {kind: Pod}}":       "onKubernetesEvent: must be a list, not a map",
		"{onKubernetesEvent: [{name: x}]}":       "onKubernetesEvent[0].kind: is required",
		"{schedule: [{name: x}]}":                "schedule[0].crontab: is required",
		"{schedule: [{crontab: soon}]}":          `schedule[0].crontab: crontab "soon": expected 5 to 6 fields`,
		event("event: add"):                      "onKubernetesEvent[1].event: must be a list, not a string",
		event("event: [add, Added]"):             `onKubernetesEvent[1].event[1]: is "Added", must be one of add, update, delete`,
		event("jqFilter: '.a | '"):               "onKubernetesEvent[1].jqFilter: is no jq filter: ",
		event("objectName: 5"):                   "onKubernetesEvent[1].objectName: must be a string, not a number: put it in quotes",
		event("objectName: a/b"):                 `onKubernetesEvent[1].objectName: "a/b" is not a valid object name`,
		event("namespaceSelector: [x]"):          "onKubernetesEvent[1].namespaceSelector: must be a map, not a list",
		event("namespaceSelector: {any: 'no'}"):  "onKubernetesEvent[1].namespaceSelector.any: must be true or false, not a string",
		event("selector: {matchLabels: {a: 1}}"): "onKubernetesEvent[1].selector.matchLabels.a: must be a string, not a number: put it in quotes",
		event("allowFailure: 'true'"):            "onKubernetesEvent[1].allowFailure: must be true or false, not a string",
	} {
		_, err := hook.Load(hook.Module, []byte(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngives  %v\nwant   %s", text, err, want)
		}
	}
}

func TestLegacyConfigsMayHaveEmptyLists(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Global, []byte("{schedule: [], onKubernetesEvent: [], beforeAll: 2}"))
	if err != nil {
		t.Fatal(err)
	}
	want := hook.Config{Version: "v0", Ordered: map[string]int{"beforeAll": 2}}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}
