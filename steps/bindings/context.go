package bindings

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// Snapshots are the snapshots of the kubernetes bindings of all hooks. A subject identifies a binding.
type Snapshots interface {
	// Ready waits until the snapshots of all attached kubernetes bindings of the hook are complete. Its error says
	// which list of objects is missing and why.
	Ready(ctx context.Context, module, hook string) error
	// Snapshot returns the objects in the current snapshot of the binding, by namespace and name. For a binding without
	// a record in the store, it returns no objects. The caller must not change the objects.
	Snapshot(s graph.Subject) []*kube.Object
	// IsComplete reports whether the snapshot of the binding is complete. It does not wait. After a restart, and after
	// a binding was attached, the snapshot is not complete until its objects are listed.
	IsComplete(s graph.Subject) bool
}

// unknownSize is the estimated size in bytes of a snapshot that is not complete. It is larger than the limit of a
// batch, so that a task whose element includes the snapshot has a batch of its own.
const unknownSize = 64 << 20

// A Reader reads the snapshots of the bindings of one hook, each at most once. So all elements of a binding context
// that are built with one Reader show the same snapshots.
type Reader struct {
	snapshotsOf  Snapshots
	module, hook string
	config       hook.Config
	ids          hook.BindingIDs
	attached     map[string]store.Binding // records of the bindings by ID; may be nil
	seen         map[int]snapshot         // snapshots by the index of the kubernetes binding in the configuration
}

// A snapshot has the objects of one binding, and the same objects in the form in which hooks receive them.
type snapshot struct {
	objects []*kube.Object
	items   []hook.Item
	// complete is false if the objects of the binding have not been listed yet.
	complete bool
	size     int // of the encoded items in bytes, estimated; 0 until it is needed
}

// read returns the snapshot of the i-th kubernetes binding.
func (l *Reader) read(i int) snapshot {
	if seen, ok := l.seen[i]; ok {
		return seen
	}
	if l.seen == nil {
		l.seen = map[int]snapshot{}
	}
	b := l.config.Kubernetes[i]
	subject := graph.Subject{Module: l.module, Hook: l.hook, Binding: l.ids.Kubernetes[i]}
	seen := snapshot{complete: l.snapshotsOf.IsComplete(subject)}
	seen.objects = l.snapshotsOf.Snapshot(subject)
	seen.items = make([]hook.Item, 0, len(seen.objects))
	for _, o := range seen.objects {
		item := hook.Item{FilterResult: o.FilterResult}
		if b.KeepFullObjects {
			item.Object = o.Raw
		}
		seen.items = append(seen.items, item)
	}
	l.seen[i] = seen
	return seen
}

// size estimates the size in bytes of the encoded snapshot of the i-th kubernetes binding. The result is unknownSize if
// the snapshot is not complete.
func (l *Reader) size(i int) int {
	seen := l.read(i)
	if !seen.complete {
		return unknownSize
	}
	if seen.size == 0 {
		seen.size = hook.RoughSize(seen.items)
		l.seen[i] = seen
	}
	return seen.size
}

// Snapshots returns the snapshots of the bindings with these names; nil if there are no names. It leaves out names that
// no kubernetes binding has.
func (l *Reader) Snapshots(names []string) map[string][]hook.Item {
	if len(names) == 0 {
		return nil
	}
	out := map[string][]hook.Item{}
	for _, name := range names {
		if i, ok := l.config.KubernetesNamed(name); ok {
			out[name] = l.read(i).items
		}
	}
	return out
}

// Synchronization returns the element that delivers all objects of the binding id to the hook. It also returns the
// versions of the delivered objects: by binding, then by namespace and name. If the hook has no such binding, the error
// wraps [hook.ErrGone].
func (l *Reader) Synchronization(id string) (hook.Element, map[string]map[string]Version, error) {
	i := slices.Index(l.ids.Kubernetes, id)
	if i < 0 {
		return hook.Element{}, nil, l.Gone(id)
	}
	b := l.config.Kubernetes[i]
	e := hook.Element{
		Binding: b.Name, Type: hook.TypeSynchronization, Group: b.Group,
		Objects: l.read(i).items, Snapshots: l.Snapshots(b.IncludeSnapshotsFrom),
	}
	shown := map[string]map[string]Version{}
	for j := range l.config.Kubernetes {
		if b.Group == "" && j == i || l.stands(b, j) {
			shown[l.ids.Kubernetes[j]] = versions(l.read(j).objects)
		}
	}
	return e, shown, nil
}

// stands reports whether the Synchronization of b represents the Synchronization of the j-th binding, and also
// delivers the snapshot of the j-th binding. This is the case if the two bindings have the same group and queue, and
// if no earlier binding has the name of the j-th binding.
func (l *Reader) stands(b hook.KubernetesBinding, j int) bool {
	other := l.config.Kubernetes[j]
	first, _ := l.config.KubernetesNamed(other.Name)
	return b.Group != "" && other.Group == b.Group && other.Queue == b.Queue && first == j
}

