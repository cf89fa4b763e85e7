package operation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/client-go/dynamic"

	"addon-operator/internal/kube"
)

const (
	// fieldManager is in whose name objects are written.
	fieldManager = "addon-operator"

	defaultTimeout = 10 * time.Second

	// goneWithin bounds the wait of a Delete.
	goneWithin = 20 * time.Second

	// appearWithin bounds the wait for the kind of an object that is to be made: what defines it may have been made just
	// before, and takes the API server a moment.
	appearWithin = 10 * time.Second

	// conflictTries is how often a change is tried that meets newer versions.
	conflictTries = 10
)

// Options bound the requests of an [Executor]. The zero value is what the API server's own limits allow, and 10 s for an
// answer.
type Options struct {
	// QPS limits the requests a second that are sent; zero means no limit.
	QPS float32
	// Burst is how many requests more than QPS may be sent at once. It has no meaning without QPS.
	Burst int
	// Timeout bounds the wait for the answer to one request; zero means 10 s.
	Timeout time.Duration
}

// Executor does operations. It may be used from many goroutines at once.
type Executor struct {
	client  *kube.Client
	kinds   *kube.Kinds
	objects dynamic.Interface
	timeout time.Duration

	goneWithin, appearWithin time.Duration
}

// NewExecutor returns an executor for the cluster of client, with whose connections it works. Kinds, of the same client,
// has to run for kinds that appear to be noticed. It sends nothing.
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

// Attempt is what is known of earlier tries at an operation, and how to leave word for later ones.
type Attempt struct {
	// Since is when the operation was written down, before the first try.
	Since time.Time
	// Resumed is set unless this is the first try.
	Resumed bool
	// Awaited means that the kind of the object was not served in time for an earlier operation. This
	// one does not wait for it again.
	Awaited bool
	// Mark is what an earlier try noted last; nil is nothing.
	Mark *Mark
	// Note keeps a mark, so that it is there after a crash. It is called before the request the mark is about, and may be
	// called again. An error ends the try.
	Note func(Mark) error
}

// Mark is what a try writes down before it sends what cannot be told apart afterwards from what others do.
type Mark struct {
	// Name is the one chosen for an object that brought only the beginning of one.
	Name string `json:"name,omitempty"`
	// UID and ResourceVersion are of the object as it was before; both are empty where there was none.
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Expected is the checksum of what the object was to become, empty if that cannot be seen in it.
	Expected string `json:"expected,omitempty"`
	// Written is when we had written to the object last, by the clock of the API server.
	Written string `json:"written,omitempty"`
	// Object is the one it is about.
	Object kube.Ref `json:"-"`
}

// Do does o, unless it finds it done. [IsRefused] tells of an error whether to try the same again; what it says holds
// nothing of the object.
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
		x.client.Mapper().Reset() // what was known of the kind is wrong
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return explain(err)
}

// target is an operation with the place in the cluster it is about.
type target struct {
	Operation
	x      *Executor
	kind   kube.Kind
	object kube.Ref
	at     dynamic.ResourceInterface
}

// find resolves the kind of o.
func (x *Executor) find(ctx context.Context, o Operation, a Attempt) (*target, error) {
	kind, err := x.resolve(ctx, o, a)
	if err != nil {
		return nil, err
	}
	t := &target{Operation: o, x: x, kind: kind}
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

// resolve returns the kind of o. That of an object to be made may be about to appear.
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
		select {
		case kind := <-served:
			return kind, nil
		case <-limit.C:
		case <-ctx.Done():
			return kind, ctx.Err()
		}
	}
	if missing := (*kube.NotServedError)(nil); errors.As(err, &missing) && missing.Undiscovered != nil {
		return kind, err // it may be in a group that could not be looked into
	}
	return kind, refusal{err}
}

// within bounds one request.
func (t *target) within(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, t.x.timeout)
}

// subresources returns the path below the object that a patch is for.
func (t *target) subresources() []string {
	if t.Subresource == "" {
		return nil
	}
	return []string{t.Subresource}
}
