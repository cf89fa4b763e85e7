package webhook

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/internal/kube"
)

// ownerLabel is a label of all objects that the package writes. Its value is the namespace of the
// operator.
const ownerLabel = "addon-operator/webhooks-of"

// Place is an address of the operator that the API server calls.
type Place struct {
	// URL is the address without a path; empty if the API server calls a Service.
	URL string
	// Service is the name of the Service that the API server calls, in the operator's namespace.
	Service string
	// Bundle contains the CAs that the API server must trust, as PEM. If it is empty, the operator
	// does not serve the address yet, and the registrar writes no webhooks at this address.
	Bundle []byte
}

func (p Place) isServed() bool { return len(p.Bundle) > 0 }

// Wanted is the desired state of the webhook configurations and CustomResourceDefinitions in the
// cluster.
type Wanted struct {
	Table
	// Admission and Conversion are the addresses that the API server calls for the bindings.
	Admission, Conversion Place
}

// isKnown reports whether the operator serves the address of at least one wanted binding. Otherwise the registrar
// writes no webhooks for w. If no bindings are wanted, isKnown returns true.
func (w Wanted) isKnown() bool {
	none := len(w.Admissions)+len(w.Conversions) == 0
	return none || len(w.Admissions) > 0 && w.Admission.isServed() || len(w.Conversions) > 0 && w.Conversion.isServed()
}

// RegistrarOptions configure a [Registrar].
type RegistrarOptions struct {
	Client *kube.Client
	// Name is the name of the webhook configurations without their suffix "-hooks".
	Name string
	// Namespace is the operator's namespace. The namespace is the value of the owner label, which
	// identifies the objects of this operator.
	Namespace string
	Clock     func() time.Time
	Observer  kube.Observer
	// InForce is called with the bindings whose webhooks are in the cluster. Other webhooks may be
	// missing: the API server rejects them, or their object belongs to another program or cannot be
	// changed. InForce is not called while the operator serves no address of the desired state, or
	// after a failed request that may succeed later. It may be nil.
	InForce func(Table)
	// Trusted is called with the desired state when the cluster matches it, except for webhooks that
	// the API server rejects, for objects of other programs, and for webhooks at an address that the
	// operator does not serve. All other webhooks of the operator then have the bundles of the desired
	// state. It may be nil.
	Trusted func(Wanted)
	// Failed is called with an error if the cluster cannot be changed to the desired state. Until the
	// desired state changes, it is called once for each error text. The registrar tries again, or
	// waits for a change of the object.
	Failed func(error)
	// Refused is called with each admission binding that the API server rejects, and with the reason.
	// Until the desired state changes, it is called once for each binding.
	Refused func(Admission, error)
}

// Registrar keeps the webhook configurations and CustomResourceDefinitions in the cluster in the
// desired state. It creates configurations, reverts changes by other clients, and removes
// configurations that are no longer wanted. It does not change webhook configurations of other
// programs, or conversion webhooks of other operators. Create one with [NewRegistrar].
type Registrar struct {
	options  RegistrarOptions
	notifier *kube.Notifier
	wake     chan struct{}

	reconciling chan struct{} // holds an element while reconcileOnce runs

	mu        sync.Mutex
	want      *Wanted // nil until Want is called; guarded by mu
	altered   bool    // true if want or withdrawn was set after the last call of reconcileOnce; guarded by mu
	withdrawn bool    // see setWithdrawn; guarded by mu

	// Only the goroutine of Run uses the following fields.
	tidy       bool                // findLeft has succeeded
	registered map[string]Table    // bindings whose webhooks are in the cluster, by the object with the webhooks
	present    map[string]bool     // resources, such as validatingwebhookconfigurations, of which this operator may have an object
	converted  map[string]bool     // names of CustomResourceDefinitions that may have this operator's conversion webhook
	refused    map[string]error    // errors of rejected webhooks, by the path of the binding
	reported   map[string]bool     // texts passed to Failed
	reverts    map[string]*reverts // by object
}

