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

// configureAPIServer returns the options of an API server that listens on listener. The server stores its objects in
// the etcd at the given URL, and reads its keys and tokens from d. configureAPIServer also creates the serving
// certificate in d if it is missing. Call it at most once in a process, because feature gates and logging are global.
//
// ServiceAccount admission is disabled. No containers run in the pods, so pods need no tokens, and need not wait for
// their service accounts.
func configureAPIServer(ctx context.Context, d *directory, etcd string, listener net.Listener) (options.CompletedOptions, error) {
	var none options.CompletedOptions
	o := options.NewServerRunOptions()
	o.SecureServing.Listener = listener
	err := parseFlags(o.Flags(),
		"--etcd-servers="+etcd,
		"--cert-dir="+d.file("certs"),
		"--bind-address=127.0.0.1",
		// The server listens only on the loopback interface, so that it works on a machine without a network. A
		// loopback address is not allowed in Endpoints, so the server does not write the endpoints of the service
		// "kubernetes".
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

// parseFlags parses args, and sets the options of a server whose flags are in sets. The servers are configured by
// flags, because flags are documented and stable across versions. The fields of the option structs are not documented,
// and change between versions.
func parseFlags(sets cliflag.NamedFlagSets, args ...string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		flags.AddFlagSet(set)
	}
	return flags.Parse(args)
}

// awaitAPIServer waits until the API server is ready and has its system namespaces. It polls, because the API server
// cannot be watched before it is ready.
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
