package api

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group and Version are the API group and version of AddonsConfiguration and ClusterAddonsConfiguration.
const (
	Group   = "addons.kyma-project.io"
	Version = "v1alpha1"
)

// Finalizer is the finalizer of addons configurations. The operator removes it from a deleted configuration when the
// addons of the configuration are unregistered.
const Finalizer = "addons.kyma-project.io"

// ModulesAnnotation is an annotation. If its value is "true" in a ClusterAddonsConfiguration, the registered addons of
// this configuration can be used as modules. It has no effect on an AddonsConfiguration.
const ModulesAnnotation = "addons.kyma-project.io/modules"

// The kinds of configurations.
const (
	ClusterKind    = "ClusterAddonsConfiguration"
	NamespacedKind = "AddonsConfiguration"
)

// The API resources of the two kinds.
var (
	ClusterResource    = schema.GroupVersionResource{Group: Group, Version: Version, Resource: "clusteraddonsconfigurations"}
	NamespacedResource = schema.GroupVersionResource{Group: Group, Version: Version, Resource: "addonsconfigurations"}
)

// A Configuration names repositories of addons. The addons are registered for the whole cluster
// (ClusterAddonsConfiguration) or for the namespace of the configuration (AddonsConfiguration).
type Configuration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   Spec   `json:"spec,omitzero"`
	Status Status `json:"status,omitzero"`
}

// IsMarkedForModules reports whether the value of [ModulesAnnotation] is "true".
func (c *Configuration) IsMarkedForModules() bool { return c.Annotations[ModulesAnnotation] == "true" }

// A Spec is the desired state of an addons configuration, which a user writes.
type Spec struct {
	// Repositories are the addon repositories. The operator processes them in this order.
	Repositories []Repository `json:"repositories"`
	// ReprocessRequest is a number that a user increments to make the operator process the configuration again,
	// although the list of repositories is unchanged.
	ReprocessRequest int64 `json:"reprocessRequest,omitempty"`
}

// A Repository is the address of the index of an addon repository.
type Repository struct {
	// URL is the URL of the index file. A placeholder {key} in it is replaced by the value of this key in the Secret.
	URL       string     `json:"url"`
	SecretRef *SecretRef `json:"secretRef,omitempty"`
}

// A SecretRef names the Secret with the values for the placeholders in a repository URL.
type SecretRef struct {
	Name string `json:"name,omitempty"`
	// Namespace is required in a ClusterAddonsConfiguration. In an AddonsConfiguration it must be
	// empty or the namespace of the configuration.
	Namespace string `json:"namespace,omitempty"`
}

// A Phase is the state of an addons configuration.
type Phase string

// The phases of a configuration. A configuration without a phase has never been processed.
const (
	Pending Phase = "Pending"
	Ready   Phase = "Ready"
	Failed  Phase = "Failed"
)

// A Status is the result of processing an addons configuration. The operator writes it.
type Status struct {
	Phase             Phase        `json:"phase"`
	LastProcessedTime *metav1.Time `json:"lastProcessedTime,omitempty"`
	// ObservedGeneration is the metadata.generation that the configuration had when it was processed.
	ObservedGeneration int64              `json:"observedGeneration,omitempty"`
	Repositories       []RepositoryStatus `json:"repositories,omitempty"`
}

// A Condition is the result for one repository or addon of a configuration: Ready or Failed.
type Condition string

// The results for a repository or an addon.
const (
	ConditionReady  Condition = "Ready"
	ConditionFailed Condition = "Failed"
)

// A RepositoryStatus is the result for one repository of a configuration. If only addons of the repository failed,
// Reason is empty.
type RepositoryStatus struct {
	// URL is the URL of the repository as in the spec, in which placeholders are not replaced.
	URL     string        `json:"url"`
	Status  Condition     `json:"status,omitzero"`
	Reason  Reason        `json:"reason,omitempty"`
	Message string        `json:"message,omitempty"`
	Addons  []AddonStatus `json:"addons"`
}

// An AddonStatus is the result for one addon of a repository. Name and version are those of the
// addon's meta.yaml, or of the index if the addon could not be loaded.
type AddonStatus struct {
	Name    string    `json:"name"`
	Version string    `json:"version"`
	Status  Condition `json:"status,omitzero"`
	Reason  Reason    `json:"reason,omitempty"`
	Message string    `json:"message,omitempty"`
}
