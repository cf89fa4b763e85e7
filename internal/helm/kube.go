package helm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/resource"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"

	"addon-operator/internal/span"
)

// objectClient is the client with which Helm reads and writes the objects of a release in one action. It differs from
// Helm's own client:
//
//   - It never reads the OpenAPI documents of the API server. Helm's client reads them for each Helm hook, which takes
//     longer than the rest of an upgrade.
//   - Its waits end when the context of the action ends. The waits of Helm's client last until their timeout.
//   - It keeps the errors of an uninstall. Helm only reports that there were errors.
//   - It does not delete objects that belong to another release.
//   - An upgrade changes custom resources that the release takes over. Helm leaves them as they are.
//   - It returns an error if an upgrade cannot delete an object that is not in the new revision. Helm only logs it.
type objectClient struct {
	*kube.Client
	release  string
	stopped  func() error // returns the error of the context of the action
	within   func(time.Duration) (context.Context, context.CancelFunc)
	await    func(hook Object) (over func(error)) // called when a wait for a Helm hook starts; the returned function is called when the wait ends
	failures []error
	absent   func(*meta.RESTMapping, error) (bool, error) // see cluster.absent

	// unfinished says that the last action on the release has failed or was killed, so that objects can differ from the
	// revision with which Helm compares the new one. An upgrade then compares custom resources with the cluster, too.
	unfinished bool

	mu   sync.Mutex
	kept []Kept // guarded by mu

	// reads caches objects, if the action reads the same objects several times. It is nil for other actions.
	reads *reads
}

var (
	_ kube.InterfaceExt                 = (*objectClient)(nil)
	_ kube.InterfaceThreeWayMerge       = (*objectClient)(nil)
	_ kube.InterfaceDeletionPropagation = (*objectClient)(nil)
)

// objects returns the client for the objects of one action on a release. It sends its requests with config. Its waits
// end when ctx ends.
func (a *actions) objects(ctx context.Context, config *rest.Config, release string) *objectClient {
	k := kube.New(a.getter(config))
	k.Log = a.log
	k.Namespace = a.namespace
	o := &objectClient{Client: k, release: release, stopped: ctx.Err, within: func(timeout time.Duration) (context.Context, context.CancelFunc) {
		return context.WithTimeout(ctx, timeout)
	}}
	o.absent = func(mapping *meta.RESTMapping, err error) (bool, error) {
		return a.cluster.absent(context.WithoutCancel(ctx), mapping, err)
	}
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

// awaitsKey is the context key for the function that [WithAwaits] stores.
type awaitsKey struct{}

// WithAwaits returns a context for an action of a Client. The action calls awaits when it begins to wait for the Job
// or Pod of a Helm hook. When the wait ends, the action calls the function that awaits has returned.
func WithAwaits(ctx context.Context, awaits func(Object) (ended func())) context.Context {
	return context.WithValue(ctx, awaitsKey{}, awaits)
}

// IsReachable implements kube.Interface. It sends no request, because the action has just read the records of the
// release from the API server.
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

// WatchUntilReady waits until the Jobs and Pods among the Helm hooks have completed or were deleted. WatchUntilReady
// returns an error if one of them fails or takes longer than timeout.
func (o *objectClient) WatchUntilReady(hooks kube.ResourceList, timeout time.Duration) error {
	if o.reads != nil {
		defer o.reads.clear() // Helm hooks may have changed any object
	}
	for _, hook := range hooks {
		of := hook.Mapping.GroupVersionKind
		if of.Kind != "Job" && of.Kind != "Pod" {
			continue
		}
		over := o.await(Object{APIVersion: of.GroupVersion().String(), Kind: of.Kind, Namespace: hook.Namespace, Name: hook.Name})
		err := o.wait(hook, timeout, nil, func(e watch.Event) (bool, error) {
			if e.Type == watch.Deleted {
				return true, nil // something has deleted the hook, usually because it had completed
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

// WaitForDelete waits until none of the objects, which are being deleted, exists.
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

// wait watches one object until one of the two functions returns true. The first function is called once, with the
// listed objects; it may be nil. The second function is called for each event. If the operator may not list or watch
// such objects, wait returns the error of the API server at once.
func (o *objectClient) wait(of *resource.Info, timeout time.Duration, already watchtools.PreconditionFunc, done watchtools.ConditionFunc) error {
	ctx, cancel := o.within(timeout)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	source := cache.NewListWatchFromClient(of.Client, of.Mapping.Resource.Resource, of.Namespace,
		fields.OneTermEqualSelector("metadata.name", of.Name))
	_, err := watchtools.UntilWithSync(ctx, endingIfForbidden(source, end), &unstructured.Unstructured{}, already, done)
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("not done within %s: see its events and logs, or raise HELM_TIMEOUT", timeout)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return err
	}
}

// endingIfForbidden returns a copy of source that calls end if the API server forbids a list or a watch. Package cache
// would retry such requests endlessly.
func endingIfForbidden(source *cache.ListWatch, end context.CancelCauseFunc) *cache.ListWatch {
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := source.ListWithContext(ctx, options)
			if apierrors.IsForbidden(err) {
				end(err)
			}
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			events, err := source.WatchWithContext(ctx, options)
			// If SendInitialEvents is set, package cache next tries a list.
			if apierrors.IsForbidden(err) && options.SendInitialEvents == nil {
				end(err)
			}
			return events, err
		},
	}
}

// ended reports whether the Job or Pod in a watch event has completed. ended returns an error if the Job or Pod has
// failed.
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
