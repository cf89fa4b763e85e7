package webhooks

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// rejections returns a problem for each webhook without which the API server rejects requests.
func rejections(t webhook.Table) (problems []store.Problem) {
	for _, a := range t.Admissions {
		if a.Config.FailurePolicy != admissionv1.Fail {
			continue
		}
		problems = append(problems, store.Problem{
			Subject: graph.Subject{Module: a.Module, Hook: a.Hook, Binding: a.Binding}, Object: "webhook " + a.Config.Name,
			Error: "while no operator runs, the API server rejects " + requestsOf(a.Config.Rules) + ": webhook " + a.Config.Name +
				" of hook " + hookName(a.Asked) + " has failurePolicy Fail",
			Fix: "start the operator", Command: []string{"webhooks", "withdraw"}, Effect: "admits the requests without a check",
		})
	}
	for _, c := range t.Conversions {
		problems = append(problems, store.Problem{
			Subject: graph.Subject{Module: c.Module, Hook: c.Hook, Binding: c.Binding}, Object: "CustomResourceDefinition " + c.Config.CRDName,
			Error: "while no operator runs, the API server rejects requests for " + c.Config.CRDName +
				" in another version than the stored one: hook " + hookName(c.Asked) + " converts them",
			Fix: "start the operator, or request the stored version",
		})
	}
	return problems
}

func hookName(a webhook.Asked) string {
	line := debugapi.HookLine{Module: a.Module, Name: a.Hook}
	return line.FullName()
}

// requestsOf describes the requests that rules match, such as "CREATE, UPDATE of pods,
// apps/deployments".
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
