package sdk_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"addon-operator/internal/hook"
	"addon-operator/sdk"
)

func pods() sdk.Kubernetes {
	return sdk.Kubernetes{
		Name: "pods", APIVersion: "v1", Kind: "Pod", ExecuteHookOnEvent: []string{sdk.Added, sdk.Deleted},
		ExecuteHookOnSynchronization: new(false), WaitForSynchronization: new(false), KeepFullObjectsInMemory: new(false),
		JqFilter: ".metadata.name", NameSelector: &sdk.NameSelector{MatchNames: []string{"a"}},
		LabelSelector: &sdk.LabelSelector{
			MatchLabels:      map[string]string{"app": "web"},
			MatchExpressions: []sdk.LabelRequirement{{Key: "tier", Operator: "In", Values: []string{"front"}}, {Key: "old", Operator: "DoesNotExist"}},
		},
		FieldSelector: &sdk.FieldSelector{MatchExpressions: []sdk.FieldRequirement{{Field: "status.phase", Operator: "!=", Value: "Failed"}}},
		Namespace:     &sdk.NamespaceSelector{NameSelector: &sdk.NameSelector{MatchNames: []string{"default"}}},
		Queue:         "pods", Group: "all", AllowFailure: true, IncludeSnapshotsFrom: []string{"pods"}, ResynchronizationPeriod: "1h",
	}
}

func admission() []sdk.Admission {
	return []sdk.Admission{{
		Name: "policy.example.com",
		Rules: []sdk.Rule{{
			APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Operations: []string{"CREATE"}, Scope: "Namespaced",
		}},
		FailurePolicy: "Ignore", SideEffects: "NoneOnDryRun", TimeoutSeconds: 3,
		MatchConditions: []sdk.MatchCondition{{Name: "not-ours", Expression: "request.userInfo.username != 'us'"}},
		LabelSelector:   &sdk.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Namespace:       &sdk.NamespaceLabels{LabelSelector: &sdk.LabelSelector{MatchLabels: map[string]string{"c": "d"}}},
		Group:           "all", IncludeSnapshotsFrom: []string{"pods"},
	}}
}

// The operator parses a printed configuration with all fields, and no field is lost.
func TestOperatorReadsEveryFieldOfAConfig(t *testing.T) {
	t.Parallel()
	common := sdk.Config{
		OnStartup: new(-5), Schedule: []sdk.Schedule{{
			Name: "tick", Crontab: "* * * * *", Queue: "q", Group: "all", AllowFailure: true, IncludeSnapshotsFrom: []string{"pods"},
		}},
		Kubernetes: []sdk.Kubernetes{pods()}, Validating: admission(), Mutating: admission(),
		Conversion: []sdk.Conversion{{
			Name: "up", CRDName: "widgets.example.com", Conversions: []sdk.ConversionStep{{FromVersion: "v1", ToVersion: "example.com/v2"}},
			Group: "all", IncludeSnapshotsFrom: []string{"pods"},
		}},
		Settings: &sdk.Settings{ExecutionMinInterval: "30s", ExecutionBurst: 3},
	}
	module, global := common, common
	module.BeforeHelm, module.AfterHelm, module.BeforeDeleteHelm, module.AfterDeleteHelm = new(1), new(2), new(3), new(0)
	global.BeforeAll, global.AfterAll = new(1), new(2)
	for scope, config := range map[hook.Scope]sdk.Config{hook.Module: module, hook.Global: global} {
		text, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		read, err := hook.Load(scope, text)
		if err != nil {
			t.Fatalf("%s: %v\n%s", scope, err, text)
		}
		if want := map[hook.Scope]int{hook.Module: 5, hook.Global: 3}[scope]; len(read.Ordered) != want {
			t.Errorf("%s: ordered bindings are %v, want %d", scope, read.Ordered, want)
		}
		b := read.Kubernetes[0]
		if diff := cmp.Diff([]string{hook.Added, hook.Deleted}, b.Events); diff != "" || b.ExecuteOnSynchronization || b.WaitForSynchronization || b.KeepFullObjects {
			t.Errorf("kubernetes binding is %+v", b)
		}
		if len(read.Validating) != 1 || len(read.Mutating) != 1 || len(read.Conversion) != 1 || len(read.Schedule) != 1 || read.Settings.ExecutionBurst != 3 {
			t.Errorf("the config is %+v", read)
		}
	}
}

func TestEmptyFieldsAreLeftToTheOperator(t *testing.T) {
	t.Parallel()
	for want, config := range map[string]sdk.Config{
		`{"configVersion":"v1"}`:                                                       {},
		`{"configVersion":"v1","kubernetes":[{"kind":"Pod"}]}`:                         {Kubernetes: []sdk.Kubernetes{{Kind: "Pod"}}},
		`{"configVersion":"v1","kubernetes":[{"kind":"Pod","executeHookOnEvent":[]}]}`: {Kubernetes: []sdk.Kubernetes{{Kind: "Pod", ExecuteHookOnEvent: []string{}}}},
		`{"configVersion":"v1","onStartup":0}`:                                         {OnStartup: new(0)},
	} {
		got, err := json.Marshal(config)
		if err != nil || string(got) != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
