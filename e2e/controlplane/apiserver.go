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

// configureAPIServer returns the options of an API server that listens on listener, keeps its objects in the etcd at etcd
// and its keys and tokens in d. The certificate it will show is there after it. It may be called once in a process, as
// feature gates and logging are the process's.
//
// ServiceAccount admission is off: pods need no token to be said to run, and so none of them waits for its account.
func configureAPIServer(ctx context.Context, d *directory, etcd string, listener net.Listener) (options.CompletedOptions, error) {
	var none options.CompletedOptions
	o := options.NewServerRunOptions()
	o.SecureServing.Listener = listener
	err := parseFlags(o.Flags(),
		"--etcd-servers="+etcd,
		"--cert-dir="+d.file("certs"),
		"--bind-address=127.0.0.1",
		// Nothing outside of this machine reaches it, so there is no address to publish as endpoint of the service
		// "kubernetes"; and a machine without a network will do.
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

// parseFlags sets the options behind sets as args say. The servers are told what to do by flags and not by fields, as
// flags are what is documented and what stays from one version to the next.
func parseFlags(sets cliflag.NamedFlagSets, args ...string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

// awaitAPIServer returns when the API server is ready and has the namespaces every cluster has. It asks again and again,
// for there is nothing that would tell.
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
