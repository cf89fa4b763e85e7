package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// TellAbsent takes note that objects of a release are absent. If it returns an error, it is called again.
type TellAbsent func(ctx context.Context, release string, absent []Ref) error

// Absences tells of objects of releases that have vanished from the cluster. It watches the metadata of each kind in each
// namespace that has such objects, narrowed by their labels, and keeps only names. It may be used from many goroutines at
// once.
type Absences struct {
	client   *Client
	kinds    *Kinds
	labels   string
	observer Observer
	tell     TellAbsent
	reads    *reads
	wake     chan struct{} // has an element when there is something to look at

	mu       sync.Mutex
	releases map[string][]*expected
	places   map[Source]place
	listed   map[Source]bool               // the snapshot shows everything
	touched  map[Source]map[objectKey]bool // has come or gone since it was last looked at
	missing  map[Source]bool               // turned out not to be served
	awaited  map[Ref]bool                  // kinds, without names, that are waited for
}

// expected is an object that should be there.
type expected struct {
	release string
	ref     Ref
	source  Source // zero until the kind is resolved
	settled bool   // nothing to look at until it is touched
}

func (e *expected) key() objectKey { return objectKey{e.source.Namespace, e.ref.Name} }

// kind returns the expected object's kind as a ref without a name.
func (e *expected) kind() Ref { return Ref{APIVersion: e.ref.APIVersion, Kind: e.ref.Kind} }

// NewAbsences returns an Absences for objects that labels, a label selector, selects. Tell is called by one goroutine. Kinds
// has to run as well.
func NewAbsences(kinds *Kinds, labels string, tell TellAbsent, observer Observer) *Absences {
	a := &Absences{
		client: kinds.client, kinds: kinds, labels: labels, observer: observer, tell: tell,
		wake:     make(chan struct{}, 1),
		releases: map[string][]*expected{}, places: map[Source]place{}, listed: map[Source]bool{},
		touched: map[Source]map[objectKey]bool{}, missing: map[Source]bool{}, awaited: map[Ref]bool{},
	}
	a.reads = newReads(a.client, &vanishing{a}, observer)
	a.reads.metadata = true
	return a
}

// Run watches until ctx ends. It returns when no call to tell is under way and none will follow. Call it once.
func (a *Absences) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { a.reads.workers.run(ctx) })
	defer watching.Wait()
	var again retry
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		}
		for err := a.look(ctx); ctx.Err() == nil; err = a.look(ctx) {
			if err == nil {
				again.reset()
				break
			}
			again.pause(ctx, err, a.wake)
		}
	}
}

// Register says which objects a release should have, in place of what was said before. Those that are absent now are told,
// also if they were told before.
func (a *Absences) Register(release string, objects []Ref) {
	entries := make([]*expected, len(objects))
	for i, ref := range objects {
		entries[i] = &expected{release: release, ref: ref}
	}
	a.mu.Lock()
	a.releases[release] = entries
	a.mu.Unlock()
	signal(a.wake)
}

// Unregister says that nothing is expected of a release. A call to tell under way may still be about it.
func (a *Absences) Unregister(release string) {
	a.mu.Lock()
	delete(a.releases, release)
	a.mu.Unlock()
	signal(a.wake)
}

// look brings the watches in line with what is registered, finds out what is absent, and tells it. An error means that it
// has to look again.
func (a *Absences) look(ctx context.Context) error {
	a.leaveMissing(ctx)
	errs := []error{a.resolve(ctx)}
	a.arrange()
	absent := map[string][]*expected{}
	for _, e := range a.suspects() {
		exists, err := a.client.exists(ctx, e.source, e.ref)
		switch {
		case err != nil && IsRefused(err):
			a.observer.sourceFailed(e.source, err)
			a.settle([]*expected{e})
		case err != nil: // the server is away, which need not be found out for each
			a.observer.sourceFailed(e.source, err)
			return errors.Join(append(errs, err)...)
		case exists: // but without the labels, or it has come back: then it is seen
			a.settle([]*expected{e})
		default:
			absent[e.release] = append(absent[e.release], e)
		}
	}
	for _, release := range slices.Sorted(maps.Keys(absent)) {
		errs = append(errs, a.report(ctx, release, absent[release]))
	}
	return errors.Join(errs...)
}

// report tells that objects of a release are absent, but for those that are no longer expected.
func (a *Absences) report(ctx context.Context, release string, absent []*expected) error {
	a.mu.Lock()
	current := a.releases[release]
	absent = slices.DeleteFunc(absent, func(e *expected) bool { return !slices.Contains(current, e) })
	a.mu.Unlock()
	if len(absent) == 0 {
		return nil
	}
	refs := make([]Ref, len(absent))
	for i, e := range absent {
		refs[i] = e.ref
	}
	slices.SortFunc(refs, func(a, b Ref) int { return strings.Compare(a.String(), b.String()) })
	if err := a.tell(ctx, release, refs); err != nil {
		err = fmt.Errorf("tell that objects of release %s are absent: %w", release, err)
		a.observer.receiverFailed(absent[0].source, err)
		return err
	}
	a.settle(absent)
	return nil
}

