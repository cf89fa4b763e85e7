package hook

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/jq"
	"addon-operator/internal/tree"
)

// The changes of an object a kubernetes binding can ask for.
const (
	Added    = "Added"
	Modified = "Modified"
	Deleted  = "Deleted"
)

// KubernetesBinding asks for the objects of one kind, and for runs when they change.
type KubernetesBinding struct {
	// Name is what the binding context calls it; "kubernetes" unless given, and then perhaps not unique.
	Name string `json:"name"`
	// Kind as written: a Kind, a plural or a short name in any case. The API server's discovery decides what it means.
	Kind string `json:"kind"`
	// APIVersion is "" for the version the API server prefers.
	APIVersion string `json:"apiVersion,omitempty"`
	// Events are the changes that start a run, in the order Added, Modified, Deleted. None: the binding fills a snapshot.
	Events []string `json:"executeHookOnEvent"`
	// ExecuteOnSynchronization: one run is told of all objects there are, before the first change is.
	ExecuteOnSynchronization bool `json:"executeHookOnSynchronization"`
	// WaitForSynchronization: what follows in the main queue waits for that run. It says nothing for a binding in main.
	WaitForSynchronization bool `json:"waitForSynchronization"`
	// KeepFullObjects false leaves objects out of memory and of the binding context; filter results remain.
	KeepFullObjects bool `json:"keepFullObjectsInMemory"`
	// JqFilter is "" or a filter that [CompileFilter] takes.
	JqFilter string `json:"jqFilter,omitempty"`
	// NameSelector holds the names to select; empty selects by no name.
	NameSelector  []string              `json:"nameSelector,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
	FieldSelector FieldSelector         `json:"fieldSelector,omitempty"`
	Namespaces    NamespaceSelector     `json:"namespaces,omitzero"`
	// AllowFailure: a failed run counts as a successful one.
	AllowFailure bool   `json:"allowFailure,omitempty"`
	Queue        string `json:"queue"`
	Group        string `json:"group,omitempty"`
	// IncludeSnapshotsFrom names the bindings whose snapshots come with each run, those of its group included.
	IncludeSnapshotsFrom []string `json:"includeSnapshotsFrom,omitempty"`
	// ResynchronizationPeriod is after which time all objects are looked at again, beside being watched; zero is never.
	ResynchronizationPeriod metav1.Duration `json:"resynchronizationPeriod,omitzero"`
	// Timeout is how long one run may take; zero is that of the hook's settings.
	Timeout metav1.Duration `json:"timeout,omitzero"`
	// Legacy: it stood in a config without configVersion. Its changes are told one a run.
	Legacy bool `json:"legacy,omitempty"`
}

// NamespaceSelector chooses namespaces; its zero value chooses all. At most one of its fields is set.
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

// events reads executeHookOnEvent, or its older name where that alone is given.
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

// shortestPeriod bounds what resynchronizing may cost the API server.
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
