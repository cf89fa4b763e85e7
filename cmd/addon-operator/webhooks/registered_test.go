package webhooks

import (
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/e2e/cluster"
	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/internal/metrics"
	"addon-operator/internal/webhook"
	"addon-operator/store/storetest"
)

// forbidding wraps the transport of a client. As long as the result allowed is false, requests that patch a
// CustomResourceDefinition are rejected, as for a client without the right to do so.
func forbidding(config *rest.Config) (allowed *atomic.Bool) {
	allowed = &atomic.Bool{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodPatch || !strings.Contains(r.URL.Path, "/customresourcedefinitions/") || allowed.Load() {
				return next.RoundTrip(r)
			}
			const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"no right"}`
			header := http.Header{"Content-Type": {"application/json"}}
			return &http.Response{StatusCode: http.StatusForbidden, Header: header, Body: io.NopCloser(strings.NewReader(status)), Request: r}, nil
		})
	})
	return allowed
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// created creates an object without a namespace.
func created(t *testing.T, client *kube.Client, at schema.GroupVersionResource, o map[string]any) {
	t.Helper()
	if _, err := client.Dynamic().Resource(at).Create(t.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func admissionOf(hookName string, mutating bool) webhook.Admission {
	of := rule([]admissionv1.OperationType{admissionv1.Create}, []string{"example.com"}, []string{"things"})
	of.APIVersions = []string{"v1"}
	return webhook.Admission{Asked: webhook.Asked{Hook: hookName, Binding: "a.example.com"}, Mutating: mutating, Config: hook.AdmissionBinding{
		Name: "a.example.com", FailurePolicy: admissionv1.Fail, SideEffects: admissionv1.SideEffectClassNone, TimeoutSeconds: 1,
		Rules: []admissionv1.RuleWithOperations{of}, Namespaces: &metav1.LabelSelector{MatchLabels: map[string]string{"none": "such"}},
	}}
}

// The operator computes the problems of webhooks, and the requests that the API server rejects without an operator,
// from a table of registered webhooks. This table must have exactly the webhooks in the cluster.
func TestOnlyWebhooksInTheClusterAreReportedAsRegistered(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t)
	name := c.Namespace(t)
	config := c.Config()
	mayChange := forbidding(config)
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	configurations := admissionv1.SchemeGroupVersion.WithResource("mutatingwebhookconfigurations")
	created(t, client, configurations, map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": map[string]any{"name": name + "-hooks"},
	})
	group := name + ".example.com"
	version := func(name string, storage bool) map[string]any {
		return map[string]any{"name": name, "served": true, "storage": storage, "schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object"}}}
	}
	created(t, client, schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things." + group},
		"spec": map[string]any{
			"group": group, "scope": "Namespaced", "names": map[string]any{"plural": "things", "kind": "Thing"},
			"versions": []any{version("v1", true), version("v2", false)},
		},
	})

	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	at, isTCP := taken.Addr().(*net.TCPAddr)
	if !isTCP {
		t.Fatal(taken.Addr())
	}
	s := settingsOf(name)
	s.Webhooks = settings.Webhooks{
		ConfigurationName: name, URL: "https://127.0.0.1", CertLifetime: time.Hour, HooksAtOnce: 1,
		Admission: settings.WebhookSide{ListenAddress: "127.0.0.1"}, Conversion: settings.WebhookSide{ListenAddress: "127.0.0.1", ListenPort: at.Port},
	}
	w := New(Options{
		Settings: s, Log: zerolog.Nop(), DB: storetest.Memory(t), Client: client, Notice: func(string, string) {},
		Metrics: metrics.New("", func() (metrics.State, error) { return metrics.State{}, nil }),
	})
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	running.Go(func() { w.Endpoint.Run(t.Context()) })
	invalid := admissionOf("invalid.sh", false)
	invalid.Config.MatchConditions = []admissionv1.MatchCondition{{Name: "c", Expression: "no expression ("}}
	up := hook.ConversionBinding{Name: "up", CRDName: "things." + group, Conversions: []hook.Conversion{{FromVersion: "v1", ToVersion: "v2"}}}
	w.Endpoint.Serve(webhook.Table{
		Admissions:  []webhook.Admission{invalid, admissionOf("valid.sh", false), admissionOf("mutating.sh", true)},
		Conversions: []webhook.Conversion{{Asked: webhook.Asked{Hook: "up.sh", Binding: "up"}, Config: up}},
		Complete:    true,
	})
	until := func(when string, want ...string) {
		t.Helper()
		var got []string
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if got = w.registered(); slices.Equal(got, want) {
				return
			}
		}
		t.Fatalf("%s: registered are the webhooks of %q, want %q", when, got, want)
	}
	until("the port for conversions is in use", "valid.sh")
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	until("a webhook is invalid, a configuration belongs to another program, and a definition cannot be changed", "valid.sh")
	if err := client.Dynamic().Resource(configurations).Delete(t.Context(), name+"-hooks", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	until("the other program has deleted its configuration", "mutating.sh", "valid.sh")
	mayChange.Store(true)
	until("the definition can be changed", "mutating.sh", "up.sh", "valid.sh")
}

// registered returns the hooks of the registered webhooks, sorted.
func (w *Webhooks) registered() (hooks []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.table.Admissions {
		hooks = append(hooks, a.Hook)
	}
	for _, c := range w.table.Conversions {
		hooks = append(hooks, c.Hook)
	}
	slices.Sort(hooks)
	return hooks
}
