package dryrun

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"slices"
	"strings"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"

// kinds answers a discovery request for the list of all groups and kinds. It adds the kinds of the
// CustomResourceDefinitions that the session has written, but only if the API server answers with aggregated discovery,
// as API servers do since Kubernetes 1.27.
func (t *transport) kinds(r *http.Request) (*http.Response, error) {
	added := t.session.definitions()
	if len(added) == 0 {
		return t.next.RoundTrip(r)
	}
	asked := r.Header.Get("If-None-Match")
	fresh := r.Clone(r.Context())
	fresh.Header.Del("If-None-Match")
	response, err := t.next.RoundTrip(fresh)
	if err != nil || response.StatusCode != http.StatusOK || !strings.Contains(response.Header.Get("Content-Type"), "as=APIGroupDiscoveryList") {
		return response, err
	}
	body, err := replayable(response)
	if err != nil {
		return nil, err
	}
	var list apidiscovery.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("read the kinds that the API server serves: %w", err)
	}
	for _, d := range added {
		list.Items = withKinds(list.Items, d)
	}
	if body, err = json.Marshal(list); err != nil {
		return nil, err
	}
	tag := fmt.Sprintf(`"%s+%d"`, strings.Trim(response.Header.Get("ETag"), `"`), len(added))
	response.Header.Set("ETag", tag)
	if asked == tag {
		response.StatusCode, response.Status, body = http.StatusNotModified, http.StatusText(http.StatusNotModified), nil
	}
	response.Body, response.ContentLength = io.NopCloser(strings.NewReader(string(body))), int64(len(body))
	response.Header.Del("Content-Length")
	return response, nil
}

// A definition contains those fields of a CustomResourceDefinition that discovery needs.
type definition struct {
	group, kind, plural, singular, scope string
	versions                             []string // the served versions
}

// definitions returns the CustomResourceDefinitions that the session has created or changed.
func (s *Session) definitions() (all []definition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, o := range s.objects {
		if strings.Contains(path, definitions) && o.now != nil {
			all = append(all, definitionOf(o.now))
		}
	}
	slices.SortFunc(all, func(a, b definition) int { return strings.Compare(a.plural+"."+a.group, b.plural+"."+b.group) })
	return all
}

func definitionOf(o map[string]any) (d definition) {
	text := func(fields ...string) string {
		found, _, _ := unstructured.NestedString(o, append([]string{"spec"}, fields...)...)
		return found
	}
	d.group, d.scope = text("group"), text("scope")
	d.kind, d.plural, d.singular = text("names", "kind"), text("names", "plural"), text("names", "singular")
	versions, _, _ := unstructured.NestedSlice(o, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		name, _ := version["name"].(string)
		if served, _ := version["served"].(bool); served {
			d.versions = append(d.versions, name)
		}
	}
	return d
}

// changedKind returns the kind of the object at path if the session has changed the spec of an existing
// CustomResourceDefinition that defines this kind. Otherwise it returns "".
func (s *Session) changedKind(path string) string {
	base, rest, found := strings.Cut(path, "/apis/")
	parts := strings.Split(rest, "/") // group, version, perhaps "namespaces" and a namespace, plural, name
	if !found || len(parts) < 4 {
		return ""
	}
	o, known := s.get(base + definitions + parts[len(parts)-2] + "." + parts[0])
	if !known || o.live == nil || o.now == nil || reflect.DeepEqual(o.live["spec"], o.now["spec"]) {
		return ""
	}
	return definitionOf(o.now).kind
}

// newKind returns the kind of the object at path if the session has created or changed the CustomResourceDefinition of
// this kind. Otherwise it returns "".
func (s *Session) newKind(path string) string {
	for _, d := range s.definitions() {
		for _, version := range d.versions {
			_, rest, found := strings.Cut(path, "/apis/"+d.group+"/"+version+"/")
			if found && slices.Contains(strings.Split(rest, "/"), d.plural) {
				return d.kind
			}
		}
	}
	return ""
}

// withKinds adds the kind that the definition d defines, in all served versions, to the list groups. It returns the
// changed list.
func withKinds(groups []apidiscovery.APIGroupDiscovery, d definition) []apidiscovery.APIGroupDiscovery {
	at := slices.IndexFunc(groups, func(g apidiscovery.APIGroupDiscovery) bool { return g.Name == d.group })
	if at < 0 {
		groups = append(groups, apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: d.group}})
		at = len(groups) - 1
	}
	scope := apidiscovery.ScopeCluster
	if d.scope == "Namespaced" {
		scope = apidiscovery.ScopeNamespace
	}
	for _, version := range d.versions {
		n := slices.IndexFunc(groups[at].Versions, func(v apidiscovery.APIVersionDiscovery) bool { return v.Version == version })
		if n < 0 {
			groups[at].Versions = append(groups[at].Versions, apidiscovery.APIVersionDiscovery{Version: version, Freshness: apidiscovery.DiscoveryFreshnessCurrent})
			n = len(groups[at].Versions) - 1
		}
		resources := &groups[at].Versions[n].Resources
		if slices.ContainsFunc(*resources, func(r apidiscovery.APIResourceDiscovery) bool { return r.Resource == d.plural }) {
			continue
		}
		*resources = append(*resources, apidiscovery.APIResourceDiscovery{
			Resource: d.plural, SingularResource: d.singular, Scope: scope,
			ResponseKind: &metav1.GroupVersionKind{Group: d.group, Version: version, Kind: d.kind},
			Verbs:        []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		})
	}
	return groups
}
