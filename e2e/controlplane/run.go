package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"

	"addon-operator/e2e/controlplane/kubelet"
)

// run starts the parts one after another, announces that they are ready, and stops them when ctx ends or one of them
// has ended. run returns nil if ctx ended and all parts stopped.
func run(ctx context.Context, a arguments) (err error) {
	d, err := openDirectory(a)
	if err != nil {
		return err
	}
	restore, err := d.redirect()
	if err != nil {
		return errors.Join(err, d.close(true))
	}
	running := newParts()
	defer func() {
		if err != nil {
			fmt.Fprintln(os.Stderr, "controlplane:", err)
			err = fmt.Errorf("%w (the log: %s)", err, d.file("log"))
		}
		err = errors.Join(err, d.remove("ready"), running.stop())
		restore()
		err = errors.Join(err, d.close(err == nil))
	}()

	// The start ignores the end of ctx, because an API server that is stopped before it is ready terminates the whole
	// process. So a stop during the start waits until the start is complete, which takes about two seconds. A second
	// signal ends the process at once.
	if err := start(context.WithoutCancel(ctx), d, running); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	if err := announce(d, a.readyFD); err != nil {
		return fmt.Errorf("announce that the control plane is ready: %w", err)
	}
	return running.wait(ctx)
}

// start starts etcd, the API server, the controllers and the kubelet, in that order, and adds them to running. It
// waits until the API server is ready before it starts the controllers.
func start(ctx context.Context, d *directory, running *parts) error {
	// The port of the API server is opened before etcd starts, because etcd listens on any free port and could get
	// this one.
	listener, err := d.listen()
	if err != nil {
		return err
	}
	etcd, err := startEtcd(ctx, d.file("etcd"))
	if err != nil {
		return errors.Join(fmt.Errorf("start etcd: %w", err), listener.Close())
	}
	running.start("etcd", func(ctx context.Context) error { return serveEtcd(ctx, etcd) })

	client, err := startAPIServer(ctx, d, running, endpoint(etcd), listener)
	if err != nil {
		return errors.Join(fmt.Errorf("start the API server: %w", err), listener.Close())
	}
	err = running.await(ctx, func(ctx context.Context) error { return awaitAPIServer(ctx, client) })
	if err != nil {
		return fmt.Errorf("start the API server: %w", err)
	}

	completed, err := configureControllers(ctx, d)
	if err != nil {
		return fmt.Errorf("start the controllers: %w", err)
	}
	running.start("kube-controller-manager", func(ctx context.Context) error { return controllers.Run(ctx, completed) })
	running.start("kubelet", func(ctx context.Context) error { return kubelet.Run(ctx, client) })
	return nil
}

// startAPIServer starts the API server, adds it to running and writes DIR/kubeconfig. startAPIServer returns a client
// for it.
func startAPIServer(
	ctx context.Context, d *directory, running *parts, etcd string, listener net.Listener,
) (kubernetes.Interface, error) {
	if _, err := d.keep("sa.key", createServiceAccountKey); err != nil {
		return nil, err
	}
	tokens, err := d.keep("tokens.csv", createTokens)
	if err != nil {
		return nil, err
	}
	admin, err := token(tokens)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.file("tokens.csv"), err)
	}
	completed, err := configureAPIServer(ctx, d, etcd, listener)
	if err != nil {
		return nil, err
	}
	ca, err := os.ReadFile(completed.SecureServing.ServerCert.CertKey.CertFile)
	if err != nil {
		return nil, err
	}
	written, err := kubeconfig(listener.Addr().String(), ca, admin)
	if err != nil {
		return nil, err
	}
	if err := d.write("kubeconfig", written); err != nil {
		return nil, err
	}
	cfg, err := clientcmd.RESTConfigFromKubeConfig(written)
	if err != nil {
		return nil, err
	}
	cfg.QPS = -1 // a server in the same process needs no rate limit
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	rest.SetDefaultWarningHandler(rest.NoWarnings{}) // the controllers use deprecated API versions, and each warning would be logged
	running.start("kube-apiserver", func(ctx context.Context) error { return apiserver.Run(ctx, completed) })
	return client, nil
}

// announce writes DIR/ready. If fd is not 0, announce also writes a line to this file descriptor.
func announce(d *directory, fd int) error {
	if err := d.write("ready", nil); err != nil || fd == 0 {
		return err
	}
	waiting := os.NewFile(uintptr(fd), "ready-fd")
	_, err := waiting.WriteString("ready\n")
	return errors.Join(err, waiting.Close())
}
