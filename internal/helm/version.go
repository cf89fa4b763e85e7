package helm

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// version is the resource version that a list of release records must not be older than: that of the first list or of
// the latest write. The API server answers such a list from its cache at once. A list of the newest version waits until
// that cache has caught up with etcd, up to 0.1 s for a kind that did not change. The zero value asks for the newest
// version. It is safe for concurrent use.
type version struct {
	mu        sync.Mutex
	oldest    string // empty: the newest
	forgotten int    // calls of forget
}

// listNotBefore calls list with options at the version to ask for, and returns its answer.
func listNotBefore[L metav1.ListInterface](v *version, options metav1.ListOptions, list func(metav1.ListOptions) (L, error)) (L, error) {
	v.mu.Lock()
	oldest, forgotten := v.oldest, v.forgotten
	v.mu.Unlock()
	options.ResourceVersion = oldest
	listed, err := list(options)
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) { // the server was restored from a backup
		options.ResourceVersion = ""
		listed, err = list(options)
	}
	if err != nil {
		return listed, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.forgotten == forgotten && v.oldest == "" {
		v.oldest = listed.GetResourceVersion()
	}
	return listed, nil
}

// written notes the version of an object that was created or updated, or the error. Between a delete and the next list it
// has no effect: the version of a concurrent write may be older than that of the delete.
func (v *version) written(object metav1.Object, err error) {
	if err != nil {
		v.forget() // the write may have been done
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), v.oldest)
	switch {
	case err != nil: // of a server whose versions have no order, or after forget
		v.oldest = ""
	case order > 0:
		v.oldest = object.GetResourceVersion()
	}
}

// forget makes the next list ask for the newest version. Call it after a delete, whose answer has no version.
func (v *version) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.oldest = ""
	v.forgotten++
}

// secrets are the Secrets that Helm keeps records in. Lists are at version or later.
type secrets struct {
	typedcorev1.SecretInterface
	version *version
}

// List implements typedcorev1.SecretInterface.
func (s secrets) List(ctx context.Context, options metav1.ListOptions) (*corev1.SecretList, error) {
	return listNotBefore(s.version, options, func(o metav1.ListOptions) (*corev1.SecretList, error) {
		return s.SecretInterface.List(ctx, o)
	})
}

// Create implements typedcorev1.SecretInterface.
func (s secrets) Create(ctx context.Context, secret *corev1.Secret, options metav1.CreateOptions) (*corev1.Secret, error) {
	created, err := s.SecretInterface.Create(ctx, secret, options)
	s.version.written(created, err)
	return created, err
}

// Update implements typedcorev1.SecretInterface.
func (s secrets) Update(ctx context.Context, secret *corev1.Secret, options metav1.UpdateOptions) (*corev1.Secret, error) {
	updated, err := s.SecretInterface.Update(ctx, secret, options)
	s.version.written(updated, err)
	return updated, err
}

// Delete implements typedcorev1.SecretInterface.
func (s secrets) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	defer s.version.forget()
	return s.SecretInterface.Delete(ctx, name, options)
}

// configMaps are the ConfigMaps that Helm keeps records in. Lists are at version or later.
type configMaps struct {
	typedcorev1.ConfigMapInterface
	version *version
}

// List implements typedcorev1.ConfigMapInterface.
func (c configMaps) List(ctx context.Context, options metav1.ListOptions) (*corev1.ConfigMapList, error) {
	return listNotBefore(c.version, options, func(o metav1.ListOptions) (*corev1.ConfigMapList, error) {
		return c.ConfigMapInterface.List(ctx, o)
	})
}

// Create implements typedcorev1.ConfigMapInterface.
func (c configMaps) Create(ctx context.Context, configMap *corev1.ConfigMap, options metav1.CreateOptions) (*corev1.ConfigMap, error) {
	created, err := c.ConfigMapInterface.Create(ctx, configMap, options)
	c.version.written(created, err)
	return created, err
}

// Update implements typedcorev1.ConfigMapInterface.
func (c configMaps) Update(ctx context.Context, configMap *corev1.ConfigMap, options metav1.UpdateOptions) (*corev1.ConfigMap, error) {
	updated, err := c.ConfigMapInterface.Update(ctx, configMap, options)
	c.version.written(updated, err)
	return updated, err
}

// Delete implements typedcorev1.ConfigMapInterface.
func (c configMaps) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	defer c.version.forget()
	return c.ConfigMapInterface.Delete(ctx, name, options)
}
