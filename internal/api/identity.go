package api

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Identity identifies an addons configuration: a ClusterAddonsConfiguration if Namespace is empty, otherwise an
// AddonsConfiguration.
type Identity struct{ Namespace, Name string }

// ParseIdentity returns the identity whose [Identity.String] is text.
func ParseIdentity(text string) Identity {
	if namespace, name, namespaced := strings.Cut(text, "/"); namespaced {
		return Identity{namespace, name}
	}
	return Identity{Name: text}
}

// String returns "name" for a ClusterAddonsConfiguration, and "namespace/name" for an AddonsConfiguration.
func (i Identity) String() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// Kind returns the kind of the configuration that i identifies.
func (i Identity) Kind() string {
	if i.Namespace == "" {
		return ClusterKind
	}
	return NamespacedKind
}

// Resource returns the API resource of the configuration that i identifies.
func (i Identity) Resource() schema.GroupVersionResource {
	if i.Namespace == "" {
		return ClusterResource
	}
	return NamespacedResource
}
