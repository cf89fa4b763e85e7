package helm

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// fieldManager is the field manager that Helm uses for its writes. By default, Helm uses the
	// file name of the program.
	fieldManager = "addon-operator"

	// heritageLabel is a label of every object of every release.
	heritageLabel = "heritage"
	heritage      = "addon-operator"

	// defaultTimeout is the default of Options.Timeout.
	defaultTimeout = 20 * time.Minute

	// requestTimeout is the timeout of requests for release records, because the end of an
	// upgrade's context does not end them.
	requestTimeout = 15 * time.Second

	// miscWarning is the only warning code of RFC 7234 that API servers use.
	miscWarning = 299
)

// Options are the settings of a Client. Config and Namespace are required.
type Options struct {
	// Config is the configuration of the connection to the cluster. New copies it. If QPS is zero,
	// requests are not throttled.
	Config *rest.Config

	// Namespace is the namespace of the records of all releases, and of objects whose template sets
	// no namespace.
	Namespace string

	// Driver is the kind of object that stores revisions, as in HELM_DRIVER: "secret", the default,
	// or "configmap".
	Driver string

	// HistoryMax is the maximum number of revisions of a release. Zero keeps all.
	HistoryMax int

	// Timeout is the maximum time to wait for each Helm hook of a chart. Zero means 20 minutes.
	Timeout time.Duration

	// ExtraLabels are added to every object of every release. If they do not contain the label
	// heritage, heritage=addon-operator is added too.
	ExtraLabels map[string]string

	// DryRun makes the client make dry runs: it does not record revisions or run Helm hooks, and
	// passes them to DryRun instead. Then Config must turn the writes of objects into dry runs. If
	// DryRun is nil, the client changes the cluster.
	DryRun *DryRun

	// Log receives the log lines of Helm. If it is nil, they are dropped.
	Log func(format string, args ...any)
}

// Client reads and changes the releases of one namespace. It is safe for concurrent use, but only
// one goroutine at a time may change a release. It caches the kinds and versions that the cluster
// serves, and reuses connections. It caches no data of releases.
type Client struct {
	config     *rest.Config
	namespace  string
	historyMax int
	timeout    time.Duration
	labels     map[string]string
	log        func(format string, args ...any)

	cluster   *cluster
	records   *records
	manifests manifests
	metadata  metadata.Interface
	dry       *DryRun // nil if the client changes the cluster
}

// ownFields sets the field manager of Helm. It is a global variable of Helm, so it is set only
// once.
var ownFields = sync.OnceFunc(func() { kube.ManagedFieldsManager = fieldManager })

// New returns a Client. It sends no request: if the cluster is unreachable, later calls return the
// error.
func New(o Options) (*Client, error) {
	if o.Config == nil {
		return nil, errors.New("helm: Options.Config is nil: set the configuration of the connection to the cluster")
	}
	if o.Namespace == "" {
		return nil, errors.New("helm: Options.Namespace is empty: set the operator's namespace")
	}
	ownFields()

	c := &Client{
		namespace:  o.Namespace,
		historyMax: o.HistoryMax,
		timeout:    o.Timeout,
		labels:     extraLabels(o.ExtraLabels),
		log:        o.Log,
		dry:        o.DryRun,
	}
	if c.timeout == 0 {
		c.timeout = defaultTimeout
	}
	if c.log == nil {
		c.log = func(string, ...any) {}
	}
	c.config = ownConfig(o.Config, c.log)

	bounded := rest.CopyConfig(c.config)
	bounded.Timeout = requestTimeout
	transport, err := rest.HTTPClientFor(bounded)
	if err != nil {
		return nil, fmt.Errorf("helm: connect to the cluster: %w", err)
	}
	if err := c.connect(bounded, transport, o.Driver); err != nil {
		return nil, err
	}
	return c, nil
}

// connect creates the clients that all releases share.
func (c *Client) connect(config *rest.Config, transport *http.Client, driver string) error {
	var err error
	if c.metadata, err = metadata.NewForConfigAndClient(config, transport); err != nil {
		return fmt.Errorf("helm: make a metadata client: %w", err)
	}
	if c.records, err = newRecords(c, config, transport, driver); err != nil {
		return err
	}
	if c.dry != nil {
		c.records.keepUnsaved(c.dry)
	}
	if c.cluster, err = newCluster(config, c.log); err != nil {
		return err
	}
	c.manifests = manifests{records: c.records, cluster: c.cluster, namespace: c.namespace, historyMax: c.historyMax, log: c.log}
	return nil
}

// Labels returns the labels of every object of every release, for selectors.
func (c *Client) Labels() map[string]string {
	return maps.Clone(c.labels)
}

// configuration returns the configuration of one Helm action. Configurations are not shared,
// because Helm writes into them.
func (c *Client) configuration(config *rest.Config, client kube.Interface, caps *chartutil.Capabilities) *action.Configuration {
	return &action.Configuration{
		RESTClientGetter: c.getter(config),
		Releases:         c.records.storage(c.historyMax),
		KubeClient:       client,
		Capabilities:     caps,
		Log:              c.log,
		HookOutputFunc:   func(_, _, _ string) io.Writer { return io.Discard },
	}
}

func extraLabels(given map[string]string) map[string]string {
	labels := map[string]string{heritageLabel: heritage}
	maps.Copy(labels, given)
	return labels
}

// ownConfig copies config for Helm. If config sets no rate limit, ownConfig disables client-go's
// default limit. Helm creates a client for each object, so the limit would have no effect on these
// clients, and would only slow down the shared ones. If config has no warning handler, warnings of
// the API server go to the log instead of stderr.
func ownConfig(config *rest.Config, log func(string, ...any)) *rest.Config {
	own := rest.CopyConfig(config)
	if own.QPS == 0 {
		own.QPS = -1
	}
	if own.WarningHandler == nil && own.WarningHandlerWithContext == nil {
		own.WarningHandler = warnings(log)
	}
	return own
}

// warnings writes warnings of the API server to the log.
type warnings func(format string, args ...any)

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == miscWarning && text != "" {
		w("API server warns: %s", text)
	}
}