// NewRegistrar returns a registrar. It does nothing before the first call of Want.
func NewRegistrar(o RegistrarOptions) *Registrar {
	r := &Registrar{
		options: o, wake: make(chan struct{}, 1), reconciling: make(chan struct{}, 1), registered: map[string]Table{}, converted: map[string]bool{}, present: map[string]bool{},
		refused: map[string]error{}, reported: map[string]bool{}, reverts: map[string]*reverts{},
	}
	r.notifier = kube.NewNotifier(o.Client, o.Observer, func() { signal(r.wake) })
	return r
}

// Want sets the desired state. It does not block.
func (r *Registrar) Want(w Wanted) {
	r.mu.Lock()
	r.want, r.altered = &w, true
	r.mu.Unlock()
	signal(r.wake)
}

// setWithdrawn sets whether the registrar deletes the webhook configurations of the operator, instead of writing them.
// It returns the previous value, and does not wait until the registrar uses the new value.
func (r *Registrar) setWithdrawn(withdrawn bool) (was bool) {
	r.mu.Lock()
	was = r.withdrawn
	r.withdrawn, r.altered = withdrawn, true
	r.mu.Unlock()
	signal(r.wake)
	return was
}

// awaitReconcile waits until a running call of reconcileOnce has ended. A call of reconcileOnce that begins later uses
// the desired state and the value of setWithdrawn at its own beginning.
func (r *Registrar) awaitReconcile(ctx context.Context) error {
	select {
	case r.reconciling <- struct{}{}:
		<-r.reconciling
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until webhook configurations are written: %w", ctx.Err())
	}
}

// Run reconciles the cluster until ctx ends. Run leaves the objects in the cluster when ctx ends,
// because the next process uses them.
func (r *Registrar) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { r.notifier.Run(ctx) })
	defer watching.Wait()
	again := newRetry()
	repeat(ctx, r.wake, func() time.Duration { return r.reconcileOnce(ctx, again) })
}

// reconcileOnce changes the cluster to match the desired state. It returns the delay after which it
// must be called again; zero means that the next call is necessary only after a change.
func (r *Registrar) reconcileOnce(ctx context.Context, again *backoff.ExponentialBackOff) time.Duration {
	r.reconciling <- struct{}{}
	defer func() { <-r.reconciling }()
	r.mu.Lock()
	altered := r.altered
	r.altered = false
	if r.want == nil {
		r.mu.Unlock()
		return 0
	}
	want := *r.want
	if r.withdrawn {
		want.Admissions = nil
	}
	r.mu.Unlock()
	if altered {
		clear(r.refused)
		clear(r.reported)
		again.Reset()
	}
	wait, known, err := r.reconcile(ctx, want, altered)
	if known && r.options.InForce != nil {
		r.options.InForce(r.inForce(want.Complete))
	}
	if err == nil {
		again.Reset()
		if wait == 0 && r.options.Trusted != nil {
			r.options.Trusted(want)
		}
		return wait
	}
	if ctx.Err() != nil {
		return 0
	}
	if apierrors.IsConflict(err) { // another client has written the object at the same time
		return again.NextBackOff()
	}
	r.reportFailure(err)
	if len(want.Admissions)+len(want.Conversions) == 0 && kube.IsRefused(err) {
		return 0 // no webhooks are wanted, and the operator has no permission to change the remaining objects
	}
	return again.NextBackOff()
}

// reportFailure calls Failed with err, once for each text.
func (r *Registrar) reportFailure(err error) {
	if !r.reported[err.Error()] {
		r.reported[err.Error()] = true
		r.options.Failed(err)
	}
}

// inForce returns the bindings whose webhooks are in the cluster.
func (r *Registrar) inForce(complete bool) Table {
	all := Table{Complete: complete}
	for _, object := range slices.Sorted(maps.Keys(r.registered)) {
		in := r.registered[object]
		all.Admissions, all.Conversions = append(all.Admissions, in.Admissions...), append(all.Conversions, in.Conversions...)
	}
	return all
}

