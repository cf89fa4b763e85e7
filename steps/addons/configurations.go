package addons

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"addon-operator/internal/api"
)

// Configurations reads and writes addons configurations on the API server, and reads the Secrets that they name. Only
// [Configurations.Reprocess] writes the spec.
type Configurations struct{ client dynamic.Interface }

// NewConfigurations returns Configurations that use client.
func NewConfigurations(client dynamic.Interface) *Configurations { return &Configurations{client} }

// requestTimeout is the maximum time for one request to the API server. Without it, a step would wait for ever for an
// API server, or an admission webhook, that does not respond.
const requestTimeout = 30 * time.Second

// errNoResponse is the error of a request that takes longer than requestTimeout.
var errNoResponse = fmt.Errorf("the API server did not respond within %s", requestTimeout)

// request calls the function send, which sends one request. The context of send ends after requestTimeout. If the
// context ends before the response, request returns the cause.
func request(ctx context.Context, send func(context.Context) (*unstructured.Unstructured, error)) (*unstructured.Unstructured, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, requestTimeout, errNoResponse)
	defer cancel()
	object, err := send(ctx)
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return object, err
}

var secrets = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}

func (c *Configurations) of(id api.Identity) dynamic.ResourceInterface {
	if id.Namespace == "" {
		return c.client.Resource(id.Resource())
	}
	return c.client.Resource(id.Resource()).Namespace(id.Namespace)
}

// Get returns a configuration, and whether it exists. It returns an error if the API server does not serve the kind
// of the configuration.
func (c *Configurations) Get(ctx context.Context, id api.Identity) (*api.Configuration, bool, error) {
	object, err := request(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.of(id).Get(ctx, id.Name, metav1.GetOptions{})
	})
	if apierrors.IsNotFound(err) && !isNotServed(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("get %s %s: %w", id.Kind(), id, err)
	}
	configuration, err := decode(id, object)
	return configuration, err == nil, err
}

// isNotServed reports whether err means that the API server does not serve the kind of the object. It returns false
// if only the object does not exist.
func isNotServed(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

func decode(id api.Identity, object *unstructured.Unstructured) (*api.Configuration, error) {
	configuration := new(api.Configuration)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, configuration); err != nil {
		return nil, fmt.Errorf("read %s %s: %w", id.Kind(), id, err)
	}
	return configuration, nil
}

// An unavailableError means that a request has failed, and that the API server has not rejected it; see [isRejected].
// Another attempt may succeed.
type unavailableError struct{ error }

// Unwrap returns the error of the request.
func (e *unavailableError) Unwrap() error { return e.error }

// Secret returns the data of a Secret. If the request fails, the error is an [unavailableError], unless a name is
// invalid or the API server has rejected the request; see [isRejected].
func (c *Configurations) Secret(ctx context.Context, namespace, name string) (map[string][]byte, error) {
	object, err := request(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.client.Resource(secrets).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
	})
	if err != nil {
		err = fmt.Errorf("while getting secret %s/%s: %w", namespace, name, err)
		if isObjectName(namespace) && isObjectName(name) && !isRejected(err) {
			err = &unavailableError{err}
		}
		return nil, err
	}
	var secret struct {
		Data map[string][]byte `json:"data"`
	}
	text, err := object.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(text, &secret)
	}
	if err != nil {
		return nil, fmt.Errorf("while reading secret %s/%s", namespace, name) // the cause may contain a secret value
	}
	return secret.Data, nil
}

// isObjectName reports whether name can be the name of an object or a namespace in the URL of a request. If it cannot,
// the client returns an error and sends no request.
func isObjectName(name string) bool { return name != "" && len(rest.IsValidPathSegmentName(name)) == 0 }

// A metadataPatch is the metadata in a patch. The API server rejects the patch if the object has another UID or
// another resourceVersion. Fields that are empty in the patch are not compared.
type metadataPatch struct {
	UID             types.UID `json:"uid,omitempty"`
	ResourceVersion string    `json:"resourceVersion,omitempty"`
	Finalizers      *[]string `json:"finalizers,omitempty"`
}

// A patch is a JSON merge patch of a configuration.
type patch struct {
	Metadata metadataPatch `json:"metadata"`
	Spec     *specPatch    `json:"spec,omitempty"`
	Status   any           `json:"status,omitempty"`
}

