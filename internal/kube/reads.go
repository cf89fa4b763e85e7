package kube

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"addon-operator/internal/jq"
)

// versionEvery is the delay after which a receiver gets a version that has advanced without a change.
const versionEvery = time.Minute

// reads has the watches for one receiver. There is one watch for each source.
type reads struct {
	client       *Client
	receiver     Receiver
	observer     Observer
	metadata     bool // whether only the metadata of objects are read
	versionEvery time.Duration
	workers      workers

	mu      sync.Mutex
	watches map[Source]*watch
	ending  map[Source]<-chan struct{} // the field done of each watch that was stopped, but has not ended yet
}

func newReads(client *Client, receiver Receiver, observer Observer) *reads {
	return &reads{
		client: client, receiver: receiver, observer: observer, versionEvery: versionEvery,
		watches: map[Source]*watch{}, ending: map[Source]<-chan struct{}{},
	}
}

// place represents one owner of one view.
type place struct {
	reads *reads
	watch *watch
	view  *view
	owner *owner
}

// join adds o to the owners of the view with this source and filter. If there is no watch of the source yet, join
// starts one.
func (r *reads) join(source Source, filter *jq.Filter, o *owner) place {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := r.watches[source]
	if f == nil {
		f = &watch{
			source: source, reads: r, picks: source.picker(), previous: r.ending[source],
			done: make(chan struct{}), wake: make(chan struct{}, 1), views: views{},
		}
		r.watches[source] = f
		delete(r.ending, source)
	}
	f.mu.Lock()
	v := f.views[filter.String()]
	if v == nil {
		v = &view{name: View{source, filter.String()}, filter: filter, objects: map[objectKey]*Object{}}
		f.views[filter.String()] = v
	}
	o.ready = make(chan struct{})
	v.owners, v.whom = append(v.owners, o), nil
	f.mu.Unlock()
	signal(f.wake)
	if f.stop == nil {
		f.stop = r.workers.start(f.run)
	}
	return place{r, f, v, o}
}

// remove removes o from the owners of the view v. If v has no owners left, v is deleted. If the watch f has no views
// left, f is stopped.
func (r *reads) remove(f *watch, v *view, o *owner) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f.mu.Lock()
	v.owners, v.whom = slices.DeleteFunc(v.owners, func(other *owner) bool { return other == o }), nil
	if len(v.owners) == 0 && f.views[v.name.Filter] == v {
		delete(f.views, v.name.Filter)
	}
	if v.full && !v.wantsFull() {
		v.slim()
	}
	empty := len(f.views) == 0
	f.mu.Unlock()
	if empty && r.watches[f.source] == f {
		delete(r.watches, f.source)
		r.ending[f.source] = f.done
		f.stop()
	}
}

// ended is called when f has ended.
func (r *reads) ended(f *watch) {
	close(f.done)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending[f.source] == f.done {
		delete(r.ending, f.source)
	}
}

// callReceiver calls the given function with the receiver until the function returns no error. The delays between the
// calls grow. If ctx ends first, callReceiver returns the error of ctx.
func (r *reads) callReceiver(ctx context.Context, source Source, call func(Receiver) error) error {
	var again retry
	for {
		err := call(r.receiver)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.observer.receiverFailed(source, err)
		again.pause(ctx, err, nil)
	}
}

// leave removes the owner from the view. If deliver is true, the watch first delivers the pending changes and calls
// [Receiver.Left]; see there for an exception. Otherwise leave removes the owner at once, and does not call the
// receiver.
func (p place) leave(deliver bool) {
	if !deliver {
		p.reads.remove(p.watch, p.view, p.owner)
		return
	}
	p.watch.mu.Lock()
	p.owner.leaving = true
	p.watch.mu.Unlock()
	signal(p.watch.wake)
}

// snapshot returns the objects of the view, sorted by namespace and name, and whether they are full objects.
func (p place) snapshot() (objects []*Object, full bool) {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	return p.view.snapshot(), p.view.full
}

// problem returns the error of the last read of the source, or nil if this read was successful.
func (p place) problem() error {
	p.watch.mu.Lock()
	defer p.watch.mu.Unlock()
	return p.watch.err
}

// unknown returns the error for a caller that has waited for the list of the source until ctx has ended.
func (p place) unknown(ctx context.Context) error {
	return fmt.Errorf("the list of %s is not known yet: %w", p.watch.source, orEnd(ctx, p.problem()))
}
