package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/kubernetes"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// configureAPIServer returns the options of an API server that listens on listener. Its objects are in this etcd, and
// its keys and tokens are in d. configureAPIServer also creates the serving certificate. Call it at most once in a
// process, because feature gates and logging are global.
//
// ServiceAccount admission is disabled. Pods are only reported as running, so they need no tokens, and need not wait
// for their service accounts.
func configureAPIServer(ctx context.Context, d *directory, etcd string, listener net.Listener) (options.CompletedOptions, error) {
	var none options.CompletedOptions
	o := options.NewServerRunOptions()
	o.SecureServing.Listener = listener
	err := parseFlags(o.Flags(),
		"--etcd-servers="+etcd,
		"--cert-dir="+d.file("certs"),
		"--bind-address=127.0.0.1",
		// The server is reachable only from this machine, so that it works on a machine without a network. It does
		// not publish an address as endpoint of the service "kubernetes".
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=10.0.0.0/16",
		"--authorization-mode=RBAC",
		"--token-auth-file="+d.file("tokens.csv"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+d.file("sa.key"),
		"--service-account-signing-key-file="+d.file("sa.key"),
		"--disable-admission-plugins=ServiceAccount",
	)
	if err != nil {
		return none, err
	}
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return none, err
	}
	if err := logsapi.ValidateAndApply(o.Logs, utilfeature.DefaultFeatureGate); err != nil {
		return none, err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return none, err
	}
	return completed, errors.Join(completed.Validate()...)
}

// parseFlags parses args and sets the options of sets. The servers are configured by flags, because flags are
// documented and stable across versions. Fields are not.
func parseFlags(sets cliflag.NamedFlagSets, args ...string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

// awaitAPIServer waits until the API server is ready and has its system namespaces. It polls, because no event
// reports this.
func awaitAPIServer(ctx context.Context, client kubernetes.Interface) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, 2*time.Minute, true, func(ctx context.Context) (bool, error) {
		last = client.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
		for _, namespace := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem} {
			if last == nil {
				_, last = client.CoreV1().Namespaces().Get(ctx, namespace, metav1.GetOptions{})
			}
		}
		if apierrors.IsUnauthorized(last) {
			return false, fmt.Errorf("it does not know the token of its own administrator: %w", last)
		}
		return last == nil, nil
	})
	if err != nil && ctx.Err() == nil && last != nil {
		return fmt.Errorf("%w; it last said: %w", err, last)
	}
	return err
}
