package main

import (
	"context"
	"errors"
	"io"
	"net/url"
	"os"

	"github.com/spf13/cobra"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/webhooks"
	"addon-operator/internal/kube"
)

// newWebhooksWithdraw returns the command "webhooks withdraw".
func newWebhooksWithdraw(from *sourceFlags) *cobra.Command {
	var to kube.Options
	var namespace string
	cmd := &cobra.Command{
		Use: "withdraw", Short: "Delete the admission webhook configurations, so that the API server admits requests without a check while the operator is not running", Args: args(cobra.NoArgs),
		Long: "Delete the validating and mutating webhook configurations of the operator. Without them, the API server admits requests " +
			"that hooks would check. A running operator deletes them itself and creates them again at its next start. If no operator responds on " +
			"the debug socket, the command deletes them with your kubeconfig; an operator that runs elsewhere creates them again at once. " +
			"Conversion webhooks stay, because otherwise objects could be read in a version in which they were not written.",
	}
	reason := reasonFlag(cmd)
	f := cmd.Flags()
	f.StringVar(&to.Kubeconfig, "kube-config", os.Getenv("KUBE_CONFIG"), "without a running operator: kubeconfig file, or several, separated by \":\" [$KUBE_CONFIG, $KUBECONFIG]")
	f.StringVar(&to.Context, "kube-context", os.Getenv("KUBE_CONTEXT"), "without a running operator: context of the kubeconfig [$KUBE_CONTEXT]")
	f.StringVar(&to.Server, "kube-server", os.Getenv("KUBE_SERVER"), "without a running operator: address of the API server [$KUBE_SERVER]")
	f.StringVarP(&namespace, "namespace", "n", os.Getenv("ADDON_OPERATOR_NAMESPACE"),
		"without a running operator: namespace of the stopped operator; that of the pod or kubeconfig if empty [$ADDON_OPERATOR_NAMESPACE]")
	f.Lookup("kube-config").DefValue, f.Lookup("kube-context").DefValue = "", ""
	f.Lookup("kube-server").DefValue, f.Lookup("namespace").DefValue = "", ""
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if from.store == "" {
			s, err := from.open(cmd.Context())
			if err == nil {
				defer s.close() //nolint:errcheck // the response has already reported all errors
				return s.post(cmd.Context(), "/webhooks/withdraw", url.Values{"by": {me()}, "reason": {*reason}}, cmd.OutOrStdout())
			}
			if from.socket != "" {
				return err // the user named the socket of an operator, so the webhooks of another operator must stay
			}
		}
		return withdrawDirectly(cmd.Context(), to, namespace, cmd.OutOrStdout())
	}
	return cmd
}

// withdrawDirectly deletes the admission webhook configurations of a stopped operator, and prints their
// names to w.
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
	ctx, cancel := context.WithTimeout(ctx, 4*webhooks.WithdrawTimeout)
	defer cancel()
	deleted, err := webhooks.WithdrawStopped(ctx, client, namespace)
	debugapi.WriteWithdrawn(w, deleted, namespace)
	return err
}
