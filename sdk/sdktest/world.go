package sdktest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/internal/hook"
)

// event is a change of an object that the hook has not been told of.
type event struct {
	binding int // its number among the kubernetes bindings
	kind    string
	item    hook.Item
	named   hook.Named
}

// Put creates objects, or replaces those that exist: documents of YAML or JSON. [Test.Events] tells the hook of it.
func (t *Test) Put(text string) {
	t.t.Helper()
	parsed, err := parseObjects(text)
	if err != nil {
		t.t.Fatalf("objects: %v", err)
	}
	for _, object := range parsed {
		read, err := normal(object)
		if err != nil {
			t.t.Fatalf("objects: %v", err)
		}
		t.put(read)
	}
}

// Remove deletes an object, which must exist. Its kind is as in a config; namespace is empty for what is in none.
func (t *Test) Remove(kind, namespace, name string) {
	t.t.Helper()
	object := t.objects.find("", kind, namespace, name)
	if object == nil {
		t.t.Fatalf("there is no %s %s/%s to remove", kind, namespace, name)
	}
	t.remove(idOf(object))
}

// Object returns an object as it is now, nil where there is none.
func (t *Test) Object(kind, namespace, name string) map[string]any {
	object := t.objects.find("", kind, namespace, name)
	if object == nil {
		return nil
	}
	return object.DeepCopy().Object
}

func (t *Test) put(object *unstructured.Unstructured) {
	t.objects.put(object)
	t.notice(idOf(object), object)
}

func (t *Test) remove(key id) {
	t.objects.remove(key)
	t.notice(key, nil)
}

// notice has all bindings look at an object that changed; nil is one that is gone.
func (t *Test) notice(key id, object *unstructured.Unstructured) {
	for i, s := range t.bindingSnapshots {
		kind, item, err := s.change(t.t.Context(), key, object)
		if err != nil {
			t.t.Logf("binding %s keeps %s %s/%s as it was: %v", s.binding.Name, key.kind, key.namespace, key.name, err)
		}
		for _, asked := range s.binding.Events {
			if asked == kind {
				t.pending = append(t.pending, event{i, kind, item, hook.Named{Kind: key.kind, Namespace: key.namespace, Name: key.name}})
			}
		}
		if key.kind == "Namespace" && key.group == "" && s.namespaces != nil {
			t.relook(s)
		}
	}
}

// relook takes in that other namespaces are selected now. Their objects come and go without events.
func (t *Test) relook(s *bindingSnapshot) {
	clear(s.seen)
	for _, object := range t.objects.all {
		if _, _, err := s.change(t.t.Context(), idOf(object), object); err != nil {
			t.t.Logf("binding %s: %v", s.binding.Name, err)
		}
	}
}
