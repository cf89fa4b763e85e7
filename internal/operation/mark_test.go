package operation

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"

	"addon-operator/internal/kube"
)

// objectOf returns the object with this JSON.
func objectOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return object
}

// writtenBy adds an entry to the managedFields of object.
func writtenBy(object *unstructured.Unstructured, manager, subresource string, how metav1.ManagedFieldsOperationType) {
	object.SetManagedFields(append(object.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: manager, Operation: how, Subresource: subresource,
	}))
}

const deploymentA = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"5","generation":2},
	"spec":{"replicas":1},"status":{"replicas":1}}`

func TestWriteOfTheOperatorIsFoundAmongManagedFields(t *testing.T) {
	t.Parallel()
	type entry struct {
		manager, subresource string
		how                  metav1.ManagedFieldsOperationType
	}
	const ours, update = "addon-operator", metav1.ManagedFieldsOperationUpdate
	for name, c := range map[string]struct {
		entries []entry
		want    bool
	}{
		"no entries":                            {},
		"only other managers":                   {[]entry{{"kubectl", "", update}}, false},
		"a write of the operator":               {[]entry{{"kubectl", "", update}, {ours, "", update}}, true},
		"a server-side apply is no write of it": {[]entry{{ours, "", metav1.ManagedFieldsOperationApply}}, false},
		"a write to a subresource":              {[]entry{{ours, "status", update}}, false},
	} {
		object := objectOf(t, deploymentA)
		for _, e := range c.entries {
			writtenBy(object, e.manager, e.subresource, e.how)
		}
		if got := isWritten(object); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestChecksumOfAnObjectIgnoresOnlyTheFieldsThatTheServerChanges(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]struct{ object, status bool }{ // whether the change alters the checksum for a patch of the object, and the checksum for a patch of its status
		`"metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"6","generation":3,"managedFields":[]}`: {false, false},
		`"metadata":{"name":"a","namespace":"n","uid":"u1","resourceVersion":"5","generation":2,"labels":{"x":"y"}}`: {true, true},
		`"metadata":{"name":"a","namespace":"n","uid":"u2","resourceVersion":"5","generation":2}`:                    {true, true},
		`"spec":{"replicas":2}`:   {true, true},
		`"status":{"replicas":2}`: {false, true},
	} {
		before, after := objectOf(t, deploymentA), objectOf(t, deploymentA)
		var fields map[string]any
		if err := json.Unmarshal([]byte("{"+change+"}"), &fields); err != nil {
			t.Fatal(err)
		}
		maps.Copy(after.Object, fields)
		for subresource, changes := range map[string]bool{"": want.object, "status": want.status} {
			target := &target{Operation: Operation{Subresource: subresource}}
			unchanged := after.DeepCopy()
			if got := target.sum(before) != target.sum(after); got != changes {
				t.Errorf("%s, subresource %q: the sum changes: %t, want %t", change, subresource, got, changes)
			}
			if diff := cmp.Diff(unchanged.Object, after.Object); diff != "" {
				t.Errorf("the sum changes the object (-want +got):\n%s", diff)
			}
		}
	}
}

