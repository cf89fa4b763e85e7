package kube

import (
	"context"
	"slices"
)

// departure has owners that are leaving a view.
type departure struct {
	watch  *watch
	view   *view
	owners []*owner
}

// departures returns the owners of f for which the given function returns true, by view.
func departures(f *watch, which func(*owner) bool) (found []departure) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, v := range f.views.ordered() {
		if owners := pick(v.owners, which); len(owners) > 0 {
			found = append(found, departure{f, v, owners})
		}
	}
	return found
}

// leaveRefused removes the leaving owners of f. It is called if the API server refuses to list the source, or does not
// serve it. If the namespace does not exist any more, the owners first get the deletions of all objects. Otherwise the
// changes that are pending are not delivered. leaveRefused does not wait for a list, because the API server may never
// return one: for example, the rights of the operator in a namespace are deleted with the namespace.
func leaveRefused(ctx context.Context, f *watch) error {
	leaving := departures(f, func(o *owner) bool { return o.leaving })
	if len(leaving) == 0 {
		return nil
	}
	exists, err := f.reads.client.namespaceExists(ctx, f.source.Namespace)
	if err != nil {
		return err
	}
	for _, d := range leaving {
		if !exists {
			if err := d.deliverEmpty(ctx); err != nil {
				return err
			}
		}
		if err := d.finish(ctx); err != nil {
			return err
		}
	}
	return nil
}

// deliverEmpty removes all objects from the view, and delivers an empty list to all owners to which objects of the view
// were delivered in this process or an earlier one. The version of the list is not older than the stored version. If
// the receiver has stored nothing of the view, deliverEmpty does nothing.
func (d departure) deliverEmpty(ctx context.Context) error {
	f, v := d.watch, d.view
	var stored string
	if err := f.reads.callReceiver(ctx, f.source, func(r Receiver) (err error) {
		stored, err = r.Stored(ctx, v.name)
		return err
	}); err != nil || stored == "" {
		return err
	}
	f.mu.Lock()
	v.objects, v.listed = map[objectKey]*Object{}, later(v.listed, stored)
	v.sorted, v.dirty = nil, true
	judged := judgeAll([]gathered{{view: v}})
	owners := pick(v.owners, func(o *owner) bool { return o.registered || (o.leaving && o.resume) })
	f.mu.Unlock()
	f.announce()
	f.reads.observer.failuresChanged(judged...)
	return f.deliverList(ctx, v, Gap, owners)
}

// finish calls [Receiver.Left] for the owners, and removes them. If the namespace matches again, an owner with the same
// name may have joined the view again. Then finish does not call Left for this name, because Left would make the
// receiver forget that objects were delivered to the owner that has joined again.
func (d departure) finish(ctx context.Context) error {
	f, v := d.watch, d.view
	f.mu.Lock()
	left := pick(d.owners, func(o *owner) bool {
		return !slices.ContainsFunc(v.owners, func(other *owner) bool { return other.name == o.name && !other.leaving })
	})
	f.mu.Unlock()
	if len(left) > 0 {
		if err := f.reads.callReceiver(ctx, f.source, func(r Receiver) error { return r.Left(ctx, v.name, names(left)) }); err != nil {
			return err
		}
	}
	for _, o := range d.owners {
		f.reads.remove(f, v, o)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.ContainsFunc(v.owners, func(o *owner) bool { return o.registered }) {
		v.asked, v.delivered = false, "" // so that the next owner gets a first list if it needs one
	}
	return nil
}
