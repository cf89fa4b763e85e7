package kube

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
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

// Options select the cluster to connect to. The zero value selects the cluster that the process
// runs in or, outside a cluster, the cluster that kubectl would use.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file; empty means the default locations.
	Kubeconfig string
	// Context is the name of a context in the kubeconfig; empty means its current context.
	Context string
	// Server is the URL of the API server; empty means the server of the context.
	Server string
	// QPS is the maximum number of requests per second; zero means no limit, because the API server
	// limits requests itself.
	QPS float32
	// Burst is the number of requests that may exceed QPS at once. It has no effect without QPS.
	Burst int
}

// Connect returns the client configuration for the cluster, and the namespace of the pod or of the
// kubeconfig's context. The namespace is empty if none is set. Connect sends no request.
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
	config.DisableCompression = true // compressing lists costs more than sending them uncompressed from a nearby server
	return config, namespace, nil
}

func (o Options) load() (*rest.Config, string, error) {
	if o.Kubeconfig == "" && o.Context == "" && o.Server == "" {
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
	rules.ExplicitPath = o.Kubeconfig
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

// Client sends requests to one API server. The clients that its methods return share its
// connections. It is safe for concurrent use.
type Client struct {
	config   *rest.Config
	http     *http.Client
	raw      rest.Interface // returns JSON undecoded
	cached   discovery.CachedDiscoveryInterface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// NewClient returns a client for a copy of config. It sends no request: if the server is
// unavailable, later calls return the error.
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

// rawClient returns a client that decodes only error responses.
func rawClient(config *rest.Config, client *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.WarningHandlerWithContext = rest.NoWarnings{} // otherwise each new watch would log the server's warnings again
	return rest.UnversionedRESTClientForConfigAndClient(config, client)
}

// Config returns a copy of the client's configuration. The caller may change it.
func (c *Client) Config() *rest.Config { return rest.CopyConfig(c.config) }

// HTTP returns the HTTP client that all requests use.
func (c *Client) HTTP() *http.Client { return c.http }

// Mapper returns a mapper from kinds to resources. The mapper reads the served kinds at first use,
// and caches them until it is reset.
func (c *Client) Mapper() *restmapper.DeferredDiscoveryRESTMapper { return c.mapper }

// Dynamic returns a client for objects of any kind.
func (c *Client) Dynamic() dynamic.Interface { return c.dynamic }

// Metadata returns a client for the metadata of objects of any kind.
func (c *Client) Metadata() metadata.Interface { return c.metadata }

// ClusterID returns the permanent, unique ID of the cluster: the UID of the namespace kube-system.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	id, err := c.identify(ctx, "/api/v1/namespaces/kube-system")
	if err != nil {
		return "", fmt.Errorf("find the cluster's id: %w", err)
	}
	return id.Metadata.UID, nil
}
