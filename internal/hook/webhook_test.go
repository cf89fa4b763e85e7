package hook_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/hook"
)

const fullWebhookConfig = `
configVersion: v1
kubernetes:
- {name: pods, kind: Pod, group: g}
- {name: nodes, kind: Node}
kubernetesValidating:
- name: a.policy.example.com
  group: g
  includeSnapshotsFrom: [nodes]
  rules:
  - {apiGroups: [""], apiVersions: [v1], resources: [pods, pods/exec], operations: [CREATE, CONNECT]}
  - {apiGroups: ["*"], apiVersions: ["*"], resources: ["*"], operations: ["*"], scope: Cluster}
  failurePolicy: Ignore
  sideEffects: NoneOnDryRun
  timeoutSeconds: 30
  matchConditions: [{name: not-nodes, expression: "!('system:nodes' in request.userInfo.groups)"}]
  labelSelector: {matchLabels: {app: x}}
  namespace: {labelSelector: {matchExpressions: [{key: policy, operator: Exists}]}}
kubernetesMutating:
- name: a.policy.example.com
  rules: [{apiGroups: [apps], apiVersions: [v1], resources: [deployments], operations: [UPDATE]}]
kubernetesCustomResourceConversion:
- name: up
  crdName: crontabs.stable.example.com
  conversions: [{fromVersion: v1alpha1, toVersion: stable.example.com/v1}]
`

func TestEveryFieldOfAWebhookBindingIsRead(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Module, []byte(fullWebhookConfig))
	if err != nil {
		t.Fatal(err)
	}
	all, cluster := admissionv1.AllScopes, admissionv1.ClusterScope
	want := []hook.AdmissionBinding{{
		Name: "a.policy.example.com", FailurePolicy: admissionv1.Ignore, SideEffects: admissionv1.SideEffectClassNoneOnDryRun,
		TimeoutSeconds: 30, Group: "g", IncludeSnapshotsFrom: []string{"nodes", "pods"},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{"CREATE", "CONNECT"},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "pods/exec"}, Scope: &all},
		}, {
			Operations: []admissionv1.OperationType{"*"},
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}, Scope: &cluster},
		}},
		MatchConditions: []admissionv1.MatchCondition{{Name: "not-nodes", Expression: "!('system:nodes' in request.userInfo.groups)"}},
		Objects:         &metav1.LabelSelector{MatchLabels: map[string]string{"app": "x"}},
		Namespaces:      &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "policy", Operator: "Exists"}}},
	}}
	if diff := cmp.Diff(want, config.Validating); diff != "" {
		t.Errorf("validating (-want +got):\n%s", diff)
	}
	want = []hook.AdmissionBinding{{
		Name: "a.policy.example.com", FailurePolicy: admissionv1.Fail, SideEffects: admissionv1.SideEffectClassNone, TimeoutSeconds: 10,
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{"UPDATE"},
			Rule:       admissionv1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}, Scope: &all},
		}},
	}}
	if diff := cmp.Diff(want, config.Mutating); diff != "" {
		t.Errorf("mutating, by the defaults (-want +got):\n%s", diff)
	}
	conversion := []hook.ConversionBinding{{
		Name: "up", CRDName: "crontabs.stable.example.com",
		Conversions: []hook.Conversion{{FromVersion: "v1alpha1", ToVersion: "stable.example.com/v1"}},
	}}
	if diff := cmp.Diff(conversion, config.Conversion); diff != "" {
		t.Errorf("conversion (-want +got):\n%s", diff)
	}
	if got := config.Conversion[0].FullVersion("v1alpha1"); got != "stable.example.com/v1alpha1" {
		t.Errorf("the short version is %s in full", got)
	}
}

