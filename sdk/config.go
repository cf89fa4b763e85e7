package sdk

import "encoding/json"

// Config is the config of a hook, in the format of the addon-operator HOOKS docs. Nil and empty
// fields are omitted, so that the operator's defaults apply. new(10) and new(false) set pointer
// fields.
type Config struct {
	// The ordered bindings. The number orders the hooks of a step. A module hook has no BeforeAll
	// and AfterAll; a global hook has none of the Helm bindings.
	OnStartup        *int `json:"onStartup,omitempty"`
	BeforeAll        *int `json:"beforeAll,omitempty"`
	AfterAll         *int `json:"afterAll,omitempty"`
	BeforeHelm       *int `json:"beforeHelm,omitempty"`
	AfterHelm        *int `json:"afterHelm,omitempty"`
	BeforeDeleteHelm *int `json:"beforeDeleteHelm,omitempty"`
	AfterDeleteHelm  *int `json:"afterDeleteHelm,omitempty"`

	Schedule   []Schedule   `json:"schedule,omitempty"`
	Kubernetes []Kubernetes `json:"kubernetes,omitempty"`
	Validating []Admission  `json:"kubernetesValidating,omitempty"`
	Mutating   []Admission  `json:"kubernetesMutating,omitempty"`
	Conversion []Conversion `json:"kubernetesCustomResourceConversion,omitempty"`

	// Settings limits how often and how long the hook runs; nil means no limit.
	Settings *Settings `json:"settings,omitempty"`
}

// MarshalJSON encodes the config as a hook prints it, with its version.
func (c Config) MarshalJSON() ([]byte, error) {
	type fields Config // without this method
	return json.Marshal(struct {
		Version string `json:"configVersion"`
		fields
	}{"v1", fields(c)})
}

// Schedule starts runs on a schedule.
type Schedule struct {
	Name string `json:"name,omitempty"`
	// Crontab has five fields, or six with seconds first, or is a descriptor such as @hourly.
	Crontab              string   `json:"crontab"`
	Queue                string   `json:"queue,omitempty"`
	Group                string   `json:"group,omitempty"`
	AllowFailure         bool     `json:"allowFailure,omitempty"`
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is a duration such as 5m, after which a run is stopped and counted as failed.
	Timeout string `json:"timeout,omitempty"`
}

// The types of changes that a kubernetes binding can select.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// Kubernetes selects objects of one kind and the changes that start a run.
type Kubernetes struct {
	Name       string `json:"name,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	// ExecuteHookOnEvent lists the changes that start a run: nil means all, an empty list none.
	ExecuteHookOnEvent           []string           `json:"executeHookOnEvent,omitzero"`
	ExecuteHookOnSynchronization *bool              `json:"executeHookOnSynchronization,omitempty"`
	WaitForSynchronization       *bool              `json:"waitForSynchronization,omitempty"`
	KeepFullObjectsInMemory      *bool              `json:"keepFullObjectsInMemory,omitempty"`
	JqFilter                     string             `json:"jqFilter,omitempty"`
	NameSelector                 *NameSelector      `json:"nameSelector,omitempty"`
	LabelSelector                *LabelSelector     `json:"labelSelector,omitempty"`
	FieldSelector                *FieldSelector     `json:"fieldSelector,omitempty"`
	Namespace                    *NamespaceSelector `json:"namespace,omitempty"`
	// ResynchronizationPeriod is a duration such as 1h; empty means never.
	ResynchronizationPeriod string   `json:"resynchronizationPeriod,omitempty"`
	Queue                   string   `json:"queue,omitempty"`
	Group                   string   `json:"group,omitempty"`
	AllowFailure            bool     `json:"allowFailure,omitempty"`
	IncludeSnapshotsFrom    []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is a duration such as 5m, after which a run is stopped and counted as failed.
	Timeout string `json:"timeout,omitempty"`
}

// NameSelector selects objects by name.
type NameSelector struct {
	MatchNames []string `json:"matchNames"`
}

// LabelSelector selects by labels, as everywhere in Kubernetes.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is one expression of a LabelSelector.
type LabelRequirement struct {
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist. The latter two have no values.
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// FieldSelector selects objects by the values of fields that the API server supports for this.
type FieldSelector struct {
	MatchExpressions []FieldRequirement `json:"matchExpressions"`
}

// FieldRequirement is one expression of a FieldSelector.
type FieldRequirement struct {
	Field string `json:"field"`
	// Operator is = or !=.
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

// NamespaceSelector selects namespaces: by name, or else by labels.
type NamespaceSelector struct {
	NameSelector  *NameSelector  `json:"nameSelector,omitempty"`
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
}

// Admission makes the API server call the hook before it accepts matching requests.
type Admission struct {
	// Name is a domain name of at least three labels.
	Name string `json:"name"`
	// Rules select the requests; at least one is needed.
	Rules []Rule `json:"rules"`
	// FailurePolicy is Fail or Ignore, SideEffects None or NoneOnDryRun.
	FailurePolicy string `json:"failurePolicy,omitempty"`
	SideEffects   string `json:"sideEffects,omitempty"`
	// TimeoutSeconds is from 1 to 30; 0 means the operator's default.
	TimeoutSeconds  int              `json:"timeoutSeconds,omitempty"`
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
	// LabelSelector matches the labels of the object, Namespace those of its namespace.
	LabelSelector        *LabelSelector   `json:"labelSelector,omitempty"`
	Namespace            *NamespaceLabels `json:"namespace,omitempty"`
	Group                string           `json:"group,omitempty"`
	IncludeSnapshotsFrom []string         `json:"includeSnapshotsFrom,omitempty"`
}

// NamespaceLabels selects namespaces by labels.
type NamespaceLabels struct {
	LabelSelector *LabelSelector `json:"labelSelector"`
}

// Rule selects requests for an admission binding; "*" matches any value.
type Rule struct {
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
	// Operations are CREATE, UPDATE, DELETE and CONNECT.
	Operations []string `json:"operations"`
	// Scope is Cluster, Namespaced or *; empty matches any.
	Scope string `json:"scope,omitempty"`
}

// MatchCondition is a CEL expression that must be true for a request that calls the hook.
type MatchCondition struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// Conversion converts objects of a custom resource between versions.
type Conversion struct {
	Name string `json:"name"`
	// CRDName is the name of the CustomResourceDefinition, PLURAL.GROUP.
	CRDName              string           `json:"crdName"`
	Conversions          []ConversionStep `json:"conversions"`
	Group                string           `json:"group,omitempty"`
	IncludeSnapshotsFrom []string         `json:"includeSnapshotsFrom,omitempty"`
}

// ConversionStep converts one version to another, each VERSION or GROUP/VERSION.
type ConversionStep struct {
	FromVersion string `json:"fromVersion"`
	ToVersion   string `json:"toVersion"`
}

// Settings limits how often and how long a hook runs.
type Settings struct {
	// ExecutionMinInterval is a duration such as 30s, the interval in which one run is allowed.
	ExecutionMinInterval string `json:"executionMinInterval,omitempty"`
	// ExecutionBurst is the number of runs that can start without a wait before the limit applies; 0 means 1.
	ExecutionBurst int `json:"executionBurst,omitempty"`
	// Timeout is a duration such as 5m, the timeout of runs whose binding sets none.
	Timeout string `json:"timeout,omitempty"`
}
