package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"

	"addon-operator/internal/kube"
)

const (
	// fieldManager is the field manager for all writes of the package.
	fieldManager = "addon-operator"

	defaultTimeout = 10 * time.Second

	// goneWithin is the maximum time for which a Delete waits until the object no longer exists.
	goneWithin = 20 * time.Second

	// appearWithin is the maximum time for which an operation that creates an object waits until the API server
	// serves the kind of the object. The CRD of the kind may have been created just before, and the API server needs
	// a moment to serve the kind.
	appearWithin = 10 * time.Second

	// conflictTries is the maximum number of attempts to write an object while other writers cause
	// conflicts.
	conflictTries = 10
)

// Options limit the requests of an [Executor]. The zero value means no rate limit, and a timeout of
// 10 s for each request.
type Options struct {
	// QPS is the maximum number of requests per second; zero means no limit.
	QPS float32
	// Burst is the number of requests that may be sent at once, faster than QPS allows. If QPS is zero, Burst has no
	// effect. Otherwise, a Burst of zero means 10.
	Burst int
	// Timeout is the maximum time to wait for the answer to one request; zero means 10 s.
	Timeout time.Duration
}

// Executor executes operations. It is safe for concurrent use.
type Executor struct {
	client  *kube.Client
	kinds   *kube.Kinds
	objects dynamic.Interface
	timeout time.Duration

	goneWithin, appearWithin time.Duration
}

// NewExecutor returns an executor that uses the connections of client. The argument kinds must have been created for
// the same client. The Run method of kinds must be running, so that the executor can wait for new kinds. NewExecutor
// sends no request.
func NewExecutor(client *kube.Client, kinds *kube.Kinds, o Options) (*Executor, error) {
	config := client.Config()
	config.QPS, config.Burst = -1, o.Burst
	if o.QPS > 0 {
		config.QPS = o.QPS
	}
	objects, err := dynamic.NewForConfigAndClient(config, client.HTTP())
	if err != nil {
		return nil, fmt.Errorf("make a client for objects at %s: %w", config.Host, err)
	}
	return &Executor{
		client: client, kinds: kinds, objects: objects, timeout: cmp.Or(o.Timeout, defaultTimeout),
		goneWithin: goneWithin, appearWithin: appearWithin,
	}, nil
}

// IsWriter reports whether managers contains the field manager of the operator. The argument managers is the field
// Manager of a [kube.Object].
func IsWriter(managers string) bool {
	return slices.Contains(strings.Fields(managers), fieldManager)
}

// Attempt describes the earlier attempts to execute an operation, and records marks for later
// attempts.
type Attempt struct {
	// Since is a time before the operation was stored: the time at which the input of the hook was read.
	Since time.Time
	// Resumed is false for the first attempt and true for all later attempts.
	Resumed bool
	// Awaited is true if an earlier operation has waited for the same kind, and its wait has timed out. If Awaited is
	// true, this operation does not wait for the kind of its object.
	Awaited bool
	// Mark is the last mark of an earlier attempt; nil if there is none.
	Mark *Mark
	// Note stores a mark durably. It is called before the request that the mark describes, and may be called several
	// times. A deletion without a mark also calls it if the object does not exist; no request follows. If Note returns an
	// error, the attempt ends with this error.
	Note func(Mark) error
	// Write is called before each request that creates, updates, patches or deletes an object. The function
	// that it returns is called after the request, with the version of the object after the request. The
	// version is empty if the request failed or deleted the object. Both functions must not block. If Write
	// is nil, it is not called.
	Write func(object kube.Ref) (wrote func(resourceVersion string))
}

// Mark describes a request before it is sent. A later attempt compares the mark with the object, to
// find out whether the request had an effect.
type Mark struct {
	// Name is the name that the operator has chosen for an object with generateName.
	Name string `json:"name,omitempty"`
	// UID and ResourceVersion identify the object before the request. They are empty if the object did not exist.
	// Marks of deletions have no ResourceVersion.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Expected is the checksum of the object after the request; empty if the request does not
	// change the checksum.
	Expected string `json:"expected,omitempty"`
	// Changed describes the changes of a patch; nil if they cannot be recognized in the object.
	Changed *difference `json:"changed,omitempty"`
	// Object identifies the object that the request creates, changes or deletes.
	Object kube.Ref `json:"-"`
}

