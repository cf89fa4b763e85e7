package helm

import (
	"context"
	"io"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// roundTripper is a function as http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// bound returns a copy of config whose requests end when ctx does.
//
// It is how an action of Helm is stopped. Those that take a context return when it ends, but leave a goroutine
// behind that goes on applying and at last marks the release as deployed. When the requests fail instead, the action
// runs into an error, records the release as failed and is over. It must be given records that are not bound.
func bound(ctx context.Context, config *rest.Config) *rest.Config {
	b := rest.CopyConfig(config)
	b.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return roundTripUntil(ctx, next, r)
		})
	})
	return b
}

// roundTripUntil does one request, which fails, or whose body does, when ctx ends before the body was read.
func roundTripUntil(ctx context.Context, next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if ctx.Err() != nil {
		if r.Body != nil {
			_ = r.Body.Close() // as http.RoundTripper asks; nothing was read from it
		}
		return nil, context.Cause(ctx)
	}
	either, cancel := context.WithCancelCause(r.Context())
	unbind := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	release := func() {
		unbind()
		cancel(nil)
	}
	resp, err := next.RoundTrip(r.WithContext(either))
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = body{ReadCloser: resp.Body, release: release}
	return resp, nil
}

// body is a response's body that lets go of its request's context when it is closed.
type body struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// getter hands Helm what all actions share, and the config of one of them.
type getter struct {
	config    *rest.Config
	cluster   *cluster
	namespace clientcmd.ClientConfig
}

func (c *Client) getter(config *rest.Config) getter {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: c.namespace}}
	return getter{
		config:    config,
		cluster:   c.cluster,
		namespace: clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, overrides),
	}
}

// ToRESTConfig returns a copy, as the callers write into it.
func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient returns the one shared by all.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.cluster.cached, nil
}

// ToRESTMapper returns the one shared by all.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return g.cluster.mapper, nil }

// ToRawKubeConfigLoader is asked for nothing but the namespace.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig { return g.namespace }
