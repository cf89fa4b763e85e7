package helm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/util/retry"

	kubeobjects "addon-operator/internal/kube"
)

// Kept is an object that an upgrade or an uninstall did not delete, because the object belongs to another release.
type Kept struct {
	Object
	// Owner is the release to which the object belongs: NAME, or NAMESPACE/NAME if the release is not in
	// [Options.Namespace].
	Owner string
}

// String returns a text with the object and its owner, for messages.
func (k Kept) String() string {
	return fmt.Sprintf("%s, which belongs to release %s", k.Object, k.Owner)
}

// owner returns the release to which an object with these annotations belongs, in the form of [Kept.Owner]. It returns
// "" if the annotations name no release, or the release of the action itself.
func (o *objectClient) owner(annotations map[string]string) string {
	name, namespace := kubeobjects.ReleaseIn(annotations)
	switch {
	case name == "":
		return ""
	case namespace != "" && namespace != o.Namespace:
		return namespace + "/" + name
	case name == o.release:
		return ""
	default:
		return name
	}
}

// Update implements kube.Interface. Like Helm, it deletes the objects of original that are not in target, unless their
// Helm resource policy is "keep". Unlike Helm, it does not delete objects that belong to another release, and returns
// an error if an object cannot be deleted. Helm patches a custom resource only if original and target differ. Update
// also patches custom resources that the release takes over. After a failed or killed action, it patches all custom
// resources that differ from target.
func (o *objectClient) Update(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	if o.unfinished {
		return o.UpdateThreeWayMerge(original, target, force)
	}
	result, err := o.Client.Update(withoutTakenOver(original.Intersect(target), target), target, force)
	if err == nil {
		err = o.deleteDropped(original.Difference(target), result)
	}
	return result, err
}

// withoutTakenOver puts empty objects into original in place of the objects that the release takes over, and returns
// original. Helm has added these objects to original as they are in target, so Helm would find no difference. The
// difference to an empty object is the whole object.
func withoutTakenOver(original, target kube.ResourceList) kube.ResourceList {
	for i, object := range original {
		if !slices.Contains(target, object) {
			continue
		}
		empty := &unstructured.Unstructured{}
		empty.SetGroupVersionKind(object.Mapping.GroupVersionKind)
		empty.SetName(object.Name)
		original[i] = &resource.Info{Mapping: object.Mapping, Namespace: object.Namespace, Name: object.Name, Object: empty}
	}
	return original
}

// UpdateThreeWayMerge implements kube.InterfaceThreeWayMerge. It deletes the same objects as Update.
func (o *objectClient) UpdateThreeWayMerge(original, target kube.ResourceList, force bool) (*kube.Result, error) {
	result, err := o.Client.UpdateThreeWayMerge(original.Intersect(target), target, force)
	if err == nil {
		err = o.deleteDropped(original.Difference(target), result)
	}
	return result, err
}

// deleteDropped deletes objects that are not in the new revision, and adds them to result.Deleted. It returns the
// errors of all failed deletions, so that Helm records the new revision as failed. If the new revision were deployed,
// later upgrades would not find the objects, because they are in no deployed revision. When the context of the action
// ends, deleteDropped returns without trying the remaining objects.
func (o *objectClient) deleteDropped(dropped kube.ResourceList, result *kube.Result) error {
	var failures []error
	for _, object := range dropped {
		if err := o.stopped(); err != nil {
			return errors.Join(append(failures, fmt.Errorf("delete %s: %w", nameOf(object), err))...)
		}
		deleted, err := o.deleteOwn(object, metav1.DeletePropagationBackground, keepsItself)
		if err != nil {
			failures = append(failures, err)
		}
		if deleted {
			result.Deleted = append(result.Deleted, object)
		}
	}
	return errors.Join(failures...)
}

// keepsItself reports whether the annotations of an object set its Helm resource policy to "keep".
func keepsItself(annotations map[string]string) bool {
	return strings.EqualFold(strings.TrimSpace(annotations[kube.ResourcePolicyAnno]), kube.KeepPolicy)
}

// DeleteWithPropagationPolicy implements kube.InterfaceDeletionPropagation. It deletes adjacent objects of the same
// kind in parallel, before it deletes those of the next kind. It does not delete objects that belong to another
// release.
func (o *objectClient) DeleteWithPropagationPolicy(list kube.ResourceList, policy metav1.DeletionPropagation) (*kube.Result, []error) {
	result, errs := &kube.Result{}, []error(nil)
	never := func(map[string]string) bool { return false } // Helm has already left out objects with the resource policy "keep"
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].Mapping.GroupVersionKind.Kind == list[0].Mapping.GroupVersionKind.Kind {
			n++
		}
		var mu sync.Mutex
		group := errgroup.Group{}
		group.SetLimit(lookups)
		for _, object := range list[:n] {
			group.Go(func() error {
				deleted, err := o.deleteOwn(object, policy, never)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs = append(errs, err)
				}
				if deleted {
					result.Deleted = append(result.Deleted, object)
				}
				return nil
			})
		}
		_ = group.Wait() // the functions return nil
		list = list[n:]
	}
	o.failures = append(o.failures, errs...)
	return result, errs
}

// deleteOwn deletes an object, and reports whether it has done so or the object did not exist. It does not delete the
// object if keep returns true for its annotations, or if the object belongs to another release. If the API server does
// not serve the API version of the object any more, meta.IsNoMatchError returns true for the error. The precondition of
// the delete request is the resource version that was read. So if another release takes over the object in the
// meantime, the object is not deleted.
func (o *objectClient) deleteOwn(object *resource.Info, policy metav1.DeletionPropagation, keep func(map[string]string) bool) (deleted bool, err error) {
	helper := resource.NewHelper(object.Client, object.Mapping)
	named := nameOf(object)
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, err := helper.Get(object.Namespace, object.Name)
		if err != nil {
			deleted, err = o.absent(object.Mapping, err)
			return err
		}
		about, err := meta.Accessor(live)
		if err != nil {
			return err
		}
		if keep(about.GetAnnotations()) {
			return nil
		}
		if owner := o.owner(about.GetAnnotations()); owner != "" {
			o.recordKept(Kept{Object: named, Owner: owner})
			return nil
		}
		uid, version := about.GetUID(), about.GetResourceVersion()
		_, err = helper.DeleteWithOptions(object.Namespace, object.Name, &metav1.DeleteOptions{
			PropagationPolicy: &policy, Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
		})
		if deleted = err == nil; !deleted {
			deleted, err = o.absent(object.Mapping, err)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete %s: %w", named, err)
	}
	return deleted, nil
}

// recordKept logs that an object was not deleted, and adds it to o.kept.
func (o *objectClient) recordKept(k Kept) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.Log("release %q: keep %s", o.release, k)
	o.kept = append(o.kept, k)
}

// nameOf returns the identity of an object that Helm has read from a manifest.
func nameOf(object *resource.Info) Object {
	apiVersion, kind := object.Mapping.GroupVersionKind.ToAPIVersionAndKind()
	return Object{APIVersion: apiVersion, Kind: kind, Namespace: object.Namespace, Name: object.Name}
}
