package sdktest

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/internal/hook"
)

// A cluster simulates the cluster of a test. It contains the objects of the test, and the snapshots of the hook's
// bindings.
type cluster struct {
	t         testing.TB
	objects   objects
	snapshots []*bindingSnapshot // one for each kubernetes binding of the hook
	pending   []event
}

// An event is a change of an object that has not been delivered to the hook yet.
type event struct {
	binding int // index of the kubernetes binding in the hook's configuration
	kind    string
	item    hook.Item
	named   hook.Named
}

// newCluster returns a cluster without objects, for the kubernetes bindings of a hook.
func newCluster(t testing.TB, bindings []hook.KubernetesBinding) *cluster {
	t.Helper()
	c := &cluster{t: t}
	for _, binding := range bindings {
		s, err := newBindingSnapshot(binding, &c.objects)
		if err != nil {
			t.Fatalf("binding %s: %v", binding.Name, err)
		}
		c.snapshots = append(c.snapshots, s)
	}
	return c
}

func (c *cluster) put(ctx context.Context, object *unstructured.Unstructured) {
	c.objects.put(object)
	c.deliver(ctx, idOf(object), object)
}

func (c *cluster) remove(ctx context.Context, key id) {
	c.objects.remove(key)
	c.deliver(ctx, key, nil)
}

// deliver updates the snapshots of all bindings to the new state of an object, which is nil if the object was
// deleted. It adds the resulting events to c.pending.
func (c *cluster) deliver(ctx context.Context, key id, object *unstructured.Unstructured) {
	for i, s := range c.snapshots {
		kind, item, err := s.change(ctx, key, object)
		if err != nil {
			c.t.Logf("binding %s keeps %s %s/%s as it was: %v", s.binding.Name, key.kind, key.namespace, key.name, err)
		}
		for _, asked := range s.binding.Events {
			if asked == kind {
				c.pending = append(c.pending, event{i, kind, item, hook.Named{Kind: key.kind, Namespace: key.namespace, Name: key.name}})
			}
		}
		if key.kind == "Namespace" && key.group == "" && s.namespaces != nil {
			c.reselect(ctx, s)
		}
	}
}

// reselect updates the snapshot of a binding after a change of a namespace, whose labels may have changed. Objects that
// are added to the snapshot or removed from it cause no events. An object on which the jqFilter fails keeps its last
// known state.
func (c *cluster) reselect(ctx context.Context, s *bindingSnapshot) {
	for _, object := range c.objects.all {
		if _, _, err := s.change(ctx, idOf(object), object); err != nil {
			c.t.Logf("binding %s: %v", s.binding.Name, err)
		}
	}
}
