package operation

import (
	"context"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"addon-operator/internal/kube"
)

// lookAgain is the interval between reads of an object that cannot be watched.
const lookAgain = time.Second

// delete deletes the object that had the name at the first attempt. If the name belongs to another
// object at a later attempt, delete does not delete this object.
func (t *target) delete(ctx context.Context, a Attempt) (err error) {
	mark := a.Mark
	for range conflictTries {
		live, err := t.get(ctx)
		if isMissing(err) {
			if mark == nil {
				return a.Note(Mark{Object: t.object}) // the mark has no UID, so a later attempt does not delete a new object of this name
			}
			return nil
		}
		if err != nil {
			return err
		}
		uid := live.GetUID()
		switch {
		case mark == nil:
			mark = &Mark{UID: string(uid), Object: t.object}
			if err := a.Note(*mark); err != nil {
				return err
			}
		case mark.UID != string(uid):
			return nil
		}
		err = t.deleteNow(ctx, uid)
		switch {
		case isMissing(err):
			return nil
		case apierrors.IsConflict(err) && live.GetDeletionTimestamp() == nil:
			continue // the conflict means that the name now belongs to another object, or that the object is being deleted
		case err != nil && !apierrors.IsConflict(err): // a conflict is no failure here: the object was already being deleted when it was read
			if live.GetDeletionTimestamp() == nil {
				err = sparing{err, t.object}
			}
			return err
		case t.Type != Delete:
			return nil
		}
		return t.awaitGone(ctx, uid)
	}
	return sparing{refuse("other writers changed it during each of %d attempts to delete it", conflictTries), t.object}
}

func (t *target) deleteNow(ctx context.Context, uid types.UID) error {
	ctx, end := t.write(ctx, "delete", t.object)
	propagation := map[Type]metav1.DeletionPropagation{
		Delete: metav1.DeletePropagationForeground, DeleteInBackground: metav1.DeletePropagationBackground,
		DeleteNonCascading: metav1.DeletePropagationOrphan,
	}[t.Type]
	return end(nil, t.at.Delete(ctx, t.Name, metav1.DeleteOptions{
		PropagationPolicy: &propagation, Preconditions: &metav1.Preconditions{UID: &uid},
	}))
}

// awaitGone waits until the object with this UID no longer exists. If it still exists after
// t.x.goneWithin, the error is final.
func (t *target) awaitGone(ctx context.Context, uid types.UID) (err error) {
	end := kube.StartWait(ctx, "deletion", t.object)
	defer func() { end(err) }()
	waiting, cancel := context.WithTimeout(ctx, t.x.goneWithin)
	defer cancel()
	var finalizers []string
	for waiting.Err() == nil {
		live, err := t.get(waiting)
		if isMissing(err) || err == nil && live.GetUID() != uid {
			return nil
		}
		if err != nil && waiting.Err() == nil {
			return err
		}
		if err == nil {
			finalizers = live.GetFinalizers()
			gone, err := t.watchGone(waiting, live)
			if gone || err != nil {
				return err
			}
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case len(finalizers) > 0:
		return refuse("it is still there after %s, held by its finalizers: %s", t.x.goneWithin, strings.Join(finalizers, ", "))
	}
	return refuse("it is still there after %s", t.x.goneWithin)
}

// watchGone watches until live is deleted, or until the watch or ctx ends, and reports whether live
// was deleted. If the kind cannot be watched, watchGone returns false after the time lookAgain.
func (t *target) watchGone(ctx context.Context, live *unstructured.Unstructured) (bool, error) {
	watching, err := t.at.Watch(ctx, metav1.ListOptions{
		FieldSelector:   fields.OneTermEqualSelector("metadata.name", t.Name).String(),
		ResourceVersion: live.GetResourceVersion(),
	})
	if isUnsupported(err) {
		select {
		case <-time.After(lookAgain):
		case <-ctx.Done():
		}
		return false, nil
	}
	if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) || ctx.Err() != nil {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer watching.Stop()
	for {
		select {
		case event, open := <-watching.ResultChan():
			if !open || event.Type == watch.Error { // the resource version may be too old: the caller reads the object again
				return false, nil
			}
			if isDeletionOf(event, live.GetUID()) {
				return true, nil
			}
		case <-ctx.Done():
			return false, nil
		}
	}
}

// isDeletionOf reports whether event is the deletion of the object with this UID.
func isDeletionOf(event watch.Event, uid types.UID) bool {
	object, ok := event.Object.(*unstructured.Unstructured)
	return ok && event.Type == watch.Deleted && object.GetUID() == uid
}
