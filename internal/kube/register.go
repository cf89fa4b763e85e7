package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/internal/jq"
)

// register registers the owners that have joined since its last call, and removes the owners that are leaving. When it
// returns without an error, every view has the content that its owners need, and the lists for the new owners have
// been delivered. If the API server refuses to list the source, register returns an error, but also removes the owners
// that are leaving.
func (f *watch) register(ctx context.Context) error {
	err := f.unsubscribe(ctx)
	if err == nil {
		err = f.subscribeAll(ctx)
	}
	if apierrors.IsForbidden(err) || apierrors.IsNotFound(err) {
		return errors.Join(err, leaveRefused(ctx, f))
	}
	return err
}

// subscribeAll registers the owners that have joined since its last call, see register.
func (f *watch) subscribeAll(ctx context.Context) error {
	for {
		f.mu.Lock()
		var waiting []*view
		lacking := false
		for _, v := range f.views.ordered() {
			if len(v.newcomers()) > 0 {
				waiting = append(waiting, v)
				lacking = lacking || v.lacking()
			}
		}
		f.mu.Unlock()
		if len(waiting) == 0 {
			return f.unsubscribe(ctx) // removes owners that had to be registered before they could leave
		}
		if lacking {
			if err := f.list(ctx, (*view).lacking, cmp.Or(f.version, anyVersion)); err != nil {
				return err
			}
		}
		for _, v := range waiting {
			if err := f.subscribe(ctx, v); err != nil {
				return err
			}
		}
	}
}

// gathered contains the objects and filter failures of one view that come from a list.
type gathered struct {
	view    *view
	owners  []string
	full    bool
	objects map[objectKey]*Object
	failing map[objectKey]string
}

// list requests a list of the source at the version notBefore or later. It replaces the objects of the views for which
// the given function returns true.
func (f *watch) list(ctx context.Context, which func(*view) bool, notBefore string) error {
	gathering, version, err := f.collect(ctx, which, notBefore)
	if err != nil {
		return err
	}
	f.mu.Lock()
	for _, g := range gathering {
		g.view.objects, g.view.full, g.view.listed = g.objects, g.full && g.view.wantsFull(), version
		g.view.sorted, g.view.dirty, g.view.newest = nil, true, notBefore == newestVersion
	}
	judged := judgeAll(gathering)
	f.err = nil
	f.mu.Unlock()
	f.announce()
	f.reads.observer.failuresChanged(judged...)
	return nil
}

// collect requests a list of the source at the version notBefore or later. It returns the version of the list, and the
// objects of the views for which the given function returns true. It calls this function only when the API server
// starts to respond. So the result also has views that owners have joined after the request was sent.
func (f *watch) collect(ctx context.Context, which func(*view) bool, notBefore string) (gathering []gathered, version string, err error) {
	begun := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		gathering = nil
		for _, v := range f.views.ordered() {
			if which(v) {
				gathering = append(gathering, gathered{v, v.named(), v.wantsFull(), map[objectKey]*Object{}, map[objectKey]string{}})
			}
		}
	}
	each := func(raw json.RawMessage) error {
		doc, err := readDocument(raw, f.source)
		if err != nil || !f.picks(doc.id.Metadata.Name) {
			return err
		}
		for _, g := range gathering {
			object, err := f.gather(ctx, g, doc)
			if err != nil {
				return err
			}
			g.objects[doc.key()] = object
		}
		return nil
	}
	version, err = f.reads.client.list(ctx, f.source, f.reads.metadata, notBefore, begun, each)
	if err != nil {
		return nil, "", err
	}
	if version == "" {
		return nil, "", fmt.Errorf("the list of %s has no version, so no watch can start from it", f.source)
	}
	return gathering, version, nil
}

// judgeAll stores the filter failures of a list in the views. judgeAll returns the views whose failures have changed.
// The caller holds the lock.
func judgeAll(gathering []gathered) (changed []View) {
	for _, g := range gathering {
		if !maps.Equal(g.view.failing, g.failing) {
			changed = append(changed, g.view.name)
		}
		g.view.failing = g.failing
	}
	return changed
}

