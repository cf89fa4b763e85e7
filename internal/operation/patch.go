package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"addon-operator/internal/jq"
)

func (t *target) patch(ctx context.Context, kind types.PatchType, body []byte) error {
	ctx, end := t.write(ctx, "patch", t.object)
	return end(t.at.Patch(ctx, t.Name, kind, body, metav1.PatchOptions{FieldManager: fieldManager}, t.subresources()...))
}

// missing converts err, the result of a request, to the result of the operation, which is a patch. If err means that
// the object does not exist, missing returns nil or a final error, depending on ignoreMissingObject. If err means that
// the subresource is not served, the returned error is final. It wraps err, so that [Executor.Do] discards the cached
// list of kinds, which may be outdated.
func (t *target) missing(err error) error {
	switch {
	case isUnserved(err) && t.Subresource != "":
		return refusal{answer{fmt.Sprintf("%s has no subresource %s", t.kind.Kind, t.Subresource), err}}
	case !isMissing(err):
		return err
	case t.IgnoreMissingObject:
		return nil
	default:
		return refuse("the object does not exist; set ignoreMissingObject: true to accept this")
	}
}

// merge sends a merge patch. A merge patch needs no mark, because it has the same result if it is
// repeated.
func (t *target) merge(ctx context.Context) (err error) {
	for range conflictTries {
		if err = t.patch(ctx, types.MergePatchType, t.MergePatch); !apierrors.IsConflict(err) {
			return t.missing(err)
		}
	}
	return refusal{err}
}

// change executes a JSON patch or a jq patch, which may have another result if it is applied again.
// It reads the object, computes the patched object, and writes it only if the resource version of
// the object is still the same. Before the write, it stores a mark, with which a later attempt can
// find out whether the patch was applied.
func (t *target) change(ctx context.Context, a Attempt) (err error) {
	mark := a.Mark
	for range conflictTries {
		live, err := t.get(ctx)
		if err != nil {
			return t.missing(err)
		}
		if mark != nil && t.isSent(live, *mark) {
			return nil
		}
		mark = nil // the mark describes only the last request of the previous attempt
		next, err := t.changed(ctx, live)
		if err != nil {
			return err
		}
		if reflect.DeepEqual(live.Object, next.Object) {
			return nil
		}
		if err := a.Note(t.mark(live, next)); err != nil {
			return err
		}
		if err = t.send(ctx, live, next); !apierrors.IsConflict(err) {
			return t.missing(err)
		}
	}
	return refuse("other writers changed it during each of %d attempts to write it", conflictTries)
}

// changed applies the patch to an object, the argument live, and returns the patched object.
func (t *target) changed(ctx context.Context, live *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	text, err := live.MarshalJSON()
	if err != nil {
		return nil, refuse("the object cannot be read")
	}
	text = bytes.TrimSpace(text)
	if t.Type == JSONPatch {
		if text, err = applyJSONPatch(t.JSONPatch, text); err != nil {
			return nil, refusal{err}
		}
	} else if text, err = t.filtered(ctx, text); err != nil {
		return nil, err
	}
	next := &unstructured.Unstructured{}
	if err := next.UnmarshalJSON(text); err != nil {
		return nil, refuse("the result of the %s is not an object: it has no kind", t.Type)
	}
	// A patch must not change the identity or the version of the object.
	next.SetAPIVersion(live.GetAPIVersion())
	next.SetKind(live.GetKind())
	next.SetName(live.GetName())
	next.SetNamespace(live.GetNamespace())
	next.SetUID(live.GetUID())
	next.SetResourceVersion(live.GetResourceVersion())
	return next, nil
}

// filtered applies the jq filter to an object. If the filter fails, filtered returns only the
// public text of the error, because the error itself quotes the object.
func (t *target) filtered(ctx context.Context, text []byte) ([]byte, error) {
	filter, err := jq.Compile(t.JQFilter)
	if err != nil {
		return nil, refuse("the jqFilter does not compile")
	}
	result, err := filter.Apply(ctx, jq.NewInput(text))
	failure := (*jq.FilterError)(nil)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.As(err, &failure):
		return nil, refuse("the jqFilter fails for the current object: %s", failure.Public)
	case err != nil:
		return nil, err
	case len(result) == 0 || result[0] != '{':
		return nil, refuse("the jqFilter must return one object, which replaces the whole object")
	}
	return result, nil
}

// send replaces an object, the argument live, by the patched object next. If another client has
// changed the object after live was read, the error is a conflict.
func (t *target) send(ctx context.Context, live, next *unstructured.Unstructured) error {
	if t.Type == JSONPatch {
		body, err := pinned(t.JSONPatch, live.GetResourceVersion())
		if err != nil {
			return refusal{err}
		}
		return t.patch(ctx, types.JSONPatchType, body)
	}
	ctx, end := t.write(ctx, "update", t.object)
	return end(t.at.Update(ctx, next, metav1.UpdateOptions{FieldManager: fieldManager}, t.subresources()...))
}

// pinned returns patch with one more operation, which sets the resource version. If the object has
// another version, the API server rejects the patch as a conflict.
func pinned(patch json.RawMessage, version string) ([]byte, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(patch, &items); err != nil {
		return nil, fmt.Errorf("the JSON patch cannot be read")
	}
	pin, err := json.Marshal(map[string]string{"op": "add", "path": "/metadata/resourceVersion", "value": version})
	if err != nil {
		return nil, err
	}
	return json.Marshal(append(items, pin))
}

// mark returns the mark with which a later attempt can find out whether this attempt has replaced
// an object, the argument live, by the patched object next.
func (t *target) mark(live, next *unstructured.Unstructured) Mark {
	m := Mark{UID: string(live.GetUID()), ResourceVersion: live.GetResourceVersion(), Object: t.object}
	if before, after := t.sum(live), t.sum(next); before != after {
		m.Expected = after
	}
	m.Changed = differenceOf(t.compared(live), t.compared(next))
	return m
}

// isSent reports whether the request that the mark m describes was applied. It returns true if two
// conditions are met: the object has the UID in the mark, but another resource version; and it has
// the expected checksum, or contains all changes of the request. A later write of the operator is no
// sign that the request was applied, because it can be the write of another hook or of Helm.
func (t *target) isSent(live *unstructured.Unstructured, m Mark) bool {
	if m.UID != string(live.GetUID()) || m.ResourceVersion == live.GetResourceVersion() {
		return false
	}
	return m.Expected != "" && m.Expected == t.sum(live) || m.Changed != nil && m.Changed.isIn(t.compared(live))
}

// compared returns the fields of the object in which a patch can be recognized. They include the
// status only if the patch is for a subresource: for most kinds, a patch of the object itself does
// not change the status.
func (t *target) compared(object *unstructured.Unstructured) map[string]any {
	fields := inServerForm(object)
	if status, found := object.Object["status"]; found && t.Subresource != "" {
		fields["status"] = status
	}
	return fields
}

// sum returns a checksum of the object without the fields that the server changes by itself.
func (t *target) sum(object *unstructured.Unstructured) string {
	object = object.DeepCopy()
	for _, field := range []string{"resourceVersion", "generation", "managedFields"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	if t.Subresource == "" {
		unstructured.RemoveNestedField(object.Object, "status")
	}
	return checksum(object.Object)
}
