package helm

import (
	"context"
	"io"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	"k8s.io/client-go/rest"

	"addon-operator/internal/span"
)

// actions runs actions of Helm with the settings and the clients that the actions on all releases share.
type actions struct {
	namespace string
	timeout   time.Duration
	dry       bool // whether upgrades and uninstalls are dry runs
	log       func(format string, args ...any)

	cluster *cluster
	records *records
}

// applied contains the inputs from which an install or an upgrade makes a revision.
type applied struct {
	configuration *action.Configuration
	chart         *chart.Chart
	values        chartutil.Values
	labels        map[string]string
	post          *labeller
}

// configuration returns a new configuration for one Helm action. Actions cannot share a configuration, because Helm
// modifies it.
func (a *actions) configuration(config *rest.Config, client kube.Interface, caps *chartutil.Capabilities) *action.Configuration {
	return &action.Configuration{
		RESTClientGetter: a.getter(config),
		Releases:         a.records.storage(),
		KubeClient:       client,
		Capabilities:     caps,
		Log:              a.log,
		HookOutputFunc:   func(_, _, _ string) io.Writer { return io.Discard },
	}
}

// rendering returns an install that only renders the chart of a release. Its requests are sent with config, and fail
// when ctx ends.
func (a *actions) rendering(ctx context.Context, config *rest.Config, release string, caps *chartutil.Capabilities) *action.Install {
	config = bound(ctx, config)
	install := action.NewInstall(a.configuration(config, offline{a.objects(ctx, config, release)}, caps))
	install.ReleaseName = release
	install.Namespace = a.namespace
	install.DryRun = true
	install.IsUpgrade = true
	install.SkipCRDs = true
	install.DisableOpenAPIValidation = true
	return install
}

// install makes the first revision of a release.
func (a *actions) install(ctx context.Context, name string, r applied) (*release.Release, error) {
	install := action.NewInstall(r.configuration)
	install.ReleaseName = name
	install.Namespace = a.namespace
	install.Labels = r.labels
	install.Timeout = a.timeout
	install.SkipCRDs = true
	install.TakeOwnership = true
	install.DisableOpenAPIValidation = true
	install.PostRenderer = r.post
	install.DisableHooks = a.dry
	return install.RunWithContext(ctx, r.chart, r.values)
}

// upgrade makes the next revision of a release.
func (a *actions) upgrade(ctx context.Context, name string, r applied) (*release.Release, error) {
	upgrade := action.NewUpgrade(r.configuration)
	upgrade.Namespace = a.namespace
	upgrade.Labels = r.labels
	upgrade.MaxHistory = a.records.historyMax
	upgrade.Timeout = a.timeout
	upgrade.SkipCRDs = true
	upgrade.TakeOwnership = true
	upgrade.ResetValues = true
	upgrade.DisableOpenAPIValidation = true
	upgrade.PostRenderer = r.post
	upgrade.DisableHooks = a.dry
	return upgrade.RunWithContext(ctx, name, r.chart, r.values)
}

// uninstall deletes the objects of the last revision of a release, and all revisions that Helm can decode.
func (a *actions) uninstall(name string, configuration *action.Configuration) error {
	uninstall := action.NewUninstall(configuration)
	uninstall.DeletionPropagation = "background"
	uninstall.Timeout = a.timeout
	uninstall.DisableHooks = a.dry
	_, err := uninstall.Run(name)
	return err
}

// startAction starts a tracing span for an action on a release. The new span is a child of the span in ctx, if there is
// one.
func startAction(ctx context.Context, namespace, action, name string) (context.Context, *span.Span) {
	return span.Start(ctx, "helm "+action, span.Attributes{"release": name, "namespace": namespace})
}
