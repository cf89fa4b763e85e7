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

// do executes the operations of a hook. Like the operator, it continues after a failed operation.
func (c *cluster) do(ctx context.Context, operations []operation.Operation) error {
	var refused []error
	for _, o := range operations {
		if err := c.doOne(ctx, o); err != nil {
			refused = append(refused, fmt.Errorf("%s: %w", o, err))
		}
	}
	return errors.Join(refused...)
}

func (c *cluster) doOne(ctx context.Context, o operation.Operation) error {
	live := c.objects.find(o.APIVersion, o.Kind, o.Namespace, o.Name)
	switch {
	case o.Object != nil:
		return c.create(ctx, o, live)
	case live == nil && (o.Type.Deletes() || o.IgnoreMissingObject):
		return nil
	case live == nil:
		return errors.New("there is no such object")
	case o.Type.Deletes():
		c.remove(ctx, idOf(live))
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
	return c.replace(ctx, live, after, o.Subresource)
}

// create creates an object, or handles an existing one according to the type of the operation.
func (c *cluster) create(ctx context.Context, o operation.Operation, live *unstructured.Unstructured) error {
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
		return c.replace(ctx, live, after, "")
	}
	content := []byte(o.Object)
	if o.Type == operation.CreateOrUpdate {
		var err error
		if content, err = jsonpatch.MergePatch([]byte("{}"), content); err != nil { // leaves out the fields that are null
			return err
		}
	}
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(content); err != nil {
		return err
	}
	if object.GetName() == "" {
		c.objects.made++
		object.SetName(fmt.Sprintf("%s%05d", object.GetGenerateName(), c.objects.made))
	}
	c.put(ctx, object)
	return nil
}

// patched applies the patch of o to an object, and returns the patched object. Both objects are encoded as JSON.
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

// replace replaces an object, the argument live, by the patched object in the argument after. If
// subresource is "status", it replaces only the status.
func (c *cluster) replace(ctx context.Context, live *unstructured.Unstructured, after []byte, subresource string) error {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(after); err != nil {
		return fmt.Errorf("the patched object is invalid: %w", err)
	}
	if idOf(object) != idOf(live) {
		return errors.New("the patch changes the name or kind of the object")
	}
	if subresource == "status" {
		status, has := object.Object["status"]
		object = live.DeepCopy()
		delete(object.Object, "status")
		if has {
			object.Object["status"] = status
		}
	}
	c.put(ctx, object)
	return nil
}

// normal returns object with the types that decoded JSON has, so that numbers can be compared.
func normal(object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(object.Object)
	if err != nil {
		return nil, err
	}
	read := &unstructured.Unstructured{}
	return read, read.UnmarshalJSON(text)
}
