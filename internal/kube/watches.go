package kube

import (
	"context"
	"errors"
	"sync"
	"time"

	"addon-operator/internal/jq"
)

// Watches runs monitors and tells a receiver what they see change. It may be used from many goroutines at once.
type Watches struct {
	client     *Client
	kinds      *Kinds
	observer   Observer
	objects    *reads
	namespaces *reads // the sets of namespaces that monitors follow
	monitors   workers
}

// NewWatches returns watches that deliver changes to receiver. Monitors opened before [Watches.Run] runs wait for it. Kinds has to run as well.
func NewWatches(client *Client, kinds *Kinds, receiver Receiver, observer Observer) *Watches {
	quiet := observer // of what no owner has asked for
	quiet.Delivered = nil
	h := &Watches{
		client: client, kinds: kinds, observer: observer,
		objects:    newReads(client, receiver, observer),
		namespaces: newReads(client, silent{}, quiet),
	}
	h.namespaces.metadata = true
	return h
}

// Run runs the watches until ctx ends. It returns when no call to the receiver is under way and none will follow. Call it once.
func (h *Watches) Run(ctx context.Context) {
	var running sync.WaitGroup
	for _, c := range []*workers{&h.objects.workers, &h.namespaces.workers, &h.monitors} {
		running.Go(func() { c.run(ctx) })
	}
	running.Wait()
}

// Spec says what a monitor follows, and for whom.
type Spec struct {
	// Owner is the name by which the receiver is told who is concerned.
	Owner     string
	Selection Selection
	// Filter says what matters about an object; nil means everything.
	Filter *jq.Filter
	// KeepFull is true if whole objects are wanted, in snapshots and changes.
	KeepFull bool
	// Period is after which time all objects are listed again, and compared with what was told; zero is never. What is
	// followed by several owners is listed by the shortest of their periods.
	Period time.Duration
	// Resume is true if the owner followed the same in an earlier process, and was shown what there was: then
	// it is not new to the views the receiver knows, and all in those it does not know has appeared since, but for
	// namespaces that are followed by their labels.
	Resume bool
	// Delivered reports whether the owner that resumes is not new to a view the receiver knows; nil is true of all. One that is
	// was shown nothing of it, as its kind was not served, and the process ended before all of it was told.
	Delivered func(View) bool
}

// Open begins to follow what spec says, and returns at once. The error is that of a selection or name that is not valid.
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
