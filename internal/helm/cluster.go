package helm

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chartutil"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// apisPath is the URL path at which an API server lists the kinds of all API groups except the core group. Since
// Kubernetes 1.27, the response has an ETag.
const apisPath = "/apis"

// cluster caches the kinds and versions that the API server serves. All Helm actions share one cache: to read the
// kinds for each action would take longer than the rest of the action.
type cluster struct {
	server discovery.DiscoveryInterface
	cached discovery.CachedDiscoveryInterface // caches the responses to server
	mapper *restmapper.DeferredDiscoveryRESTMapper
	log    func(format string, args ...any)

	// etag is the ETag of the last response for apisPath. It is empty if the API server sends no ETag, and nil before
	// the first response.
	etag atomic.Pointer[string]

	mu   sync.Mutex
	caps *chartutil.Capabilities // nil until read
}

func newCluster(config *rest.Config, log func(string, ...any)) (*cluster, error) {
	k := &cluster{log: log}
	tapped := rest.CopyConfig(config)
	tapped.Timeout = 0 // the discovery client sets a timeout of its own
	tapped.Wrap(k.tap)
	client, err := discovery.NewDiscoveryClientForConfig(tapped)
	if err != nil {
		return nil, fmt.Errorf("helm: make a discovery client: %w", err)
	}
	k.server = client
	k.cached = memory.NewMemCacheClient(client)
	k.mapper = restmapper.NewDeferredDiscoveryRESTMapper(k.cached)
	return k, nil
}

// tap wraps the transport next, and records the ETag of each response for apisPath.
func (k *cluster) tap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		resp, err := next.RoundTrip(r)
		if err == nil && resp.StatusCode == http.StatusOK && strings.HasSuffix(r.URL.Path, apisPath) {
			etag := resp.Header.Get("ETag")
			k.etag.Store(&etag)
		}
		return resp, err
	})
}

// Refresh updates the cache of the kinds and versions that the API server serves. Call it after CRDs or APIServices
// were added. API servers older than Kubernetes 1.27 send no ETag, so without Refresh, .Capabilities in templates would
// lack the new kinds. With newer API servers, Render detects new kinds by itself.
func (c *Client) Refresh(ctx context.Context) error { return c.cluster.refresh(ctx) }

func (k *cluster) refresh(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.read(ctx)
}

// known returns the cached capabilities of the cluster. If nothing is cached, it reads them.
func (k *cluster) known(ctx context.Context) (*chartutil.Capabilities, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.caps == nil {
		if err := k.read(ctx); err != nil {
			return nil, err
		}
	}
	return k.caps, nil
}

// current returns the current capabilities of the cluster. It asks the API server whether the cached capabilities are
// out of date, which is rare. If the API server sends no ETag, current returns the cached capabilities without asking.
func (k *cluster) current(ctx context.Context) (*chartutil.Capabilities, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.caps == nil || k.changed(ctx) {
		if err := k.read(ctx); err != nil {
			return nil, err
		}
	}
	return k.caps, nil
}

// changed asks the API server whether the kinds that it serves differ from the cached ones. If the API server sends no
// ETag, changed returns false. If the request fails, changed returns false too, because the next request of the action
// returns a better error.
func (k *cluster) changed(ctx context.Context) bool {
	etag := k.etag.Load()
	if etag == nil || *etag == "" {
		return false
	}
	var code int
	k.server.RESTClient().Get().AbsPath(apisPath).
		SetHeader("Accept", discovery.AcceptV2+","+discovery.AcceptV1).
		SetHeader("If-None-Match", *etag).
		Do(ctx).StatusCode(&code)
	return code == http.StatusOK
}

