package kube

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// namedSources is the maximum number of names for which each name has a source of its own, in each namespace. If there
// are more names, a namespace has one source for all of them. The API server then sends all objects, and the watch
// picks those with the names. The limit does not depend on the number of namespaces. So the views of a namespace stay
// the same when other namespaces are added or removed.
const namedSources = 8

// FieldMatch is a condition in a field selector.
type FieldMatch struct {
	Field string
	// Operator is =, ==, Equals, != or NotEquals.
	Operator string
	Value    string
}

// Selection says which objects are selected. An object must match every field of the Selection that is set.
type Selection struct {
	// APIVersion is a version or a group/version. If it is empty, the preferred version is used. But a monitor that
	// resumes prefers the version of the earlier process, see [Spec].
	APIVersion string
	// Kind is the name of the kind, its plural or a short name, in upper or lower case.
	Kind string
	// Names are the names of the objects. If there are none, the objects may have any name.
	Names []string
	// Labels selects objects by their labels. If it is nil, the objects may have any labels.
	Labels *metav1.LabelSelector
	// Fields selects objects by their fields. Which fields are possible for a kind is defined by the API server.
	Fields []FieldMatch
	// Namespaces are the namespaces of the objects. If there are none, the objects may be in any namespace. If the
	// kind is not namespaced, Namespaces and NamespaceLabels are ignored.
	Namespaces []string
	// NamespaceLabels selects objects by the labels of their namespaces. When the labels of a namespace change, its
	// objects can become selected, or cease to be selected. If NamespaceLabels is set, Namespaces is ignored.
	NamespaceLabels *metav1.LabelSelector
}

// plan is a valid selection, with its selectors in the form that the API server expects.
type plan struct {
	apiVersion, kind string
	names            []string // sorted, each once
	namespaces       []string // sorted, each once
	labels, fields   string
	followsNamespace bool
	namespaceLabels  string
}

func (s Selection) plan() (plan, error) {
	p := plan{
		apiVersion: s.APIVersion, kind: s.Kind,
		names:            slices.Compact(slices.Sorted(slices.Values(s.Names))),
		namespaces:       slices.Compact(slices.Sorted(slices.Values(s.Namespaces))),
		followsNamespace: s.NamespaceLabels != nil,
	}
	if s.Kind == "" {
		return p, errors.New("select objects: kind is missing")
	}
	if _, err := schema.ParseGroupVersion(s.APIVersion); err != nil {
		return p, fmt.Errorf("select objects of kind %q: apiVersion: %w", s.Kind, err)
	}
	for _, name := range slices.Concat(s.Names, s.Namespaces) {
		if name == "" || strings.ContainsAny(name, "/,=") {
			return p, fmt.Errorf("select objects of kind %q: %q cannot be a name", s.Kind, name)
		}
	}
	var err error
	if p.labels, err = labelSelector(s.Labels); err != nil {
		return p, fmt.Errorf("select objects of kind %q: labels: %w", s.Kind, err)
	}
	if p.namespaceLabels, err = labelSelector(s.NamespaceLabels); err != nil {
		return p, fmt.Errorf("select objects of kind %q: labels of namespaces: %w", s.Kind, err)
	}
	if p.fields, err = s.fieldSelector(); err != nil {
		return p, fmt.Errorf("select objects of kind %q: %w", s.Kind, err)
	}
	return p, nil
}

func labelSelector(labels *metav1.LabelSelector) (string, error) {
	if labels == nil {
		return "", nil
	}
	selector, err := metav1.LabelSelectorAsSelector(labels)
	if err != nil {
		return "", err
	}
	return selector.String(), nil
}

func (s Selection) fieldSelector() (string, error) {
	var terms []fields.Selector
	for _, match := range s.Fields {
		if match.Field == "" {
			return "", errors.New("a field selector has no field")
		}
		if match.Field == "metadata.name" && len(s.Names) > 0 {
			return "", errors.New("both names and a field selector of metadata.name are given; give one of them")
		}
		switch match.Operator {
		case "=", "==", "Equals":
			terms = append(terms, fields.OneTermEqualSelector(match.Field, match.Value))
		case "!=", "NotEquals":
			terms = append(terms, fields.OneTermNotEqualSelector(match.Field, match.Value))
		default:
			return "", fmt.Errorf("field selector of %s: operator %q is none of = == Equals != NotEquals", match.Field, match.Operator)
		}
	}
	slices.SortFunc(terms, func(a, b fields.Selector) int { return strings.Compare(a.String(), b.String()) })
	return fields.AndSelectors(terms...).String(), nil
}

// sources returns the sources that must be watched for the objects of kind in namespaces. If namespaces is empty, it
// means all namespaces.
func (p plan) sources(kind Kind, namespaces []string) []Source {
	if len(namespaces) == 0 || !kind.Namespaced {
		namespaces = []string{""}
	}
	names := p.names
	switch {
	case len(names) == 0:
		names = []string{""}
	case len(names) > namedSources:
		names = []string{strings.Join(names, ",")}
	}
	sources := make([]Source, 0, len(names)*len(namespaces))
	for _, namespace := range namespaces {
		for _, name := range names {
			sources = append(sources, Source{
				Group: kind.Group, Version: kind.Version, Resource: kind.Resource, Kind: kind.Kind,
				Namespace: namespace, Names: name, Labels: p.labels, Fields: p.fields,
			})
		}
	}
	return sources
}
