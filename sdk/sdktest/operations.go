package sdktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/internal/jq"
	"addon-operator/internal/operation"
)

// do does what a hook asked for, on the objects of the test. As the operator does, it goes on behind what is refused.
func (t *Test) do(ctx context.Context, operations []operation.Operation) error {
	var refused []error
	for _, o := range operations {
		if err := t.doOne(ctx, o); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", o, err))
		}
	}
	return errors.Join(refused...)
}

func (t *Test) doOne(ctx context.Context, o operation.Operation) error {
	live := t.objects.find(o.APIVersion, o.Kind, o.Namespace, o.Name)
	switch {
	case o.Object != nil:
		return t.create(o, live)
	case live == nil && (o.Type.Deletes() || o.IgnoreMissingObject):
		return nil
	case live == nil:
		return errors.New("there is no such object")
	case o.Type.Deletes():
		t.remove(idOf(live))
		return nil
	}
	before, err := live.MarshalJSON()
	if err != nil {
		return err
	}
	after, err := patched(ctx, o, before)
	if err != nil {
		return err
	}
	return t.replace(live, after, o.Subresource)
}

// create makes an object, or does with the live one what the operation says of that.
func (t *Test) create(o operation.Operation, live *unstructured.Unstructured) error {
	switch {
	case live != nil && o.Type == operation.Create:
		return errors.New("the object exists")
	case live != nil && o.Type == operation.CreateIfNotExists:
		return nil
	case live != nil:
		before, err := live.MarshalJSON()
		if err != nil {
			return err
		}
		after, err := jsonpatch.MergePatch(before, o.Object)
		if err != nil {
			return err
		}
		return t.replace(live, after, "")
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(o.Object); err != nil {
		return err
	}
	if object.GetName() == "" {
		t.objects.made++
		object.SetName(fmt.Sprintf("%s%05d", object.GetGenerateName(), t.objects.made))
	}
	t.put(object)
	return nil
}

// patched returns what a patch makes of an object.
func patched(ctx context.Context, o operation.Operation, before []byte) ([]byte, error) {
	switch o.Type {
	case operation.MergePatch:
		return jsonpatch.MergePatch(before, o.MergePatch)
	case operation.JSONPatch:
		patch, err := jsonpatch.DecodePatch(o.JSONPatch)
		if err != nil {
			return nil, err
		}
		return patch.Apply(before)
	default:
		filter, err := jq.Compile(o.JQFilter)
		if err != nil {
			return nil, err
		}
		return filter.Apply(ctx, jq.NewInput(before))
	}
}

// replace puts a patched object in the place of the live one. A patch of the status changes nothing else.
func (t *Test) replace(live *unstructured.Unstructured, after []byte, subresource string) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(after); err != nil {
		return fmt.Errorf("what the patch makes is no object: %w", err)
	}
	if idOf(object) != idOf(live) {
		return errors.New("the patch changes what the object is called")
	}
	if subresource == "status" {
		status, has := object.Object["status"]
		object = live.DeepCopy()
		delete(object.Object, "status")
		if has {
			object.Object["status"] = status
		}
	}
	t.put(object)
	return nil
}

// normal returns an object as reading it from JSON gives it, so that numbers compare.
func normal(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	read := &unstructured.Unstructured{}
	return read, read.UnmarshalJSON(text)
}