// Do executes o. If Do finds that an earlier attempt has already executed o, it does nothing. [IsRefused] reports
// whether an error of Do is final. No error contains the content of the object.
func (x *Executor) Do(ctx context.Context, o Operation, a Attempt) error {
	t, err := x.find(ctx, o, a)
	if err == nil {
		switch {
		case o.Type.creates():
			err = t.create(ctx, a)
		case o.Type.Deletes():
			err = t.delete(ctx, a)
		case o.Type == MergePatch:
			err = t.merge(ctx)
		default:
			err = t.change(ctx, a)
		}
	}
	if isUnserved(err) {
		x.client.Mapper().Reset() // the cached list of kinds is outdated
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return explain(err)
}

// target is an operation whose kind and object have been resolved.
type target struct {
	Operation
	x      *Executor
	kind   kube.Kind
	object kube.Ref
	at     dynamic.ResourceInterface
	report func(object kube.Ref) (wrote func(resourceVersion string)) // the field Write of the attempt; may be nil
}

// find resolves the kind and the object of o.
func (x *Executor) find(ctx context.Context, o Operation, a Attempt) (*target, error) {
	kind, err := x.resolve(ctx, o, a)
	if err != nil {
		return nil, err
	}
	t := &target{Operation: o, x: x, kind: kind, report: a.Write}
	apiVersion, name := kind.ToAPIVersionAndKind()
	t.object = kube.Ref{APIVersion: apiVersion, Kind: name, Name: o.Name}
	resources := x.objects.Resource(kind.GroupVersionResource())
	t.at = resources
	if kind.Namespaced {
		if o.Namespace == "" {
			return nil, refuse("%s is namespaced, but no namespace is given", kind.Kind)
		}
		t.object.Namespace, t.at = o.Namespace, resources.Namespace(o.Namespace)
	}
	return t, nil
}

// resolve returns the kind of o. If o creates an object and the API server does not serve its kind yet, resolve waits
// until it does, for at most x.appearWithin. If a.Awaited is true, it does not wait.
func (x *Executor) resolve(ctx context.Context, o Operation, a Attempt) (kube.Kind, error) {
	asking, cancel := context.WithTimeout(ctx, x.timeout)
	defer cancel()
	kind, err := x.kinds.Resolve(asking, o.APIVersion, o.Kind)
	if !errors.Is(err, kube.ErrNotServed) {
		return kind, err
	}
	if o.Type.creates() && !a.Awaited {
		served, stop := x.kinds.Served(o.APIVersion, o.Kind)
		defer stop()
		limit := time.NewTimer(x.appearWithin)
		defer limit.Stop()
		end := kube.StartWait(ctx, "kind", kube.Ref{APIVersion: o.APIVersion, Kind: o.Kind})
		select {
		case kind := <-served:
			end(nil)
			return kind, nil
		case <-limit.C:
			end(err)
		case <-ctx.Done():
			end(ctx.Err())
			return kind, ctx.Err()
		}
	}
	if missing := (*kube.NotServedError)(nil); errors.As(err, &missing) && missing.Undiscovered != nil {
		return kind, err // not final: the kind may be in a group whose discovery failed
	}
	return kind, refusal{err}
}

// write reports the request that writes the object o, and begins a trace span for it. The returned context has the
// timeout of one request. The caller must call the returned function with the written object, which may be nil, and the
// error of the request; the function returns this error.
func (t *target) write(ctx context.Context, verb string, o kube.Ref) (context.Context, func(*unstructured.Unstructured, error) error) {
	wrote := func(string) {}
	if t.report != nil {
		wrote = t.report(o)
	}
	ctx, end := kube.StartWrite(ctx, verb, o, t.Subresource)
	ctx, cancel := t.within(ctx)
	return ctx, func(written *unstructured.Unstructured, err error) error {
		cancel()
		version := ""
		if err == nil && written != nil {
			version = written.GetResourceVersion()
		}
		wrote(version)
		end(explain(err))
		return err
	}
}

// within returns a context with the timeout of one request.
func (t *target) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.x.timeout)
}

// subresources returns the last arguments of a call of the client: the subresource that the operation patches, or none
// if it changes the object itself.
func (t *target) subresources() []string {
	if t.Subresource == "" {
		return nil
	}
	return []string{t.Subresource}
}
