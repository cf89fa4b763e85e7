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

// DeliverAbsent is called with the objects of a release that are absent from the cluster. If it returns an error, it is
// called again with the objects that are still absent and expected.
type DeliverAbsent func(ctx context.Context, release string, absent []Ref) error

// Absences finds out which objects of releases are absent from the cluster. For each kind and namespace in which
// objects are expected, it watches the metadata of all objects that match a label selector. In memory, it keeps only a
// few fields of the metadata of these objects. It is safe for concurrent use.
type Absences struct {
	client   *Client
	kinds    *Kinds
	labels   string
	observer Observer
	deliver  DeliverAbsent
	reads    *reads
	wake     chan struct{} // has an element if a check is needed; capacity 1

	mu       sync.Mutex
	releases map[string][]*expected
	places   map[Source]place
	listed   map[Source]bool               // sources whose first list has arrived
	touched  map[Source]map[objectKey]bool // objects that have changed since the last check
	missing  map[Source]bool               // watched sources that the API server does not serve
	awaited  map[Ref]bool                  // kinds that are not served yet; see expected.kind
}

// expected is an object that should exist.
type expected struct {
	release string
	ref     Ref
	source  Source // zero as long as the kind is not resolved
	settled bool   // the object needs no check until its source delivers a change of the object, or a list
}

func (e *expected) key() objectKey { return objectKey{e.source.Namespace, e.ref.Name} }

// kind returns the kind of the object, as a Ref without namespace and name.
func (e *expected) kind() Ref { return Ref{APIVersion: e.ref.APIVersion, Kind: e.ref.Kind} }

// NewAbsences returns an Absences that watches the objects that match the label selector labels. It calls deliver from
// only one goroutine. The caller must also call [Kinds.Run] for kinds.
func NewAbsences(kinds *Kinds, labels string, deliver DeliverAbsent, observer Observer) *Absences {
	a := &Absences{
		client: kinds.client, kinds: kinds, labels: labels, observer: observer, deliver: deliver,
		wake:     make(chan struct{}, 1),
		releases: map[string][]*expected{}, places: map[Source]place{}, listed: map[Source]bool{},
		touched: map[Source]map[objectKey]bool{}, missing: map[Source]bool{}, awaited: map[Ref]bool{},
	}
	a.reads = newReads(a.client, &absenceReceiver{Absences: a}, observer)
	a.reads.metadata = true
	return a
}

// Run watches the objects and reports the absent ones until ctx ends. When Run returns, no call of deliver is running,
// and there will be no further calls. Call Run once.
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
		for err := a.check(ctx); ctx.Err() == nil; err = a.check(ctx) {
			if err == nil {
				again.reset()
				break
			}
			again.pause(ctx, err, a.wake)
		}
	}
}

// Register sets the expected objects of a release, which replace those that were registered before. Objects that are
// absent now are reported, even if they have been reported before.
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

// Unregister removes all expected objects of a release. If a call of deliver for the release is already running, it
// continues.
func (a *Absences) Unregister(release string) {
	a.mu.Lock()
	delete(a.releases, release)
	a.mu.Unlock()
	signal(a.wake)
}

// check starts and ends watches, so that exactly the sources of the registered objects are watched. Then it finds the
// absent objects and reports them. If it returns an error, the caller must call check again. An error for one kind does
// not keep check from reporting absent objects of other kinds, because each extension API server can be unavailable on
// its own.
func (a *Absences) check(ctx context.Context) error {
	a.leaveMissing(ctx)
	errs := []error{a.resolve(ctx)}
	a.arrange()
	absent, err := a.request(ctx, a.unconfirmed())
	errs = append(errs, err)
	for _, release := range slices.Sorted(maps.Keys(absent)) {
		errs = append(errs, a.report(ctx, release, absent[release]))
	}
	return errors.Join(errs...)
}

