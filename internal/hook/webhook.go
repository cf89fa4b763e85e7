package hook

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	validationfield "k8s.io/apimachinery/pkg/util/validation/field"

	"addon-operator/internal/tree"
)

// These are the limits and the default of the timeout of a webhook, in seconds.
const (
	minTimeout     = 1
	maxTimeout     = 30
	defaultTimeout = 10
)

// AdmissionBinding runs the hook for requests to the API server, before the API server accepts them. A
// kubernetesValidating hook allows or denies the request. A kubernetesMutating hook can also change the object of the
// request.
type AdmissionBinding struct {
	// Name is the name of the binding in the binding context, and the name of the webhook in messages of the API
	// server. It is a domain name of at least three labels.
	Name string `json:"name"`
	// Rules select the requests. A rule for which the config has no scope matches any scope.
	Rules []admissionv1.RuleWithOperations `json:"rules"`
	// FailurePolicy says what the API server does with a request if it gets no valid response.
	FailurePolicy admissionv1.FailurePolicyType `json:"failurePolicy"`
	SideEffects   admissionv1.SideEffectClass   `json:"sideEffects"`
	// TimeoutSeconds is the maximum time that the API server waits for the response. The hook is stopped shortly before
	// the end of this time, so that the API server still gets a response.
	TimeoutSeconds  int                          `json:"timeoutSeconds"`
	MatchConditions []admissionv1.MatchCondition `json:"matchConditions,omitempty"`
	// Objects selects requests by the labels of their object, and Namespaces selects them by the labels of the
	// namespace of the object. A nil selector selects all requests.
	Objects    *metav1.LabelSelector `json:"objects,omitempty"`
	Namespaces *metav1.LabelSelector `json:"namespaces,omitempty"`
	Group      string                `json:"group,omitempty"`
	// IncludeSnapshotsFrom contains the names of the kubernetes bindings whose snapshots the hook gets in each run for
	// this binding. It includes the names of all kubernetes bindings of the group.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
}

// ConversionBinding runs the hook to convert objects of a custom resource from one version to another.
type ConversionBinding struct {
	// Name is the name of the binding in the binding context.
	Name string `json:"name"`
	// CRDName is the name of the CustomResourceDefinition, which is PLURAL.GROUP.
	CRDName              string       `json:"crdName"`
	Conversions          []Conversion `json:"conversions"`
	Group                string       `json:"group,omitempty"`
	IncludeSnapshotsFrom []string     `json:"includeSnapshotsFrom,omitempty"`
}

// Conversion is a conversion from one version to another that the hook can do. Each version is VERSION or
// GROUP/VERSION, as it is in the config.
type Conversion struct {
	FromVersion string `json:"fromVersion"`
	ToVersion   string `json:"toVersion"`
}

// webhooks reads the admission and conversion bindings of a config into c.
func (o object) webhooks(c *Config) {
	c.Validating = readAdmission(o.child("kubernetesValidating"))
	c.Mutating = readAdmission(o.child("kubernetesMutating"))
	for _, item := range o.child("kubernetesCustomResourceConversion").list(1) {
		c.Conversion = append(c.Conversion, readConversionBinding(item))
	}
}

// readAdmission reads a list of admission bindings. Their names must differ, because the API server
// identifies webhooks by name.
func readAdmission(f field) []AdmissionBinding {
	var bindings []AdmissionBinding
	for _, item := range f.list(1) {
		b := readAdmissionBinding(item)
		if slices.ContainsFunc(bindings, func(other AdmissionBinding) bool { return b.Name != "" && other.Name == b.Name }) {
			item.fail("another binding of %s is named %q too; give it a different name", f.path, tree.Excerpt(b.Name))
		}
		bindings = append(bindings, b)
	}
	return bindings
}

func readAdmissionBinding(f field) AdmissionBinding {
	o := f.object("name", "rules", "failurePolicy", "sideEffects", "timeoutSeconds", "matchConditions", "labelSelector",
		"namespace", "group", "includeSnapshotsFrom")
	b := AdmissionBinding{
		Name:                 readDomain(o.need("name")),
		FailurePolicy:        admissionv1.FailurePolicyType(o.child("failurePolicy").oneOf("Fail", "Ignore")),
		SideEffects:          admissionv1.SideEffectClass(o.child("sideEffects").oneOf("None", "NoneOnDryRun")),
		TimeoutSeconds:       o.child("timeoutSeconds").integer(minTimeout, defaultTimeout),
		Objects:              readLabelSelector(o.child("labelSelector")),
		Group:                o.child("group").text(""),
		IncludeSnapshotsFrom: o.child("includeSnapshotsFrom").texts(),
	}
	b.FailurePolicy = orDefault(b.FailurePolicy, admissionv1.Fail)
	b.SideEffects = orDefault(b.SideEffects, admissionv1.SideEffectClassNone)
	if b.TimeoutSeconds > maxTimeout {
		o.child("timeoutSeconds").fail("is %d, must be at most %d", b.TimeoutSeconds, maxTimeout)
	}
	for _, item := range o.need("rules").list(1) {
		b.Rules = append(b.Rules, readRule(item))
	}
	for _, item := range o.child("matchConditions").list(0) {
		condition := item.object("name", "expression")
		b.MatchConditions = append(b.MatchConditions, admissionv1.MatchCondition{
			Name: condition.need("name").full(), Expression: condition.need("expression").full(),
		})
	}
	if namespace := o.child("namespace"); namespace.given {
		b.Namespaces = readLabelSelector(namespace.object("labelSelector").need("labelSelector"))
	}
	return b
}

