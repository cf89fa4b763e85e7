package kube

import (
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source names what one list and one watch can tell of. Equal sources are watched once. It is a key: all its fields are
// in the one form that [Selection] gives them.
type Source struct {
	Group    string
	Version  string
	Resource string
	// Kind is the kind's name; the resource implies it.
	Kind string
	// Namespace is the objects' namespace; empty means all, or that the kind has none.
	Namespace string
	// Names are the objects' names, sorted, with commas between; empty means any.
	Names string
	// Labels is a label selector as the API server reads it; empty means any.
	Labels string
	// Fields is a field selector as the API server reads it; empty means any.
	Fields string
}

// APIVersion returns the group and version as objects have it.
func (s Source) APIVersion() string { return s.groupVersion().String() }

func (s Source) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: s.Group, Version: s.Version}
}

// String returns a text that no other source has and that is the same in every process.
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

// View names a source seen through a filter. It is a key.
type View struct {
	Source
	// Filter is the text of the jq program; empty means none.
	Filter string
}

// String returns a text that no other view has and that is the same in every process.
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

// fieldSelector returns the field selector to ask the server with. A single name is asked for; of several, which no field
// selector can say, all objects come and those named are picked out.
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

// picker returns what says whether an object's name is among the source's.
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