// gather applies the filter of the view of g to doc, an object in a list, and returns the resulting object. If the
// filter fails, gather returns the object that the view has contained before or, if there is none, an object that is
// Unfiltered. If the filter was interrupted, gather returns an error.
func (f *watch) gather(ctx context.Context, g gathered, doc *document) (*Object, error) {
	object, err := f.reads.filterDocument(ctx, g.view, g.owners, doc, g.full)
	failure := (*jq.FilterError)(nil)
	switch {
	case err == nil:
		return object, nil
	case !errors.As(err, &failure):
		return nil, err
	}
	f.reads.observer.filterFailed(g.view.name, g.owners, object, failure)
	if len(g.failing) < mostFailing {
		g.failing[doc.key()] = failure.Public
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if before := g.view.objects[doc.key()]; before != nil && before.UID == object.UID {
		return before, nil
	}
	object.Unfiltered = true
	return object, nil
}

// subscribe delivers the lists that the new owners of v need, and registers these owners. If v lacks content that they
// need, subscribe does nothing, and the caller lists the source again.
func (f *watch) subscribe(ctx context.Context, v *view) error {
	f.mu.Lock()
	if v.lacking() {
		f.mu.Unlock()
		return nil
	}
	newcomers := v.newcomers()
	f.mu.Unlock()
	if len(newcomers) == 0 {
		return nil // the new owners have left in the meantime
	}

	var informed []*owner
	if !v.asked {
		var err error
		if informed, err = f.begin(ctx, v, newcomers); err != nil {
			return err
		}
	}
	if err := f.resume(ctx, v, pick(newcomers, func(o *owner) bool { return o.resume && !slices.Contains(informed, o) })); err != nil {
		return err
	}
	late := pick(newcomers, func(o *owner) bool { return !o.resume && !slices.Contains(informed, o) })
	if err := f.deliverList(ctx, v, Appeared, pick(late, func(o *owner) bool { return o.appeared })); err != nil {
		return err
	}
	if err := f.deliverList(ctx, v, Joined, pick(late, func(o *owner) bool { return !o.appeared })); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, o := range late {
		o.since = later(v.listed, f.version)
	}
	for _, o := range newcomers {
		o.registered = true
		close(o.ready)
	}
	return nil
}

// pick returns the owners for which the given function returns true.
func pick(owners []*owner, which func(*owner) bool) []*owner {
	var picked []*owner
	for _, o := range owners {
		if which(o) {
			picked = append(picked, o)
		}
	}
	return picked
}

// resume delivers missed changes to owners that have joined v before. The argument returned has these owners; their
// field resume must be true. If one of them has missed changes that were delivered to other owners, resume delivers a
// list of v to the registered owners and to all owners in returned. The list contains all changes that the watch has
// read. If the watch was rewound, the list also contains changes that the watch has not read again yet.
func (f *watch) resume(ctx context.Context, v *view, returned []*owner) error {
	if len(returned) == 0 {
		return nil
	}
	behind := false
	if err := f.reads.callReceiver(ctx, f.source, func(r Receiver) (err error) {
		behind, err = r.Behind(ctx, v.name, names(returned))
		return err
	}); err != nil || !behind {
		return err
	}
	f.mu.Lock()
	owners := append(v.registered(), returned...)
	v.listed = later(v.listed, f.version)
	f.mu.Unlock()
	if err := f.deliverList(ctx, v, Resumed, owners); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	v.delivered = later(v.delivered, v.listed)
	return nil
}

// begin starts to deliver the view v, and first asks the receiver which version of v it has stored. If it has stored
// none, begin delivers the list and returns the owners in this list. If the watch can continue at the stored version,
// begin records this version as delivered, and rewinds the watch if necessary. If the stored version is newer than the
// newest version of the API server, begin delivers the list with the cause [Gap].
func (f *watch) begin(ctx context.Context, v *view, newcomers []*owner) ([]*owner, error) {
	var stored string
	err := f.reads.callReceiver(ctx, f.source, func(r Receiver) (err error) {
		stored, err = r.Stored(ctx, v.name)
		return err
	})
	if err != nil {
		return nil, err
	}
	var informed []*owner
	delivered := v.listed
	switch {
	case stored == "":
		cause := Appeared
		if informed = pick(newcomers, func(o *owner) bool { return o.appeared }); len(informed) == 0 {
			cause, informed = First, newcomers
		}
		err = f.deliverList(ctx, v, cause, informed)
	case isReached(stored, v.listed):
		delivered = stored
		if f.version != "" && After(f.version, stored) {
			f.rewind(stored)
		}
	case !v.newest: // another instance of the API server may have a newer cache than the one that has responded
		if err := f.list(ctx, func(other *view) bool { return other == v }, newestVersion); err != nil {
			return nil, err
		}
		return f.begin(ctx, v, newcomers)
	default:
		f.reads.observer.versionRefused(f.source, stored, fmt.Errorf("the newest is %s: %w", v.listed, errAhead))
		err = f.deliverList(ctx, v, Gap, pick(newcomers, func(o *owner) bool { return o.resume }))
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	v.delivered, v.asked = delivered, true
	f.mu.Unlock()
	return informed, nil
}

// rewind makes the next watch start at an older version. This is necessary if the receiver has stored an older version
// of one view than of the others. The changes that are read again have no effect on the other views.
func (f *watch) rewind(version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.views {
		if v.asked {
			v.delivered, v.listed = later(v.delivered, f.version), later(v.listed, f.version)
		}
	}
	f.version, f.rewound = version, true
	f.retry.reset()
}

// compare requests a new list of the source, and delivers the list for each view of which something was delivered
// before. It is called if the API server cannot continue the watch at f.version, and by unsubscribe.
func (f *watch) compare(ctx context.Context) error {
	if err := f.list(ctx, func(*view) bool { return true }, newestVersion); err != nil {
		return err
	}
	f.mu.Lock()
	views := f.views.ordered()
	f.mu.Unlock()
	for _, v := range views {
		if !v.asked {
			continue // subscribe will deliver the list of this view
		}
		f.mu.Lock()
		admitted := v.registered()
		f.mu.Unlock()
		if err := f.deliverList(ctx, v, Gap, admitted); err != nil {
			return err
		}
		f.mu.Lock()
		v.delivered = v.listed
		for _, o := range admitted {
			o.since = "" // after a restore of etcd from a backup, new changes can have older versions
		}
		f.mu.Unlock()
		f.version, f.undelivered = v.listed, false
	}
	return nil
}

// deliverList delivers a list of all objects of v to the receiver. If owners is empty, it does so only if cause is
// [Gap].
func (f *watch) deliverList(ctx context.Context, v *view, cause Cause, owners []*owner) error {
	if len(owners) == 0 && cause != Gap {
		return nil
	}
	f.mu.Lock()
	others := pick(v.registered(), func(o *owner) bool { return !slices.Contains(owners, o) })
	list := List{View: v.name, Cause: cause, Owners: names(owners), Others: names(others), Version: v.listed, Objects: v.all()}
	f.mu.Unlock()
	return f.reads.callReceiver(ctx, f.source, func(r Receiver) error { return r.Listed(ctx, list) })
}

// unsubscribe removes the owners that are leaving because the namespace of the source no longer matches. If the
// namespace was deleted, the watch may not have delivered the deletions of its objects yet. So if one of the owners is
// registered, unsubscribe first lists the source, and the receiver compares the list with the objects that were
// delivered before. If objects were delivered to an owner in an earlier process, the owner must be registered before
// unsubscribe removes it.
func (f *watch) unsubscribe(ctx context.Context) error {
	leaving, known := false, false
	for _, d := range departures(f, (*owner).leaves) {
		leaving = true
		known = known || slices.ContainsFunc(d.owners, func(o *owner) bool { return o.registered })
	}
	if !leaving {
		return nil
	}
	if known {
		if err := f.compare(ctx); err != nil {
			return err
		}
	}
	for _, d := range departures(f, (*owner).leaves) {
		if err := d.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}
