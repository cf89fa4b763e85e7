package helm

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// boundClient starts a test server, and returns an HTTP client for it whose requests fail when ctx ends, like those of
// an upgrade.
func boundClient(ctx context.Context, t *testing.T, serve http.HandlerFunc) (client *http.Client, url string) {
	t.Helper()
	server := httptest.NewServer(serve)
	t.Cleanup(server.Close)
	client, err := rest.HTTPClientFor(bound(ctx, &rest.Config{Host: server.URL}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.CloseIdleConnections)
	return client, server.URL
}

// ask sends a POST request to url, and returns the whole body of the response.
func ask(ctx context.Context, t *testing.T, client *http.Client, url string) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("question"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	return string(answer), err
}

var errEnd = errors.New("the end")

func TestBoundRequestsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		serve func(end func()) http.HandlerFunc
	}{
		{"before the answer", func(end func()) http.HandlerFunc {
			return func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				end()
				<-r.Context().Done()
			}
		}},
		{"within the answer", func(end func()) http.HandlerFunc {
			return func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				_, _ = io.WriteString(w, "half")
				_ = http.NewResponseController(w).Flush()
				end()
				<-r.Context().Done()
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			client, url := boundClient(ctx, t, c.serve(func() { cancel(errEnd) }))
			if answer, err := ask(t.Context(), t, client, url); err == nil {
				t.Errorf("the request was answered %q after its context ended", answer)
			}
			if _, err := ask(t.Context(), t, client, url); !errors.Is(err, errEnd) {
				t.Errorf("the next request fails with %v, want the cause", err)
			}
		})
	}
}

func TestBoundRequestsObeyTheirOwnContextToo(t *testing.T) {
	t.Parallel()
	client, url := boundClient(t.Context(), t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "answer")
	})
	own, cancel := context.WithCancel(t.Context())
	if answer, err := ask(own, t, client, url); err != nil || answer != "answer" {
		t.Errorf("answer is %q (error %v)", answer, err)
	}
	cancel()
	if _, err := ask(own, t, client, url); !errors.Is(err, context.Canceled) {
		t.Errorf("error is %v, want that of the request's context", err)
	}
}

func TestRejectedFieldsHaveNoValues(t *testing.T) {
	t.Parallel()
	rejected := apierrors.NewInvalid(schema.GroupKind{Group: "batch", Kind: "Job"}, "migrate", field.ErrorList{
		field.Invalid(field.NewPath("spec", "template"), map[string]any{"env": []any{map[string]any{"name": "DB_PASSWORD", "value": "hunter2"}}}, "field is immutable"),
	}).Status()
	policy := apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "migrate", errors.New("the policy denied the request: no")).Status()
	policy.Code, policy.Reason = http.StatusUnprocessableEntity, metav1.StatusReasonInvalid
	policy.Details.Causes = []metav1.StatusCause{{Message: "no"}}
	for want, status := range map[string]metav1.Status{
		`Job.batch "migrate" is invalid: spec.template: Invalid value: field is immutable`: rejected,
		policy.Message: policy,
	} {
		status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(int(status.Code))
			_ = json.NewEncoder(w).Encode(status)
		}))
		t.Cleanup(server.Close)
		config := ownConfig(&rest.Config{Host: server.URL}, nil)
		client, err := dynamic.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		job := schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
		_, err = client.Resource(job).Namespace("ns").Patch(t.Context(), "migrate", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
		if err == nil || err.Error() != want || !apierrors.IsInvalid(err) {
			t.Errorf("the error is %v, want %s", err, want)
		}
	}
}

func TestGetterGivesCopiesOfTheConfig(t *testing.T) {
	t.Parallel()
	c, err := New(Options{Config: &rest.Config{Host: "https://cluster"}, Namespace: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	g := c.actions.getter(c.config)
	first, _ := g.ToRESTConfig()
	first.Host = "https://changed" // the code of kubectl changes the returned config, too
	if second, _ := g.ToRESTConfig(); second.Host != "https://cluster" {
		t.Errorf("a change of the copy changed the next: %s", second.Host)
	}
	if ns, _, err := g.ToRawKubeConfigLoader().Namespace(); err != nil || ns != "ns" {
		t.Errorf("the namespace is %q (error %v)", ns, err)
	}
}