// read fills the caches. The caller holds k.mu.
func (k *cluster) read(ctx context.Context) error {
	k.caps = nil // if this read fails, the next call reads everything again
	k.mapper.ResetWithContext(ctx)
	cached := discovery.ToCachedDiscoveryInterfaceWithContext(k.cached)
	version, err := cached.ServerVersionWithContext(ctx)
	if err != nil {
		return fmt.Errorf("read the version of the API server: %w", err)
	}
	if _, _, err = cached.ServerGroupsAndResourcesWithContext(ctx); err != nil {
		if !discovery.IsGroupDiscoveryFailedError(err) {
			return fmt.Errorf("read the kinds that the API server serves: %w", err)
		}
		k.log("some API services do not answer, so their kinds are unknown: %s", err)
	}
	versions, err := action.GetVersionSet(k.cached)
	if err != nil {
		return fmt.Errorf("read the kinds that the API server serves: %w", err)
	}
	k.caps = &chartutil.Capabilities{
		APIVersions: versions,
		KubeVersion: chartutil.KubeVersion{Version: version.GitVersion, Major: version.Major, Minor: version.Minor},
		HelmVersion: chartutil.DefaultCapabilities.HelmVersion,
	}
	return nil
}

// mapping returns the REST mapping of a kind. If the API server does not serve the kind, meta.IsNoMatchError returns
// true for the error.
func (k *cluster) mapping(ctx context.Context, apiVersion, kind string) (*meta.RESTMapping, error) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return nil, err
	}
	return k.mapper.RESTMappingWithContext(ctx, schema.GroupKind{Group: gv.Group, Kind: kind}, gv.Version)
}

// absent reports whether err is the answer of the API server for an object that does not exist. The API server gives a
// similar answer if it does not serve the API version in mapping any more. Then absent reads the kinds again, and
// returns an error for which meta.IsNoMatchError returns true. absent returns all other errors unchanged.
func (k *cluster) absent(ctx context.Context, mapping *meta.RESTMapping, err error) (bool, error) {
	if !apierrors.IsNotFound(err) {
		return false, err
	}
	if !apierrors.IsUnexpectedServerError(err) {
		return true, nil
	}
	if err := k.refresh(ctx); err != nil {
		return false, err
	}
	apiVersion, kind := mapping.GroupVersionKind.ToAPIVersionAndKind()
	_, err = k.mapping(ctx, apiVersion, kind)
	return err == nil, err
}

// gone reports whether it is certain that the API server does not serve a kind in this API version. gone returns false
// if the API service of the kind's group does not respond.
func (k *cluster) gone(ctx context.Context, apiVersion, kind string) bool {
	if _, err := k.mapping(ctx, apiVersion, kind); !meta.IsNoMatchError(err) {
		return false
	}
	_, _, err := discovery.ToCachedDiscoveryInterfaceWithContext(k.cached).ServerGroupsAndResourcesWithContext(ctx)
	if err == nil {
		return true
	}
	failed, known := discovery.GroupDiscoveryFailedErrorGroups(err)
	if !known {
		return false
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return false
	}
	for f := range failed {
		if f.Group == gv.Group {
			return false
		}
	}
	return true
}

// servedVersion returns an API version in which the API server serves a kind: apiVersion if possible, or else the
// preferred version of the same API group. It returns "" if it is certain that the API server does not serve the kind.
// If the API service of the kind's group does not respond, servedVersion returns apiVersion.
func (k *cluster) servedVersion(ctx context.Context, apiVersion, kind string) string {
	if !k.gone(ctx, apiVersion, kind) {
		return apiVersion
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return apiVersion
	}
	other, err := k.mapper.RESTMappingWithContext(ctx, schema.GroupKind{Group: gv.Group, Kind: kind})
	switch {
	case meta.IsNoMatchError(err):
		return ""
	case err != nil:
		return apiVersion
	default:
		return other.GroupVersionKind.GroupVersion().String()
	}
}

// unserved looks for a document whose kind the API server does not serve. It returns an error that names the first such
// document and its template. If all kinds are served, unserved returns err.
func (k *cluster) unserved(ctx context.Context, documents []document, err error) error {
	for _, d := range documents {
		if _, unknown := k.mapping(ctx, d.APIVersion, d.Kind); meta.IsNoMatchError(unknown) {
			return fmt.Errorf("template %s: %s: the cluster does not serve kind %s of %s: install its CRD first, or correct apiVersion and kind: %w",
				d.template(), d, d.Kind, d.APIVersion, unknown)
		}
	}
	return err
}
