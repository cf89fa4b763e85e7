package helm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

const (
	// fieldManager is the field manager of all objects that Helm writes. By default, Helm uses the file name of the
	// program.
	fieldManager = "addon-operator"

	// heritageLabel is a label that every object of every release gets, except the objects of Helm hooks.
	heritageLabel = "heritage"
	heritage      = "addon-operator"

	// defaultTimeout is the default of [Options.Timeout].
	defaultTimeout = 20 * time.Minute

	// requestTimeout is the timeout of requests for release records and for the metadata of objects. Helm's requests
	// for release records need a timeout, because they do not end when the context of an upgrade ends.
	requestTimeout = 15 * time.Second

	// miscWarning is the only warning code of RFC 7234 that API servers use.
	miscWarning = 299
)

// Options are the settings of a Client. Config and Namespace are required.
type Options struct {
	// Config is the client config for the cluster. New copies it. If QPS is zero, requests are not throttled.
	Config *rest.Config

	// Namespace is the namespace in which the records of all releases are stored. Objects whose template sets no
	// namespace are created in it, too.
	Namespace string

	// Driver is the kind of objects in which Helm stores the revisions of releases, as in HELM_DRIVER: "secret", which
	// is the default, or "configmap".
	Driver string

	// HistoryMax is the maximum number of stored revisions of a release. Zero means no limit.
	HistoryMax int

	// Timeout is the maximum time to wait for each Helm hook of a chart. Zero means 20 minutes.
	Timeout time.Duration

	// ExtraLabels are added to every object of every release, except to the objects of Helm hooks. If they do not
	// contain the label heritage, the label heritage=addon-operator is added, too.
	ExtraLabels map[string]string

	// DryRun, if not nil, makes the client do only dry runs: instead of storing revisions and running Helm hooks, the
	// client adds them to DryRun. Config must turn the writes of objects into dry runs; the client does not do this.
	DryRun *DryRun

	// Log is called for each log line of Helm. If it is nil, the lines are dropped.
	Log func(format string, args ...any)
}

// Client reads and changes the releases of one namespace. It is safe for concurrent use, but only one goroutine at a
// time may change the same release. It caches the kinds and versions that the API server serves, and reuses
// connections. It caches no data of releases.
type Client struct {
	config    *rest.Config
	namespace string
	readFresh time.Duration // the time for which an action uses an object that it has read
	labels    map[string]string
	log       func(format string, args ...any)

	cluster   *cluster
	records   *records
	manifests manifests
	actions   actions
	metadata  metadata.Interface
}

// ownFields sets the field manager of Helm. It does so only once, because the field manager is a global variable of
// Helm.
var ownFields = sync.OnceFunc(func() { kube.ManagedFieldsManager = fieldManager })

// New returns a Client. It sends no request. If the cluster is unreachable, the methods of the Client return an error.
func New(o Options) (*Client, error) {
	if o.Config == nil {
		return nil, errors.New("helm: Options.Config is nil: set the configuration of the connection to the cluster")
	}
	if o.Namespace == "" {
		return nil, errors.New("helm: Options.Namespace is empty: set the operator's namespace")
	}
	ownFields()

	c := &Client{
		namespace: o.Namespace,
		readFresh: readFresh,
		labels:    extraLabels(o.ExtraLabels),
		log:       o.Log,
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
	if err := c.connect(bounded, transport, o); err != nil {
		return nil, err
	}
	return c, nil
}

// connect creates the clients for the API server that the actions of all releases share.
func (c *Client) connect(config *rest.Config, transport *http.Client, o Options) error {
	var err error
	if c.metadata, err = metadata.NewForConfigAndClient(config, transport); err != nil {
		return fmt.Errorf("helm: make a metadata client: %w", err)
	}
	if c.records, err = newRecords(c, config, transport, o); err != nil {
		return err
	}
	if o.DryRun != nil {
		c.records.keepUnsaved(o.DryRun)
	}
	if c.cluster, err = newCluster(config, c.log); err != nil {
		return err
	}
	c.manifests = manifests{records: c.records, cluster: c.cluster, metadata: c.metadata, namespace: c.namespace, log: c.log}
	c.actions = actions{
		namespace: c.namespace, timeout: cmp.Or(o.Timeout, defaultTimeout), dry: o.DryRun != nil, log: c.log, cluster: c.cluster, records: c.records,
	}
	return nil
}

// Labels returns the labels that the client adds to every object of every release, except to the objects of Helm hooks.
// They can be used for selectors.
func (c *Client) Labels() map[string]string {
	return maps.Clone(c.labels)
}

func extraLabels(given map[string]string) map[string]string {
	labels := map[string]string{heritageLabel: heritage}
	maps.Copy(labels, given)
	return labels
}

// ownConfig returns a copy of config for Helm. If config sets no rate limit, the copy disables the default limit of
// client-go: Helm creates a client for each object, so the default limit would affect only the shared clients, and slow
// them down. If config has no warning handler, warnings of the API server are written to log instead of stderr. If the
// API server rejects fields as invalid, the errors that clients of the copy get do not contain the values of these
// fields.
func ownConfig(config *rest.Config, log func(string, ...any)) *rest.Config {
	own := rest.CopyConfig(config)
	if own.QPS == 0 {
		own.QPS = -1
	}
	if own.WarningHandler == nil && own.WarningHandlerWithContext == nil {
		own.WarningHandler = warnings(log)
	}
	own.Wrap(withoutValues)
	return own
}

// warnings is a warning handler that writes the warnings of the API server to a log function.
type warnings func(format string, args ...any)

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == miscWarning && text != "" {
		w("API server warns: %s", text)
	}
}
