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

// A DeletionRepeater makes the API server finish deletions of CustomResourceDefinitions that it has
// dropped, and makes the controller of namespaces continue deletions that failed. The zero value is
// ready to use.
//
// After an error, for example of the discovery while another test deletes a CRD, the controller of
// namespaces waits up to a minute before it tries again. It tries again 5 s after any change of the
// namespace.
//
// On a slow machine the API server drops some. Its finalizer must list the objects of the kind
// first. Before the first request for the kind, that can fail with "storage is (re)initializing".
// The finalizer records the failure in the status and tries again after 5 ms. If its cache does not
// have the new status by then, the next status update is a conflict, which ends the attempt without
// a retry. The finalizer relies on a watch event, but ignores events that change only the condition
// Terminating. So the CRD stays until the next resync, up to 5 minutes. Any other change of the
// object makes it try again.
type DeletionRepeater struct{ last time.Time }

// Look changes an annotation of o, an object of at, if o is a CRD or a namespace whose deletion has not ended for
// a while.
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
