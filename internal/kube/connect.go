package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	userAgent    = "addon-operator"
	fieldManager = "addon-operator"

	// inClusterNamespace is the path of the file with the namespace of the pod. Every pod with a service account has
	// this file.
	inClusterNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Options select the cluster to connect to. The zero value selects the cluster in which this process runs or, outside
// a cluster, the cluster that kubectl would use.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file, or a list of paths with the syntax of $KUBECONFIG. The files of a
	// list are merged as kubectl merges them. If Kubeconfig is empty, the file is looked for at the default paths of
	// kubectl.
	Kubeconfig string
	// Context is the name of a context in the kubeconfig. If it is empty, the current context is used.
	Context string
	// Server is the URL of the API server. If it is empty, the server of the context is used.
	Server string
	// QPS is the maximum number of requests per second. Zero means no limit, because the API server itself limits
	// requests.
	QPS float32
	// Burst is the maximum number of requests that may be sent at once in spite of QPS. If QPS is zero, Burst has no
	// effect.
	Burst int
}

// Connect returns the configuration of a client for the cluster, and the namespace of this pod or of the context in the
// kubeconfig. The namespace is empty if the context has none, or if the pod has no file with its namespace. Connect
// sends no request.
func Connect(o Options) (*rest.Config, string, error) {
	config, namespace, err := o.load()
	if err != nil {
		return nil, "", err
	}
	config.QPS, config.Burst = -1, o.Burst
	if o.QPS > 0 {
		config.QPS = o.QPS
	}
	config.UserAgent = userAgent
	config.DisableCompression = true // if the server is near, compressing a list costs more than sending it uncompressed
	return config, namespace, nil
}

// InCluster reports whether [Connect] uses the service account of the pod in which the process runs.
func (o Options) InCluster() bool {
	_, err := rest.InClusterConfig()
	return o.prefersPod() && err == nil
}

// PodNamespace returns the namespace of the pod whose service account [Connect] uses. It is empty if Connect uses no
// service account, or if the namespace cannot be read.
func (o Options) PodNamespace() string {
	if !o.InCluster() {
		return ""
	}
	_, namespace, _ := o.load()
	return namespace
}

// prefersPod reports whether the options name no cluster. Then Connect uses the cluster of the pod, if there is one.
func (o Options) prefersPod() bool { return o.Kubeconfig == "" && o.Context == "" && o.Server == "" }

func (o Options) load() (*rest.Config, string, error) {
	if o.prefersPod() {
		config, err := rest.InClusterConfig()
		if err == nil {
			namespace, err := os.ReadFile(inClusterNamespace)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, "", fmt.Errorf("read the pod's namespace: %w", err)
			}
			return config, strings.TrimSpace(string(namespace)), nil
		}
		if !errors.Is(err, rest.ErrNotInCluster) {
			return nil, "", fmt.Errorf("connect to the cluster this pod runs in: %w", err)
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if files := filepath.SplitList(o.Kubeconfig); len(files) > 1 {
		rules.Precedence = files
	} else {
		rules.ExplicitPath = o.Kubeconfig
	}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	config, err := loader.ClientConfig()
	if err != nil {
		return nil, "", fmt.Errorf("no cluster to connect to (run in a pod, or give a kubeconfig): %w", err)
	}
	raw, err := loader.RawConfig()
	if err != nil {
		return nil, "", fmt.Errorf("read the kubeconfig: %w", err)
	}
	name := o.Context
	if name == "" {
		name = raw.CurrentContext
	}
	if current := raw.Contexts[name]; current != nil {
		return config, current.Namespace, nil
	}
	return config, "", nil
}

// Client sends requests to one API server. The clients that its methods return use the same connections. A Client is
// safe for concurrent use.
type Client struct {
	config   *rest.Config
	http     *http.Client
	raw      rest.Interface // returns JSON undecoded
	cached   discovery.CachedDiscoveryInterface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// NewClient returns a client with a copy of config. It sends no request. So if the API server is unavailable, only
// later calls return an error.
func NewClient(config *rest.Config) (*Client, error) {
	c := &Client{config: rest.CopyConfig(config)}
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("make an HTTP client for %s: %w", config.Host, err)
	}
	if c.raw, err = rawClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("make a client for %s: %w", config.Host, err)
	}
	found, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, c.http)
	if err != nil {
		return nil, fmt.Errorf("make a discovery client for %s: %w", config.Host, err)
	}
	c.cached = memory.NewMemCacheClient(found)
	c.mapper = restmapper.NewDeferredDiscoveryRESTMapper(c.cached)
	if c.dynamic, err = dynamic.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("make a dynamic client for %s: %w", config.Host, err)
	}
	if c.metadata, err = metadata.NewForConfigAndClient(c.config, c.http); err != nil {
		return nil, fmt.Errorf("make a metadata client for %s: %w", config.Host, err)
	}
	return c, nil
}

// rawClient returns a client that decodes only those responses that are errors.
func rawClient(config *rest.Config, client *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.WarningHandlerWithContext = rest.NoWarnings{} // otherwise the warnings of the API server would be logged again for each new watch
	return rest.UnversionedRESTClientForConfigAndClient(config, client)
}

// Config returns a copy of the configuration of the client. The caller may change the copy.
func (c *Client) Config() *rest.Config { return rest.CopyConfig(c.config) }

// HTTP returns the HTTP client with which all requests are sent.
func (c *Client) HTTP() *http.Client { return c.http }

// Mapper returns a mapper from kinds to resources. At its first use, the mapper requests the kinds that the API server
// serves. It caches them until it is reset.
func (c *Client) Mapper() *restmapper.DeferredDiscoveryRESTMapper { return c.mapper }

// Dynamic returns a client for objects of any kind.
func (c *Client) Dynamic() dynamic.Interface { return c.dynamic }

// Metadata returns a client for the metadata of objects of any kind.
func (c *Client) Metadata() metadata.Interface { return c.metadata }

// ClusterID returns the ID of the cluster, which is unique and never changes. It is the UID of the namespace
// kube-system.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	id, err := c.identify(ctx, "/api/v1/namespaces/kube-system")
	if err != nil {
		return "", fmt.Errorf("find the cluster's id: %w", err)
	}
	return id.Metadata.UID, nil
}
