package helm

import (
	"errors"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/failpoint"
)

// independent are kinds whose objects the API server and its controllers accept before any other object exists. Objects
// of other kinds may need these, so they are created before or after them, in the order of Helm.
var independent = []schema.GroupKind{{Kind: "ServiceAccount"}, {Kind: "ConfigMap"}, {Kind: "Service"}}

// Create implements kube.Interface. Helm creates one kind after another. Of the independent kinds,
// those that are adjacent in the order of Helm are created in parallel. As in Helm, an error does
// not stop the creation of the other objects.
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

// batches yields the resources in their order. Each batch contains adjacent kinds that may be
// created in parallel, one list per kind: a single kind, or several independent ones.
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
