package lease

import (
	"fmt"
	"net/http"
	"strings"

	"k8s.io/client-go/transport"
)

// Guard returns a wrapper for transports. While check returns an error, the wrapped transport does
// not send requests that change the cluster, and returns this error.
func Guard(check func() error) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper { return &guardedTransport{check, next} }
}

type guardedTransport struct {
	check func() error
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if changes(r) {
		if err := g.check(); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // required by http.RoundTripper
			}
			return nil, fmt.Errorf("not sent: %w", err)
		}
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper returns the wrapped transport. It implements an interface of client-go.
func (g *guardedTransport) WrappedRoundTripper() http.RoundTripper { return g.next }

// changes reports whether the request r may change an object. Token and access reviews change
// nothing, although they are POST requests.
func changes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.HasPrefix(r.URL.Path, "/apis/authentication.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}