func TestMarkOfAPatchDescribesTheObjectBeforeAndTheSumAfter(t *testing.T) {
	t.Parallel()
	ref := kube.Ref{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "n", Name: "a"}
	target := &target{object: ref}
	live, next := objectOf(t, deploymentA), objectOf(t, deploymentA)
	next.SetLabels(map[string]string{"x": "y"})
	added := &difference{Fields: map[string]*difference{"metadata": {Fields: map[string]*difference{"labels": {Fields: map[string]*difference{"x": {Value: checksum("y")}}}}}}}
	want := Mark{UID: "u1", ResourceVersion: "5", Expected: target.sum(next), Changed: added, Object: ref}
	if diff := cmp.Diff(want, target.mark(live, next)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	onlyStatus := objectOf(t, deploymentA)
	onlyStatus.Object["status"] = map[string]any{"replicas": int64(9)}
	if m := target.mark(live, onlyStatus); m.Expected != "" || m.Changed != nil {
		t.Errorf("a change that the server ignores is expected as %+v", m)
	}
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var stored Mark
	if err := json.Unmarshal(text, &stored); err != nil {
		t.Fatal(err)
	}
	want.Object = kube.Ref{} // Object is not stored, because each attempt resolves it again
	if diff := cmp.Diff(want, stored); diff != "" || strings.Contains(string(text), "Deployment") {
		t.Errorf("stored as %s (-want +got):\n%s", text, diff)
	}
}

func TestAPatchIsRecognizedAsSentByItsSumOrByItsChanges(t *testing.T) {
	t.Parallel()
	// The mark describes a patch that adds a label to version 5. The object has version 9, unless a change sets another
	// version.
	target := &target{}
	next := objectOf(t, deploymentA)
	next.SetLabels(map[string]string{"x": "y"})
	mark := target.mark(objectOf(t, deploymentA), next)
	for name, c := range map[string]struct {
		change func(live *unstructured.Unstructured)
		want   bool
	}{
		"the version is that of the mark": {func(live *unstructured.Unstructured) {
			live.SetResourceVersion("5")
			live.SetLabels(map[string]string{"x": "y"})
		}, false},
		"another object has the name": {func(live *unstructured.Unstructured) {
			live.SetUID("u2")
			live.SetLabels(map[string]string{"x": "y"})
		}, false},
		"the object is as expected": {func(live *unstructured.Unstructured) {
			live.SetLabels(map[string]string{"x": "y"})
		}, true},
		"the object is as expected, and its controller has changed the status": {func(live *unstructured.Unstructured) {
			live.SetLabels(map[string]string{"x": "y"})
			live.Object["status"] = map[string]any{"replicas": int64(4)}
		}, true},
		"another writer has written it after the operator": {func(live *unstructured.Unstructured) {
			live.SetLabels(map[string]string{"x": "y", "theirs": "z"})
		}, true},
		"only another writer has written it": {func(live *unstructured.Unstructured) {
			live.SetLabels(map[string]string{"theirs": "z"})
		}, false},
		"another operation of the operator has written it": {func(live *unstructured.Unstructured) {
			live.SetLabels(map[string]string{"theirs": "z"})
			writtenBy(live, "addon-operator", "", metav1.ManagedFieldsOperationUpdate)
		}, false},
	} {
		live := objectOf(t, deploymentA)
		live.SetResourceVersion("9")
		c.change(live)
		if got := target.isSent(live, mark); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
	live := objectOf(t, deploymentA)
	live.SetResourceVersion("9")
	if target.isSent(live, Mark{UID: "u1", ResourceVersion: "5"}) {
		t.Error("a mark without a sum and without changes matches each later version")
	}
}

func TestAPatchCannotChangeTheIdentityOfItsObject(t *testing.T) {
	t.Parallel()
	want := objectOf(t, deploymentA)
	want.SetLabels(map[string]string{"x": "y"})
	for name, o := range map[string]Operation{
		"JSONPatch": {Type: JSONPatch, JSONPatch: json.RawMessage(`[{"op":"replace","path":"/apiVersion","value":"v1"},{"op":"replace","path":"/kind","value":"Pod"},
			{"op":"replace","path":"/metadata/name","value":"b"},{"op":"remove","path":"/metadata/namespace"},{"op":"replace","path":"/metadata/uid","value":"u2"},
			{"op":"replace","path":"/metadata/resourceVersion","value":"1"},{"op":"add","path":"/metadata/labels","value":{"x":"y"}}]`)},
		"JQPatch": {Type: JQPatch, JQFilter: `{apiVersion: "v1", kind: "Pod", metadata: {name: "b", uid: "u2", generation: .metadata.generation, labels: {x: "y"}}, spec, status}`},
	} {
		live := objectOf(t, deploymentA)
		got, err := (&target{Operation: o}).changed(t.Context(), live)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if diff := cmp.Diff(want.Object, got.Object); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(objectOf(t, deploymentA).Object, live.Object); diff != "" {
			t.Errorf("%s changes the object that was read (-want +got):\n%s", name, diff)
		}
	}
}

func TestAJSONPatchIsSentWithTheVersionOfTheObject(t *testing.T) {
	t.Parallel()
	for patch, want := range map[string]string{
		`[]`: `[{"op":"add","path":"/metadata/resourceVersion","value":"5"}]`,
		`[{"op":"remove","path":"/a"},{"op":"add","path":"/n","value":12345678901234567890}]`: `[{"op":"remove","path":"/a"},{"op":"add","path":"/n","value":12345678901234567890},{"op":"add","path":"/metadata/resourceVersion","value":"5"}]`,
	} {
		got, err := pinned(json.RawMessage(patch), "5")
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", patch, got, err, want)
		}
	}
	if _, err := pinned(json.RawMessage(`{`), "5"); err == nil || err.Error() != "the JSON patch cannot be read" {
		t.Errorf("a damaged patch: %v", err)
	}
}

func TestNullsOfAMergePatchAreDroppedFromTheObjectToCreate(t *testing.T) {
	t.Parallel()
	object := objectOf(t, `{"kind":"ConfigMap","metadata":{"name":"a","creationTimestamp":null},"data":{"k":"v","old":null},"l":[null,{"a":null}],"none":null}`)
	dropNulls(object.Object)
	want := map[string]any{
		"kind": "ConfigMap", "metadata": map[string]any{"name": "a"}, "data": map[string]any{"k": "v"},
		"l": []any{nil, map[string]any{"a": nil}}, // a merge patch replaces whole lists, so a null in a list is a value
	}
	if diff := cmp.Diff(want, object.Object); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnObjectIsCreatedWithTheResolvedKindAndItsOwnNumbers(t *testing.T) {
	t.Parallel()
	target := &target{
		Operation: Operation{Object: json.RawMessage(`{"kind":"deploy","metadata":{"name":"a"},"spec":{"n":12345678901234567890}}`)},
		object:    kube.Ref{APIVersion: "apps/v1", Kind: "Deployment"},
	}
	const want = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"n":12345678901234567890}}`
	if got := string(target.body()); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	target.Object = json.RawMessage(`{"kind":`)
	err := target.create(t.Context(), Attempt{})
	if !IsRefused(err) || err.Error() != "the object cannot be read" {
		t.Errorf("a damaged record of an object: %v", err)
	}
}

func TestOnlyTheDeletionOfTheSameObjectEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		event watch.Event
		want  bool
	}{
		"its deletion":                {watch.Event{Type: watch.Deleted, Object: objectOf(t, deploymentA)}, true},
		"its change":                  {watch.Event{Type: watch.Modified, Object: objectOf(t, deploymentA)}, false},
		"deletion of the next object": {watch.Event{Type: watch.Deleted, Object: objectOf(t, strings.Replace(deploymentA, "u1", "u2", 1))}, false},
		"an event without an object":  {watch.Event{Type: watch.Deleted, Object: &metav1.Status{}}, false},
	} {
		if got := isDeletionOf(c.event, "u1"); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}
