package triggers

import (
	"encoding/json"
	"fmt"
	"slices"

	"addon-operator/internal/hook"
	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/lifecycle"
)

// tellAll tells changes of source in pieces; last is done with the last one.
func (r *receiver) tellAll(source kube.Source, changes []kube.Change, last func(*store.Tx) error) error {
	for {
		piece := changes[:pieceLength(changes)]
		changes = changes[len(piece):]
		if err := r.db.Update(func(tx *store.Tx) error {
			var events []workflow.Event
			for _, c := range piece {
				more, err := r.move(tx, source, c)
				if err != nil {
					return err
				}
				events = append(events, more...)
			}
			if len(changes) == 0 {
				if err := last(tx); err != nil {
					return err
				}
			}
			return r.raise(tx, events...)
		}); err != nil {
			return err
		}
		if len(changes) == 0 {
			return nil
		}
	}
}

// pieceLength returns how many of changes go into one transaction.
func pieceLength(changes []kube.Change) int {
	events := 0
	for i, c := range changes {
		if events += 1 + len(c.Owners); events > pieceEvents && i > 0 {
			return i
		}
	}
	return len(changes)
}

// move moves the cursor over one change, and returns the events it is to those
// it concerns. What the cursor says decides what the change is: an object that
// was told of is modified, or not changed at all; another one of that name is a
// deletion and an addition.
func (r *receiver) move(tx *store.Tx, source kube.Source, c kube.Change) ([]workflow.Event, error) {
	o := c.Object
	if o.Unfiltered && c.Type != kube.Deleted {
		return nil, nil
	}
	key := objectKey(cursorKey(kube.View{Source: source, Filter: c.Filter}), o)
	before, known, err := store.Load[told](tx, key)
	if err != nil {
		return nil, err
	}
	if c.Type == kube.Deleted {
		if !known {
			return nil, nil
		}
		tx.Delete(key)
		return r.events(tx, source, c.Owners, kube.Deleted, o)
	}
	if known && before.UID == o.UID && before.Checksum == o.Checksum {
		return nil, nil
	}
	if err := store.Save(tx, key, tell(o)); err != nil {
		return nil, err
	}
	if known && before.UID == o.UID {
		return r.events(tx, source, c.Owners, kube.Modified, o)
	}
	var events []workflow.Event
	if known {
		old, err := remembered(key, before, source)
		if err != nil {
			return nil, err
		}
		if events, err = r.events(tx, source, c.Owners, kube.Deleted, old); err != nil {
			return nil, err
		}
	}
	added, err := r.events(tx, source, c.Owners, kube.Added, o)
	return append(events, added...), err
}

// events returns the events of a change for those of owners that are attached
// and want it.
func (r *receiver) events(tx *store.Tx, source kube.Source, owners []string, change kube.ChangeType, o *kube.Object) ([]workflow.Event, error) {
	var events []workflow.Event
	for _, name := range owners {
		s := SubjectOf(name)
		b, ok, err := store.Load[store.Binding](tx, store.BindingKey(s.Module, s.Hook, s.Binding))
		if err != nil {
			return nil, err
		}
		if !ok || b.Detached || b.Kind != store.Kubernetes {
			continue
		}
		var c hook.KubernetesBinding
		if err := json.Unmarshal(b.Config, &c); err != nil {
			return nil, fmt.Errorf("binding %s in the store: %w", s.Binding, err)
		}
		if !slices.Contains(c.Events, string(change)) {
			continue
		}
		ev, err := kubeEvent(s, b, c, source, change, o)
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	return events, nil
}

func kubeEvent(s store.Subject, b store.Binding, c hook.KubernetesBinding, source kube.Source, change kube.ChangeType, o *kube.Object) (workflow.Event, error) {
	item := hook.Item{FilterResult: o.FilterResult}
	if c.KeepFullObjects {
		item.Object = o.Raw
	}
	payload, err := json.Marshal(item)
	name := o.Name
	if o.Namespace != "" {
		name = o.Namespace + "/" + o.Name
	}
	ev := workflow.Event{
		On: lifecycle.OnModuleKubeEvent, Subject: s, Queue: b.Queue, Payload: payload, Lenient: c.AllowFailure, Alone: c.Legacy,
		Object: &store.ObjectRef{
			Event: string(change), Kind: source.Kind, Namespace: o.Namespace, Name: o.Name, UID: o.UID, ResourceVersion: o.ResourceVersion,
		},
		Cause: store.Cause{Object: source.Kind + " " + name, ResourceVersion: o.ResourceVersion, Event: string(change)},
	}
	if s.Module == "" {
		ev.On = lifecycle.OnGlobalKubeEvent
	}
	return ev, err
}