// Version identifies an object that was delivered to a hook, and the delivered version.
type Version struct {
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
}

// versions returns the versions of objects. The keys of the map have the form "namespace/name".
func versions(objects []*kube.Object) map[string]Version {
	out := make(map[string]Version, len(objects))
	for _, o := range objects {
		out[o.Namespace+"/"+o.Name] = Version{UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return out
}

// Event returns the element for the task t, which is one event of the cluster or one schedule tick. An event for an
// earlier configuration of its binding gets the form of the current configuration, see current. If the event does not
// exist in this form, if the binding does not subscribe to events of its type any more, or if the binding no longer
// exists, the error wraps [hook.ErrGone]. If the binding subscribes only to the type of a newer event that was
// coalesced with t, the element has this type.
func (l *Reader) Event(t *store.Task) (hook.Element, error) {
	id := t.Subject.Binding
	for i, b := range l.config.Schedule {
		if l.ids.Schedule[i] == id {
			return hook.Element{
				Binding: b.Name, Type: hook.TypeSchedule, Group: b.Group, Legacy: b.Legacy,
				Snapshots: l.Snapshots(b.IncludeSnapshotsFrom),
			}, nil
		}
	}
	for i, b := range l.config.Kubernetes {
		if l.ids.Kubernetes[i] != id || t.Object == nil {
			continue
		}
		event := t.Object.Event
		if !slices.Contains(b.Events, event) { // t was added for an earlier configuration of the binding
			event = t.Object.Coalesced
		}
		if !slices.Contains(b.Events, event) {
			return hook.Element{}, l.outdated(t)
		}
		e := hook.Element{
			Binding: b.Name, Type: hook.TypeEvent, Group: b.Group, WatchEvent: event,
			Snapshots: l.Snapshots(b.IncludeSnapshotsFrom), Legacy: b.Legacy,
			Named: hook.Named{Kind: t.Object.Kind, Namespace: t.Object.Namespace, Name: t.Object.Name},
		}
		if err := json.Unmarshal(t.Payload, &e.Item); err != nil {
			return e, fmt.Errorf("the event of task %s: %w", t.ID, err)
		}
		if l.isEarlier(t) {
			item, exists := l.current(i, t, e.Item)
			if !exists {
				return hook.Element{}, l.outdated(t)
			}
			e.Item = item
		}
		return e, nil
	}
	return hook.Element{}, l.Gone(id)
}

// isEarlier reports whether t is an event for an earlier configuration of its binding, which selected other objects or
// gave the events another content.
func (l *Reader) isEarlier(t *store.Task) bool {
	return t.Object != nil && t.ID.Before(l.attached[t.Subject.Binding].FormChanged)
}

// current returns the item of the event t in the form of the i-th kubernetes binding. The event is for an earlier
// configuration of the binding, and has the item old. An Added or Modified event gets the object from the snapshot. A
// Deleted event has no filter result if the filter has changed. If the old item lacks the object, only the identity of
// the deleted object is known. The result exists is false if the kind of the binding has changed, if the snapshot lacks
// an added or modified object, or if the snapshot has the object of a Deleted event. The last case is possible because
// an object that an earlier selector does not match any more is delivered as deleted.
func (l *Reader) current(i int, t *store.Task, old hook.Item) (item hook.Item, exists bool) {
	attached := l.attached[t.Subject.Binding]
	if t.ID.Before(attached.KindChanged) {
		return item, false
	}
	seen := l.read(i)
	at, found := slices.BinarySearchFunc(seen.objects, t.Object, func(o *kube.Object, ref *store.ObjectRef) int {
		return cmp.Or(cmp.Compare(o.Namespace, ref.Namespace), cmp.Compare(o.Name, ref.Name))
	})
	found = found && seen.objects[at].UID == t.Object.UID
	switch deleted := t.Object.Event == hook.Deleted; {
	case found == deleted:
		return item, false
	case found:
		return seen.items[at], true
	}
	if !t.ID.Before(attached.FilterChanged) {
		item.FilterResult = old.FilterResult
	}
	if b := l.config.Kubernetes[i]; b.KeepFullObjects {
		if item.Object = old.Object; item.Object == nil {
			item.Object = identityOf(b, t.Object)
		}
	}
	return item, true
}

// identityOf returns a Kubernetes object in JSON that has only the kind, the name, the namespace and the uid of o, an
// object of the binding b. It also has the apiVersion if the configuration of b names it.
func identityOf(b hook.KubernetesBinding, o *store.ObjectRef) json.RawMessage {
	type metadata struct {
		Name      string `json:"name"`
		Namespace string `json:"namespace,omitempty"`
		UID       string `json:"uid"`
	}
	text, err := json.Marshal(struct {
		APIVersion string   `json:"apiVersion,omitempty"`
		Kind       string   `json:"kind"`
		Metadata   metadata `json:"metadata"`
	}{b.APIVersion, o.Kind, metadata{o.Name, o.Namespace, o.UID}})
	if err != nil { // encoding strings never fails
		return nil
	}
	return text
}

// NeedsSnapshots reports whether the element for t, which is an event or a schedule tick, includes snapshots, or an
// object from a snapshot.
func (l *Reader) NeedsSnapshots(t *store.Task) bool {
	_, names := l.included(t)
	return len(names) > 0 || l.isEarlier(t)
}

// included returns the group of the binding of t, which is an event or a schedule tick, and the names of the snapshots
// that the element for t includes.
func (l *Reader) included(t *store.Task) (group string, names []string) {
	id := t.Subject.Binding
	if i := slices.Index(l.ids.Schedule, id); i >= 0 {
		return l.config.Schedule[i].Group, l.config.Schedule[i].IncludeSnapshotsFrom
	}
	if i := slices.Index(l.ids.Kubernetes, id); i >= 0 {
		return l.config.Kubernetes[i].Group, l.config.Kubernetes[i].IncludeSnapshotsFrom
	}
	return "", nil
}

// Added estimates how many bytes the element for next adds to a binding context, in addition to the payload of next:
// the size of the snapshots that the element includes. If the binding of next has no group, and next is an event for an
// earlier configuration of the binding, Added adds the size of the object from the snapshot. The size of a snapshot
// that is not complete is unknownSize. The tasks are events or schedule ticks. The argument last is the task before
// next; nil if next is the first one. If both belong to the same group, the element for next replaces the element for
// last; see [hook.Compact].
func (l *Reader) Added(last, next *store.Task) int {
	group, names := l.included(next)
	size := l.sizeOf(names)
	if group == "" {
		return size + l.currentSize(next)
	}
	if last == nil {
		return size
	}
	if other, replaced := l.included(last); other == group {
		size -= l.sizeOf(replaced)
	}
	return size
}

// currentSize estimates the size in bytes of the object that the element for t gets from a snapshot; see current.
func (l *Reader) currentSize(t *store.Task) int {
	i := slices.Index(l.ids.Kubernetes, t.Subject.Binding)
	if i < 0 || !l.isEarlier(t) {
		return 0
	}
	if !l.read(i).complete {
		return unknownSize
	}
	item, _ := l.current(i, t, hook.Item{})
	return hook.RoughSize([]hook.Item{item})
}

// sizeOf estimates the size in bytes of the encoded snapshots with these names.
func (l *Reader) sizeOf(names []string) (size int) {
	for _, name := range names {
		if i, ok := l.config.KubernetesNamed(name); ok {
			size += l.size(i)
		}
	}
	return size
}

// Gone returns the error that the hook has no binding with this ID. The error wraps [hook.ErrGone].
func (l *Reader) Gone(id string) error {
	return fmt.Errorf("binding %q of hook %s %w", id, graph.Subject{Module: l.module, Hook: l.hook}, hook.ErrGone)
}

// outdated returns the error that the event of t does not exist in the form of its binding's current configuration. The
// error wraps [hook.ErrGone].
func (l *Reader) outdated(t *store.Task) error {
	name := t.Object.Name
	if t.Object.Namespace != "" {
		name = t.Object.Namespace + "/" + name
	}
	return fmt.Errorf("the earlier configuration of binding %q of hook %s, for which the event of %s %s was added, %w",
		t.Subject.Binding, graph.Subject{Module: l.module, Hook: l.hook}, t.Object.Kind, name, hook.ErrGone)
}

// Reviewed returns the name of the webhook binding with this ID, and the names of the bindings whose snapshots must be
// in the binding context of the review. The argument t is the type of the review request. If the hook has no such
// binding, the error wraps [hook.ErrGone].
func (l *Reader) Reviewed(t hook.Type, id string) (name string, include []string, err error) {
	admissions := func(ids []string, bindings []hook.AdmissionBinding) bool {
		for i, b := range bindings {
			if ids[i] == id {
				name, include = b.Name, b.IncludeSnapshotsFrom
				return true
			}
		}
		return false
	}
	found := false
	switch t {
	case hook.TypeValidating:
		found = admissions(l.ids.Validating, l.config.Validating)
	case hook.TypeMutating:
		found = admissions(l.ids.Mutating, l.config.Mutating)
	default:
		for i, b := range l.config.Conversion {
			if l.ids.Conversion[i] == id {
				name, include, found = b.Name, b.IncludeSnapshotsFrom, true
			}
		}
	}
	if !found {
		return "", nil, l.Gone(id)
	}
	return name, include, nil
}
