package steps

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// elements returns the binding context of t: an element for each task of its batch. Objects and
// snapshots are current at each attempt, and the same in all elements.
func (s *hookStep) elements(t workflow.Task, config hook.Config, out *hookOutput) ([]hook.Element, error) {
	look := snapshotReader{snapshotsOf: s.bindings.snapshots, module: t.Subject.Module, hook: t.Subject.Hook, config: config, ids: config.BindingIDs()}
	if s.binding != "" {
		e := hook.Element{Binding: s.binding, Legacy: config.Legacy()}
		if s.node.Has(lifecycle.SnapshotsAll) && !e.Legacy {
			e.Snapshots = look.snapshots(config.SnapshotNames())
			if e.Snapshots == nil {
				e.Snapshots = map[string][]hook.Item{}
			}
		}
		return []hook.Element{e}, nil
	}
	if s.node.Has(lifecycle.Objects) {
		e, err := look.synchronization(t.Subject.Binding, out)
		return []hook.Element{e}, err
	}
	elements := make([]hook.Element, 0, len(t.Batch))
	for _, task := range t.Batch {
		e, err := look.event(task)
		if err != nil && !errors.Is(err, hook.ErrGone) {
			return nil, err
		}
		if err == nil {
			elements = append(elements, e)
		}
	}
	if len(elements) == 0 {
		return nil, look.gone(t.Subject.Binding)
	}
	return elements, nil
}

// A snapshotReader reads each snapshot of a hook's bindings once.
type snapshotReader struct {
	snapshotsOf  Snapshots
	module, hook string
	config       hook.Config
	ids          hook.BindingIDs
	seen         map[int]snapshot // by the number of the binding
}

// A snapshot has the objects of one binding.
type snapshot struct {
	objects []*kube.Object
	items   []hook.Item
}

// read returns the snapshot of the i-th kubernetes binding.
func (l *snapshotReader) read(i int) snapshot {
	if seen, ok := l.seen[i]; ok {
		return seen
	}
	if l.seen == nil {
		l.seen = map[int]snapshot{}
	}
	b := l.config.Kubernetes[i]
	seen := snapshot{objects: l.snapshotsOf.Snapshot(graph.Subject{Module: l.module, Hook: l.hook, Binding: l.ids.Kubernetes[i]})}
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

// snapshots returns the snapshots of the bindings with these names; nil if there are no names.
func (l *snapshotReader) snapshots(names []string) map[string][]hook.Item {
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

// synchronization returns the element that delivers all objects to the binding id. It records their
// versions in out.
func (l *snapshotReader) synchronization(id string, out *hookOutput) (hook.Element, error) {
	i := slices.Index(l.ids.Kubernetes, id)
	if i < 0 {
		return hook.Element{}, l.gone(id)
	}
	b := l.config.Kubernetes[i]
	e := hook.Element{
		Binding: b.Name, Type: hook.TypeSynchronization, Group: b.Group,
		Objects: l.read(i).items, Snapshots: l.snapshots(b.IncludeSnapshotsFrom),
	}
	out.Observed = map[string]map[string]observed{}
	for j := range l.config.Kubernetes {
		if b.Group == "" && j == i || l.stands(b, j) {
			out.Observed[l.ids.Kubernetes[j]] = versions(l.read(j).objects)
		}
	}
	return e, nil
}

// stands reports whether the run for b also delivers the snapshot of the j-th binding and replaces
// its run: both have the same group and queue, and the name of the j-th binding refers to it.
func (l *snapshotReader) stands(b hook.KubernetesBinding, j int) bool {
	other := l.config.Kubernetes[j]
	first, _ := l.config.KubernetesNamed(other.Name)
	return b.Group != "" && other.Group == b.Group && other.Queue == b.Queue && first == j
}

// versions returns the versions of objects by namespace and name.
func versions(objects []*kube.Object) map[string]observed {
	out := make(map[string]observed, len(objects))
	for _, o := range objects {
		out[o.Namespace+"/"+o.Name] = observed{UID: o.UID, ResourceVersion: o.ResourceVersion}
	}
	return out
}

// event returns the element for one event of the cluster, or one schedule tick.
func (l *snapshotReader) event(t *store.Task) (hook.Element, error) {
	id := t.Subject.Binding
	for i, b := range l.config.Schedule {
		if l.ids.Schedule[i] == id {
			return hook.Element{
				Binding: b.Name, Type: hook.TypeSchedule, Group: b.Group, Legacy: b.Legacy,
				Snapshots: l.snapshots(b.IncludeSnapshotsFrom),
			}, nil
		}
	}
	for i, b := range l.config.Kubernetes {
		if l.ids.Kubernetes[i] != id || t.Object == nil {
			continue
		}
		e := hook.Element{
			Binding: b.Name, Type: hook.TypeEvent, Group: b.Group, WatchEvent: t.Object.Event,
			Snapshots: l.snapshots(b.IncludeSnapshotsFrom), Legacy: b.Legacy,
			Named: hook.Named{Kind: t.Object.Kind, Namespace: t.Object.Namespace, Name: t.Object.Name},
		}
		if err := json.Unmarshal(t.Payload, &e.Item); err != nil {
			return e, fmt.Errorf("the event of task %s: %w", t.ID, err)
		}
		return e, nil
	}
	return hook.Element{}, l.gone(id)
}

func (l *snapshotReader) gone(id string) error {
	return fmt.Errorf("binding %q of hook %s %w", id, graph.Subject{Module: l.module, Hook: l.hook}, hook.ErrGone)
}
