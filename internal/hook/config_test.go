package hook_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/hook"
	"addon-operator/internal/jq"
)

const fullModuleConfig = `
configVersion: v1
onStartup: 5
beforeHelm: 10
afterHelm: 0
beforeDeleteHelm: 1
afterDeleteHelm: 2
schedule:
- crontab: "*/5 * * * *"
- name: nightly
  crontab: "CRON_TZ=Europe/Berlin 0 0 3 * * *"
  queue: slow
  allowFailure: true
  group: all
  includeSnapshotsFrom: [pods]
  timeout: 1h
kubernetes:
- kind: Node
- name: pods
  apiVersion: v1
  kind: pods
  executeHookOnEvent: [Deleted, Added, Added]
  executeHookOnSynchronization: false
  waitForSynchronization: false
  keepFullObjectsInMemory: false
  jqFilter: |
    {a: .metadata.labels, b: .spec,}
  nameSelector: {matchNames: [a, b, a]}
  labelSelector:
    matchLabels: {app.kubernetes.io/name: web, empty: ""}
    matchExpressions:
    - {key: tier, operator: In, values: [front, back]}
    - {key: old, operator: DoesNotExist}
  fieldSelector:
    matchExpressions:
    - {field: status.phase, operator: Equals, value: Running}
    - {field: spec.nodeName, operator: NotEquals, value: "a,b"}
  namespace:
    nameSelector: {matchNames: [default]}
  resynchronizationPeriod: 10m
  allowFailure: true
  queue: pods/q.1
  group: all
  includeSnapshotsFrom: [kubernetes]
  timeout: 2m
- name: events
  kind: Event
  group: all
  executeHookOnEvent: []
settings:
  executionMinInterval: 1m30s
  executionBurst: 3
  timeout: 10m
`

