package addons

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"addon-operator/internal/api"
)

// A silentServer responds to requests for a configuration, except those with the method in the field silent. It never
// responds to other requests. It has no connection, so that the time of its tests is simulated.
type silentServer struct{ silent string }

// RoundTrip implements [http.RoundTripper].
func (s silentServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == s.silent || strings.Contains(req.URL.Path, "/secrets/") {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	const configuration = `{"apiVersion": "addons.kyma-project.io/v1alpha1", "kind": "ClusterAddonsConfiguration", "metadata": {"name": "c", "uid": "c", "generation": 1},
		"spec": {"repositories": [{"url": "https://h/{t}/index.yaml", "secretRef": {"name": "s", "namespace": "n"}}]}}`
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(configuration)), Request: req,
	}, nil
}

// configurations returns a client of the server.
func (s silentServer) configurations(t *testing.T) *Configurations {
	t.Helper()
	return configurationsAt(t, s)
}

// configurationsAt returns a client whose requests the argument server answers.
func configurationsAt(t *testing.T, server http.RoundTripper) *Configurations {
	t.Helper()
	client, err := dynamic.NewForConfig(&rest.Config{Host: "http://h", Transport: server, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return NewConfigurations(client)
}

func TestRequestsToASilentAPIServerEnd(t *testing.T) {
	t.Parallel()
	id := api.Identity{Name: "c"}
	for name, test := range map[string]struct {
		silent string
		send   func(context.Context, *Configurations) error
	}{
		"get": {http.MethodGet, func(ctx context.Context, c *Configurations) error {
			_, _, err := c.Get(ctx, id)
			return err
		}},
		"get a Secret": {"", func(ctx context.Context, c *Configurations) error {
			_, err := c.Secret(ctx, "n", "s")
			return err
		}},
		"add the finalizer":          {http.MethodPatch, func(ctx context.Context, c *Configurations) error { return c.AddFinalizer(ctx, id, "c") }},
		"request another processing": {http.MethodPatch, func(ctx context.Context, c *Configurations) error { return c.Reprocess(ctx, id, "c", 0) }},
		"write the status": {http.MethodPatch, func(ctx context.Context, c *Configurations) error {
			_, err := c.WriteStatus(ctx, id, "c", api.Status{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				err := test.send(t.Context(), silentServer{test.silent}.configurations(t))
				if took := time.Since(began); took != requestTimeout || !errors.Is(err, errNoResponse) {
					t.Errorf("after %s, the error is %v", took, err)
				}
			})
		})
	}
}

// A secretServer responds to requests for a configuration like a silentServer. It responds to a request for a Secret
// with the status code and the body in its fields, or closes the connection if the code is 0.
type secretServer struct {
	code int
	body string
}

// RoundTrip implements [http.RoundTripper].
func (s secretServer) RoundTrip(req *http.Request) (*http.Response, error) {
	if !strings.Contains(req.URL.Path, "/secrets/") {
		return silentServer{}.RoundTrip(req)
	}
	if s.code == 0 {
		return nil, io.ErrUnexpectedEOF
	}
	return &http.Response{
		StatusCode: s.code, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(s.body)), Request: req,
	}, nil
}

func TestASecretThatTheAPIServerCannotReturnIsReadAgainBeforeTheResync(t *testing.T) {
	t.Parallel()
	const first, resync = time.Second, time.Hour // the delays of newRuntime
	status := func(code int, reason string) secretServer {
		return secretServer{code, fmt.Sprintf(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": %q, "code": %d}`, reason, code)}
	}
	for name, test := range map[string]struct {
		server http.RoundTripper
		reason api.Reason
		delay  time.Duration
	}{
		"no response":             {silentServer{}, api.FetchingIndexError, first},
		"no connection":           {secretServer{}, api.FetchingIndexError, first},
		"internal error":          {status(http.StatusInternalServerError, "InternalError"), api.FetchingIndexError, first},
		"a proxy without servers": {secretServer{http.StatusBadGateway, "no server"}, api.FetchingIndexError, first},
		"no such Secret":          {status(http.StatusNotFound, "NotFound"), api.TemplatingURLError, resync},
		"forbidden":               {status(http.StatusForbidden, "Forbidden"), api.TemplatingURLError, resync},
		"no such key":             {secretServer{http.StatusOK, `{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}`}, api.TemplatingURLError, resync},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRuntime(t)
				r.Configurations = configurationsAt(t, test.server)
				begin(t, r, "c")
				if _, err := (&fetchStep{r}).Do(t.Context(), taskOf("c")); err != nil {
					t.Fatal(err)
				}
				register(t, r, "c")
				known, results, err := r.results(api.Identity{Name: "c"})
				if err != nil {
					t.Fatal(err)
				}
				if delay := known.Retry.Sub(known.Processed); delay != test.delay || api.Reason(results[0].Reason) != test.reason {
					t.Errorf("%s; retry after %s: %s", results[0].Reason, delay, results[0].Message)
				}
			})
		})
	}
}

func TestASecretWithAnInvalidNameIsNotReadAgain(t *testing.T) {
	t.Parallel()
	c := silentServer{}.configurations(t)
	for _, name := range [][2]string{{"n", ""}, {"n", "a/b"}, {"a/b", "s"}} {
		if _, err := c.Secret(t.Context(), name[0], name[1]); err == nil || errors.As(err, new(*unavailableError)) {
			t.Errorf("Secret %q: %v", name, err)
		}
	}
}

// TestTheLimitOfAFetchCoversTheSecret uses a limit that is shorter than the timeout of the request for the Secret.
func TestTheLimitOfAFetchCoversTheSecret(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRuntime(t)
		r.Configurations, r.FetchWithin = silentServer{}.configurations(t), requestTimeout/2
		begin(t, r, "c")
		began := time.Now()
		if _, err := (&fetchStep{r}).Do(t.Context(), taskOf("c")); err != nil {
			t.Fatal(err)
		}
		_, results, err := r.results(api.Identity{Name: "c"})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != r.FetchWithin || !strings.Contains(results[0].Message, "takes longer than the limit of 15s") {
			t.Errorf("after %s, the message is %q", took, results[0].Message)
		}
	})
}
