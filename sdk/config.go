package sdk

import "encoding/json"

// Config is the configuration of a hook. The page docs/reference/hook-config.md describes its format. Nil and empty
// fields are omitted, so that the defaults of the operator apply. The expressions new(10) and new(false) return
// values for pointer fields.
type Config struct {
	// The ordered bindings. The value of a binding is the order of the hook: the hooks of one step run from the lowest
	// to the highest order. A module hook must not set BeforeAll or AfterAll. A global hook must not set a binding
	// whose name contains Helm.
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

	// Settings limits how often and how long the hook runs. If Settings is nil, only the timeouts of the bindings and
	// the operator's flag --hook-timeout apply.
	Settings *Settings `json:"settings,omitempty"`
}

// MarshalJSON encodes the configuration as a hook prints it, with the key configVersion.
func (c Config) MarshalJSON() ([]byte, error) {
	type fields Config // without this method
	return json.Marshal(struct {
		Version string `json:"configVersion"`
		fields
	}{"v1", fields(c)})
}

// Schedule is a binding that runs the hook on a schedule.
type Schedule struct {
	Name string `json:"name,omitempty"`
	// Crontab is a cron expression with five fields, a cron expression with a field for seconds before these five, or
	// a descriptor such as @hourly.
	Crontab              string   `json:"crontab"`
	Queue                string   `json:"queue,omitempty"`
	Group                string   `json:"group,omitempty"`
	AllowFailure         bool     `json:"allowFailure,omitempty"`
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is a duration such as "5m". A run of this binding that lasts longer is stopped and fails.
	Timeout string `json:"timeout,omitempty"`
}

// The types of changes that a kubernetes binding can select.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// Kubernetes is a binding that selects objects of one kind, and the changes of these objects that run the hook.
type Kubernetes struct {
	Name       string `json:"name,omitempty"`
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind"`
	// ExecuteHookOnEvent lists the types of changes that run the hook. Nil means all types, and an empty list means
	// none.
	ExecuteHookOnEvent           []string           `json:"executeHookOnEvent,omitzero"`
	ExecuteHookOnSynchronization *bool              `json:"executeHookOnSynchronization,omitempty"`
	WaitForSynchronization       *bool              `json:"waitForSynchronization,omitempty"`
	KeepFullObjectsInMemory      *bool              `json:"keepFullObjectsInMemory,omitempty"`
	JqFilter                     string             `json:"jqFilter,omitempty"`
	NameSelector                 *NameSelector      `json:"nameSelector,omitempty"`
	LabelSelector                *LabelSelector     `json:"labelSelector,omitempty"`
	FieldSelector                *FieldSelector     `json:"fieldSelector,omitempty"`
	Namespace                    *NamespaceSelector `json:"namespace,omitempty"`
	// ResynchronizationPeriod is a duration such as "1h". In each period, all objects are checked again for changes;
	// empty means never.
	ResynchronizationPeriod string   `json:"resynchronizationPeriod,omitempty"`
	Queue                   string   `json:"queue,omitempty"`
	Group                   string   `json:"group,omitempty"`
	AllowFailure            bool     `json:"allowFailure,omitempty"`
	IncludeSnapshotsFrom    []string `json:"includeSnapshotsFrom,omitempty"`
	// Timeout is a duration such as "5m". A run of this binding that lasts longer is stopped and fails.
	Timeout string `json:"timeout,omitempty"`
}

// NameSelector selects objects by name.
type NameSelector struct {
	MatchNames []string `json:"matchNames"`
}

// LabelSelector selects objects by labels, as a LabelSelector in the Kubernetes API does.
type LabelSelector struct {
	MatchLabels      map[string]string  `json:"matchLabels,omitempty"`
	MatchExpressions []LabelRequirement `json:"matchExpressions,omitempty"`
}

// LabelRequirement is one expression of a LabelSelector.
type LabelRequirement struct {
	Key string `json:"key"`
	// Operator is In, NotIn, Exists or DoesNotExist. With Exists and DoesNotExist, Values must be empty.
	Operator string   `json:"operator"`
	Values   []string `json:"values,omitempty"`
}

// FieldSelector selects objects by the values of fields. The API server supports only a few fields of each kind.
type FieldSelector struct {
	MatchExpressions []FieldRequirement `json:"matchExpressions"`
}

