package helm_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/helm"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// fixture has a namespace in a real cluster, and a client for the releases in this namespace.
type fixture struct {
	*helm.Client
	namespace string
	config    *rest.Config
	kube      kubernetes.Interface
}

// start creates a namespace for the test, and a client for the releases in it. Each function in change may modify the
// options of the client.
func start(t testing.TB, change ...func(*helm.Options)) fixture {
	t.Helper()
	c := cluster.Start(t)
	b := fixture{namespace: c.Namespace(t), config: c.Config()}
	var err error
	if b.kube, err = kubernetes.NewForConfig(c.Config()); err != nil {
		t.Fatal(err)
	}
	b.Client = b.client(t, change...)
	return b
}

// client returns a new client for the same namespace, as the operator creates one after a restart.
func (b fixture) client(t testing.TB, change ...func(*helm.Options)) *helm.Client {
	t.Helper()
	o := helm.Options{Config: b.config, Namespace: b.namespace, HistoryMax: 3, Log: t.Logf}
	if _, ok := t.(*testing.B); ok {
		o.Log = nil
	}
	for _, f := range change {
		f(&o)
	}
	made, err := helm.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// files maps the path of each file of a module to its contents.
type files map[string]string

// module writes the files of a module to a new directory, and returns a release of its chart.
func module(t testing.TB, name string, f files) helm.Release {
	t.Helper()
	dir := t.TempDir()
	for path, text := range f {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return helm.Release{Name: name, ChartDir: dir, Values: map[string]any{}}
}

// with returns a copy of r in which the value called name is changed.
func with(r helm.Release, name string, value any) helm.Release {
	r.Values = maps.Clone(r.Values)
	r.Values[name] = value
	return r
}

const chartYAML = "apiVersion: v2\nname: any-name\nversion: 1.2.3\n"

// configMap returns the template of a ConfigMap that has the value .Values.size in its data.
func configMap(name string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: ConfigMap
metadata:
  name: %s
data:
  size: {{ .Values.size | default "none" | quote }}
`, name)
}

// small returns a release of a module with three objects of different kinds.
func small(t testing.TB, name string) helm.Release {
	t.Helper()
	return module(t, name, files{
		"Chart.yaml":              chartYAML,
		"templates/settings.yaml": configMap(name),
		"templates/rest.yaml": strings.ReplaceAll(`apiVersion: v1
kind: Service
metadata:
  name: NAME
spec:
  selector: {app: NAME}
  ports: [{port: 80}]
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: NAME
spec:
  selector: {matchLabels: {app: NAME}}
  template:
    metadata: {labels: {app: NAME}}
    spec:
      containers: [{name: main, image: example.com/main}]
`, "NAME", name),
	})
}

// wide returns a release of a module whose chart has n ConfigMaps.
func wide(t testing.TB, name string, n int) helm.Release {
	t.Helper()
	return module(t, name, files{
		"Chart.yaml": chartYAML,
		"templates/all.yaml": fmt.Sprintf(`{{- range until %d }}
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: %s-{{ . }}
data:
  size: {{ $.Values.size | default "none" | quote }}
{{- end }}
`, n, name),
	})
}

// render renders the release, and fails the test if that returns an error.
func (b fixture) render(t testing.TB, r helm.Release) helm.Manifest {
	t.Helper()
	m, err := b.Render(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// apply renders the release, and installs or upgrades it. apply returns the manifest and the number of the new
// revision.
func (b fixture) apply(t testing.TB, r helm.Release) (helm.Manifest, int) {
	t.Helper()
	m := b.render(t, r)
	done, err := b.Upgrade(t.Context(), r, m)
	if err != nil {
		t.Fatal(err)
	}
	return m, done.Revision
}

// state checks that the state of the release is want.
func (b fixture) state(t testing.TB, name string, want helm.State) {
	t.Helper()
	got, err := b.Find(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("release %s is %+v, want %+v", name, got, want)
	}
}

// configMap returns a ConfigMap in the namespace of the fixture b, and whether the ConfigMap exists.
func (b fixture) configMap(t testing.TB, name string) (*corev1.ConfigMap, bool) {
	t.Helper()
	m, err := b.kube.CoreV1().ConfigMaps(b.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return m, err == nil
}

// records returns the names of the Secrets in which Helm has stored the revisions of a release.
func (b fixture) records(t testing.TB, release string) []string {
	t.Helper()
	list, err := b.kube.CoreV1().Secrets(b.namespace).List(t.Context(), metav1.ListOptions{LabelSelector: "owner=helm,name=" + release})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	return names
}

// each returns an argument for start. It makes the client call f with each request before it sends the request.
func each(f func(*http.Request)) func(*helm.Options) {
	return func(o *helm.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				f(r)
				return next.RoundTrip(r)
			})
		})
	}
}

// requests returns an argument for start. It makes the client call f once: before the nth request that has this method
// and a URL path that contains part.
func requests(method, part string, n int32, f func()) func(*helm.Options) {
	var seen atomic.Int32
	return each(func(r *http.Request) {
		if r.Method == method && strings.Contains(r.URL.Path, part) && seen.Add(1) == n {
			f()
		}
	})
}

// after returns an argument for start. It makes the client call f after each response to a request that has this method
// and a URL path that contains part.
func after(method, part string, f func()) func(*helm.Options) {
	return func(o *helm.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				response, err := next.RoundTrip(r)
				if r.Method == method && strings.Contains(r.URL.Path, part) {
					f()
				}
				return response, err
			})
		})
	}
}

// failingOnce returns an argument for start. It answers the first request that has this method and a URL path that
// contains part with this HTTP status and error text, without sending the request.
func failingOnce(method, part string, status int, text string) func(*helm.Options) {
	var failed atomic.Bool
	return failing(func(r *http.Request) bool {
		return r.Method == method && strings.Contains(r.URL.Path, part) && failed.CompareAndSwap(false, true)
	}, status, "", text)
}

// failing returns an argument for start. With it, each request for which matches returns true is not sent, but answered
// with this HTTP status, reason and error text.
func failing(matches func(*http.Request) bool, status int, reason metav1.StatusReason, text string) func(*helm.Options) {
	return func(o *helm.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return tripper(func(r *http.Request) (*http.Response, error) {
				if !matches(r) {
					return next.RoundTrip(r)
				}
				body := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": %d, "reason": %q, "message": %q}`,
					status, reason, text)
				return &http.Response{
					Status: http.StatusText(status), StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
					Body: io.NopCloser(strings.NewReader(body)), Request: r,
				}, nil
			})
		})
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
