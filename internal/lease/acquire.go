package lease

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"

	"addon-operator/internal/failpoint"
)

// Acquire waits until the process holds the Lease, and returns the previous holder. The process can
// acquire the Lease if it does not exist, was released, has expired, or is held by the same
// identity. If ctx ends first, Acquire returns the error of ctx. If the operator has no permission
// for Leases, the error matches [ErrForbidden].
func (l *Lease) Acquire(ctx context.Context) (Previous, error) {
	w := waiter{lease: l}
	for {
		current, err := l.read(ctx)
		if err == nil && w.free(current) {
			var previous Previous
			previous, err = l.claim(ctx, current)
			if err == nil {
				failpoint.Reach("lease", "acquired")
				return previous, nil
			}
			if isTaken(current, err) {
				continue // another process has written the Lease before this one: read the new holder
			}
		}
		if ctx.Err() != nil {
			return Previous{}, ctx.Err()
		}
		if apierrors.IsForbidden(err) {
			return Previous{}, fmt.Errorf("%w: %w", ErrForbidden, err)
		}
		w.report(current, err)
		if err != nil {
			pause(ctx, l.options.Renew)
			continue
		}
		w.wait(ctx, current)
	}
}

// isTaken reports whether err, the error of claim, means that the Lease was changed, created or
// deleted after the last read. The argument current is the Lease as it was read, or nil if the Lease
// did not exist. In this case, the error NotFound means that the namespace does not exist.
func isTaken(current *coordinationv1.Lease, err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || (current != nil && apierrors.IsNotFound(err))
}

// claim makes the process the holder of the Lease. The argument current is the Lease as the caller
// has read it, or nil if the Lease does not exist.
func (l *Lease) claim(ctx context.Context, current *coordinationv1.Lease) (Previous, error) {
	began := l.options.Clock()
	next, previous := &coordinationv1.Lease{}, Previous{Holder: holderOf(current)}
	next.Name, next.Namespace = Name, l.options.Namespace
	number := int32(0)
	if current != nil {
		next, number = current.DeepCopy(), term(current)
		previous.Foreign = foreign(current)
	}
	number++
	if next.Annotations == nil {
		next.Annotations = map[string]string{}
	}
	next.Annotations = maps.Clone(next.Annotations)
	if !previous.Foreign { // otherwise Mark sets the annotation later: see TermAnnotation
		next.Annotations[TermAnnotation] = strconv.Itoa(int(number))
	}
	now, seconds := metav1.NewMicroTime(began), int32(l.options.Duration/time.Second)
	next.Spec.HolderIdentity, next.Spec.LeaseDurationSeconds = &l.options.Identity, &seconds
	next.Spec.AcquireTime, next.Spec.RenewTime, next.Spec.LeaseTransitions = &now, &now, &number
	written, err := l.write(ctx, next)
	if err != nil {
		return previous, err
	}
	l.recordRenewal(written, began)
	return previous, nil
}

// foreign reports whether the last holder of lease was another program, which does not write the
// annotations of this package.
func foreign(lease *coordinationv1.Lease) bool {
	last, ok := lease.Annotations[TermAnnotation]
	return !ok && lease.Spec.AcquireTime != nil || ok && last != strconv.Itoa(int(term(lease)))
}

// A waiter waits until the Lease of another holder is free.
type waiter struct {
	lease *Lease
	// seen is the last read version of the Lease, and the field since is the time at which this
	// process first read that version. The expiry is computed from this time, because the clocks of
	// other machines may be wrong.
	seen     string
	since    time.Time
	reported string
}

// free reports whether this process may acquire the Lease at this time.
func (w *waiter) free(current *coordinationv1.Lease) bool {
	if current == nil {
		return true
	}
	holder := holderOf(current).Identity
	if holder == "" || holder == w.lease.options.Identity {
		return true
	}
	if current.ResourceVersion != w.seen {
		w.seen, w.since = current.ResourceVersion, w.lease.options.Clock()
	}
	return !w.lease.options.Clock().Before(w.expires(current))
}

// expires returns the time from which this process may acquire the Lease, unless the holder renews
// the Lease before this time.
func (w *waiter) expires(current *coordinationv1.Lease) time.Time {
	valid := w.lease.options.Duration
	if s := current.Spec.LeaseDurationSeconds; s != nil {
		valid = time.Duration(*s) * time.Second
	}
	return w.since.Add(valid)
}

// report calls the function Waiting of the options if the holder or the error has changed.
func (w *waiter) report(current *coordinationv1.Lease, err error) {
	f, h := w.lease.options.Waiting, holderOf(current)
	what := h.Identity
	if err != nil {
		what = err.Error()
	}
	if f != nil && what != w.reported {
		w.reported = what
		f(h, err)
	}
}

// wait waits until the Lease, which another process holds, has expired, was released or deleted, or
// has another holder. wait may also return earlier. The argument current is the Lease as the caller
// has read it.
func (w *waiter) wait(ctx context.Context, current *coordinationv1.Lease) {
	changes, err := w.lease.client.Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", Name).String(), ResourceVersion: current.ResourceVersion,
	})
	if err != nil {
		pause(ctx, w.lease.options.Renew)
		return
	}
	defer changes.Stop()
	for {
		expired := time.NewTimer(w.expires(current).Sub(w.lease.options.Clock()))
		select {
		case <-ctx.Done():
			expired.Stop()
			return
		case <-expired.C:
			return
		case e := <-changes.ResultChan():
			expired.Stop()
			renewed, ok := e.Object.(*coordinationv1.Lease)
			if !ok || e.Type == watch.Deleted || w.free(renewed) || holderOf(renewed).Identity != holderOf(current).Identity {
				if !ok {
					pause(ctx, w.lease.options.Renew) // the watch has ended
				}
				return
			}
			current = renewed
		}
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
