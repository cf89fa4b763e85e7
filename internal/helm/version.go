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

// version is the minimum resource version of a list of release records: that of the first list or
// of the latest write. The API server answers such a list from its cache at once. A list of the
// newest version waits until that cache has caught up with etcd, up to 0.1 s for a kind that did
// not change. The zero value requests the newest version. It is safe for concurrent use.
type version struct {
	mu        sync.Mutex
	oldest    string // empty: the newest
	forgotten int    // calls of forget
}

// listNotBefore calls list with options at the minimum version, and returns its answer.
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

// written records the version of an object that was created or updated, or the error. Between a
// delete and the next list it has no effect: the version of a concurrent write may be older than
// that of the delete.
func (v *version) written(object metav1.Object, err error) {
	if err != nil {
		v.forget() // the write may have succeeded
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	order, err := resourceversion.CompareResourceVersion(object.GetResourceVersion(), v.oldest)
	switch {
	case err != nil: // the versions of this server have no order, or forget was called
		v.oldest = ""
	case order > 0:
		v.oldest = object.GetResourceVersion()
	}
}

// forget makes the next list request the newest version. Call it after a delete, whose answer has
// no version.
func (v *version) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.oldest = ""
	v.forgotten++
}

// objectsClient is the part of a typed client that Helm uses for its records. O is the object type
// and L its list type.
type objectsClient[O metav1.Object, L metav1.ListInterface] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Create(context.Context, O, metav1.CreateOptions) (O, error)
	Update(context.Context, O, metav1.UpdateOptions) (O, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// versioned is a client whose lists are at version or later.
type versioned[O metav1.Object, L metav1.ListInterface] struct {
	client  objectsClient[O, L]
	version *version
}

// List lists objects.
func (c versioned[O, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	return listNotBefore(c.version, options, func(o metav1.ListOptions) (L, error) { return c.client.List(ctx, o) })
}

// Create creates object and notes its version.
func (c versioned[O, L]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	created, err := c.client.Create(ctx, object, options)
	c.version.written(created, err)
	return created, err
}

// Update updates object and notes its version.
func (c versioned[O, L]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	updated, err := c.client.Update(ctx, object, options)
	c.version.written(updated, err)
	return updated, err
}

// Delete deletes the object name.
func (c versioned[O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	defer c.version.forget()
	return c.client.Delete(ctx, name, options)
}

// secrets are the Secrets that Helm keeps records in. The methods of versioned take the place of the client's own.
type secrets struct {
	versioned[*corev1.Secret, *corev1.SecretList]
	secretClient
}

type secretClient struct{ typedcorev1.SecretInterface }

func newSecrets(client typedcorev1.SecretInterface, seen *version) typedcorev1.SecretInterface {
	return secrets{versioned[*corev1.Secret, *corev1.SecretList]{client, seen}, secretClient{client}}
}

// configMaps are the ConfigMaps that Helm keeps records in. The methods of versioned take the place of the client's own.
type configMaps struct {
	versioned[*corev1.ConfigMap, *corev1.ConfigMapList]
	configMapClient
}

type configMapClient struct{ typedcorev1.ConfigMapInterface }

func newConfigMaps(client typedcorev1.ConfigMapInterface, seen *version) typedcorev1.ConfigMapInterface {
	return configMaps{versioned[*corev1.ConfigMap, *corev1.ConfigMapList]{client, seen}, configMapClient{client}}
}
