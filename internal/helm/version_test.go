package helm_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"

	"addon-operator/internal/helm"
)

// The type listed has the resource versions that a client has requested when it listed release records.
type listed struct {
	mu       sync.Mutex
	versions []string
}

func (l *listed) client(t *testing.T, b fixture, driver string) *helm.Client {
	t.Helper()
	return b.client(t, func(o *helm.Options) {
		o.Driver = driver
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return roundTripper(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/"+driver+"s") {
					l.mu.Lock()
					l.versions = append(l.versions, r.URL.Query().Get("resourceVersion"))
					l.mu.Unlock()
				}
				return next.RoundTrip(r)
			})
		})
	})
}

// take returns the versions that were requested since the last call of take.
func (l *listed) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	taken := l.versions
	l.versions = nil
	return taken
}

// newestRecord returns the resource version of the release record that was written last.
func (b fixture) newestRecord(t *testing.T, driver string) string {
	t.Helper()
	var list runtime.Object
	var err error
	if options := (metav1.ListOptions{LabelSelector: "owner=helm"}); driver == "secret" {
		list, err = b.kube.CoreV1().Secrets(b.namespace).List(t.Context(), options)
	} else {
		list, err = b.kube.CoreV1().ConfigMaps(b.namespace).List(t.Context(), options)
	}
	if err != nil {
		t.Fatal(err)
	}
	newest := ""
	if err := meta.EachListItem(list, func(o runtime.Object) error {
		record, err := meta.Accessor(o)
		if err != nil {
			return err
		}
		version := record.GetResourceVersion()
		order := 1
		if newest != "" {
			order, err = resourceversion.CompareResourceVersion(version, newest)
		}
		if order > 0 {
			newest = version
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return newest
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestRecordsAreListedFromTheServersCacheButNeverBeforeAnOwnWrite checks that the first list of a process requests the
// newest version, and that upgrades and the lists after them do not: a list of the newest version is slow, because the
// API server waits until its cache has caught up with etcd. After an upgrade, a list must request the version of the
// last write. After an uninstall, a list must not find the release.
func TestRecordsAreListedFromTheServersCacheButNeverBeforeAnOwnWrite(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"secret", "configmap"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			k, l := start(t), &listed{}
			k.Client = l.client(t, k, driver)
			find := func(want helm.Status) string {
				t.Helper()
				state, err := k.Find(t.Context(), "web")
				if err != nil || state.Status != want {
					t.Fatalf("release is %+v, %v, want %s", state, err, want)
				}
				asked := l.take()
				return asked[len(asked)-1]
			}
			isLater := func(version, than string) {
				t.Helper()
				if order, err := resourceversion.CompareResourceVersion(version, than); err != nil || order <= 0 {
					t.Errorf("list asked for version %q, want one after %q (%v)", version, than, err)
				}
			}
			if first := find(helm.Absent); first != "" {
				t.Errorf("the first list asked for version %q", first)
			}
			before := find(helm.Absent)
			isLater(before, "1")
			for size := range 3 {
				k.apply(t, with(small(t, "web"), "size", string(rune('1'+size))))
				if asked := l.take(); strings.Contains(strings.Join(asked, ",")+",", ",,") {
					t.Errorf("an upgrade asked for the newest version: %q", asked)
				}
				written := find(helm.Deployed)
				isLater(written, before)
				if newest := k.newestRecord(t, driver); written != newest {
					t.Errorf("list asked for version %q, want %q of the last write", written, newest)
				}
				before = written
			}
			if _, err := k.Uninstall(t.Context(), "web"); err != nil {
				t.Fatal(err)
			}
			l.take()
			state, err := k.Find(t.Context(), "web")
			if err != nil || state.Status != helm.Absent {
				t.Errorf("after the uninstall the release is %+v, %v", state, err)
			}
		})
	}
}
