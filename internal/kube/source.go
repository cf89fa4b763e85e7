package kube

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source identifies one list and watch. Equal sources share one watch. A Source is used as a map
// key, so all fields must have the canonical form that [Selection] produces.
type Source struct {
	Group    string
	Version  string
	Resource string
	// Kind is the kind's name; the resource implies it.
	Kind string
	// Namespace is the objects' namespace; empty means all namespaces, or that the kind is not
	// namespaced.
	Namespace string
	// Names are the objects' names, sorted and separated by commas; empty means any.
	Names string
	// Labels is a label selector in the syntax of the API server; empty means any.
	Labels string
	// Fields is a field selector in the syntax of the API server; empty means any.
	Fields string
}

// APIVersion returns the group and version as in the apiVersion of an object.
func (s Source) APIVersion() string { return s.groupVersion().String() }

func (s Source) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: s.Group, Version: s.Version}
}

// String returns a text that is unique among sources and the same in every process.
func (s Source) String() string { return s.text("") }

func (s Source) text(filter string) string {
	query := url.Values{}
	for _, part := range []struct{ name, value string }{
		{"namespace", s.Namespace}, {"names", s.Names}, {"labels", s.Labels}, {"fields", s.Fields}, {"filter", filter},
	} {
		if part.value != "" {
			query.Set(part.name, part.value)
		}
	}
	text := s.APIVersion() + "/" + s.Resource
	if len(query) > 0 {
		text += "?" + query.Encode()
	}
	return text
}

// View identifies a source and the filter that is applied to its objects. It is used as a map key.
type View struct {
	Source
	// Filter is the text of the jq program; empty means none.
	Filter string
}

// String returns a text that is unique among views and the same in every process.
func (v View) String() string { return v.text(v.Filter) }

// path returns the URL path of the source's collection.
func (s Source) path() string {
	segments := []string{"", "apis", s.Group, s.Version}
	if s.Group == "" {
		segments = []string{"", "api", s.Version}
	}
	if s.Namespace != "" {
		segments = append(segments, "namespaces", s.Namespace)
	}
	return strings.Join(append(segments, s.Resource), "/")
}

// fieldSelector returns the field selector for the API server. If the source has one name, the
// selector includes it. Several names cannot be expressed as a field selector. Then the server
// returns all objects, and the watch picks the named objects.
func (s Source) fieldSelector() string {
	if s.Names == "" || strings.Contains(s.Names, ",") {
		return s.Fields
	}
	name := "metadata.name=" + s.Names
	if s.Fields == "" {
		return name
	}
	return name + "," + s.Fields
}

// picker returns a function that reports whether the watch must process the object with a given
// name. Only a source with several names excludes objects: for any other source, the server selects
// them.
func (s Source) picker() func(name string) bool {
	if !strings.Contains(s.Names, ",") {
		return func(string) bool { return true }
	}
	names := strings.Split(s.Names, ",")
	return func(name string) bool {
		_, found := slices.BinarySearch(names, name)
		return found
	}
}
