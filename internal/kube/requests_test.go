package kube_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"k8s.io/client-go/rest"
)

// requests counts the open watches of the clients that use its config.
type requests struct {
	config *rest.Config
	mu     sync.Mutex
	opened int
}

func countRequests(config *rest.Config) *requests {
	r := &requests{config: rest.CopyConfig(config)}
	r.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &counting{r, next} })
	return r
}

func (r *requests) open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.opened
}

func (r *requests) add(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.opened += n
}

type counting struct {
	*requests
	next http.RoundTripper
}

func (c *counting) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.next.RoundTrip(request)
	if err == nil && request.URL.Query().Get("watch") == "true" && response.StatusCode == http.StatusOK {
		c.add(1)
		response.Body = &countedBody{response.Body, sync.OnceFunc(func() { c.add(-1) })}
	}
	return response, err
}

type countedBody struct {
	io.ReadCloser
	done func()
}

func (b *countedBody) Close() error {
	b.done()
	return b.ReadCloser.Close()
}

// lists records the resource versions in requests for lists of ConfigMaps. It records the requests of clients that use
// its config.
type lists struct {
	config *rest.Config
	mu     sync.Mutex
	asked  []string
}

func recordLists(config *rest.Config) *lists {
	l := &lists{config: rest.CopyConfig(config)}
	l.config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &recording{l, next} })
	return l
}

func (l *lists) versions() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.asked)
}

type recording struct {
	*lists
	next http.RoundTripper
}

func (r *recording) RoundTrip(request *http.Request) (*http.Response, error) {
	query := request.URL.Query()
	if request.Method == http.MethodGet && strings.HasSuffix(request.URL.Path, "/configmaps") && !query.Has("watch") {
		r.mu.Lock()
		r.asked = append(r.asked, query.Get("resourceVersion"))
		r.mu.Unlock()
	}
	return r.next.RoundTrip(request)
}

// answering returns a copy of config for clients whose requests can fail. The function status returns the HTTP status
// of the response to a request for this path. If status returns 0, the API server answers. The clients send a separate
// request for the kinds of each API group, so that the request for one group can fail.
func answering(config *rest.Config, status func(path string) int) *rest.Config {
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &replacing{status, next} })
	return config
}

type replacing struct {
	status func(path string) int
	next   http.RoundTripper
}

func (r *replacing) RoundTrip(request *http.Request) (*http.Response, error) {
	if code := r.status(request.URL.Path); code != 0 {
		return &http.Response{
			StatusCode: code, Request: request, Header: http.Header{"Content-Type": {"application/json"}},
			Body: io.NopCloser(strings.NewReader(fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":%d}`, code))),
		}, nil
	}
	if strings.Contains(request.Header.Get("Accept"), "APIGroupDiscoveryList") {
		request = request.Clone(request.Context())
		request.Header.Set("Accept", "application/json")
	}
	return r.next.RoundTrip(request)
}
