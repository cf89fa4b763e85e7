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

	// inClusterNamespace is where every pod with a service account finds the name of its namespace.
	inClusterNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"
)

// Options say which cluster to connect to. The zero value is the cluster the process runs in, or, outside of one, what
// kubectl would use.
type Options struct {
	// Kubeconfig is the path of a kubeconfig file; empty means the default places.
	Kubeconfig string
	// Context names the context in the kubeconfig; empty means its current one.
	Context string
	// Server is the API server's URL; empty means the one of the context.
	Server string
	// QPS limits the requests a second that are sent; zero means no limit, as the API server has its own.
	QPS float32
	// Burst is how many requests more than QPS may be sent at once. It has no meaning without QPS.
	Burst int
}

// Connect returns what clients of the cluster are made from, and the namespace that cluster's credentials point to, empty
// if they point to none. It sends nothing.
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
	config.DisableCompression = true // the API server is near; packing and unpacking lists costs more than sending them
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

// Client talks to one API server. All that is reached through it shares connections and what is known of the kinds the
// server serves. It may be used from many goroutines at once.
type Client struct {
	config   *rest.Config
	http     *http.Client
	raw      rest.Interface // speaks JSON and leaves it as it is
	cached   discovery.CachedDiscoveryInterface
	mapper   *restmapper.DeferredDiscoveryRESTMapper
	dynamic  dynamic.Interface
	metadata metadata.Interface
}

// NewClient returns a client made from config, which it copies. It sends nothing: a server that is away is an error of
// what is asked later.
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

// rawClient returns a client for which only what the server says about a failure is more than bytes.
func rawClient(config *rest.Config, client *http.Client) (rest.Interface, error) {
	config = rest.CopyConfig(config)
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeJSON
	config.AcceptContentTypes = runtime.ContentTypeJSON
	config.WarningHandlerWithContext = rest.NoWarnings{} // what a watch is warned of would be said again every few minutes
	return rest.UnversionedRESTClientForConfigAndClient(config, client)
}

// Config returns a copy of what the client was made from, the caller's to change.
func (c *Client) Config() *rest.Config { return rest.CopyConfig(c.config) }

// HTTP returns the HTTP client all requests go through.
func (c *Client) HTTP() *http.Client { return c.http }

// Mapper maps kinds to resources by what is known of the kinds the server serves, read at first use and kept until its Reset.
func (c *Client) Mapper() *restmapper.DeferredDiscoveryRESTMapper { return c.mapper }

// Dynamic returns a client for objects of any kind.
func (c *Client) Dynamic() dynamic.Interface { return c.dynamic }

// Metadata returns a client for the metadata of objects of any kind.
func (c *Client) Metadata() metadata.Interface { return c.metadata }

// ClusterID returns the permanent, unique id of the cluster: the uid of its namespace kube-system.
func (c *Client) ClusterID(ctx context.Context) (string, error) {
	id, err := c.identify(ctx, "/api/v1/namespaces/kube-system")
	if err != nil {
		return "", fmt.Errorf("find the cluster's id: %w", err)
	}
	return id.Metadata.UID, nil
}
