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

// version is the minimum resource version for lists of release records. It is the resource version of the first list
// after the start, a delete, a failed write or a refused minimum version. If a write that ended during this list or
// after it has a newer version, it is the version of this write. If a list request has such a minimum version, the API
// server can answer it from its cache at once. If a request asks for the newest version, the API server waits until its
// cache has caught up with etcd, up to 0.1 s for a kind that did not change. The zero value requests the newest
// version. A version is safe for concurrent use.
type version struct {
	mu        sync.Mutex
	oldest    string // the minimum version; "" requests the newest version
	since     string // the version of the latest write since oldest became ""; "" if there was none
	forgotten int    // number of calls of forget so far
}

// listNotBefore calls list with options that request at least the version v, and returns the result. If the API server
// has only older versions, listNotBefore requests its newest version, which becomes the minimum version. With the old
// minimum version, each list would wait for half a minute and more, because the client repeats a refused request.
func listNotBefore[L metav1.ListInterface](v *version, options metav1.ListOptions, list func(metav1.ListOptions) (L, error)) (L, error) {
	v.mu.Lock()
	oldest, forgotten := v.oldest, v.forgotten
	v.mu.Unlock()
	options.ResourceVersion = oldest
	listed, err := list(options)
	if apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) { // for example, etcd was restored from a backup
		v.lower(oldest)
		options.ResourceVersion = ""
		listed, err = list(options)
	}
	if err != nil {
		return listed, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.forgotten == forgotten && v.oldest == "" {
		// A write that ended meanwhile may be newer than the list.
		v.oldest = newer(listed.GetResourceVersion(), v.since)
	}
	return listed, nil
}

// lower makes the next list request the newest version, if the minimum version is still oldest.
func (v *version) lower(oldest string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.oldest == oldest {
		v.oldest, v.since = "", ""
	}
}

// newer returns the newer of two versions. It returns a if b is "", b if a is "", and "" if the versions cannot be
// compared.
func newer(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	switch order, err := resourceversion.CompareResourceVersion(a, b); {
	case err != nil:
		return ""
	case order < 0:
		return b
	default:
		return a
	}
}

// written must be called after each create or update, with the result of the request. If the resource version of the
// object is newer than the minimum version, it becomes the minimum version. After an error, written calls forget.
// Between a delete and the end of the next list, the minimum version stays "", because a write that ran at the same
// time as the delete may have an older version.
func (v *version) written(object metav1.Object, err error) {
	if err != nil {
		v.forget() // the write may have succeeded
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.oldest == "" {
		v.since = newer(v.since, object.GetResourceVersion())
		return
	}
	v.oldest = newer(v.oldest, object.GetResourceVersion())
}

// forget makes the next list request the newest version. It must be called after each delete, because the response to
// a delete has no resource version.
func (v *version) forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.oldest, v.since = "", ""
	v.forgotten++
}

// objectsClient has the methods of a typed client that Helm uses for its records. O is the type of the objects, and L
// is the type of their lists.
type objectsClient[O metav1.Object, L metav1.ListInterface] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Create(context.Context, O, metav1.CreateOptions) (O, error)
	Update(context.Context, O, metav1.UpdateOptions) (O, error)
	Delete(context.Context, string, metav1.DeleteOptions) error
}

// versioned is a client for the objects of Helm's records. Its lists contain all writes that were made with it.
type versioned[O metav1.Object, L metav1.ListInterface] struct {
	client  objectsClient[O, L]
	version *version
}

// List returns objects. The result shows all earlier writes of this client.
func (c versioned[O, L]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
	return listNotBefore(c.version, options, func(o metav1.ListOptions) (L, error) { return c.client.List(ctx, o) })
}

// Create creates object, and remembers its resource version for lists.
func (c versioned[O, L]) Create(ctx context.Context, object O, options metav1.CreateOptions) (O, error) {
	created, err := c.client.Create(ctx, object, options)
	c.version.written(created, err)
	return created, err
}

// Update updates object, and remembers its resource version for lists.
func (c versioned[O, L]) Update(ctx context.Context, object O, options metav1.UpdateOptions) (O, error) {
	updated, err := c.client.Update(ctx, object, options)
	c.version.written(updated, err)
	return updated, err
}

// Delete deletes an object, and makes the next list request the newest version.
func (c versioned[O, L]) Delete(ctx context.Context, name string, options metav1.DeleteOptions) error {
	defer c.version.forget()
	return c.client.Delete(ctx, name, options)
}

// secrets is a client for the Secrets in which Helm stores records. If versioned and secretClient have a method with
// the same name, that of versioned is used, because secretClient embeds an interface, and so its methods are one level
// deeper.
type secrets struct {
	versioned[*corev1.Secret, *corev1.SecretList]
	secretClient
}

type secretClient struct{ typedcorev1.SecretInterface }

func newSecrets(client typedcorev1.SecretInterface, seen *version) typedcorev1.SecretInterface {
	return secrets{versioned[*corev1.Secret, *corev1.SecretList]{client, seen}, secretClient{client}}
}

// configMaps is a client for the ConfigMaps in which Helm stores records. If versioned and configMapClient have a
// method with the same name, that of versioned is used, because configMapClient embeds an interface, and so its methods
// are one level deeper.
type configMaps struct {
	versioned[*corev1.ConfigMap, *corev1.ConfigMapList]
	configMapClient
}

type configMapClient struct{ typedcorev1.ConfigMapInterface }

func newConfigMaps(client typedcorev1.ConfigMapInterface, seen *version) typedcorev1.ConfigMapInterface {
	return configMaps{versioned[*corev1.ConfigMap, *corev1.ConfigMapList]{client, seen}, configMapClient{client}}
}
