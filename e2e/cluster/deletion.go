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

// repeatAfter is the age of an unfinished deletion at which a DeletionRepeater makes Kubernetes try the deletion
// again.
const repeatAfter = 2 * time.Second

// A DeletionRepeater works around two delays of deletions. If the API server has stopped processing the deletion of a
// CustomResourceDefinition, a DeletionRepeater makes the API server finish it. If the namespace controller has failed
// to delete a namespace, a DeletionRepeater makes the controller try again soon. The zero value is ready to use.
//
// After an error, the namespace controller waits up to a minute before it tries again. For example, a deletion can
// fail while another test deletes a CRD. But if the namespace object changes, the controller tries again within 5 s.
//
// On a slow machine, the API server stops processing some deletions of CRDs. The CRD finalizer of the API server must
// first list the custom resources of the CRD. Before the first request for the kind of the CRD, this list can fail
// with "storage is (re)initializing". The finalizer then records the failure in the status of the CRD, and tries again
// after 5 ms. If the cache of the finalizer does not have the new status by then, its next status update fails with a
// conflict. After a conflict, the finalizer does not retry: it waits for a watch event, and ignores events that change
// only the condition Terminating. So the CRD stays until the next resync, up to 5 minutes. Any other change of the CRD
// makes the finalizer try again.
type DeletionRepeater struct{ last time.Time }

// Look changes an annotation of o if o is a CRD or a namespace whose deletion began more than repeatAfter ago. After a
// change, it changes no object for the duration of repeatAfter. The parameter named at is the client for the resource
// of o.
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
