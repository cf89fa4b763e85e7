package operation

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// clocksApart is the maximum tolerated difference between the clocks of this process and of the API
// server.
const clocksApart = time.Minute

// create executes an operation that creates an object.
func (t *target) create(ctx context.Context, a Attempt) error {
	asked := &unstructured.Unstructured{}
	if err := asked.UnmarshalJSON(t.body()); err != nil {
		return refuse("the object cannot be read")
	}
	switch {
	case t.Name == "":
		return t.createUnnamed(ctx, a, asked)
	case t.Type == CreateOrUpdate:
		return t.createOrMerge(ctx, asked)
	}
	err := t.post(ctx, asked)
	switch {
	case !apierrors.IsAlreadyExists(err):
		return err
	case t.Type == CreateIfNotExists:
		return nil
	case a.Resumed:
		if made, err := t.isMade(ctx, a.Since, asked); made || err != nil {
			return err
		}
	}
	return refuse("it exists already; use CreateOrUpdate or CreateIfNotExists for an object that may exist")
}

// body returns the object to create, with the resolved apiVersion and kind.
func (t *target) body() []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(t.Object, &fields) != nil {
		return nil
	}
	for key, value := range map[string]string{keyAPIVersion: t.object.APIVersion, keyKind: t.object.Kind} {
		fields[key] = json.RawMessage(strconv.Quote(value)) // values of apiVersion and kind contain no characters that JSON must escape
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return text
}

func (t *target) post(ctx context.Context, asked *unstructured.Unstructured) error {
	object := t.object
	object.Name = asked.GetName()
	ctx, end := t.write(ctx, "create", object)
	return end(t.at.Create(ctx, asked, metav1.CreateOptions{FieldManager: fieldManager}))
}

// createUnnamed creates an object with metadata.generateName. It chooses the name itself and stores
// the name in a mark before the request, so that a later attempt can find out whether the object
// was created.
func (t *target) createUnnamed(ctx context.Context, a Attempt, asked *unstructured.Unstructured) (err error) {
	if a.Mark != nil && a.Mark.Name != "" {
		asked.SetName(a.Mark.Name)
		if err := t.post(ctx, asked); !apierrors.IsAlreadyExists(err) {
			return err
		}
		return nil
	}
	for range conflictTries {
		asked.SetName(asked.GetGenerateName() + rand.String(5))
		t.object.Name = asked.GetName()
		if err := a.Note(Mark{Name: asked.GetName(), Object: t.object}); err != nil {
			return err
		}
		if err = t.post(ctx, asked); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return refusal{err}
}

// createOrMerge merges the fields of the requested object asked into the existing object. If the
// object does not exist, createOrMerge creates it. It sends the merge patch first, because the
// object usually exists.
func (t *target) createOrMerge(ctx context.Context, asked *unstructured.Unstructured) (err error) {
	patch, err := asked.MarshalJSON()
	if err != nil {
		return refuse("the object cannot be written")
	}
	dropNulls(asked.Object)
	for range conflictTries {
		if err = t.patch(ctx, types.MergePatchType, patch); !isMissing(err) && !apierrors.IsConflict(err) {
			return err
		}
		if apierrors.IsConflict(err) {
			continue
		}
		if err = t.post(ctx, asked); !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return refusal{err}
}

// dropNulls removes null fields. In a merge patch, null means that the field must not exist. So an
// object that is created from the patch must not contain the field.
func dropNulls(fields map[string]any) {
	for key, value := range fields {
		switch value := value.(type) {
		case nil:
			delete(fields, key)
		case map[string]any:
			dropNulls(value)
		}
	}
}

// isMade reports whether an earlier attempt created the object. It returns true if the operator has
// written the object, the object is not older than the operation, and the object contains all
// requested fields and list items.
func (t *target) isMade(ctx context.Context, since time.Time, asked *unstructured.Unstructured) (bool, error) {
	live, err := t.get(ctx)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	young := !live.GetCreationTimestamp().Time.Before(since.Truncate(time.Second).Add(-clocksApart))
	return isWritten(live) && young && contains(live.Object, inServerForm(asked)), nil
}

func (t *target) get(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	return t.at.Get(ctx, t.Name, metav1.GetOptions{}, t.subresources()...)
}

// isWritten reports whether the operator has written the object itself, and not only a subresource.
func isWritten(live *unstructured.Unstructured) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == fieldManager && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
	})
}