// reconcile writes the objects that differ from the desired state. If other clients change an object again and again,
// reconcile delays the write of the object. It returns the delay after which the first of these objects may be written;
// zero means that there is no such object. The result known reports whether r.registered has the webhooks that are in
// the cluster. It is false if no address is served yet, or if a request has failed and may succeed later.
func (r *Registrar) reconcile(ctx context.Context, want Wanted, altered bool) (wait time.Duration, known bool, err error) {
	if err := r.follow(want); err != nil {
		return 0, false, err
	}
	known = want.isKnown()
	var errs []error
	admissions, conversions := len(want.Admissions) == 0 || want.Admission.isServed(), want.Conversion.isServed()
	if !r.tidy && admissions {
		err := r.findLeft(ctx)
		r.tidy = err == nil
		errs = append(errs, err)
	}
	do := func(object string, write func() (wrote bool, in Table, err error)) {
		h := r.reverts[object]
		if h == nil {
			h = &reverts{}
			r.reverts[object] = h
		}
		if pause := h.pause(r.options.Clock()); pause > 0 && !altered {
			if wait == 0 || pause < wait {
				wait = pause
			}
			return
		}
		wrote, in, err := write()
		if wrote && !altered {
			h.reverted(r.options.Clock())
		}
		if err == nil {
			r.registered[object] = in
		}
		known = known && (err == nil || kube.IsRefused(err))
		errs = append(errs, err)
	}
	for _, kind := range []admissionKind{validating, mutating} {
		if admissions {
			do(kind.resource.Resource, func() (bool, Table, error) { return r.configure(ctx, kind, want) })
		}
	}
	crds := want.crds()
	for _, crd := range slices.Sorted(maps.Keys(crds)) {
		if conversions {
			r.converted[crd] = true
			do(crd, func() (bool, Table, error) { return r.convert(ctx, crd, want) })
		}
	}
	return wait, known, errors.Join(append(errs, r.restoreOthers(ctx, want))...)
}

// restoreOthers removes the conversion webhooks that are no longer wanted. While the table is not complete, it removes
// nothing.
func (r *Registrar) restoreOthers(ctx context.Context, want Wanted) error {
	if !want.Complete {
		return nil
	}
	var errs []error
	crds := want.crds()
	for _, crd := range slices.Sorted(maps.Keys(r.converted)) {
		if _, wanted := crds[crd]; wanted {
			continue
		}
		if err := r.restore(ctx, crd); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(r.converted, crd)
		delete(r.registered, crd)
	}
	return errors.Join(errs...)
}

// follow makes the notifier watch the wanted objects, so that changes by other clients are
// reverted.
func (r *Registrar) follow(want Wanted) error {
	var views []kube.View
	for _, kind := range []admissionKind{validating, mutating} {
		if len(kind.of(want.Table)) > 0 {
			views = append(views, kind.view(r.configuration()))
		}
	}
	for crd := range want.crds() {
		views = append(views, crdView(crd))
	}
	return r.notifier.Follow(views...)
}

// configuration is the name of both webhook configurations.
func (r *Registrar) configuration() string { return r.options.Name + "-hooks" }

// foreignError is the error about an object that the operator does not write because it belongs to
// another program.
type foreignError struct{ object, owner string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s belongs to %s and is not changed; hooks of this operator that need it are not called", e.object, e.owner)
}

// reverts records when the registrar last reverted a change of an object by another client, and the
// delay before the next revert. The first change is reverted at once, and further changes after
// growing delays.
type reverts struct {
	last  time.Time
	delay time.Duration
}

// The minimum and maximum delay between two reverts of an object.
const (
	healFirst = time.Second
	healLast  = 5 * time.Minute
)

func (h *reverts) pause(now time.Time) time.Duration {
	return h.last.Add(h.delay).Sub(now)
}

func (h *reverts) reverted(now time.Time) {
	if now.Sub(h.last) > 10*max(h.delay, healFirst) {
		h.delay = 0
	}
	h.last, h.delay = now, min(max(healFirst, 2*h.delay), healLast)
}
