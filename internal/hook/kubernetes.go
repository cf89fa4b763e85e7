package hook

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/jq"
	"addon-operator/internal/tree"
)

// The types of changes that a kubernetes binding can select.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// KubernetesBinding selects objects of one kind and the changes that start a run.
type KubernetesBinding struct {
	// Name is the name in the binding context. The default is "kubernetes", which several bindings
	// may have.
	Name string `json:"name"`
	// Kind is the kind as written in the config: a kind, a plural or a short name, in upper or
	// lower case. It is resolved with the discovery data of the API server.
	Kind string `json:"kind"`
	// APIVersion is the version of the kind; "" means the version that the API server prefers.
	APIVersion string `json:"apiVersion,omitempty"`
	// Events are the types of changes that start a run, in the order Added, Modified, Deleted. If
	// there are none, changes only update the snapshot.
	Events []string `json:"executeHookOnEvent"`
	// ExecuteOnSynchronization starts one run with all existing objects before the first change.
	ExecuteOnSynchronization bool `json:"executeHookOnSynchronization"`
	// WaitForSynchronization makes the following tasks of the main queue wait for the
	// Synchronization run. It has no effect for a binding in the main queue.
	WaitForSynchronization bool `json:"waitForSynchronization"`
	// KeepFullObjects keeps full objects in memory and includes them in the binding context. Filter
	// results are always kept.
	KeepFullObjects bool `json:"keepFullObjectsInMemory"`
	// JqFilter is a jq filter, or "" for none.
	JqFilter string `json:"jqFilter,omitempty"`
	// NameSelector contains the names of the selected objects; if it is empty, all names are
	// selected.
	NameSelector  []string              `json:"nameSelector,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	FieldSelector FieldSelector         `json:"fieldSelector,omitempty"`
	Namespaces    NamespaceSelector     `json:"namespaces,omitzero"`
	// AllowFailure treats a failed run as successful.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom contains the names of the kubernetes bindings whose snapshots each run
	// gets, including all bindings of the group.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// ResynchronizationPeriod is the interval at which all objects are listed in addition to the
	// watch; zero means no such lists.
	ResynchronizationPeriod metav1.Duration `json:"resynchronizationPeriod,omitzero"`
	// Timeout is the maximum duration of one run; zero means the timeout of the hook's settings.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy is true for a binding of a config without configVersion. Each run of such a binding
	// gets one change.
	Legacy bool `json:"legacy,omitempty"`
}

// NamespaceSelector selects namespaces by name or by label. The zero value selects all. At most one
// of its fields is set.
type NamespaceSelector struct {
	Names         []string              `json:"names,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// readKubernetesBinding reads one item of the list kubernetes.
func readKubernetesBinding(f field) KubernetesBinding {
	o := f.object("name", "kind", "apiVersion", "executeHookOnEvent", "watchEvent", "executeHookOnSynchronization",
		"waitForSynchronization", "keepFullObjectsInMemory", "jqFilter", "nameSelector", "labelSelector",
		"fieldSelector", "namespace", "allowFailure", "queue", "group", "includeSnapshotsFrom",
		"resynchronizationPeriod", "timeout")
	b := KubernetesBinding{
		Name:                     o.child("name").text("kubernetes"),
		Kind:                     o.need("kind").full(),
		APIVersion:               readAPIVersion(o.child("apiVersion")),
		Events:                   o.events(),
		ExecuteOnSynchronization: o.child("executeHookOnSynchronization").flag(true),
		WaitForSynchronization:   o.child("waitForSynchronization").flag(true),
		KeepFullObjects:          o.child("keepFullObjectsInMemory").flag(true),
		JqFilter:                 readJqFilter(o.child("jqFilter")),
		NameSelector:             readNameSelector(o.child("nameSelector")),
		LabelSelector:            readLabelSelector(o.child("labelSelector")),
		FieldSelector:            readFieldSelector(o.child("fieldSelector")),
		Namespaces:               readNamespaceSelector(o.child("namespace")),
		AllowFailure:             o.child("allowFailure").flag(false),
		Queue:                    o.child("queue").text(MainQueue),
		Group:                    o.child("group").text(""),
		IncludeSnapshotsFrom:     o.child("includeSnapshotsFrom").texts(),
		ResynchronizationPeriod:  metav1.Duration{Duration: readPeriod(o.child("resynchronizationPeriod"))},
		Timeout:                  metav1.Duration{Duration: o.child("timeout").duration()},
	}
	if len(b.NameSelector) > 0 && slices.ContainsFunc(b.FieldSelector, onName) {
		o.child("fieldSelector").fail("metadata.name cannot be selected together with nameSelector; keep one of the two")
	}
	return b
}

func onName(r FieldRequirement) bool { return r.Field == "metadata.name" }

// events reads executeHookOnEvent. If the config has only the older key watchEvent, events reads
// this key.
func (o object) events() []string {
	all := []string{Added, Modified, Deleted}
	newer, older := o.child("executeHookOnEvent"), o.child("watchEvent")
	if !newer.given && !older.given {
		return all
	}
	asked := readEvents(older, all)
	if newer.given {
		asked = readEvents(newer, all)
	}
	return slices.DeleteFunc(all, func(event string) bool { return !slices.Contains(asked, event) })
}

func readEvents(f field, all []string) []string {
	var events []string
	for _, item := range f.list(0) {
		events = append(events, item.oneOf(all...))
	}
	return events
}

// shortestPeriod is the minimum of resynchronizationPeriod. It limits the load on the API server.
const shortestPeriod = time.Second

func readPeriod(f field) time.Duration {
	d := f.duration()
	if d > 0 && d < shortestPeriod {
		f.fail("is %s, must be at least %s", d, shortestPeriod)
	}
	return d
}

func readAPIVersion(f field) string {
	version := f.text("")
	if _, err := schema.ParseGroupVersion(version); err != nil {
		f.fail("is %q, must be VERSION or GROUP/VERSION", tree.Excerpt(version))
	}
	return version
}

func readJqFilter(f field) string {
	filter := f.text("")
	if filter == "" {
		return ""
	}
	if _, err := jq.Compile(filter); err != nil {
		f.fail("%v", err)
	}
	return filter
}
