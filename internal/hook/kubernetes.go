package hook

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/jq"
	"addon-operator/internal/tree"
)

// The types of changes of objects that a kubernetes binding can select.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// KubernetesBinding selects objects of one kind, and says which changes of these objects run the hook.
type KubernetesBinding struct {
	// Name is the name of the binding in the binding context. The default is "kubernetes", which several bindings may
	// have.
	Name string `json:"name"`
	// Kind is the kind as written in the config: a kind, a plural or a short name, in upper or lower case. The
	// discovery data of the API server says which resource it means.
	Kind string `json:"kind"`
	// APIVersion is the API version of the kind. "" means the version that the API server prefers when the binding is
	// attached. The operator keeps this version as long as the API server serves it.
	APIVersion string `json:"apiVersion,omitempty"`
	// Events are the types of changes that run the hook, in the order Added, Modified, Deleted. If there are none,
	// changes only update the snapshot of the binding.
	Events []string `json:"executeHookOnEvent"`
	// ExecuteOnSynchronization means that the hook runs once with all existing objects before it runs for a change.
	ExecuteOnSynchronization bool `json:"executeHookOnSynchronization"`
	// WaitForSynchronization makes the later tasks in the main queue wait until the hook has run for Synchronization
	// or, if ExecuteOnSynchronization is false, until the snapshot of the binding is complete. It has no effect if
	// Queue is the main queue, where later tasks wait in any case.
	WaitForSynchronization bool `json:"waitForSynchronization"`
	// KeepFullObjects means that full objects are kept in memory and included in the binding context. The results of
	// JqFilter are always kept and included.
	KeepFullObjects bool `json:"keepFullObjectsInMemory"`
	// JqFilter is the jq filter that is applied to each object, or "" if there is none.
	JqFilter string `json:"jqFilter,omitempty"`
	// NameSelector contains the names of the selected objects. If it is empty, objects with any name are selected.
	NameSelector  []string              `json:"nameSelector,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	FieldSelector FieldSelector         `json:"fieldSelector,omitempty"`
	Namespaces    NamespaceSelector     `json:"namespaces,omitzero"`
	// AllowFailure means that a failed run is counted, but not retried.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom contains the names of the kubernetes bindings whose snapshots the hook gets in each run for
	// this binding. It includes the names of all kubernetes bindings of the group.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// ResynchronizationPeriod is the interval at which the operator lists all objects again, in addition to the watch.
	// Zero means that it does not list them again.
	ResynchronizationPeriod metav1.Duration `json:"resynchronizationPeriod,omitzero"`
	// Timeout is the maximum duration of a run for this binding. Zero means the timeout in the settings of the hook.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy is set if the config has no configVersion. The hook then runs separately for each change.
	Legacy bool `json:"legacy,omitempty"`
}

// NamespaceSelector selects namespaces by name or by label. The zero value selects all namespaces. At most one of its
// fields is set.
type NamespaceSelector struct {
	Names         []string              `json:"names,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

// readKubernetesBinding reads one item of the list "kubernetes" in a config.
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
		Queue:                    readQueue(o.child("queue")),
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

// events reads the types of changes from the key executeHookOnEvent, or from the older key watchEvent if only that is
// present. If both are absent, it returns all types.
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

// shortestPeriod is the minimum of a resynchronizationPeriod that is not zero, so that lists do not overload the API
// server.
const shortestPeriod = time.Second

func readPeriod(f field) time.Duration {
	d := f.duration()
	if d > 0 && d < shortestPeriod {
		f.fail("is %s, must be at least %s", d, shortestPeriod)
	}
	return d
}

// readQueue reads the queue of a binding. It rejects queues of the engine in which tasks of hooks must not wait: the
// queue for the last steps of runs that wait for failing modules, the queues in which failing modules are retried, and
// the queues of addons configurations. A binding may name a queue such as parallel-0, in which the engine runs modules
// in parallel.
func readQueue(f field) string {
	const parked, retried, configuration = "after failing modules", "parallel-module-", "configuration/"
	queue := f.text(MainQueue)
	if queue == parked || strings.HasPrefix(queue, retried) || strings.HasPrefix(queue, configuration) {
		f.fail("is %q, must not be %q, and not begin with %q or %q: the operator uses these queues itself",
			tree.Excerpt(queue), parked, retried, configuration)
	}
	return queue
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
