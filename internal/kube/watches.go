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
	namespaces *reads // the sets of namespaces that monitors follow
	monitors   workers
}

// NewWatches returns watches that deliver changes to receiver. Monitors opened before [Watches.Run]
// start when it runs. The caller must also run kinds.
func NewWatches(client *Client, kinds *Kinds, receiver Receiver, observer Observer) *Watches {
	quiet := observer // for watches of namespaces, which no owner has requested
	quiet.Delivered = nil
	h := &Watches{
		client: client, kinds: kinds, observer: observer,
		objects:    newReads(client, receiver, observer),
		namespaces: newReads(client, silent{}, quiet),
	}
	h.namespaces.metadata = true
	return h
}

// Run runs the watches until ctx ends. When it returns, no call to the receiver is running and none
// will follow. Call it once.
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
	// Period is the interval of periodic lists that are compared with the delivered objects; zero
	// means none. A source with several owners uses the shortest of their periods.
	Period time.Duration
	// Resume is true if the owner followed the same selection in an earlier process and got its
	// snapshot. Then it is not new to the views that the receiver has stored. All objects of other
	// views were added since, except in namespaces that are followed by their labels.
	Resume bool
	// Delivered reports whether a stored view was delivered to the resuming owner; nil means that
	// all were. It was not if the kind was not served and the process ended before the delivery was
	// complete.
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
