package webhooks

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/hook"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// rejections returns a problem for each webhook whose requests the API server rejects while no operator runs. namespace
// is the namespace of the operator.
func rejections(t webhook.Table, namespace string) (problems []store.Problem) {
	for _, a := range t.Admissions {
		if a.Config.FailurePolicy != admissionv1.Fail {
			continue
		}
		problems = append(problems, store.Problem{
			Subject: graph.Subject{Module: a.Module, Hook: a.Hook, Binding: a.Binding}, Object: "webhook " + a.Config.Name,
			Error: "while no operator runs, the API server rejects " + requestsOf(a.Config.Rules) + selectedBy(a.Config) + ": webhook " + a.Config.Name +
				" of hook " + hookName(a.Asked) + " has failurePolicy Fail",
			Fix: "start the operator in namespace " + namespace, Command: []string{"webhooks", "withdraw", "--namespace", namespace},
			Effect: "deletes the admission webhook configurations of this operator. The API server then admits the requests without a check. The next start creates them again",
		})
	}
	for _, c := range t.Conversions {
		problems = append(problems, store.Problem{
			Subject: graph.Subject{Module: c.Module, Hook: c.Hook, Binding: c.Binding}, Object: "CustomResourceDefinition " + c.Config.CRDName,
			Error: "while no operator runs, the API server rejects requests for " + c.Config.CRDName +
				" in another version than the stored one: hook " + hookName(c.Asked) + " converts them",
			Fix: "start the operator in namespace " + namespace + ", or request the stored version",
		})
	}
	return problems
}

// selectedBy describes the selectors of a webhook, such as " in namespaces with team=a"; empty if it has none.
func selectedBy(config hook.AdmissionBinding) (text string) {
	for _, s := range []struct {
		what     string
		selector *metav1.LabelSelector
	}{{" in namespaces with ", config.Namespaces}, {" of objects with ", config.Objects}} {
		if s.selector != nil && len(s.selector.MatchLabels)+len(s.selector.MatchExpressions) > 0 {
			text += s.what + metav1.FormatLabelSelector(s.selector)
		}
	}
	return text
}

func hookName(a webhook.Asked) string {
	line := debugapi.HookLine{Module: a.Module, Name: a.Hook}
	return line.FullName()
}

// requestsOf describes the requests that rules match, such as "CREATE, UPDATE of pods;
// DELETE of apps/deployments".
func requestsOf(rules []admissionv1.RuleWithOperations) string {
	var all []string
	for _, r := range rules {
		var operations, resources []string
		for _, o := range r.Operations {
			operations = append(operations, string(o))
		}
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				resources = append(resources, strings.TrimPrefix(group+"/"+resource, "/"))
			}
		}
		all = append(all, strings.Join(operations, ", ")+" of "+strings.Join(slices.Compact(resources), ", "))
	}
	return strings.Join(all, "; ")
}
