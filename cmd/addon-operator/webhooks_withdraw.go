package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	admissionv1 "k8s.io/api/admissionregistration/v1"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/internal/kube"
	"addon-operator/internal/webhook"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// withdrawTimeout limits the requests of a withdrawal.
const withdrawTimeout = 5 * time.Second

// newWebhooksWithdraw returns the command webhooks withdraw.
func newWebhooksWithdraw(from *sourceFlags) *cobra.Command {
	var to kube.Options
	var namespace string
	cmd := &cobra.Command{
		Use: "withdraw", Short: "Delete the webhook configurations, so that the API server rejects no requests without the operator", Args: args(cobra.NoArgs),
		Long: "Delete the validating and mutating webhook configurations of the operator. Without them, the API server admits requests " +
			"that hooks would check. A running operator deletes them itself and creates them again at its next start. If no operator responds on " +
			"the debug socket, the command deletes them with your kubeconfig; an operator that runs elsewhere creates them again at once. " +
			"Conversion webhooks stay, because otherwise objects could be read in a version in which they were not written.",
	}
	reason := reasonFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&to.Kubeconfig, "kube-config", os.Getenv("KUBE_CONFIG"), "without a running operator: kubeconfig file [$KUBE_CONFIG, $KUBECONFIG]")
	f.StringVar(&to.Context, "kube-context", os.Getenv("KUBE_CONTEXT"), "without a running operator: context of the kubeconfig [$KUBE_CONTEXT]")
	f.StringVar(&to.Server, "kube-server", os.Getenv("KUBE_SERVER"), "without a running operator: address of the API server [$KUBE_SERVER]")
	f.StringVarP(&namespace, "namespace", "n", os.Getenv("ADDON_OPERATOR_NAMESPACE"),
		"without a running operator: its namespace; that of the pod or kubeconfig if empty [$ADDON_OPERATOR_NAMESPACE]")
	f.Lookup("kube-config").DefValue, f.Lookup("kube-context").DefValue = "", ""
	f.Lookup("kube-server").DefValue, f.Lookup("namespace").DefValue = "", ""
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if from.store == "" {
			s, err := from.open(cmd.Context())
			if err == nil {
				defer s.close() //nolint:errcheck // the answer says all
				return s.post(cmd.Context(), "/webhooks/withdraw", url.Values{"by": {me()}, "reason": {*reason}}, cmd.OutOrStdout())
			}
			if from.socket != "" {
				return err // the user named this operator
			}
		}
		return withdrawDirectly(cmd.Context(), to, namespace, cmd.OutOrStdout())
	}
	return cmd
}

// withdrawDirectly deletes the configurations of a stopped operator.
func withdrawDirectly(ctx context.Context, to kube.Options, namespace string, w io.Writer) error {
	if to.Kubeconfig == "" {
		to.Kubeconfig = os.Getenv("KUBECONFIG")
	}
	config, found, err := kube.Connect(to)
	if err != nil {
		return err
	}
	if namespace == "" {
		namespace = found
	}
	if namespace == "" {
		return &codedError{exitUsage, errors.New("the operator's namespace is not known: set --namespace")}
	}
	client, err := kube.NewClient(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 4*withdrawTimeout)
	defer cancel()
	deleted, err := webhook.Withdraw(ctx, client, namespace, nil)
	debugapi.WriteWithdrawn(w, deleted, namespace)
	return err
}

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
