package api

import (
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Identity names a configuration: a ClusterAddonsConfiguration if Namespace is empty, else an
// AddonsConfiguration.
type Identity struct{ Namespace, Name string }

// ParseIdentity returns the identity whose [Identity.String] is text.
func ParseIdentity(text string) Identity {
	if namespace, name, namespaced := strings.Cut(text, "/"); namespaced {
		return Identity{namespace, name}
	}
	return Identity{Name: text}
}

// String returns "name" or "namespace/name".
func (i Identity) String() string {
	if i.Namespace == "" {
		return i.Name
	}
	return i.Namespace + "/" + i.Name
}

// Kind returns the kind of the configuration.
func (i Identity) Kind() string {
	if i.Namespace == "" {
		return ClusterKind
	}
	return NamespacedKind
}

// Resource returns the resource of the configuration's kind.
func (i Identity) Resource() schema.GroupVersionResource {
	if i.Namespace == "" {
		return ClusterResource
	}
	return NamespacedResource
}