func readRule(f field) admissionv1.RuleWithOperations {
	o := f.object("apiGroups", "apiVersions", "resources", "operations", "scope")
	scope := admissionv1.ScopeType(o.child("scope").oneOf("Cluster", "Namespaced", "*"))
	scope = orDefault(scope, admissionv1.AllScopes)
	r := admissionv1.RuleWithOperations{Rule: admissionv1.Rule{Scope: &scope}}
	for _, item := range o.need("apiGroups").list(1) {
		r.APIGroups = append(r.APIGroups, item.text("")) // "" is the core group
	}
	r.APIVersions = o.need("apiVersions").texts()
	r.Resources = o.need("resources").texts()
	for _, item := range o.need("operations").list(1) {
		r.Operations = append(r.Operations, admissionv1.OperationType(item.oneOf("CREATE", "UPDATE", "DELETE", "CONNECT", "*")))
	}
	return r
}

// readDomain reads the name of an admission webhook, and reports a problem if the name is not valid.
func readDomain(f field) string {
	name := f.full()
	if name == "" {
		return ""
	}
	if wrong := validation.IsFullyQualifiedName(validationfield.NewPath(""), name); len(wrong) > 0 {
		f.fail("is %q, must be a domain name of at least three labels in lower case, such as policy.example.com", tree.Excerpt(name))
	}
	return name
}

func readConversionBinding(f field) ConversionBinding {
	o := f.object("name", "crdName", "conversions", "group", "includeSnapshotsFrom")
	b := ConversionBinding{
		Name:                 o.need("name").full(),
		CRDName:              readCRDName(o.need("crdName")),
		Group:                o.child("group").text(""),
		IncludeSnapshotsFrom: o.child("includeSnapshotsFrom").texts(),
	}
	for _, item := range o.need("conversions").list(1) {
		step := item.object("fromVersion", "toVersion")
		c := Conversion{
			FromVersion: readVersion(step.need("fromVersion"), b.CRDName),
			ToVersion:   readVersion(step.need("toVersion"), b.CRDName),
		}
		if c.FromVersion != "" && b.FullVersion(c.FromVersion) == b.FullVersion(c.ToVersion) {
			item.fail("converts %s to itself", tree.Excerpt(c.FromVersion))
		}
		b.Conversions = append(b.Conversions, c)
	}
	return b
}

// FullVersion returns version, which is a version of the binding's custom resource, as GROUP/VERSION. version may be
// VERSION or GROUP/VERSION.
func (b ConversionBinding) FullVersion(version string) string {
	if strings.Contains(version, "/") {
		return version
	}
	_, group, _ := strings.Cut(b.CRDName, ".")
	return group + "/" + version
}

func readCRDName(f field) string {
	name := f.full()
	plural, group, _ := strings.Cut(name, ".")
	if name != "" && (len(validation.IsDNS1035Label(plural)) > 0 || len(validation.IsDNS1123Subdomain(group)) > 0) {
		f.fail("is %q, must be the name of a CustomResourceDefinition: PLURAL.GROUP", tree.Excerpt(name))
		return ""
	}
	return name
}

// readVersion reads a version of the custom resource whose CustomResourceDefinition has the name crd.
func readVersion(f field, crd string) string {
	text := f.full()
	if text == "" {
		return ""
	}
	group, version, full := strings.Cut(text, "/")
	if !full {
		version = text
	}
	if len(validation.IsDNS1035Label(version)) > 0 {
		f.fail("is %q, must be VERSION or GROUP/VERSION", tree.Excerpt(text))
		return ""
	}
	if _, own, _ := strings.Cut(crd, "."); full && crd != "" && group != own {
		f.fail("is %q, but the group of crdName is %s", tree.Excerpt(text), tree.Excerpt(own))
		return ""
	}
	return text
}

// askedSnapshots calls visit for each admission and conversion binding, with the config key of its list, its index in
// the list, its group and a pointer to its IncludeSnapshotsFrom, which visit may change.
func askedSnapshots(c *Config, visit func(key string, item int, group string, names *[]string)) {
	for i := range c.Validating {
		visit("kubernetesValidating", i, c.Validating[i].Group, &c.Validating[i].IncludeSnapshotsFrom)
	}
	for i := range c.Mutating {
		visit("kubernetesMutating", i, c.Mutating[i].Group, &c.Mutating[i].IncludeSnapshotsFrom)
	}
	for i := range c.Conversion {
		visit("kubernetesCustomResourceConversion", i, c.Conversion[i].Group, &c.Conversion[i].IncludeSnapshotsFrom)
	}
}
