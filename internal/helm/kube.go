package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"addon-operator/internal/span"
)

// objectClient is Helm's client for the objects of one action, with these changes:
//
//   - It never reads the OpenAPI documents of the server. Helm reads them for each hook, which takes
//     longer than the rest of an upgrade.
//   - Its waits end when the action's context ends. Helm's waits last until their timeout.
//   - It keeps the errors of an uninstall. Helm reports only that there were errors.
//   - It does not delete objects that belong to another release.
type objectClient struct {
	*kube.Client
	release  string
	within   func(time.Duration) (context.Context, context.CancelFunc)
	await    func(hook Object) (over func(error)) // reports the start of a wait for a hook; over reports its end
	failures []error

	mu   sync.Mutex
	kept []Kept // guarded by mu

	// reads is the cache of an action that reads the same objects several times; nil for other
	// actions.
	reads *reads
}

var (
	_ kube.InterfaceExt                 = (*objectClient)(nil)
	_ kube.InterfaceThreeWayMerge       = (*objectClient)(nil)
	_ kube.InterfaceDeletionPropagation = (*objectClient)(nil)
)

// objects returns a client for an action on a release. The client sends its requests with config,
// and its waits end when ctx ends.
func (c *Client) objects(ctx context.Context, config *rest.Config, release string) *objectClient {
	k := kube.New(c.getter(config))
	k.Log = c.log
	k.Namespace = c.namespace
	o := &objectClient{Client: k, release: release, within: func(timeout time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, timeout)
	}}
	awaits, _ := ctx.Value(awaitsKey{}).(func(Object) func())
	o.await = func(hook Object) func(error) {
		_, waiting := span.Start(ctx, "helm hook", span.Attributes{
			"release": release, "api_version": hook.APIVersion, "kind": hook.Kind, "namespace": hook.Namespace, "name": hook.Name,
		})
		if awaits == nil {
			return waiting.End
		}
		over := awaits(hook)
		return func(err error) {
			over()
			waiting.End(err)
		}
	}
	return o
}

// awaitsKey is the context key of the function that is passed to WithAwaits.
type awaitsKey struct{}

// WithAwaits returns a context for an action. The action calls awaits when it begins to wait for
// the Job or Pod of a Helm hook. At the end of the wait, the action calls the function ended that
// awaits has returned.
func WithAwaits(ctx context.Context, awaits func(Object) (ended func())) context.Context {
	return context.WithValue(ctx, awaitsKey{}, awaits)
}

// IsReachable implements kube.Interface. It needs no request, because the records of the release
// were just read.
func (o *objectClient) IsReachable() error { return nil }

// Build implements kube.Interface.
func (o *objectClient) Build(manifest io.Reader, _ bool) (kube.ResourceList, error) {
	list, err := o.Client.Build(manifest, false)
	if err != nil {
		o.failures = append(o.failures, err)
	}
	if err == nil && o.reads != nil {
		o.reads.ahead.Wait()
		prefetch(list)
	}
	return list, err
}

// WatchUntilReady waits until hooks have completed, and returns an error if a hook fails. It waits
// only for Jobs and Pods.
func (o *objectClient) WatchUntilReady(hooks kube.ResourceList, timeout time.Duration) error {
	if o.reads != nil {
		defer o.reads.clear() // hooks may have changed any object
	}
	for _, hook := range hooks {
		of := hook.Mapping.GroupVersionKind
		if of.Kind != "Job" && of.Kind != "Pod" {
			continue
		}
		over := o.await(Object{APIVersion: of.GroupVersion().String(), Kind: of.Kind, Namespace: hook.Namespace, Name: hook.Name})
		err := o.wait(hook, timeout, nil, func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				return true, nil // the hook was deleted when it had completed
			}
			return ended(e)
		})
		over(err)
		if err != nil {
			return fmt.Errorf("hook %s %s/%s: %w", of.Kind, hook.Namespace, hook.Name, err)
		}
	}
	return nil
}

// WaitForDelete waits until objects that are being deleted are gone.
func (o *objectClient) WaitForDelete(objects kube.ResourceList, timeout time.Duration) error {
	for _, object := range objects {
		err := o.wait(object, timeout,
			func(there cache.Store) (bool, error) { return len(there.List()) == 0, nil },
			func(e watch.Event) (bool, error) { return e.Type == watch.Deleted, nil })
		if err != nil {
			return fmt.Errorf("wait for the deletion of %s %s/%s: %w",
				object.Mapping.GroupVersionKind.Kind, object.Namespace, object.Name, err)
		}
	}
	return nil
}

// wait watches one object until already or done returns true. It calls already once, with the first
// list, and done for each event.
func (o *objectClient) wait(of *resource.Info, timeout time.Duration, already watchtools.PreconditionFunc, done watchtools.ConditionFunc) error {
	ctx, cancel := o.within(timeout)
	defer cancel()
	source := cache.NewListWatchFromClient(of.Client, of.Mapping.Resource.Resource, of.Namespace,
		fields.OneTermEqualSelector("metadata.name", of.Name))
	_, err := watchtools.UntilWithSync(ctx, source, &unstructured.Unstructured{}, already, done)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not done within %s: see its events and logs, or raise HELM_TIMEOUT", timeout)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return err
	}
}

// ended reports whether the Job or Pod of an event has completed. It returns an error if the Job or
// Pod has failed.
func ended(e watch.Event) (bool, error) {
	object, ok := e.Object.(*unstructured.Unstructured)
	if !ok {
		return false, fmt.Errorf("the watch ended with %v", e.Object)
	}
	if object.GetKind() == "Pod" {
		phase, _, err := unstructured.NestedString(object.Object, "status", "phase")
		if phase == "Failed" {
			err = errors.New("the pod failed: see its logs")
		}
		return phase == "Succeeded", err
	}
	conditions, _, err := unstructured.NestedSlice(object.Object, "status", "conditions")
	if err != nil {
		return false, err
	}
	for _, c := range conditions {
		condition, ok := c.(map[string]any)
		if !ok || condition["status"] != "True" {
			continue
		}
		switch condition["type"] {
		case "Complete":
			return true, nil
		case "Failed":
			return false, fmt.Errorf("the job failed: %v: %v", condition["reason"], condition["message"])
		}
	}
	return false, nil
}
