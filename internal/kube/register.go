package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"addon-operator/internal/jq"
)

// register adds the owners that have subscribed since the last call, and removes those that have unsubscribed. When it
// returns without an error, every view has what its owners need, and the receiver knows all of them.
func (f *watch) register(ctx context.Context) error {
	if err := f.unsubscribe(ctx); err != nil {
		return err
	}
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
			return nil
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

// gathered is what a list makes of a view.
type gathered struct {
	view    *view
	owners  []string
	full    bool
	objects map[objectKey]*Object
	failing map[objectKey]string
}

// list reads the source at version notBefore or later, and replaces the objects of the views that which picks.
func (f *watch) list(ctx context.Context, which func(*view) bool, notBefore string) error {
	gathering, version, err := f.collect(ctx, which, notBefore)
	if err != nil {
		return err
	}
	f.mu.Lock()
	for _, g := range gathering {
		g.view.objects, g.view.full, g.view.listed = g.objects, g.full && g.view.keeps(), version
		g.view.sorted, g.view.dirty, g.view.newest = nil, true, notBefore == newestVersion
	}
	judged := judgeAll(gathering)
	f.err = nil
	f.mu.Unlock()
	f.announce()
	f.reads.observer.failuresChanged(judged...)
	return nil
}

// collect reads the source at version notBefore or later. It returns the objects for the views that which picks, and the
// version. Owners who join before the server begins to answer are included.
func (f *watch) collect(ctx context.Context, which func(*view) bool, notBefore string) (gathering []gathered, version string, err error) {
	begun := func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		gathering = nil
		for _, v := range f.views.ordered() {
			if which(v) {
				gathering = append(gathering, gathered{v, v.named(), v.keeps(), map[objectKey]*Object{}, map[objectKey]string{}})
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
		return nil, "", fmt.Errorf("the list of %s has no version, so no watch can begin at it", f.source)
	}
	return gathering, version, nil
}

// judgeAll sets the objects on which the filters fail, for the views of a list. It returns the views for which they
// changed. The caller holds the lock.
func judgeAll(gathering []gathered) (changed []View) {
	for _, g := range gathering {
		if !maps.Equal(g.view.failing, g.failing) {
			changed = append(changed, g.view.name)
		}
		g.view.failing = g.failing
	}
	return changed
}

// gather returns what a list shows of doc in one view. Where the filter fails, that is what it showed before. The error is that
// of a filter that was not run to its end.
func (f *watch) gather(ctx context.Context, g gathered, doc *document) (*Object, error) {
	object, err := f.reads.see(ctx, g.view, g.owners, doc, g.full)
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

// subscribe tells the receiver what it has to know of the owners that have joined v, and admits them. A view that still lacks
// what they need is left for the next round.
func (f *watch) subscribe(ctx context.Context, v *view) error {
	f.mu.Lock()
	if v.lacking() {
		f.mu.Unlock()
		return nil
	}
	newcomers := v.newcomers()
	f.mu.Unlock()
	if len(newcomers) == 0 {
		return nil // they have left again
	}

	var informed []*owner
	if !v.asked {
		var err error
		if informed, err = f.begin(ctx, v, newcomers); err != nil {
			return err
		}
	}
	late := pick(newcomers, func(o *owner) bool { return !o.resume && !slices.Contains(informed, o) })
	if err := f.sayList(ctx, v, Appeared, pick(late, func(o *owner) bool { return o.appeared })); err != nil {
		return err
	}
	if err := f.sayList(ctx, v, Joined, pick(late, func(o *owner) bool { return !o.appeared })); err != nil {
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

// pick returns the owners that which is true of.
func pick(owners []*owner, which func(*owner) bool) []*owner {
	var picked []*owner
	for _, o := range owners {
		if which(o) {
			picked = append(picked, o)
		}
	}
	return picked
}

// begin compares the cursor of the receiver with a view that was not yet delivered in this process, delivers the
// differences, and returns the owners to which they were delivered.
func (f *watch) begin(ctx context.Context, v *view, newcomers []*owner) ([]*owner, error) {
	var stored string
	err := f.reads.tell(ctx, f.source, func(r Receiver) (err error) {
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
		err = f.sayList(ctx, v, cause, informed)
	case isReached(stored, v.listed):
		delivered = stored
		if f.version != "" && After(f.version, stored) {
			f.rewind(stored)
		}
	case !v.newest: // the cache of the API server that answered may be behind another's
		if err := f.list(ctx, func(other *view) bool { return other == v }, newestVersion); err != nil {
			return nil, err
		}
		return f.begin(ctx, v, newcomers)
	default:
		f.reads.observer.versionRefused(f.source, stored, fmt.Errorf("the newest is %s: %w", v.listed, errAhead))
		err = f.sayList(ctx, v, Gap, pick(newcomers, func(o *owner) bool { return o.resume }))
	}
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	v.delivered, v.asked = delivered, true
	f.mu.Unlock()
	return informed, nil
}

// rewind makes the watch begin again after version, for a view that was told less than the others. To those the changes
// that come again are no news.
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

// compare reads a list for all views and tells it in place of the changes that are lost.
func (f *watch) compare(ctx context.Context) error {
	if err := f.list(ctx, func(*view) bool { return true }, newestVersion); err != nil {
		return err
	}
	f.mu.Lock()
	views := f.views.ordered()
	f.mu.Unlock()
	for _, v := range views {
		if !v.asked {
			continue // it is told when its owners are admitted
		}
		f.mu.Lock()
		admitted := pick(v.owners, func(o *owner) bool { return o.registered })
		f.mu.Unlock()
		if err := f.sayList(ctx, v, Gap, admitted); err != nil {
			return err
		}
		f.mu.Lock()
		v.delivered = v.listed
		f.mu.Unlock()
		f.version, f.unsaid = v.listed, false
	}
	return nil
}

// sayList tells the receiver what v shows. Except for a gap, there is nothing to tell if it concerns nobody.
func (f *watch) sayList(ctx context.Context, v *view, cause Cause, owners []*owner) error {
	if len(owners) == 0 && cause != Gap {
		return nil
	}
	f.mu.Lock()
	list := List{View: v.name, Cause: cause, Owners: names(owners), Version: v.listed, Objects: v.all()}
	f.mu.Unlock()
	return f.reads.tell(ctx, f.source, func(r Receiver) error { return r.Listed(ctx, list) })
}

// unsubscribe lets the owners go whose namespace no longer matches. If the namespace was deleted, its objects were before,
// and their deletion may not have arrived yet: so the source is compared once more first.
func (f *watch) unsubscribe(ctx context.Context) error {
	f.mu.Lock()
	leaving, known := false, false
	for _, v := range f.views {
		for _, o := range v.owners {
			leaving = leaving || o.leaving
			known = known || (o.leaving && o.registered)
		}
	}
	f.mu.Unlock()
	if !leaving {
		return nil
	}
	if known {
		if err := f.compare(ctx); err != nil {
			return err
		}
	}
	f.mu.Lock()
	var views []*view
	var left [][]*owner
	for _, v := range f.views.ordered() {
		if gone := pick(v.owners, func(o *owner) bool { return o.leaving }); len(gone) > 0 {
			views, left = append(views, v), append(left, gone)
		}
	}
	f.mu.Unlock()
	for i, v := range views {
		if err := f.reads.tell(ctx, f.source, func(r Receiver) error { return r.Left(ctx, v.name, names(left[i])) }); err != nil {
			return err
		}
		for _, o := range left[i] {
			f.reads.remove(f, v, o)
		}
		f.mu.Lock()
		if !slices.ContainsFunc(v.owners, func(o *owner) bool { return o.registered }) {
			v.asked, v.delivered = false, "" // to those who join now, the receiver may have to be told a first list
		}
		f.mu.Unlock()
	}
	return nil
}