// settle says that there is nothing to look at about entries until they are touched.
func (a *Absences) settle(entries []*expected) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		e.settled = !a.touched[e.source][e.key()]
	}
}

// all returns what is expected. The caller holds the lock.
func (a *Absences) all() []*expected {
	return slices.Concat(slices.Collect(maps.Values(a.releases))...)
}

// resolve finds the sources of what was registered, and begins to wait for kinds that are not served.
func (a *Absences) resolve(ctx context.Context) error {
	a.mu.Lock()
	open := slices.DeleteFunc(a.all(), func(e *expected) bool { return e.settled || e.source != Source{} || a.awaited[e.kind()] })
	a.mu.Unlock()
	for _, e := range open {
		a.mu.Lock()
		awaited := a.awaited[e.kind()]
		a.mu.Unlock()
		if awaited {
			continue
		}
		source, err := sourceOf(ctx, a.kinds.Resolve, e.ref)
		switch {
		case err == nil:
			source.Labels = a.labels
			a.mu.Lock()
			e.source = source
			a.mu.Unlock()
		case errors.Is(err, ErrNotServed):
			a.observer.kindFailed(e.ref.APIVersion, e.ref.Kind, err)
			a.await(e.kind())
		case errors.Is(err, errNoNamespace):
			a.observer.kindFailed(e.ref.APIVersion, e.ref.Kind, err)
			a.settle([]*expected{e})
		default:
			a.observer.kindFailed(e.ref.APIVersion, e.ref.Kind, err)
			return err // the server is away, which the others need not find out one by one
		}
	}
	return nil
}

// await wakes the look when the kind of ref appears.
func (a *Absences) await(kind Ref) {
	a.mu.Lock()
	a.awaited[kind] = true
	a.mu.Unlock()
	a.reads.workers.start(func(ctx context.Context) {
		served, stop := a.kinds.Served(kind.APIVersion, kind.Kind)
		defer stop()
		select {
		case <-ctx.Done():
			return
		case <-served:
		}
		a.mu.Lock()
		delete(a.awaited, kind)
		a.mu.Unlock()
		signal(a.wake)
	})
}

// leaveMissing unsubscribes from sources that the server no longer serves, so that their kinds are resolved again. If the
// server lists the kind as served, the watch continues to retry.
func (a *Absences) leaveMissing(ctx context.Context) {
	a.mu.Lock()
	missing := slices.Collect(maps.Keys(a.missing))
	clear(a.missing)
	a.mu.Unlock()
	if len(missing) == 0 {
		return
	}
	a.client.mapper.ResetWithContext(ctx)
	for _, source := range missing {
		kind, err := a.kinds.Resolve(ctx, source.APIVersion(), source.Kind)
		if (err == nil && kind.Resource == source.Resource) || (err != nil && !errors.Is(err, ErrNotServed)) {
			continue
		}
		a.mu.Lock()
		for _, e := range a.all() {
			if e.source == source {
				e.source, e.settled = Source{}, false
			}
		}
		a.mu.Unlock()
	}
}

// arrange watches the sources of what is expected, and no others.
func (a *Absences) arrange() {
	a.mu.Lock()
	defer a.mu.Unlock()
	wanted := map[Source]bool{}
	for _, e := range a.all() {
		if e.source != (Source{}) {
			wanted[e.source] = true
		}
	}
	a.dropPlaces(func(source Source) bool { return !wanted[source] })
	for source := range wanted {
		if _, watched := a.places[source]; !watched {
			a.places[source] = a.reads.join(source, nil, &owner{name: "absences", notServed: func() {
				a.mu.Lock()
				a.missing[source] = true
				a.mu.Unlock()
				signal(a.wake)
			}})
		}
	}
}

// dropPlaces ends the watches of the sources that which picks. The caller holds the lock.
func (a *Absences) dropPlaces(which func(Source) bool) {
	for source, p := range a.places {
		if which(source) {
			p.leave(false)
			delete(a.places, source)
			delete(a.listed, source)
			delete(a.touched, source)
		}
	}
}

// suspects returns what is expected and not seen, and was not settled since it was touched.
func (a *Absences) suspects() []*expected {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := map[Source][]*Object{}
	for source := range a.listed {
		seen[source], _ = a.places[source].snapshot()
	}
	var found []*expected
	for _, e := range a.all() {
		if a.touched[e.source][e.key()] {
			e.settled = false
		}
		if e.settled || !a.listed[e.source] {
			continue
		}
		key := e.key()
		_, e.settled = slices.BinarySearchFunc(seen[e.source], &Object{Namespace: key.namespace, Name: key.name}, compareObjects)
		if !e.settled {
			found = append(found, e)
		}
	}
	clear(a.touched)
	return found
}
