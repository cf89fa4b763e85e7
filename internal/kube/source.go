package kube

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Source says which objects one list and its watch contain. For each receiver, equal Sources share one watch. Because a
// Source is used as a key of maps, all its fields must have the canonical form that they get from a [Selection].
type Source struct {
	Group    string
	Version  string
	Resource string
	// Kind is the name of the kind. It is always the same for the same resource.
	Kind string
	// Namespace is the namespace of the objects. It is empty if the objects may be in any namespace, or the kind is
	// not namespaced.
	Namespace string
	// Names has the names of the objects, sorted and separated by commas. It is empty if the objects may have any name.
	Names string
	// Labels is a label selector in the form that the API server expects. It is empty if the objects may have any
	// labels.
	Labels string
	// Fields is a field selector in the form that the API server expects. It is empty if the objects may have any
	// fields.
	Fields string
}

// APIVersion returns the group and version in the same form as in the field apiVersion of an object.
func (s Source) APIVersion() string { return s.groupVersion().String() }

func (s Source) groupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: s.Group, Version: s.Version}
}

// String returns a text that is different for each source, and is the same in every process.
func (s Source) String() string { return s.text("") }

// ParseSource returns the source for which String has returned text. Because the text has no Kind, the result has none.
func ParseSource(text string) (Source, error) {
	path, query, _ := strings.Cut(text, "?")
	at := max(strings.LastIndex(path, "/"), 0)
	version, err := schema.ParseGroupVersion(path[:at])
	if err != nil {
		return Source{}, fmt.Errorf("parse source %q: %w", text, err)
	}
	fields, err := url.ParseQuery(query)
	if err != nil {
		return Source{}, fmt.Errorf("parse source %q: %w", text, err)
	}
	return Source{
		Group: version.Group, Version: version.Version, Resource: strings.TrimPrefix(path[at:], "/"), Namespace: fields.Get("namespace"),
		Names: fields.Get("names"), Labels: fields.Get("labels"), Fields: fields.Get("fields"),
	}, nil
}

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

// View identifies a view by its source, and by the filter that is applied to the objects of the source. It is used as
// a key of maps.
type View struct {
	Source
	// Filter is the jq program of the filter. It is empty if there is no filter.
	Filter string
}

// String returns a text that is different for each view, and is the same in every process.
func (v View) String() string { return v.text(v.Filter) }

// path returns the path in the URL of the collection that contains the objects of the source.
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

// fieldSelector returns the field selector for requests to the API server. If the source has one name, the field
// selector contains the name. A field selector cannot contain several names. So if the source has several names, the
// API server returns all objects, and the watch picks the objects with these names.
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

// picker returns a function that reports whether the watch must process an object with a given name. The function
// returns false only if the source has several names, and the given name is none of them. If the source does not have
// several names, the API server returns only the right objects.
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
