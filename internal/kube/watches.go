package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"addon-operator/internal/jq"
)

// Watches runs monitors, and delivers the changes of their objects to a receiver. It is safe for concurrent use.
type Watches struct {
	client     *Client
	kinds      *Kinds
	observer   Observer
	objects    *reads
	namespaces *reads // for the namespaces that monitors select by labels
	monitors   workers

	undecidedWithin time.Duration
}

// NewWatches returns a Watches that delivers changes to receiver. If a monitor is opened before [Watches.Run] is
// called, it starts when Run is called. The caller must also call the Run method of kinds.
func NewWatches(client *Client, kinds *Kinds, receiver Receiver, observer Observer) *Watches {
	quiet := observer // without the function Delivered, because the silent receiver ignores the changes of namespaces
	quiet.Delivered = nil
	h := &Watches{
		client: client, kinds: kinds, observer: observer,
		objects:    newReads(client, receiver, observer),
		namespaces: newReads(client, silent{}, quiet),

		undecidedWithin: undecidedWithin,
	}
	h.namespaces.metadata = true
	return h
}

// Run runs the watches until ctx ends. When Run returns, no call of the receiver is running, and there will be no
// further calls. Call Run once.
func (h *Watches) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range []*workers{&h.objects.workers, &h.namespaces.workers, &h.monitors} {
		running.Go(func() { c.run(ctx) })
	}
	running.Wait()
}

// Spec describes a monitor.
type Spec struct {
	// Owner is the name by which the receiver knows the owner.
	Owner     string
	Selection Selection
	// Filter selects the relevant content of an object. If it is nil, all content is relevant.
	Filter *jq.Filter
	// KeepFull means that snapshots and changes contain the full objects.
	KeepFull bool
	// Period is the interval of periodic lists, which the receiver compares with the objects that were delivered. Zero
	// means that the owner needs no such lists. If a source has several owners, the shortest of their periods is used.
	Period time.Duration
	// Resume is true if the owner has already followed the same selection in an earlier process, and got its snapshot.
	// In this case, the views that were not delivered to the owner in that process are delivered with the cause
	// [Appeared] or, for a selection with NamespaceLabels, usually with the cause [First] or [Joined].
	Resume bool
	// Delivered reports whether the receiver has stored a view, and the view was delivered to this owner in an earlier
	// process. The owner need not have got its whole snapshot. Of such a view, only the changes since then are
	// delivered. If Delivered is nil, it is treated as a function that returns Resume.
	Delivered func(View) bool
	// Earlier returns the views for which Delivered returns true; the field Kind of their sources can be empty. If the
	// selection has no APIVersion, and all these views have the same version, this version is preferred as long as it is
	// served. If the selection has NamespaceLabels, the namespace of such a view may not match any more. In this case,
	// the remaining changes of the view are delivered, such as deletions of objects, and then [Receiver.Left] is called.
	// If Earlier is nil, there are no such views.
	Earlier func() []View
}

// wasDelivered reports whether v was delivered to the owner in an earlier process.
func (s Spec) wasDelivered(v View) bool {
	if s.Delivered == nil {
		return s.Resume
	}
	return s.Delivered(v)
}

// Open starts a monitor and returns at once. If the selection or the name of the owner is invalid, it returns an
// error.
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
