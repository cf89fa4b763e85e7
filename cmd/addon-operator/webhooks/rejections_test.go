package webhooks

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/hook"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// rule returns a rule for operations on resources of groups.
func rule(operations []admissionv1.OperationType, groups, resources []string) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{APIGroups: groups, Resources: resources}}
}

func TestRequestsAreDescribedByOperationsGroupsAndResources(t *testing.T) {
	t.Parallel()
	create, remove := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, []admissionv1.OperationType{admissionv1.Delete}
	for want, rules := range map[string][]admissionv1.RuleWithOperations{
		"":                                 nil,
		"CREATE, UPDATE of pods":           {rule(create, []string{""}, []string{"pods"})},
		"CREATE, UPDATE of pods, services": {rule(create, []string{""}, []string{"pods", "services"})},
		"CREATE, UPDATE of pods; DELETE of apps/deployments": {rule(create, []string{""}, []string{"pods"}), rule(remove, []string{"apps"}, []string{"deployments"})},
		"DELETE of a/x, a/y, b/x, b/y":                       {rule(remove, []string{"a", "b"}, []string{"x", "y"})},
		"DELETE of apps/deployments/scale":                   {rule(remove, []string{"apps"}, []string{"deployments/scale", "deployments/scale"})},
		"* of */*":                                           {rule([]admissionv1.OperationType{admissionv1.OperationAll}, []string{"*"}, []string{"*"})},
	} {
		if got := requestsOf(rules); got != want {
			t.Errorf("the requests are %q, want %q", got, want)
		}
	}
}

func TestSelectorsOfAWebhookAreDescribedIfTheySelect(t *testing.T) {
	t.Parallel()
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	tier := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: metav1.LabelSelectorOpExists}}}
	for want, config := range map[string]hook.AdmissionBinding{
		"":                           {Namespaces: &metav1.LabelSelector{}, Objects: nil},
		" in namespaces with team=a": {Namespaces: team},
		" of objects with tier":      {Objects: tier},
		" in namespaces with team=a of objects with tier": {Namespaces: team, Objects: tier},
	} {
		if got := selectedBy(config); got != want {
			t.Errorf("the selectors are %q, want %q", got, want)
		}
	}
}

func TestAWebhookRejectsRequestsWithoutAnOperatorUnlessItsPolicyIsIgnore(t *testing.T) {
	t.Parallel()
	guard, global, convert := webhook.Asked{Module: "guard", Hook: "hooks/check.sh", Binding: "check"}, webhook.Asked{Hook: "policy.sh", Binding: "p"}, webhook.Asked{Module: "crd", Hook: "hooks/up.sh", Binding: "up"}
	rules := []admissionv1.RuleWithOperations{rule([]admissionv1.OperationType{admissionv1.Create}, []string{""}, []string{"services"})}
	table := webhook.Table{
		Admissions: []webhook.Admission{
			{Asked: guard, Config: hook.AdmissionBinding{Name: "check.example.com", FailurePolicy: admissionv1.Fail, Rules: rules}},
			{Asked: guard, Config: hook.AdmissionBinding{Name: "ignored.example.com", FailurePolicy: admissionv1.Ignore, Rules: rules}},
			{Asked: global, Mutating: true, Config: hook.AdmissionBinding{Name: "p.example.com", FailurePolicy: admissionv1.Fail, Rules: rules, Objects: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}}},
		},
		Conversions: []webhook.Conversion{{Asked: convert, Config: hook.ConversionBinding{CRDName: "widgets.example.com"}}},
	}
	const effect = "deletes the admission webhook configurations of this operator. The API server then admits the requests without a check. The next start creates them again"
	withdraw := []string{"webhooks", "withdraw", "--namespace", "shop"}
	want := []store.Problem{
		{
			Subject: graph.Subject{Module: "guard", Hook: "hooks/check.sh", Binding: "check"}, Object: "webhook check.example.com",
			Error: "while no operator runs, the API server rejects CREATE of services: webhook check.example.com of hook guard/hooks/check.sh has failurePolicy Fail",
			Fix:   "start the operator in namespace shop", Command: withdraw, Effect: effect,
		},
		{
			Subject: graph.Subject{Hook: "policy.sh", Binding: "p"}, Object: "webhook p.example.com",
			Error: "while no operator runs, the API server rejects CREATE of services of objects with a=b: webhook p.example.com of hook policy.sh has failurePolicy Fail",
			Fix:   "start the operator in namespace shop", Command: withdraw, Effect: effect,
		},
		{
			Subject: graph.Subject{Module: "crd", Hook: "hooks/up.sh", Binding: "up"}, Object: "CustomResourceDefinition widgets.example.com",
			Error: "while no operator runs, the API server rejects requests for widgets.example.com in another version than the stored one: hook crd/hooks/up.sh converts them",
			Fix:   "start the operator in namespace shop, or request the stored version",
		},
	}
	if diff := cmp.Diff(want, rejections(table, "shop")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if found := rejections(webhook.Table{}, "shop"); found != nil {
		t.Errorf("without webhooks, the problems are %+v", found)
	}
}

