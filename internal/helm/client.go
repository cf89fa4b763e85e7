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
	// fieldManager owns the fields Helm writes; Helm takes the program's file name when it is told nothing.
	fieldManager = "addon-operator"

	// heritageLabel is on every object of every release.
	heritageLabel = "heritage"
	heritage      = "addon-operator"

	// defaultTimeout bounds each wait for a Helm hook.
	defaultTimeout = 20 * time.Minute

	// requestTimeout bounds requests that no upgrade's context can end: those for release records.
	requestTimeout = 15 * time.Second

	// miscWarning is the one code of RFC 7234 that API servers use.
	miscWarning = 299
)

// Options say where a Client keeps releases and how. Config and Namespace are needed, the rest may be zero.
type Options struct {
	// Config reaches the cluster. It is copied. Without QPS, requests are not throttled here.
	Config *rest.Config

	// Namespace holds the records of all releases, and those of their objects that name none.
	Namespace string

	// Driver is the kind of object revisions are kept in, as in HELM_DRIVER: "secret", the default, or "configmap".
	Driver string

	// HistoryMax is how many revisions of a release are kept. Zero keeps all.
	HistoryMax int

	// Timeout bounds the wait for each Helm hook of a chart. Zero means 20 minutes.
	Timeout time.Duration

	// ExtraLabels are put on every object of every release. heritage=addon-operator is added where there is no heritage.
	ExtraLabels map[string]string

	// DryRun makes the client record no revision and run no Helm hook, and is told of both. Config must make the writes
	// of objects dry runs. Nil is a client that does what it is asked for.
	DryRun *DryRun

	// Log takes what Helm says while it works. Nil drops it.
	Log func(format string, args ...any)
}

// Client reads and changes the releases of one namespace. It may be used by several goroutines, but only one at a
// time may change the same release. It keeps what the cluster can do (its kinds and versions), connections, and
// nothing of any release.
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
	dry       *DryRun // nil unless the client makes dry runs
}

// ownFields tells Helm, once for the whole program, in whose name to write.
var ownFields = sync.OnceFunc(func() { kube.ManagedFieldsManager = fieldManager })

// New returns a Client. It makes no request: a cluster that is away is an error of what is done later.
func New(o Options) (*Client, error) {
	if o.Config == nil {
		return nil, errors.New("helm: Options.Config is nil: give the configuration that reaches the cluster")
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

// connect makes the clients that all releases share.
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

// Labels returns the labels that every object of every release carries, for selecting them.
func (c *Client) Labels() map[string]string {
	return maps.Clone(c.labels)
}

// configuration returns what one Helm action works with. Configurations are not shared: Helm writes into them.
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

// ownConfig copies config for Helm's ways of working: Helm makes a client an object, so a limit would hold for none
// of them and only slow the shared ones; and warnings of the API server belong in the log, not on stderr.
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

// warnings are the API server's, passed on to the log.
type warnings func(format string, args ...any)

// HandleWarningHeader implements rest.WarningHandler.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	if code == miscWarning && text != "" {
		w("API server warns: %s", text)
	}
}
