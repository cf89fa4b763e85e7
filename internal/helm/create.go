package helm

import (
	"errors"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/failpoint"
)

// independent are kinds whose objects need no other objects of the release, so they can be created
// at the same time. Objects of any other kind may need objects of these kinds or the reverse, so
// they are created before or after them, in the order of Helm.
var independent = []schema.GroupKind{{Kind: "ServiceAccount"}, {Kind: "ConfigMap"}, {Kind: "Service"}}

// Create implements kube.Interface. Helm creates one kind after another. Create does the same, but
// creates independent kinds in parallel if they are adjacent in the order of Helm. As in Helm, an
// error does not prevent the creation of the other objects.
func (o *objectClient) Create(resources kube.ResourceList) (*kube.Result, error) {
	if len(resources) < 2 {
		return o.Client.Create(resources)
	}
	var failed []error
	for batch := range batches(resources) {
		errs := make([]error, len(batch))
		var creating sync.WaitGroup
		for i, kind := range batch {
			creating.Go(func() {
				_, errs[i] = o.Client.Create(kind)
				failpoint.Reach("helm", "during")
			})
		}
		creating.Wait()
		failed = append(failed, errs...)
	}
	if err := errors.Join(failed...); err != nil {
		return nil, err
	}
	return &kube.Result{Created: resources}, nil
}

// batches returns an iterator over the resources in their order. Each batch is either one kind, or
// several adjacent independent kinds. It contains one list per kind.
func batches(resources kube.ResourceList) func(func([]kube.ResourceList) bool) {
	return func(yield func([]kube.ResourceList) bool) {
		var batch []kube.ResourceList
		var last schema.GroupKind
		for i, r := range resources {
			kind := r.Mapping.GroupVersionKind.GroupKind()
			switch {
			case i > 0 && kind == last:
				end := len(batch) - 1
				batch[end] = append(batch[end], r)
				continue
			case i > 0 && slices.Contains(independent, kind) && slices.Contains(independent, last):
			case i > 0:
				if !yield(batch) {
					return
				}
				batch = nil
			}
			batch, last = append(batch, kube.ResourceList{r}), kind
		}
		if batch != nil {
			yield(batch)
		}
	}
}