func TestTheErrorOfAReviewIsShownWithoutTheNameOfItsHook(t *testing.T) {
	t.Parallel()
	asked := webhook.Asked{Module: "guard", Hook: "hooks/check.sh", Binding: "check"}
	for text, want := range map[string]string{
		"hook guard/hooks/check.sh: it did not answer": "it did not answer",
		"guard/hooks/check.sh check: exit status 1":    "exit status 1",
		"hook other.sh: exit status 1":                 "hook other.sh: exit status 1",
		"exit status 1: hook guard/hooks/check.sh: no": "exit status 1: hook guard/hooks/check.sh: no",
	} {
		if got := lastError(&webhook.Report{Asked: asked, Err: errors.New(text)}); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
	err := fmt.Errorf("%w: guard/hooks/check.sh check: exit status 2", webhook.ErrHookFailed)
	if got := lastError(&webhook.Report{Asked: asked, Err: err}); got != "exit status 2" {
		t.Errorf("%q is shown as %q", err, got)
	}
}

func TestOnlyRejectedAdmissionsCanBeWithdrawn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of       hook.Type
		result   webhook.Result
		ignored  bool
		withdraw bool
		begins   string
	}{
		"a rejected admission":                {hook.TypeValidating, webhook.TimedOut, false, true, "the API server rejects pods, because "},
		"a failed one with the policy Ignore": {hook.TypeMutating, webhook.Failed, true, true, "the API server rejects pods, because "},
		"an admitted one":                     {hook.TypeMutating, webhook.TimedOut, true, false, "the API server admits without a check pods, because "},
		"a conversion":                        {hook.TypeConversion, webhook.Failed, false, false, "the API server rejects pods, because "},
	} {
		f := failingReview{n: 1, report: webhook.Report{Asked: webhook.Asked{Hook: "h.sh"}, Type: c.of, Result: c.result, Err: errors.New("no")}}
		p := f.problem("pods", c.ignored)
		if (p.Command != nil) != c.withdraw || (p.Effect != "") != c.withdraw || p.Error != c.begins+"hook h.sh failed at the last request: no" || p.Last != "no" {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestWithdrawnAdmissionsStayOutOfTheTable(t *testing.T) {
	t.Parallel()
	w := &Webhooks{options: Options{Settings: settingsOf("shop")}}
	table := webhook.Table{
		Admissions:  []webhook.Admission{{Asked: webhook.Asked{Hook: "a.sh"}, Config: hook.AdmissionBinding{FailurePolicy: admissionv1.Fail}}},
		Conversions: []webhook.Conversion{{Asked: webhook.Asked{Hook: "c.sh"}}},
	}
	problems, stored := w.setTable(table)
	if len(problems) != 2 || stored {
		t.Errorf("%d problems, stored %t", len(problems), stored)
	}
	w.problems, w.known = problems, true
	if _, stored := w.setTable(table); !stored {
		t.Error("equal problems are stored again")
	}
	w.withdrawn = true
	problems, stored = w.setTable(table)
	if len(problems) != 1 || problems[0].Subject.Hook != "c.sh" || stored || len(w.table.Admissions) != 0 {
		t.Errorf("after the withdrawal: %+v, stored %t", problems, stored)
	}
	if len(table.Admissions) != 1 {
		t.Error("the table of the caller is changed")
	}
}

// settingsOf returns the settings of an operator in a namespace.
func settingsOf(namespace string) *settings.Settings { return &settings.Settings{Namespace: namespace} }
