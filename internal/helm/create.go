package helm

import (
	"errors"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/internal/failpoint"
)

// independent are kinds whose objects do not need each other, so they can be created at the same time. Between them and
// objects of other kinds, there may be dependencies. So objects of other kinds are created before or after them, in the
// order of Helm.
var independent = []schema.GroupKind{{Kind: "ServiceAccount"}, {Kind: "ConfigMap"}, {Kind: "Service"}}

// Create implements kube.Interface. Helm creates the objects kind by kind. Create keeps the order of kinds, but creates
// the objects of adjacent independent kinds in parallel. As in Helm, an error does not prevent the creation of the
// other objects.
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

// batches returns an iterator over the resources in their order. Each element is a batch of lists, one list for each
// kind. A batch has either one kind, or several adjacent independent kinds.
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
