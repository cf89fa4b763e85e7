package main

import (
	"context"

	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
)

// configureControllers returns the configuration of all controllers that are enabled by default. The controllers
// connect to the API server with the file DIR/kubeconfig, which must exist.
func configureControllers(ctx context.Context, d *directory) (*config.CompletedConfig, error) {
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		return nil, err
	}
	known, disabled, aliases := app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()
	err = parseFlags(o.Flags(known, disabled, aliases),
		"--kubeconfig="+d.file("kubeconfig"),
		"--service-account-private-key-file="+d.file("sa.key"),
		"--leader-elect=false",
		"--controller-shutdown-timeout=0", // 0 is no limit; stopWithin limits the shutdown
		"--secure-port=0",
	)
	if err != nil {
		return nil, err
	}
	c, err := o.Config(ctx, known, disabled, aliases)
	if err != nil {
		return nil, err
	}
	return c.Complete(), nil
}
