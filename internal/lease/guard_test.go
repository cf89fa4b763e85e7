package lease_test

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"addon-operator/internal/lease"
)

// sent is a transport that counts the requests that it gets.
type sent int

func (s *sent) RoundTrip(*http.Request) (*http.Response, error) {
	*s++
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
}

// closable is a request body that records whether it was closed.
type closable struct {
	io.Reader
	closed bool
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

// TestRequestsThatChangeTheClusterAreNotSentWithoutTheLease sends requests through a guard whose
// check fails, and through a guard whose check succeeds. Only requests that change the cluster must
// be rejected, and only if the check fails.
func TestRequestsThatChangeTheClusterAreNotSentWithoutTheLease(t *testing.T) {
	t.Parallel()
	for request, changes := range map[string]bool{
		"GET /api/v1/pods":     false,
		"HEAD /api/v1/pods":    false,
		"OPTIONS /api/v1/pods": false,
		"POST /apis/authentication.k8s.io/v1/tokenreviews":                 false,
		"POST /apis/authorization.k8s.io/v1/subjectaccessreviews":          false,
		"POST /api/v1/namespaces/shop/pods":                                true,
		"PUT /api/v1/namespaces/shop/pods/web":                             true,
		"PATCH /api/v1/namespaces/shop/pods/web":                           true,
		"DELETE /api/v1/namespaces/shop/pods/web":                          true,
		"DELETE /api/v1/namespaces/shop/pods":                              true,
		"POST /apis/authorization.k8s.io.example.com/v1/things":            true,
		"POST /apis/rbac.authorization.k8s.io/v1/clusterroles":             true,
		"POST /api/v1/namespaces/shop/pods?x=/apis/authentication.k8s.io/": true,
	} {
		method, path, _ := strings.Cut(request, " ")
		for held, check := range map[bool]error{true: nil, false: lease.ErrLost} {
			var server sent
			body := &closable{Reader: strings.NewReader("{}")}
			r, err := http.NewRequestWithContext(t.Context(), method, "https://api"+path, body)
			if err != nil {
				t.Fatal(err)
			}
			response, err := lease.Guard(func() error { return check })(&server).RoundTrip(r)
			if response != nil {
				_ = response.Body.Close()
			}
			if want := held || !changes; (server == 1) != want || (err == nil) != want {
				t.Errorf("%s, Lease held: %t: sent %d times, error %v", request, held, server, err)
			}
			if err != nil && (!errors.Is(err, lease.ErrLost) || !strings.HasPrefix(err.Error(), "not sent: ") || !body.closed) {
				t.Errorf("%s: error %v, body closed: %t", request, err, body.closed)
			}
		}
	}
}
