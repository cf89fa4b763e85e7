package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
)

// Kind is a kind in one version that the API server serves.
type Kind struct {
	schema.GroupVersionKind
	// Resource is the name of the kind in URLs, which is a plural in lower case.
	Resource string
	// Namespaced is true if the objects of the kind belong to namespaces.
	Namespaced bool
}

// GroupVersionResource returns the group, the version and the resource of the kind.
func (k Kind) GroupVersionResource() schema.GroupVersionResource {
	return k.GroupVersion().WithResource(k.Resource)
}

// Resolve returns the kind that is called name. name may be the name of the kind, its plural or a short name, in upper
// or lower case. If apiVersion is a group/version or a version, Resolve searches only there. If apiVersion is empty,
// Resolve searches all groups in the order of the API server, and the preferred version of each group first. If there
// is no such kind in the cache, Resolve requests the kinds again.
//
// If the API server has no such kind, the error is a *[NotServedError]. If apiVersion is empty, Resolve also returns
// this error if the kind is in none of the groups that could be read; see NotServedError.Undiscovered.
func (c *Client) Resolve(ctx context.Context, apiVersion, name string) (Kind, error) {
	if _, err := schema.ParseGroupVersion(apiVersion); err != nil {
		return Kind{}, fmt.Errorf("apiVersion of kind %q: %w", name, err)
	}
	kind, err := c.lookUp(ctx, apiVersion, name)
	if !errors.Is(err, ErrNotServed) {
		return kind, err
	}
	c.mapper.ResetWithContext(ctx)
	return c.lookUp(ctx, apiVersion, name)
}

// lookUp is like Resolve, but searches only the cache. If the kinds of an API group could not be read for the cache,
// lookUp requests them again, because the group may be available now. If lookUp finds the kind in one version of the
// group, but cannot read the kinds of a more preferred version, it returns an *undecidedError. Otherwise, a later call
// could return the kind in another version.
func (c *Client) lookUp(ctx context.Context, apiVersion, name string) (Kind, error) {
	cached := discovery.ToCachedDiscoveryInterfaceWithContext(c.cached)
	if apiVersion != "" {
		list, err := cached.ServerResourcesForGroupVersionWithContext(ctx, apiVersion)
		missing := errors.Is(err, memory.ErrCacheNotFound)
		if err != nil && !missing {
			list, err = c.resources(ctx, apiVersion)
			missing = apierrors.IsNotFound(err)
		}
		if err != nil && !missing {
			return Kind{}, fmt.Errorf("find kind %q: %w", name, err)
		}
		if !missing {
			if kind, found := matchKind([]*metav1.APIResourceList{list}, name); found {
				return kind, nil
			}
		}
		return Kind{}, &NotServedError{APIVersion: apiVersion, Kind: name}
	}
	groups, lists, err := discovery.ServerGroupsAndResourcesWithContext(ctx, cached)
	unknown, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !partial {
		return Kind{}, fmt.Errorf("find kind %q: %w", name, err)
	}
	if kind, found := matchKind(byPreference(groups, lists), name); found {
		return c.inPreferredVersion(ctx, kind, groups, unknown, name)
	}
	var undiscovered []error
	// The order is the same for each call, with the newest version of a group first.
	for _, group := range slices.SortedFunc(maps.Keys(unknown), newestFirst) {
		list, err := c.resources(ctx, group.String())
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			undiscovered = append(undiscovered, err)
			continue
		}
		if kind, found := matchKind([]*metav1.APIResourceList{list}, name); found {
			return kind, nil
		}
	}
	return Kind{}, &NotServedError{Kind: name, Undiscovered: errors.Join(undiscovered...)}
}

// newestFirst compares the names of groups, and the versions of one group in descending order: v2, v1, v1beta1.
func newestFirst(a, b schema.GroupVersion) int {
	return cmp.Or(strings.Compare(a.Group, b.Group), version.CompareKubeAwareVersionStrings(b.Version, a.Version))
}

// inPreferredVersion returns the kind that is called name in the most preferred version of the group of found. The
// argument found is the kind in the most preferred version that is in the cache. The versions in unknown are not in the
// cache. If the kinds of a more preferred version cannot be read, inPreferredVersion returns an *undecidedError.
func (c *Client) inPreferredVersion(ctx context.Context, found Kind, groups []*metav1.APIGroup, unknown map[schema.GroupVersion]error, name string) (Kind, error) {
	var undecided error
	for _, preferred := range preferredVersions(groups) {
		if preferred == found.GroupVersion().String() {
			break
		}
		gv, err := schema.ParseGroupVersion(preferred)
		if err != nil || gv.Group != found.Group || unknown[gv] == nil {
			continue
		}
		list, err := c.resources(ctx, preferred)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			undecided = errors.Join(undecided, err)
			continue
		}
		if kind, has := matchKind([]*metav1.APIResourceList{list}, name); has {
			found = kind
			break
		}
	}
	if undecided != nil {
		return Kind{}, &undecidedError{found, fmt.Errorf("find kind %q: %w", name, undecided)}
	}
	return found, nil
}

// resources requests the kinds of one group and version from the API server.
func (c *Client) resources(ctx context.Context, apiVersion string) (*metav1.APIResourceList, error) {
	path := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		path = "/api/" + apiVersion
	}
	text, err := read(c.get(path, "").Do(ctx))
	if err != nil {
		return nil, fmt.Errorf("request the kinds of %s: %w", apiVersion, err)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("parse the kinds of %s: %w", apiVersion, err)
	}
	return &list, nil
}

// byPreference returns lists in the order of preferredVersions.
func byPreference(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*metav1.APIResourceList {
	byVersion := make(map[string]*metav1.APIResourceList, len(lists))
	for _, list := range lists {
		byVersion[list.GroupVersion] = list
	}
	ordered := make([]*metav1.APIResourceList, 0, len(lists))
	for _, gv := range preferredVersions(groups) {
		if list := byVersion[gv]; list != nil {
			ordered = append(ordered, list)
		}
	}
	return ordered
}

// preferredVersions returns the versions of groups in the order of groups. Within a group, the preferred version comes
// first.
func preferredVersions(groups []*metav1.APIGroup) (ordered []string) {
	for _, group := range groups {
		preferred := group.PreferredVersion.GroupVersion
		ordered = append(ordered, preferred)
		for _, other := range group.Versions {
			if other.GroupVersion != preferred {
				ordered = append(ordered, other.GroupVersion)
			}
		}
	}
	return ordered
}

// matchKind returns the first kind in lists that is called name, and whether there is one. A kind with this name or
// plural precedes a kind with this short name.
func matchKind(lists []*metav1.APIResourceList, name string) (Kind, bool) {
	same := func(other string) bool { return strings.EqualFold(other, name) }
	named := func(r metav1.APIResource) bool { return same(r.Kind) || same(r.Name) }
	short := func(r metav1.APIResource) bool { return slices.ContainsFunc(r.ShortNames, same) }
	for _, matches := range []func(metav1.APIResource) bool{named, short} {
		for _, list := range lists {
			gv, err := schema.ParseGroupVersion(list.GroupVersion)
			if err != nil {
				continue // an invalid group does not hide the others
			}
			for _, r := range list.APIResources {
				if !strings.Contains(r.Name, "/") && matches(r) {
					return Kind{gv.WithKind(r.Kind), r.Name, r.Namespaced}, true
				}
			}
		}
	}
	return Kind{}, false
}
