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

// Place is the address that the API server calls.
type Place struct {
	// URL is the address without a path; empty if the API server calls a Service.
	URL string
	// Service is the name of the Service in the operator's namespace.
	Service string
	// Bundle contains the trusted CAs as PEM.
	Bundle []byte
}

// Wanted is the desired state of the cluster.
type Wanted struct {
	Table
	// Admission and Conversion are the addresses that the API server calls for the bindings.
	Admission, Conversion Place
}

// RegistrarOptions configure a [Registrar].
type RegistrarOptions struct {
	Client *kube.Client
	// Name is the name of the webhook configurations without the suffix -hooks.
	Name string
	// Namespace is the operator's namespace. It identifies the objects of this operator.
	Namespace string
	Clock     func() time.Time
	Observer  kube.Observer
	// InForce is called when the cluster matches the desired state.
	InForce func(Wanted)
	// Failed is called with the reason why the cluster does not match the desired state yet, once
	// for each text. The registrar retries, or waits for a change of the object.
	Failed func(error)
	// Refused is called once for each admission binding that the API server rejects, with the
	// reason.
	Refused func(Admission, error)
}

// Registrar keeps the cluster's webhook configurations and CustomResourceDefinitions in the wanted
// state: it creates configurations, reverts changes by others, and removes configurations that are
// no longer wanted. It does not change objects that belong to others. Create one with
// [NewRegistrar].
type Registrar struct {
	options  RegistrarOptions
	notifier *kube.Notifier
	wake     chan struct{}

	reconciling chan struct{} // holds an element while reconcileOnce runs

	mu        sync.Mutex
	want      *Wanted // nil until Want is called; guarded by mu
	altered   bool    // want or withdrawn has changed since the last call of reconcileOnce; guarded by mu
	withdrawn bool    // admissions are no longer wanted; guarded by mu

	// Only Run's goroutine uses the following fields.
	tidy      bool                // findLeft has succeeded
	present   map[string]bool     // resources of configurations that may exist and belong to this operator
	converted map[string]bool     // names of definitions that may have this operator's conversion webhook
	refused   map[string]error    // errors of rejected webhooks, by path
	reported  map[string]bool     // texts passed to Failed
	reverts   map[string]*reverts // by object
}

// NewRegistrar returns a registrar. It does nothing before the first call of Want.
func NewRegistrar(o RegistrarOptions) *Registrar {
	r := &Registrar{
		options: o, wake: make(chan struct{}, 1), reconciling: make(chan struct{}, 1), converted: map[string]bool{}, present: map[string]bool{}, refused: map[string]error{},
		reported: map[string]bool{}, reverts: map[string]*reverts{},
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

// Withdraw ends the registration of admissions until the process ends. After it has returned
// without an error, the registrar writes no webhook configuration.
func (r *Registrar) Withdraw(ctx context.Context) error {
	r.mu.Lock()
	r.withdrawn, r.altered = true, true
	r.mu.Unlock()
	defer signal(r.wake)
	select {
	case r.reconciling <- struct{}{}: // later calls see withdrawn
		<-r.reconciling
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until webhook configurations are written: %w", ctx.Err())
	}
}

// Run reconciles the cluster until ctx ends. It does not remove the objects at the end, because the
// next process uses them.
func (r *Registrar) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { r.notifier.Run(ctx) })
	defer watching.Wait()
	again := newRetry()
	repeat(ctx, r.wake, func() time.Duration { return r.reconcileOnce(ctx, again) })
}

// reconcileOnce changes the cluster to match the desired state. It returns the delay before it must
// be called again; zero means that it must be called only after a change.
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
	wait, err := r.reconcile(ctx, want, altered)
	if err == nil {
		again.Reset()
		if wait == 0 && r.options.InForce != nil {
			r.options.InForce(want)
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
		return 0 // nothing is wanted, and the API server does not permit changes of the remaining objects
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

// reconcile writes the objects that differ from the desired state. If others change an object again
// and again, reconcile postpones the write and returns the delay.
func (r *Registrar) reconcile(ctx context.Context, want Wanted, altered bool) (wait time.Duration, err error) {
	if err := r.follow(want); err != nil {
		return 0, err
	}
	var errs []error
	if !r.tidy {
		err := r.findLeft(ctx)
		r.tidy = err == nil
		errs = append(errs, err)
	}
	do := func(object string, write func() (bool, error)) {
		h := r.reverts[object]
		if h == nil {
			h = &reverts{}
			r.reverts[object] = h
		}
		if pause := h.pause(r.options.Clock()); pause > 0 && !altered {
			wait = max(wait, pause)
			return
		}
		wrote, err := write()
		if wrote && !altered {
			h.reverted(r.options.Clock())
		}
		errs = append(errs, err)
	}
	for _, kind := range []admissionKind{validating, mutating} {
		do(kind.resource.Resource, func() (bool, error) { return r.configure(ctx, kind, want) })
	}
	crds := want.crds()
	for _, crd := range slices.Sorted(maps.Keys(crds)) {
		r.converted[crd] = true
		do(crd, func() (bool, error) { return r.convert(ctx, crd, want.Conversion) })
	}
	for _, crd := range slices.Sorted(maps.Keys(r.converted)) {
		if _, wanted := crds[crd]; wanted || !want.Complete {
			continue
		}
		if err := r.restore(ctx, crd); err != nil {
			errs = append(errs, err)
			continue
		}
		delete(r.converted, crd)
	}
	return wait, errors.Join(errs...)
}

// follow watches the wanted objects for changes by others.
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

// foreignError is the error for an object that is not written because it belongs to another
// program.
type foreignError struct{ object, owner string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s belongs to %s and is left alone; its hooks are not called", e.object, e.owner)
}

// reverts limits the rate at which changes of others to an object are reverted. The first change is
// reverted at once, and further changes after growing delays.
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
