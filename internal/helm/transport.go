package helm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	kubeobjects "addon-operator/internal/kube"
)

// roundTripper adapts a function to http.RoundTripper.
type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// bound returns a copy of config. If a client is made from the copy, its requests fail when ctx ends. This is how a
// Helm action is stopped.
//
// The context of a Helm action cannot stop it: when the context ends, the action returns, but one of its goroutines
// continues to apply objects and finally records the release as deployed. If instead its requests fail, the action
// gets an error, records the release as failed, and ends. Because the action records the release after the end of ctx,
// requests for release records must not use the returned config.
func bound(ctx context.Context, config *rest.Config) *rest.Config {
	b := rest.CopyConfig(config)
	b.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			return roundTripUntil(ctx, next, r)
		})
	})
	return b
}

// roundTripUntil sends the request r with the transport next. If ctx ends before the response, the request fails. If
// ctx ends later, reading the response body fails.
func roundTripUntil(ctx context.Context, next http.RoundTripper, r *http.Request) (*http.Response, error) {
	if ctx.Err() != nil {
		if r.Body != nil {
			_ = r.Body.Close() // a RoundTripper must always close the body
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

// withoutValues returns a transport that sends requests with next. If the API server rejects an object as invalid,
// withoutValues removes the values of the rejected fields from the message in the response: the values can be secrets,
// and Helm quotes the message in its errors. For example, if a change of a Job is rejected, the message contains the
// whole pod template.
func withoutValues(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err != nil || resp.StatusCode != http.StatusUnprocessableEntity {
			return resp, err
		}
		text, err := io.ReadAll(resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		text = hideValues(text)
		resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(text)), int64(len(text))
		resp.Header.Del("Content-Length")
		return resp, nil
	})
}

// hideValues returns the response text of the API server without the values of rejected fields. If the text is no
// status that names rejected fields, hideValues returns it unchanged.
func hideValues(text []byte) []byte {
	const invalid = " is invalid: "
	var status metav1.Status
	if json.Unmarshal(text, &status) != nil {
		return text
	}
	fields := kubeobjects.RejectedFields(&status)
	object, _, found := strings.Cut(status.Message, invalid)
	if len(fields) == 0 || !found {
		return text
	}
	status.Message, status.Details.Causes = object+invalid+strings.Join(fields, "; "), nil
	hidden, err := json.Marshal(status)
	if err != nil {
		return text
	}
	return hidden
}

// body is a response body that calls release when it is closed.
type body struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// getter implements Helm's RESTClientGetter. Its discovery client and REST mapper are shared by all actions, and its
// config is that of one action.
type getter struct {
	config    *rest.Config
	cluster   *cluster
	namespace clientcmd.ClientConfig
}

func (a *actions) getter(config *rest.Config) getter {
	overrides := &clientcmd.ConfigOverrides{Context: clientcmdapi.Context{Namespace: a.namespace}}
	return getter{
		config:    config,
		cluster:   a.cluster,
		namespace: clientcmd.NewDefaultClientConfig(clientcmdapi.Config{}, overrides),
	}
}

// ToRESTConfig returns a copy of the config of the action, because callers modify the result.
func (g getter) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(g.config), nil }

// ToDiscoveryClient returns the discovery client that all actions share.
func (g getter) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return g.cluster.cached, nil
}

// ToRESTMapper returns the REST mapper that all actions share.
func (g getter) ToRESTMapper() (meta.RESTMapper, error) { return g.cluster.mapper, nil }

// ToRawKubeConfigLoader returns a client config that has only the namespace. Helm asks it for nothing else.
func (g getter) ToRawKubeConfigLoader() clientcmd.ClientConfig { return g.namespace }
