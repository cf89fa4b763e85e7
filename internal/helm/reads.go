package helm

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// readFresh is the default of reads.fresh. It can be short, because Helm reads an object up to three
// times within milliseconds before it changes the object.
const readFresh = time.Second

// reads caches the objects that one action has read, so that each object needs one request instead of three. A write
// to an object removes the object from the cache. After a wait for Helm hooks, the cache is empty. reads is safe for
// concurrent use.
type reads struct {
	ahead sync.WaitGroup // the goroutine that readAhead has started
	fresh time.Duration  // the time for which a cached object is used

	mu    sync.Mutex
	known map[string]answer // by URL path, guarded by mu
}

// answer is the API server's response to a GET request for one object.
type answer struct {
	at     time.Time
	status int
	header http.Header
	body   []byte
}

// remembering returns a copy of config. A client that is made from the copy stores the responses to GET requests for
// single objects in the cache r, and uses them instead of repeated requests.
func (r *reads) remembering(config *rest.Config) *rest.Config {
	c := rest.CopyConfig(config)
	c.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) { return r.roundTrip(next, request) })
	})
	return c
}

func (r *reads) roundTrip(next http.RoundTripper, request *http.Request) (*http.Response, error) {
	path := request.URL.Path
	if request.Method != http.MethodGet {
		defer r.forget(path) // after the request, because a read during the request may cache the old object
		return next.RoundTrip(request)
	}
	if request.URL.RawQuery != "" { // not a GET of one object, but a list or a watch
		return next.RoundTrip(request)
	}
	if known, ok := r.get(path); ok {
		return known.response(request), nil
	}
	response, err := next.RoundTrip(request)
	if err != nil || response.StatusCode != http.StatusOK && response.StatusCode != http.StatusNotFound {
		return response, err
	}
	body, err := io.ReadAll(response.Body)
	if closed := response.Body.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return nil, err
	}
	found := answer{at: time.Now(), status: response.StatusCode, header: response.Header, body: body} //nolint:forbidigo // only for the age of a cached response; nothing durable depends on it
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[string]answer{}
	}
	r.known[path] = found
	return found.response(request), nil
}

func (r *reads) get(path string) (answer, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[path]
	return known, ok && time.Since(known.at) < r.fresh
}

// forget removes the object at the URL path from the cache. If path is the path of a collection, forget removes all
// objects of the collection. If it is the path of a subresource, forget removes the object of the subresource.
func (r *reads) forget(path string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for known := range r.known {
		if known == path || strings.HasPrefix(known, path+"/") || strings.HasPrefix(path, known+"/") {
			delete(r.known, known)
		}
	}
}

// clear empties the cache.
func (r *reads) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.known)
}

// response returns the cached response as a response to request.
func (a answer) response(request *http.Request) *http.Response {
	return &http.Response{
		Status: http.StatusText(a.status), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: a.header.Clone(), Body: io.NopCloser(bytes.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: request,
	}
}

// readAhead starts to read objects into the given cache, so that they are read while Helm renders the chart. The caller
// must wait for the WaitGroup of the cache. readAhead ignores errors of the requests, because Helm gets them from its
// own requests.
func (c *Client) readAhead(ctx context.Context, config *rest.Config, known *reads, objects []Object) error {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client for objects: %w", err)
	}
	group := errgroup.Group{}
	group.SetLimit(lookups)
	known.ahead.Go(func() {
		for _, o := range objects {
			mapping, err := c.cluster.mapping(ctx, o.APIVersion, o.Kind)
			if err != nil {
				continue
			}
			group.Go(func() error {
				_, _ = client.Resource(mapping.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
				return nil
			})
		}
		_ = group.Wait() // the functions return nil
	})
	return nil
}

// prefetch reads objects in parallel into the cache of their client. Helm, which reads them one after another, then
// finds them there. prefetch ignores errors, because Helm gets them from its own requests.
func prefetch(objects kube.ResourceList) {
	if len(objects) < 2 {
		return
	}
	group := errgroup.Group{}
	group.SetLimit(lookups)
	for _, o := range objects {
		group.Go(func() error {
			_, _ = resource.NewHelper(o.Client, o.Mapping).Get(o.Namespace, o.Name)
			return nil
		})
	}
	_ = group.Wait() // the functions return nil
}