type specPatch struct {
	ReprocessRequest int64 `json:"reprocessRequest"`
}

func (c *Configurations) patch(ctx context.Context, id api.Identity, p patch, subresources ...string) error {
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	_, err = request(ctx, func(ctx context.Context) (*unstructured.Unstructured, error) {
		return c.of(id).Patch(ctx, id.Name, types.MergePatchType, text, metav1.PatchOptions{}, subresources...)
	})
	return err
}

// change reads the configuration and applies the patch that the function p returns for it. If another client changes
// the configuration in between, change repeats both, up to three times. The method does nothing if the configuration
// does not exist or has another UID, or if p returns nil.
func (c *Configurations) change(ctx context.Context, id api.Identity, uid types.UID, p func(*api.Configuration) *patch) error {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live, ok, err := c.Get(ctx, id)
		if err != nil || !ok || live.UID != uid {
			return err
		}
		change := p(live)
		if change == nil {
			return nil
		}
		change.Metadata.ResourceVersion = live.ResourceVersion
		err = c.patch(ctx, id, *change)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("patch %s %s: %w", id.Kind(), id, err)
	}
	return nil
}

// AddFinalizer adds the operator's finalizer to a configuration. It does nothing if the configuration already has the
// finalizer, is being deleted, does not exist or has another UID.
func (c *Configurations) AddFinalizer(ctx context.Context, id api.Identity, uid types.UID) error {
	return c.change(ctx, id, uid, func(live *api.Configuration) *patch {
		if live.DeletionTimestamp != nil || slices.Contains(live.Finalizers, api.Finalizer) {
			return nil
		}
		finalizers := append(slices.Clone(live.Finalizers), api.Finalizer)
		return &patch{Metadata: metadataPatch{Finalizers: &finalizers}}
	})
}

// RemoveFinalizer removes the operator's finalizer from a configuration. It does nothing if the configuration lacks the
// finalizer, is not being deleted, does not exist or has another UID.
func (c *Configurations) RemoveFinalizer(ctx context.Context, id api.Identity, uid types.UID) error {
	return c.change(ctx, id, uid, func(live *api.Configuration) *patch {
		if live.DeletionTimestamp == nil || !slices.Contains(live.Finalizers, api.Finalizer) {
			return nil
		}
		finalizers := slices.DeleteFunc(slices.Clone(live.Finalizers), func(f string) bool { return f == api.Finalizer })
		return &patch{Metadata: metadataPatch{Finalizers: &finalizers}}
	})
}

// Reprocess increments spec.reprocessRequest. It does nothing if the field differs from the argument before, or if the
// configuration does not exist, has another UID or is being deleted.
func (c *Configurations) Reprocess(ctx context.Context, id api.Identity, uid types.UID, before int64) error {
	return c.change(ctx, id, uid, func(live *api.Configuration) *patch {
		if live.DeletionTimestamp != nil || live.Spec.ReprocessRequest != before {
			return nil
		}
		return &patch{Spec: &specPatch{ReprocessRequest: before + 1}}
	})
}

// WriteStatus replaces the status of the configuration if the configuration still has this UID. Otherwise the
// configuration was deleted, and WriteStatus returns false.
func (c *Configurations) WriteStatus(ctx context.Context, id api.Identity, uid types.UID, status api.Status) (ok bool, err error) {
	err = c.patch(ctx, id, patch{Metadata: metadataPatch{UID: uid}, Status: replacement(status)}, "status")
	if err == nil {
		return true, nil
	}
	if live, exists, e := c.Get(ctx, id); e == nil && (!exists || live.UID != uid) {
		return false, nil // the configuration was deleted, and perhaps created again
	}
	return false, fmt.Errorf("write the status of %s %s: %w", id.Kind(), id, err)
}

// replacement returns the fields of status for a merge patch. The fields observedGeneration and repositories are in
// the patch even if they are empty, so that the patch replaces old values.
func replacement(status api.Status) any {
	return struct {
		api.Status
		ObservedGeneration int64                  `json:"observedGeneration"`
		Repositories       []api.RepositoryStatus `json:"repositories"`
	}{status, status.ObservedGeneration, status.Repositories}
}