// request requests objects from the API server, and returns those that are absent, by release. If the API server
// refuses the request for an object, request treats the object as checked. After any other error, request skips the
// other objects of the same source, and returns the error.
func (a *Absences) request(ctx context.Context, objects []*expected) (absent map[string][]*expected, err error) {
	absent = map[string][]*expected{}
	unavailable := map[Source]error{}
	for _, e := range objects {
		if unavailable[e.source] != nil {
			continue
		}
		exists, err := a.client.exists(ctx, e.source, e.ref)
		switch {
		case err != nil && IsRefused(err):
			a.observer.sourceFailed(e.source, err)
			a.markChecked([]*expected{e})
		case err != nil:
			a.observer.sourceFailed(e.source, err)
			unavailable[e.source] = err
		case exists: // its labels do not match, or it was created again and will be in the watch
			a.markChecked([]*expected{e})
		default:
			absent[e.release] = append(absent[e.release], e)
		}
	}
	return absent, errors.Join(slices.Collect(maps.Values(unavailable))...)
}

// report calls deliver with the absent objects of a release, but without those that are no longer expected.
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
	if err := a.deliver(ctx, release, refs); err != nil {
		err = fmt.Errorf("report absent objects of release %s: %w", release, err)
		a.observer.receiverFailed(absent[0].source, err)
		return err
	}
	a.markChecked(absent)
	return nil
}

// markChecked marks entries as settled, except those whose objects have changed during the check.
func (a *Absences) markChecked(entries []*expected) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, e := range entries {
		e.settled = !a.touched[e.source][e.key()]
	}
}

// all returns the expected objects of all releases. The caller holds the lock.
func (a *Absences) all() []*expected {
	return slices.Concat(slices.Collect(maps.Values(a.releases))...)
}

// resolve sets the source of each registered object that has none yet. For each kind that is not served, it starts a
// goroutine that waits for the kind. If a kind cannot be looked up, resolve skips the other objects with the same
// apiVersion.
func (a *Absences) resolve(ctx context.Context) error {
	a.mu.Lock()
	open := slices.DeleteFunc(a.all(), func(e *expected) bool { return e.settled || e.source != Source{} || a.awaited[e.kind()] })
	a.mu.Unlock()
	unavailable := map[string]error{} // by apiVersion
	for _, e := range open {
		a.mu.Lock()
		awaited := a.awaited[e.kind()]
		a.mu.Unlock()
		if awaited || unavailable[e.ref.APIVersion] != nil {
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
			a.markChecked([]*expected{e})
		default:
			a.observer.kindFailed(e.ref.APIVersion, e.ref.Kind, err)
			unavailable[e.ref.APIVersion] = err
		}
	}
	return errors.Join(slices.Collect(maps.Values(unavailable))...)
}

// await starts a goroutine that waits until the API server serves the kind, and then requests a check.
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

// leaveMissing resets the source of each object whose source is in a.missing. Afterwards, the caller must call resolve,
// which looks for the kinds of these objects again, and arrange, which ends the watches of sources without objects. If
// the API server still lists the kind with the same resource name, or does not answer, leaveMissing keeps the source,
// and the watch of the source retries.
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

// arrange watches the sources of the expected objects, and no others.
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

// dropPlaces ends the watches of the sources for which the given function returns true. The caller holds the lock.
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

// unconfirmed returns the objects that a check must request from the API server, because they are not settled and are
// not in the snapshot of their source. It marks the objects that are in the snapshot as settled. Objects whose source
// has not delivered its first list stay unsettled until a later check.
func (a *Absences) unconfirmed() []*expected {
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

// absenceReceiver is the Receiver for the watches of an Absences.
type absenceReceiver struct {
	silent
	*Absences
}

func (v *absenceReceiver) Listed(_ context.Context, list List) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if _, watched := v.places[list.View.Source]; !watched {
		return nil
	}
	v.listed[list.View.Source] = true
	for _, e := range v.all() {
		if e.source == list.View.Source {
			e.settled = false
		}
	}
	signal(v.wake)
	return nil
}

func (v *absenceReceiver) Changed(_ context.Context, batch Batch) error {
	if len(batch.Changes) == 0 {
		return nil
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.touched[batch.Source] == nil {
		v.touched[batch.Source] = map[objectKey]bool{}
	}
	for _, change := range batch.Changes {
		v.touched[batch.Source][change.Object.key()] = true
	}
	signal(v.wake)
	return nil
}
