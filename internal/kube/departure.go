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

// finish calls [Receiver.Left] for the owners, and removes them. It does not call Left for an owner that has joined the
// view again, because the namespace matches again: the receiver knows both by the same name, and would forget that the
// objects were delivered to this owner.
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