// FieldRequirement is one expression of a FieldSelector.
type FieldRequirement struct {
	Field string `json:"field"`
	// Operator is "=" or "!=".
	Operator string `json:"operator"`
	Value    string `json:"value"`
}

// NamespaceSelector selects the namespaces of objects by name or by labels. If LabelSelector is set, NameSelector is
// ignored.
type NamespaceSelector struct {
	NameSelector  *NameSelector  `json:"nameSelector,omitempty"`
	LabelSelector *LabelSelector `json:"labelSelector,omitempty"`
}

// Admission is a binding that makes the API server call the hook before the API server accepts a matching request.
type Admission struct {
	// Name is the name of the webhook: a domain name with at least three parts, such as "pods.example.com".
	Name string `json:"name"`
	// Rules select the requests for which the hook is called. At least one rule is required.
	Rules []Rule `json:"rules"`
	// FailurePolicy is "Fail" or "Ignore". SideEffects is "None" or "NoneOnDryRun".
	FailurePolicy string `json:"failurePolicy,omitempty"`
	SideEffects   string `json:"sideEffects,omitempty"`
	// TimeoutSeconds is from 1 to 30; 0 means the operator's default.
	TimeoutSeconds  int              `json:"timeoutSeconds,omitempty"`
	MatchConditions []MatchCondition `json:"matchConditions,omitempty"`
	// LabelSelector selects requests by the labels of their object. Namespace selects requests by the labels of the
	// namespace of their object.
	LabelSelector        *LabelSelector   `json:"labelSelector,omitempty"`
	Namespace            *NamespaceLabels `json:"namespace,omitempty"`
	Group                string           `json:"group,omitempty"`
	IncludeSnapshotsFrom []string         `json:"includeSnapshotsFrom,omitempty"`
}

// NamespaceLabels selects namespaces by labels.
type NamespaceLabels struct {
	LabelSelector *LabelSelector `json:"labelSelector"`
}

// Rule selects requests for an admission binding. In its lists, "*" matches any value.
type Rule struct {
	APIGroups   []string `json:"apiGroups"`
	APIVersions []string `json:"apiVersions"`
	Resources   []string `json:"resources"`
	// Operations are some of "CREATE", "UPDATE", "DELETE" and "CONNECT".
	Operations []string `json:"operations"`
	// Scope is "Cluster", "Namespaced" or "*"; empty means "*".
	Scope string `json:"scope,omitempty"`
}

// MatchCondition is a CEL expression that the API server evaluates for a request. The API server calls the hook only if
// the expression is true.
type MatchCondition struct {
	Name       string `json:"name"`
	Expression string `json:"expression"`
}

// Conversion is a binding with which the hook converts objects of a custom resource between versions.
type Conversion struct {
	Name string `json:"name"`
	// CRDName is the name of the CustomResourceDefinition, in the form PLURAL.GROUP.
	CRDName              string           `json:"crdName"`
	Conversions          []ConversionStep `json:"conversions"`
	Group                string           `json:"group,omitempty"`
	IncludeSnapshotsFrom []string         `json:"includeSnapshotsFrom,omitempty"`
}

// ConversionStep is a conversion from one version to another that the hook can do. The form of a version is VERSION
// or GROUP/VERSION.
type ConversionStep struct {
	FromVersion string `json:"fromVersion"`
	ToVersion   string `json:"toVersion"`
}

// Settings limits how often and how long a hook runs.
type Settings struct {
	// ExecutionMinInterval is a duration such as "30s". On average, at most one run for events or ticks starts in each
	// interval; further events and ticks are deferred. Runs for ordered bindings and for Synchronization count towards
	// the limit, but are not deferred. Runs for reviews of the API server are neither counted nor deferred.
	ExecutionMinInterval string `json:"executionMinInterval,omitempty"`
	// ExecutionBurst is the number of runs that can start in succession before ExecutionMinInterval delays further
	// runs; 0 means 1.
	ExecutionBurst int `json:"executionBurst,omitempty"`
	// Timeout is a duration such as "5m". It is the timeout of runs whose binding sets no timeout. If Timeout is empty,
	// the operator's flag --hook-timeout applies.
	Timeout string `json:"timeout,omitempty"`
}
