package operation

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
)

// clocksApart is how much the clocks of this process and of the API server may differ.
const clocksApart = time.Minute

// create does an operation that brings an object.
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
	return refuse("it exists already; CreateOrUpdate and CreateIfNotExists take one that does")
}

// body returns the object that is to be made, with its kind by the name the server knows.
func (t *target) body() []byte {
	var fields map[string]json.RawMessage
	if json.Unmarshal(t.Object, &fields) != nil {
		return nil
	}
	for key, value := range map[string]string{keyAPIVersion: t.object.APIVersion, keyKind: t.object.Kind} {
		fields[key] = json.RawMessage(strconv.Quote(value)) // they are plain words
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil
	}
	return text
}

func (t *target) post(ctx context.Context, asked *unstructured.Unstructured) error {
	ctx, cancel := t.within(ctx)
	defer cancel()
	_, err := t.at.Create(ctx, asked, metav1.CreateOptions{FieldManager: fieldManager})
	return err
}

// createUnnamed makes an object of which only the beginning of the name is given. The rest is chosen here and not by the
// server, and noted before, so that it is known after a crash whether it was made.
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

// createOrMerge merges what is asked into the object, or into nothing. Mostly it is there.
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

// dropNulls takes the fields away that are null, which in a merge patch says that they are not to be there.
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

// isMade reports whether the object was made by an earlier try: it is ours, is not older than the operation, and has all
// that was asked for.
func (t *target) isMade(ctx context.Context, since time.Time, asked *unstructured.Unstructured) (bool, error) {
	live, err := t.get(ctx)
	if isMissing(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	_, ours := lastWritten(live, "")
	young := !live.GetCreationTimestamp().Time.Before(since.Truncate(time.Second).Add(-clocksApart))
	return ours && young && contains(live.Object, inServerForm(asked)), nil
}

func (t *target) get(ctx context.Context) (*unstructured.Unstructured, error) {
	ctx, cancel := t.within(ctx)
	defer cancel()
	return t.at.Get(ctx, t.Name, metav1.GetOptions{}, t.subresources()...)
}

// lastWritten returns when we wrote to the object, or the subresource, last, by the server's clock, and whether we did.
func lastWritten(live *unstructured.Unstructured, subresource string) (when string, ours bool) {
	for _, entry := range live.GetManagedFields() {
		if entry.Manager != fieldManager || entry.Operation != metav1.ManagedFieldsOperationUpdate || entry.Subresource != subresource {
			continue
		}
		ours = true
		if entry.Time != nil {
			when = max(when, entry.Time.UTC().Format(time.RFC3339))
		}
	}
	return when, ours
}
