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
	// fieldManager is the field manager of written objects.
	fieldManager = "addon-operator"

	defaultTimeout = 10 * time.Second

	// goneWithin limits the wait of a Delete.
	goneWithin = 20 * time.Second

	// appearWithin limits the wait for the kind of an object to create. Its CRD may have been
	// created just before, and the API server needs a moment to serve it.
	appearWithin = 10 * time.Second

	// conflictTries is the maximum number of attempts of a write that meets conflicts.
	conflictTries = 10
)

// Options limit the requests of an [Executor]. The zero value means no limit of the rate, and a
// timeout of 10 s.
type Options struct {
	// QPS limits the requests per second; zero means no limit.
	QPS float32
	// Burst is the number of requests that may exceed QPS at once. It has no effect without QPS.
	Burst int
	// Timeout limits the wait for the answer to one request; zero means 10 s.
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

// NewExecutor returns an executor that uses the connections of client. Kinds must belong to the
// same client and must run, so that new kinds are noticed. It sends no request.
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

// IsWriter reports whether the operator is one of the field managers of a [kube.Object].
func IsWriter(managers string) bool {
	return slices.Contains(strings.Fields(managers), fieldManager)
}

// Attempt describes the earlier attempts at an operation, and records marks for later ones.
type Attempt struct {
	// Since is when the operation was stored, before the first attempt.
	Since time.Time
	// Resumed is true unless this is the first attempt.
	Resumed bool
	// Awaited means that the wait of an earlier operation for the kind of the object has timed out.
	// This operation does not wait for the kind again.
	Awaited bool
	// Mark is the last mark of an earlier attempt; nil if there is none.
	Mark *Mark
	// Note stores a mark durably. It is called before the request that the mark describes, and may
	// be called several times. An error ends the attempt.
	Note func(Mark) error
	// Wrote is called after each request that may have changed an object, with the version of the object
	// after the request. It must not block. Nil means no call.
	Wrote func(object kube.Ref, resourceVersion string)
}

// Mark is recorded before a request whose effect cannot be distinguished afterwards from the
// effects of other clients.
type Mark struct {
	// Name is the chosen name of an object with generateName.
	Name string `json:"name,omitempty"`
	// UID and ResourceVersion are those of the object before the request; both are empty if it did
	// not exist.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Expected is the checksum of the object after the request, empty if the request does not
	// change the checksum.
	Expected string `json:"expected,omitempty"`
	// Written is the time of the operator's last write to the object before the request, by the
	// clock of the API server.
	Written string `json:"written,omitempty"`
	// Object is the object of the request.
	Object kube.Ref `json:"-"`
}

// Do executes o, unless it finds that o is already done. [IsRefused] reports whether an error is
// final. An error contains no content of the object.
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
		x.client.Mapper().Reset() // the cached kind is wrong
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return explain(err)
}

// target is an operation with its resolved kind and object.
type target struct {
	Operation
	x      *Executor
	kind   kube.Kind
	object kube.Ref
	at     dynamic.ResourceInterface
	wrote  func(object kube.Ref, resourceVersion string) // may be nil
}

// written returns the error of a request. If there is none, it reports the written object.
func (t *target) written(object *unstructured.Unstructured, err error) error {
	if err == nil && object != nil && t.wrote != nil {
		ref := t.object
		ref.Name = object.GetName()
		t.wrote(ref, object.GetResourceVersion())
	}
	return err
}

// find resolves the kind of o.
func (x *Executor) find(ctx context.Context, o Operation, a Attempt) (*target, error) {
	kind, err := x.resolve(ctx, o, a)
	if err != nil {
		return nil, err
	}
	t := &target{Operation: o, x: x, kind: kind, wrote: a.Wrote}
	apiVersion, name := kind.ToAPIVersionAndKind()
	t.object = kube.Ref{APIVersion: apiVersion, Kind: name, Name: o.Name}
	resources := x.objects.Resource(kind.GroupVersionResource())
	t.at = resources
	if kind.Namespaced {
		if o.Namespace == "" {
			return nil, refuse("%s is in namespaces, but no namespace is given", kind.Kind)
		}
		t.object.Namespace, t.at = o.Namespace, resources.Namespace(o.Namespace)
	}
	return t, nil
}

// resolve returns the kind of o. For an operation that creates an object, it waits for the kind to
// appear.
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
		return kind, err // the kind may be in a group whose discovery failed
	}
	return kind, refusal{err}
}

// write begins a write of o to the API server. The returned context has the timeout of one request. The
// returned function must be called with the error of the write, which it returns.
func (t *target) write(ctx context.Context, verb string, o kube.Ref) (context.Context, func(error) error) {
	ctx, end := kube.StartWrite(ctx, verb, o, t.Subresource)
	ctx, cancel := t.within(ctx)
	return ctx, func(err error) error {
		cancel()
		end(explain(err))
		return err
	}
}

// within returns a context with the timeout of one request.
func (t *target) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.x.timeout)
}

// subresources returns the subresource of a patch, if any.
func (t *target) subresources() []string {
	if t.Subresource == "" {
		return nil
	}
	return []string{t.Subresource}
}
