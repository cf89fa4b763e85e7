package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"addon-operator/internal/jq"
)

// Watches runs monitors and delivers changes to a receiver. It is safe for concurrent use.
type Watches struct {
	client     *Client
	kinds      *Kinds
	observer   Observer
	objects    *reads
	namespaces *reads // the namespaces that monitors select by labels
	monitors   workers
}

// NewWatches returns watches that deliver changes to receiver. Monitors that are opened before
// [Watches.Run] is called start when it is called. The caller must also run kinds.
func NewWatches(client *Client, kinds *Kinds, receiver Receiver, observer Observer) *Watches {
	quiet := observer // no owner has requested the watches of namespaces
	quiet.Delivered = nil
	h := &Watches{
		client: client, kinds: kinds, observer: observer,
		objects:    newReads(client, receiver, observer),
		namespaces: newReads(client, silent{}, quiet),
	}
	h.namespaces.metadata = true
	return h
}

// Run runs the watches until ctx ends. When Run returns, no call of the receiver is running and
// none will follow. Call Run once.
func (h *Watches) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range []*workers{&h.objects.workers, &h.namespaces.workers, &h.monitors} {
		running.Go(func() { c.run(ctx) })
	}
	running.Wait()
}

// Spec describes a monitor.
type Spec struct {
	// Owner is the name of the owner in calls of the receiver.
	Owner     string
	Selection Selection
	// Filter selects the relevant content of an object; nil means all content.
	Filter *jq.Filter
	// KeepFull includes full objects in snapshots and changes.
	KeepFull bool
	// Period is the interval of periodic lists, which the receiver compares with the delivered
	// objects; zero means no such lists. If a source has several owners, the shortest of their
	// periods is used.
	Period time.Duration
	// Resume is true if the owner followed the same selection in an earlier process, and the
	// snapshot was delivered. Then no list is delivered for this owner if the receiver has stored
	// the view. If the receiver has not stored a view, all its objects are delivered with cause
	// [Appeared]. This does not apply to a selection with NamespaceLabels.
	Resume bool
	// Delivered reports whether a stored view was delivered to the resuming owner. Nil means that
	// all stored views were delivered. Delivered returns false for a view if the kind was not
	// served at first, and the earlier process ended before it had delivered the view to this
	// owner.
	Delivered func(View) bool
}

// Open starts a monitor and returns at once. It returns an error if the selection or the owner's
// name is invalid.
func (h *Watches) Open(spec Spec) (*Monitor, error) {
	if spec.Owner == "" {
		return nil, errors.New("open a monitor: the owner has no name")
	}
	p, err := spec.Selection.plan()
	if err != nil {
		return nil, err
	}
	m := &Monitor{
		watches: h, spec: spec, plan: p,
		wake: make(chan struct{}, 1), moved: make(chan struct{}), places: map[Source]place{}, known: map[Source]bool{},
	}
	m.stop = h.monitors.start(m.run)
	return m, nil
}
