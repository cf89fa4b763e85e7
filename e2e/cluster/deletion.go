package cluster

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
)

// repeatAfter is the time after which a deletion that has not ended is triggered again.
const repeatAfter = 2 * time.Second

// A DeletionRepeater works around two delays. It makes the API server finish the deletion of a
// CustomResourceDefinition that it has stopped processing. It makes the controller of namespaces repeat a failed
// deletion soon. The zero value is ready to use.
//
// The controller of namespaces waits up to a minute after an error before it tries again. Such an error is possible,
// for example, while another test deletes a CRD. But after a change of the namespace, the controller tries again
// within 5 s.
//
// On a slow machine, the API server stops processing some deletions of CRDs. Its finalizer must first list the
// objects of the kind. Before the first request for the kind, the list can fail with "storage is (re)initializing".
// The finalizer records the failure in the status, and tries again after 5 ms. If its cache does not have the new
// status by then, the next status update fails with a conflict. After a conflict, the finalizer does not retry, but
// waits for a watch event; and it ignores events that change only the condition Terminating. So the CRD stays until
// the next resync, up to 5 minutes. Any other change of the object makes the finalizer try again.
type DeletionRepeater struct{ last time.Time }

// Look changes an annotation of o if o is a CRD or a namespace that has been in deletion for longer than repeatAfter.
// at is the resource of o.
func (r *DeletionRepeater) Look(ctx context.Context, at dynamic.ResourceInterface, o *unstructured.Unstructured) error {
	deleted := o.GetDeletionTimestamp()
	if kind := o.GetKind(); kind != "CustomResourceDefinition" && kind != "Namespace" {
		return nil
	}
	if deleted == nil || time.Since(deleted.Time) < repeatAfter || time.Since(r.last) < repeatAfter {
		return nil
	}
	r.last = time.Now()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"addons.example.com/deletion-repeated":%q}}}`, r.last.Format(time.RFC3339Nano))
	_, err := at.Patch(ctx, o.GetName(), types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