func TestEveryFieldOfAModuleConfigIsRead(t *testing.T) {
	t.Parallel()
	got, err := hook.Load(hook.Module, []byte(fullModuleConfig))
	if err != nil {
		t.Fatal(err)
	}
	want := hook.Config{
		Version: "v1",
		Ordered: map[string]int{"onStartup": 5, "beforeHelm": 10, "afterHelm": 0, "beforeDeleteHelm": 1, "afterDeleteHelm": 2},
		Schedule: []hook.ScheduleBinding{
			{Name: "schedule", Crontab: "*/5 * * * *", Queue: "main"},
			{
				Name: "nightly", Crontab: "CRON_TZ=Europe/Berlin 0 0 3 * * *", Queue: "slow", AllowFailure: true,
				Group: "all", IncludeSnapshotsFrom: []string{"pods", "events"}, Timeout: metav1.Duration{Duration: time.Hour},
			},
		},
		Kubernetes: []hook.KubernetesBinding{
			{
				Name: "kubernetes", Kind: "Node", Events: []string{"Added", "Modified", "Deleted"}, Queue: "main",
				ExecuteOnSynchronization: true, WaitForSynchronization: true, KeepFullObjects: true,
			},
			{
				Name: "pods", Kind: "pods", APIVersion: "v1", Events: []string{"Added", "Deleted"},
				JqFilter:     "{a: .metadata.labels, b: .spec,}\n",
				NameSelector: []string{"a", "b"},
				LabelSelector: &metav1.LabelSelector{
					MatchLabels: map[string]string{"app.kubernetes.io/name": "web", "empty": ""},
					MatchExpressions: []metav1.LabelSelectorRequirement{
						{Key: "tier", Operator: "In", Values: []string{"front", "back"}},
						{Key: "old", Operator: "DoesNotExist"},
					},
				},
				FieldSelector: hook.FieldSelector{
					{Field: "status.phase", Operator: "=", Value: "Running"},
					{Field: "spec.nodeName", Operator: "!=", Value: "a,b"},
				},
				Namespaces:   hook.NamespaceSelector{Names: []string{"default"}},
				AllowFailure: true, Queue: "pods/q.1", Group: "all",
				IncludeSnapshotsFrom:    []string{"kubernetes", "pods", "events"},
				ResynchronizationPeriod: metav1.Duration{Duration: 10 * time.Minute},
				Timeout:                 metav1.Duration{Duration: 2 * time.Minute},
			},
			{
				Name: "events", Kind: "Event", Events: []string{}, Queue: "main", Group: "all",
				ExecuteOnSynchronization: true, WaitForSynchronization: true, KeepFullObjects: true,
				IncludeSnapshotsFrom: []string{"pods", "events"},
			},
		},
		Settings: &hook.Settings{
			ExecutionMinInterval: metav1.Duration{Duration: 90 * time.Second}, ExecutionBurst: 3, Timeout: metav1.Duration{Duration: 10 * time.Minute},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	if got, want := got.Kubernetes[1].FieldSelector.String(), `status.phase=Running,spec.nodeName!=a\,b`; got != want {
		t.Errorf("field selector is %q, want %q", got, want)
	}
}

func TestStoredConfigIsReadBackUnchanged(t *testing.T) {
	t.Parallel()
	for scope, text := range map[hook.Scope]string{
		hook.Module: fullModuleConfig,
		hook.Global: "{configVersion: v1, beforeAll: 1, kubernetes: [{kind: Pod, watchEvent: []}], settings: {}}",
	} {
		config, err := hook.Load(scope, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		stored, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		var back hook.Config
		if err := json.Unmarshal(stored, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(config, back); diff != "" {
			t.Errorf("%s config after storing (-before +after):\n%s", scope, diff)
		}
	}
}

func TestConfigsInUnusualFormsAreAccepted(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"yaml":                       "configVersion: v1\nbeforeHelm: 7\nkubernetes:\n- kind: Pod\n  allowFailure: true\n",
		"whole config indented":      "    configVersion: v1\n    beforeHelm: 7\n    kubernetes:\n    - kind: Pod\n      allowFailure: true\n",
		"document marker":            "---\nconfigVersion: v1\nbeforeHelm: 7\nkubernetes: [{kind: Pod, allowFailure: true}]\n---\n",
		"json":                       `{"configVersion":"v1","beforeHelm":7,"kubernetes":[{"kind":"Pod","allowFailure":true}]}`,
		"json with tabs":             "\t{\n\t\t\"configVersion\": \"v1\",\n\t\t\"beforeHelm\":\t7,\n\t\t\"kubernetes\": [\n\t\t\t{\"kind\": \"Pod\",\n\t\t\t\"allowFailure\":true}\n\t\t]\n\t}\n\t",
		"trailing commas and tabs":   "\t{\n\t\"configVersion\": \"v1\",\n\t\"beforeHelm\": 7,\n\t\"kubernetes\": [\n\t\t{\"kind\": \"Pod\", \"allowFailure\": true,},\n\t],\n}\n\t",
		"single quotes":              "{'configVersion': 'v1', 'beforeHelm': 7, 'kubernetes': [{'kind': 'Pod', 'allowFailure': true}]}",
		"True":                       "{\"configVersion\": \"v1\", \"beforeHelm\": 7, \"kubernetes\": [{\"kind\": \"Pod\", \"allowFailure\": True}]}",
		"duplicate keys, yaml":       "configVersion: v2\nconfigVersion: v1\nbeforeHelm: 1\nbeforeHelm: 7\nkubernetes: [{kind: Node, kind: Pod, allowFailure: true}]\n",
		"duplicate keys, json":       `{"configVersion":"v2","configVersion":"v1","beforeHelm":1,"beforeHelm":7,"kubernetes":[{"kind":"Node","kind":"Pod","allowFailure":true}]}`,
		"number with a zero decimal": `{"configVersion":"v1","beforeHelm":7.0,"kubernetes":[{"kind":"Pod","allowFailure":true}]}`,
		"carriage returns":           "configVersion: v1\r\nbeforeHelm: 7\r\nkubernetes:\r\n- kind: Pod\r\n  allowFailure: true\r\n",
		"byte order mark":            "\ufeffconfigVersion: v1\nbeforeHelm: 7\nkubernetes: [{kind: Pod, allowFailure: true}]\n",
		"empty strings are absent":   `{"configVersion":"v1","beforeHelm":7,"kubernetes":[{"kind":"Pod","allowFailure":true,"name":"","queue":"","group":"","jqFilter":""}]}`,
	} {
		got, err := hook.Load(hook.Module, []byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want := hook.Config{
			Version: "v1", Ordered: map[string]int{"beforeHelm": 7},
			Kubernetes: []hook.KubernetesBinding{{
				Name: "kubernetes", Kind: "Pod", Events: []string{"Added", "Modified", "Deleted"}, Queue: "main",
				ExecuteOnSynchronization: true, WaitForSynchronization: true, KeepFullObjects: true, AllowFailure: true,
			}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestJqFiltersOfSeveralLinesAreTaken(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"configVersion: v1\nkubernetes:\n- kind: Pod\n  jqFilter: |\n    {\n      a: .b,\n    }\n",
		"configVersion: v1\nkubernetes:\n- kind: Pod\n  jqFilter: \"{\n      a: .b,\n    }\"\n",
		"{\n\t'configVersion': 'v1',\n\t'kubernetes': [{'kind': 'Pod', 'jqFilter': '{\n\t\ta: .b,\n\t}'}],\n}",
	} {
		config, err := hook.Load(hook.Module, []byte(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		filter, err := jq.Compile(config.Kubernetes[0].JqFilter)
		if err != nil {
			t.Fatal(err)
		}
		got, err := filter.Apply(t.Context(), jq.NewInput([]byte(`{"b":"x"}`)))
		if err != nil || string(got) != `{"a":"x"}` {
			t.Errorf("%q: the filter gives %s, %v", text, got, err)
		}
	}
}

func TestConfigErrorsNameTheirField(t *testing.T) {
	t.Parallel()
	kubernetes := func(rest string) string {
		return "{configVersion: v1, kubernetes: [{kind: Pod}, {kind: Pod, " + rest + "}]}"
	}
	schedule := func(rest string) string { return "{configVersion: v1, schedule: [{" + rest + "}]}" }
	for text, want := range map[string]string{
		"":                       "hook config: it is empty",
		" \n\t":                  "hook config: it is empty",
		"{":                      "hook config: it is neither JSON nor YAML: ",
		"hello":                  "hook config: must be a map with configVersion and bindings, not a string",
		"- a":                    "hook config: must be a map with configVersion and bindings, not a list",
		"null":                   "hook config: must be a map with configVersion and bindings, not null",
		"{}":                     "hook config: the map is empty; write configVersion: v1 and a binding",
		"configVersion: v2":      "'configVersion' value 'v2' is unsupported, write v1",
		"configVersion: 1":       "configVersion: must be the string v1, not a number",
		"configVersion: v1":      "hook config: it has only configVersion; add a binding",
		`{"configVersion":"v0"}`: "'configVersion' value 'v0' is unsupported",

		"{configVersion: v1, onstartup: 1}":                            "onstartup: is no known key, write onStartup",
		"{configVersion: v1, beforHelm: 1}":                            "beforHelm: is no known key, did you mean beforeHelm? known are configVersion, settings",
		"{configVersion: v1, onStartup: 1, on.x: 2}":                   `["on.x"]: is no known key, known are configVersion, settings, schedule, kubernetes, onStartup, beforeHelm`,
		"{configVersion: v1, onStartup: a}":                            "onStartup: must be an integer, not a string",
		"{configVersion: v1, onStartup: 1.5}":                          "onStartup: is 1.5, must be an integer",
		"{configVersion: v1, onStartup: 99999999999}":                  "must be at most 2147483647",
		`{"configVersion":"v1","onStartup":-1e999}`:                    "is -1e999, must be at least",
		"{configVersion: v1, beforeHelm: -1}":                          "beforeHelm: is -1, must be at least 0",
		"{configVersion: v1, onStartup: null}":                         "onStartup: must be an integer, not null",
		"{configVersion: v1, beforeAll: 1}":                            "beforeAll: a module hook cannot have this binding",
		"{configVersion: v1, schedule: []}":                            "schedule: must not be empty",
		"{configVersion: v1, kubernetes: {}}":                          "kubernetes: must be a list, not a map",
		"{configVersion: v1, kubernetes: [a]}":                         "kubernetes[0]: must be a map, not a string",
		"{configVersion: v1, kubernetes: [{}]}":                        "kubernetes[0].kind: is required",
		"{configVersion: v1, kubernetes: [{kind: ''}]}":                "kubernetes[0].kind: must not be empty",
		"{configVersion: v1, kubernetesValidating: []}":                "kubernetesValidating: must not be empty",
		"{configVersion: v1, kubernetesMutating: []}":                  "kubernetesMutating: must not be empty",
		"{configVersion: v1, onKubernetesEvent: []}":                   "onKubernetesEvent: belongs to configs without configVersion; write kubernetes",
		"{configVersion: v1, settings: {executionBurst: -1}}":          "settings.executionBurst: is -1, must be at least 0",
		"{configVersion: v1, kubernetesCustomResourceConversion: []}":  "kubernetesCustomResourceConversion: must not be empty",
		"{configVersion: v1, settings: {executionMinPeriod: 5s}}":      "settings.executionMinPeriod: is no known key, known are executionMinInterval, executionBurst, timeout",
		"{configVersion: v1, settings: {executionMinInterval: often}}": `settings.executionMinInterval: is "often", must be a duration`,
		"{configVersion: v1, settings: {executionMinInterval: -5s}}":   "settings.executionMinInterval: is -5s, must not be negative",
		"{configVersion: v1, settings: {executionMinInterval: 5}}":     "settings.executionMinInterval: must be a string, not a number: put it in quotes",

		schedule("name: a"):                                          "schedule[0].crontab: is required",
		schedule("crontab: ''"):                                      "schedule[0].crontab: must not be empty",
		schedule("crontab: '* * *'"):                                 `schedule[0].crontab: crontab "* * *": expected 5 to 6 fields`,
		schedule("crontab: '@hourly', queue: 1"):                     "schedule[0].queue: must be a string, not a number",
		schedule("crontab: '@hourly', queue: parallel-module-web"):   `schedule[0].queue: is "parallel-module-web", must not be "after failing modules", and not begin with "parallel-module-" or "configuration/": the operator uses these queues itself`,
		schedule("crontab: '@hourly', cron: '*'"):                    "schedule[0].cron: is no known key",
		schedule("crontab: '@hourly', includeSnapshotsFrom: pods"):   "schedule[0].includeSnapshotsFrom: must be a list, not a string",
		schedule("crontab: '@hourly', includeSnapshotsFrom: []"):     "schedule[0].includeSnapshotsFrom: must not be empty",
		schedule("crontab: '@hourly', includeSnapshotsFrom: [pods]"): `schedule[0].includeSnapshotsFrom[0]: there is no kubernetes binding named "pods"`,

		kubernetes("allowFailure: 'true'"):                       "kubernetes[1].allowFailure: must be true or false, not a string",
		kubernetes("keepFullObjectsInMemory: 0"):                 "kubernetes[1].keepFullObjectsInMemory: must be true or false, not a number",
		kubernetes("apiVersion: a/b/c"):                          `kubernetes[1].apiVersion: is "a/b/c", must be VERSION or GROUP/VERSION`,
		kubernetes("executeHookOnEvent: [added]"):                `kubernetes[1].executeHookOnEvent[0]: is "added", must be one of Added, Modified, Deleted`,
		kubernetes("watchEvent: Added"):                          "kubernetes[1].watchEvent: must be a list, not a string",
		kubernetes("executeHookOnEvent: [], watchEvent: [X]"):    `kubernetes[1].watchEvent[0]: is "X"`,
		kubernetes("jqFilter: '.a | '"):                          "kubernetes[1].jqFilter: is no jq filter: ",
		kubernetes("jqFilter: '.a | $b'"):                        "kubernetes[1].jqFilter: jq filter does not compile: variable not defined: $b",
		kubernetes("nameSelector: [default]"):                    "kubernetes[1].nameSelector: must be a map, not a list of 1: put the names under matchNames",
		kubernetes("nameSelector: {}"):                           "kubernetes[1].nameSelector.matchNames: is required",
		kubernetes("nameSelector: {matchNames: ['']}"):           "kubernetes[1].nameSelector.matchNames[0]: must not be empty",
		kubernetes("nameSelector: {names: [a], matchNames: []}"): "kubernetes[1].nameSelector.names: is no known key",
		kubernetes("nameSelector: {matchNames: ['a,b']}"):        `kubernetes[1].nameSelector.matchNames[0]: "a,b" is not a valid object name: it contains one of / , = %`,
		kubernetes("queue: after failing modules"):               `kubernetes[1].queue: is "after failing modules", must not be`,
		kubernetes("queue: configuration/all"):                   `kubernetes[1].queue: is "configuration/all", must not be`,
		kubernetes("resynchronizationPeriod: often"):             `kubernetes[1].resynchronizationPeriod: is "often", must be a duration such as 30s or 1m30s`,
		kubernetes("resynchronizationPeriod: -1m"):               "kubernetes[1].resynchronizationPeriod: is -1m, must not be negative",
		kubernetes("resynchronizationPeriod: 10ms"):              "kubernetes[1].resynchronizationPeriod: is 10ms, must be at least 1s",
		kubernetes("resynchronizationPeriod: 60"):                "kubernetes[1].resynchronizationPeriod: must be a string, not a number: put it in quotes",
		kubernetes("includeSnapshotsFrom: [kubernetes]"):         `kubernetes[1].includeSnapshotsFrom[0]: 2 kubernetes bindings are named "kubernetes"`,
		kubernetes("labelSelector: {}"):                          "kubernetes[1].labelSelector: must have matchLabels or matchExpressions",
		kubernetes("labelSelector: {app: web}"):                  "kubernetes[1].labelSelector.app: is no known key",
		kubernetes("labelSelector: {matchLabels: {a: true}}"):    "kubernetes[1].labelSelector.matchLabels.a: must be a string, not a boolean: put it in quotes",
		kubernetes("labelSelector: {matchLabels: {a/b/c: x}}"):   `kubernetes[1].labelSelector.matchLabels["a/b/c"]: "a/b/c" is no label key`,
		kubernetes("labelSelector: {matchLabels: {a: b c}}"):     `kubernetes[1].labelSelector.matchLabels.a: "b c" is no label value`,
		kubernetes("labelSelector: {matchExpressions: [{key: a, operator: Exists}, {key: a, operator: in, values: [b]}]}"): `kubernetes[1].labelSelector.matchExpressions[1].operator: is "in", must be one of In, NotIn, Exists, DoesNotExist`,
		kubernetes("labelSelector: {matchExpressions: [{key: a, operator: In}]}"):                                          "kubernetes[1].labelSelector.matchExpressions[0].values: must have at least one value for operator In",
		kubernetes("labelSelector: {matchExpressions: [{key: a, operator: Exists, values: [b]}]}"):                         "kubernetes[1].labelSelector.matchExpressions[0].values: must be left out for operator Exists",
		kubernetes("labelSelector: {matchExpressions: [{operator: Exists}]}"):                                              "kubernetes[1].labelSelector.matchExpressions[0].key: is required",
		kubernetes("fieldSelector: {}"):                                                       "kubernetes[1].fieldSelector.matchExpressions: is required",
		kubernetes("fieldSelector: {matchExpressions: [{field: a, operator: '='}]}"):          "kubernetes[1].fieldSelector.matchExpressions[0].value: is required",
		kubernetes("fieldSelector: {matchExpressions: [{field: a, operator: In, value: b}]}"): `kubernetes[1].fieldSelector.matchExpressions[0].operator: is "In", must be one of =, ==, Equals, !=, NotEquals`,
		kubernetes("namespace: {}"):                                                           "kubernetes[1].namespace: must have nameSelector or labelSelector",
		kubernetes("namespace: {nameSelector: [default]}"):                                    "kubernetes[1].namespace.nameSelector: must be a map, not a list of 1",
		kubernetes("namespace: {labelSelector: {matchLabels: {a: 1}}}"):                       "kubernetes[1].namespace.labelSelector.matchLabels.a: must be a string",
		kubernetes("nameSelector: {matchNames: [a]}, fieldSelector: {matchExpressions: [{field: metadata.name, operator: '=', value: b}]}"): "kubernetes[1].fieldSelector: metadata.name cannot be selected together with nameSelector",
	} {
		_, err := hook.Load(hook.Module, []byte(text))
		if err == nil {
			t.Errorf("%s\nis accepted, want an error that contains\n%s", text, want)
			continue
		}
		if !strings.HasPrefix(err.Error(), want) && !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngives  %v\nwant   %s", text, err, want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\nhas one mistake and gives several errors:\n%v", text, err)
		}
	}
}

func TestAllMistakesOfAConfigAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	_, err := hook.Load(hook.Global, []byte(`
configVersion: v1
beforeHelm: 1
colour: red
beforeAll: first
kubernetes:
- kind: 5
  queue: [a]
- executeHookOnEvent: [Added, Gone]
  includeSnapshotsFrom: [nobody]
schedule:
- crontab: soon
settings: {executionBurst: many}
`))
	want := []string{
		"beforeHelm: a global hook cannot have this binding",
		"colour: is no known key, known are configVersion, settings, schedule, kubernetes, onStartup, beforeAll, afterAll, " +
			"kubernetesValidating, kubernetesMutating, kubernetesCustomResourceConversion",
		"beforeAll: must be an integer, not a string",
		"kubernetes[0].kind: must be a string, not a number: put it in quotes",
		"kubernetes[0].queue: must be a string, not a list",
		"kubernetes[1].kind: is required",
		`kubernetes[1].executeHookOnEvent[1]: is "Gone", must be one of Added, Modified, Deleted`,
		`schedule[0].crontab: crontab "soon": expected 5 to 6 fields, found 1: [soon]`,
		"settings.executionBurst: must be an integer, not a string",
		`kubernetes[1].includeSnapshotsFrom[0]: there is no kubernetes binding named "nobody"`,
	}
	if err == nil {
		t.Fatal("a config full of mistakes is accepted")
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("errors (-want +got):\n%s", diff)
	}
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != len(want) {
		t.Errorf("the error is not joined from %d errors", len(want))
	}
}

func TestEachScopeHasItsOwnOrderedBindings(t *testing.T) {
	t.Parallel()
	for binding, scopes := range map[string][]hook.Scope{
		hook.OnStartup: {hook.Global, hook.Module},
		hook.BeforeAll: {hook.Global}, hook.AfterAll: {hook.Global},
		hook.BeforeHelm: {hook.Module}, hook.AfterHelm: {hook.Module},
		hook.BeforeDeleteHelm: {hook.Module}, hook.AfterDeleteHelm: {hook.Module},
	} {
		for _, scope := range []hook.Scope{hook.Global, hook.Module} {
			config, err := hook.Load(scope, []byte("configVersion: v1\n"+binding+": 3\n"))
			wanted := false
			for _, s := range scopes {
				wanted = wanted || s == scope
			}
			if order, ok := config.Order(binding); ok != wanted || wanted && order != 3 || wanted != (err == nil) {
				t.Errorf("%s of a %s hook: order %d, %t, error %v", binding, scope, order, ok, err)
			}
		}
	}
}

func TestNegativeOnStartupComesFirst(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Global, []byte("configVersion: v1\nonStartup: -5\n"))
	if order, ok := config.Order(hook.OnStartup); err != nil || !ok || order != -5 {
		t.Errorf("onStartup: -5 is read as %d, %t, %v", order, ok, err)
	}
}

func TestSettingsAloneSwitchTheHookOff(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Module, []byte("configVersion: v1\nsettings: {executionMinInterval: 3s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := hook.Config{Version: "v1", Settings: &hook.Settings{
		ExecutionMinInterval: metav1.Duration{Duration: 3 * time.Second}, ExecutionBurst: 1,
	}}
	if diff := cmp.Diff(want, config); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
}

func TestABurstOfZeroIsTheDefault(t *testing.T) {
	t.Parallel()
	for _, burst := range []string{"", "executionBurst: 0", "executionBurst: 1"} {
		c, err := hook.Load(hook.Global, []byte("configVersion: v1\nsettings: {executionMinInterval: 3s, "+burst+"}\n"))
		if err != nil || c.Settings == nil || c.Settings.ExecutionBurst != 1 {
			t.Errorf("%q: %+v, %v", burst, c.Settings, err)
		}
	}
}

func TestExecuteHookOnEventIsStrongerThanItsOlderName(t *testing.T) {
	t.Parallel()
	for keys, want := range map[string][]string{
		"":                       {"Added", "Modified", "Deleted"},
		"watchEvent: [Modified]": {"Modified"},
		"watchEvent: [Modified], executeHookOnEvent: []": {},
		"watchEvent: [], executeHookOnEvent: [Deleted]":  {"Deleted"},
	} {
		config, err := hook.Load(hook.Module, []byte("{configVersion: v1, kubernetes: [{kind: Pod, "+keys+"}]}"))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, config.Kubernetes[0].Events); diff != "" {
			t.Errorf("%q (-want +got):\n%s", keys, diff)
		}
	}
}

func TestNamespaceLabelsHideNamespaceNames(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Module, []byte(`{configVersion: v1, kubernetes: [{kind: Pod, namespace:
		{nameSelector: {matchNames: [a]}, labelSelector: {matchLabels: {team: x}}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := hook.NamespaceSelector{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}}
	if diff := cmp.Diff(want, config.Kubernetes[0].Namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

func TestBindingsMayShareTheirDefaultName(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Module, []byte(`
configVersion: v1
beforeHelm: 1
kubernetes:
- {kind: Pod, jqFilter: .spec, group: g}
- {kind: pod, jqFilter: .status}
- {name: nodes, kind: NODES}
`))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"kubernetes", "nodes"}, config.SnapshotNames()); diff != "" {
		t.Errorf("snapshot names (-want +got):\n%s", diff)
	}
	if i, ok := config.KubernetesNamed("kubernetes"); i != 0 || !ok {
		t.Errorf("the name is that of binding %d, %t, want the first", i, ok)
	}
	if i, ok := config.KubernetesNamed("nodes"); i != 2 || !ok {
		t.Errorf("nodes is binding %d, %t, want 2", i, ok)
	}
	if _, ok := config.KubernetesNamed("none"); ok {
		t.Error("a name no binding has is found")
	}
	if diff := cmp.Diff([]string{"kubernetes"}, config.Kubernetes[0].IncludeSnapshotsFrom); diff != "" {
		t.Errorf("snapshots of the grouped binding (-want +got):\n%s", diff)
	}
	if got := config.Kubernetes[1].IncludeSnapshotsFrom; got != nil {
		t.Errorf("the binding without a group got the snapshots %v", got)
	}
}

func TestNestedNonsenseDoesNotOverflow(t *testing.T) {
	t.Parallel()
	for _, text := range []string{strings.Repeat("[", 1<<20), strings.Repeat("{a: ", 1<<18), "a: &a [*a]"} {
		if _, err := hook.Load(hook.Module, []byte(text)); err == nil {
			t.Errorf("%.10s… is accepted", text)
		}
	}
}