func TestErrorsOfWebhookBindingsNameTheirField(t *testing.T) {
	t.Parallel()
	const rules = "rules: [{apiGroups: [''], apiVersions: [v1], resources: [pods], operations: [CREATE]}]"
	validating := func(text string) string {
		return "{configVersion: v1, kubernetesValidating: [{name: a.b.c, " + rules + ", " + text + "}]}"
	}
	rule := func(text string) string {
		return "{configVersion: v1, kubernetesMutating: [{name: a.b.c, rules: [" + text + "]}]}"
	}
	conversion := func(text string) string {
		return "{configVersion: v1, kubernetesCustomResourceConversion: [{name: x, " + text + "}]}"
	}
	const ours, crd = "kubernetesValidating[0].", "kubernetesCustomResourceConversion[0]."
	for text, want := range map[string]string{
		"{configVersion: v1, kubernetesValidating: [{" + rules + "}]}":                                          ours + "name: is required",
		"{configVersion: v1, kubernetesValidating: [{name: policy, " + rules + "}]}":                            ours + `name: is "policy", must be a domain name of at least three labels`,
		"{configVersion: v1, kubernetesMutating: [{name: A.b.c, " + rules + "}]}":                               `kubernetesMutating[0].name: is "A.b.c", must be a domain name`,
		"{configVersion: v1, kubernetesMutating: [{name: a.b.c}]}":                                              "kubernetesMutating[0].rules: is required",
		"{configVersion: v1, kubernetesMutating: [{name: a.b.c, " + rules + "}, {name: a.b.c, " + rules + "}]}": `kubernetesMutating[1]: another binding of kubernetesMutating is named "a.b.c" too`,
		rule(""):                                         "kubernetesMutating[0].rules: must not be empty",
		rule("{apiGroups: []}"):                          "kubernetesMutating[0].rules[0].apiGroups: must not be empty",
		rule("{apiGroups: ['']}"):                        "kubernetesMutating[0].rules[0].resources: is required",
		rule("{operations: [PATCH]}"):                    `kubernetesMutating[0].rules[0].operations[0]: is "PATCH", must be one of CREATE, UPDATE, DELETE, CONNECT, *`,
		rule("{scope: All}"):                             `kubernetesMutating[0].rules[0].scope: is "All", must be one of Cluster, Namespaced, *`,
		rule("{matchPolicy: Exact}"):                     "kubernetesMutating[0].rules[0].matchPolicy: is no known key",
		validating("failurePolicy: fail"):                ours + `failurePolicy: is "fail", must be one of Fail, Ignore`,
		validating("sideEffects: Some"):                  ours + `sideEffects: is "Some", must be one of None, NoneOnDryRun`,
		validating("timeoutSeconds: 0"):                  ours + "timeoutSeconds: is 0, must be at least 1",
		validating("timeoutSeconds: 31"):                 ours + "timeoutSeconds: is 31, must be at most 30",
		validating("matchConditions: [{name: x}]"):       ours + "matchConditions[0].expression: is required",
		validating("namespace: {}"):                      ours + "namespace.labelSelector: is required",
		validating("namespace: {nameSelector: {}}"):      ours + "namespace.nameSelector: is no known key",
		validating("includeSnapshotsFrom: [pods]"):       ours + `includeSnapshotsFrom[0]: there is no kubernetes binding named "pods"`,
		conversion("conversions: []"):                    crd + "crdName: is required",
		conversion("crdName: crontabs, conversions: []"): crd + `crdName: is "crontabs", must be the name of a CustomResourceDefinition: PLURAL.GROUP`,
		conversion("crdName: c.x.io"):                    crd + "conversions: is required",
		conversion("crdName: c.x.io, conversions: [{}]"): crd + "conversions[0].fromVersion: is required",
		conversion("crdName: c.x.io, conversions: [{fromVersion: V1, toVersion: v2}]"):      crd + `conversions[0].fromVersion: is "V1", must be VERSION or GROUP/VERSION`,
		conversion("crdName: c.x.io, conversions: [{fromVersion: y.io/v1, toVersion: v2}]"): crd + `conversions[0].fromVersion: is "y.io/v1", but the group of crdName is x.io`,
		conversion("crdName: c.x.io, conversions: [{fromVersion: x.io/v1, toVersion: v1}]"): crd + "conversions[0]: converts x.io/v1 to itself",
	} {
		_, err := hook.Load(hook.Global, []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n\tgives  %v\n\twant   %s", text, err, want)
		}
	}
}

func TestAHookOfWebhooksAloneIsAConfig(t *testing.T) {
	t.Parallel()
	config, err := hook.Load(hook.Global, []byte("{configVersion: v1, kubernetesCustomResourceConversion: [{name: x, crdName: c.x.io, conversions: [{fromVersion: v1, toVersion: v2}]}]}"))
	if err != nil || len(config.Conversion) != 1 {
		t.Errorf("got %+v, %v", config, err)
	}
}
