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

// ownerLabel is on all objects that say what a table says. Its value is the namespace of the operator whose table that is.
const ownerLabel = "addon-operator/webhooks-of"

// Place is where the API server is to ask.
type Place struct {
	// URL is where it asks, without a path; empty where it asks a Service.
	URL string
	// Service is the name of the Service in the operator's namespace.
	Service string
	// Bundle holds the CAs to be trusted, as PEM.
	Bundle []byte
}

// Wanted is what the cluster is to say.
type Wanted struct {
	Table
	// Admission and Conversion are where those bindings are served.
	Admission, Conversion Place
}

// RegistrarOptions are what a [Registrar] needs to know.
type RegistrarOptions struct {
	Client *kube.Client
	// Name is what the webhook configurations are called, but for the -hooks at their end.
	Name string
	// Namespace is the operator's. It tells what is this operator's from what is another's.
	Namespace string
	Clock     func() time.Time
	Observer  kube.Observer
	// InForce is called when the cluster says what is wanted.
	InForce func(Wanted)
	// Failed is told, once for each text, why it does not say so yet. It is tried again, or waited for.
	Failed func(error)
	// Refused is told, once for each, of admission bindings that the API server will not have, and why.
	Refused func(Admission, error)
}

// Registrar has the cluster's webhook configurations and CustomResourceDefinitions say what is wanted: it makes them,
// changes them back when others change them, and takes away what is not wanted any more. What belongs to others it leaves
// alone. Make one with [NewRegistrar].
type Registrar struct {
	options RegistrarOptions
	lookout *kube.Lookout
	wake    chan struct{}

	turning chan struct{} // has an element during a turn

	mu        sync.Mutex
	want      *Wanted // nil until it is known; guarded by mu
	altered   bool    // want is another than at the last turn; guarded by mu
	withdrawn bool    // admissions are not wanted any more; guarded by mu

	// Only Run's goroutine uses what follows.
	tidy      bool                // what earlier processes left is known
	present   map[string]bool     // resources of the configurations that are, or may be, ours
	converted map[string]bool     // names of definitions that say, or may say, that we convert
	refused   map[string]error    // by path
	said      map[string]bool     // texts that Failed was told
	heals     map[string]*healing // by object
}

// NewRegistrar returns a registrar that does nothing until it is told what is wanted.
func NewRegistrar(o RegistrarOptions) *Registrar {
	r := &Registrar{
		options: o, wake: make(chan struct{}, 1), turning: make(chan struct{}, 1), converted: map[string]bool{}, present: map[string]bool{}, refused: map[string]error{},
		said: map[string]bool{}, heals: map[string]*healing{},
	}
	r.lookout = kube.NewLookout(o.Client, o.Observer, func() { signal(r.wake) })
	return r
}

// Want makes w what is wanted. It does not block.
func (r *Registrar) Want(w Wanted) {
	r.mu.Lock()
	r.want, r.altered = &w, true
	r.mu.Unlock()
	signal(r.wake)
}

// Withdraw ends the registration of admissions until the process ends. When it returns without an error, no webhook
// configuration is written any more.
func (r *Registrar) Withdraw(ctx context.Context) error {
	r.mu.Lock()
	r.withdrawn, r.altered = true, true
	r.mu.Unlock()
	defer signal(r.wake)
	select {
	case r.turning <- struct{}{}: // turns that follow know
		<-r.turning
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until webhook configurations are written: %w", ctx.Err())
	}
}

// Run works until ctx ends. The objects stay as they are then: the next process goes on with them.
func (r *Registrar) Run(ctx context.Context) {
	var watching sync.WaitGroup
	watching.Go(func() { r.lookout.Run(ctx) })
	defer watching.Wait()
	again := newRetry()
	turns(ctx, r.wake, func() time.Duration { return r.turn(ctx, again) })
}

// turn makes the cluster say what is wanted, and returns after how long to try again; zero if all is well.
func (r *Registrar) turn(ctx context.Context, again *backoff.ExponentialBackOff) time.Duration {
	r.turning <- struct{}{}
	defer func() { <-r.turning }()
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
		clear(r.said)
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
	if apierrors.IsConflict(err) { // somebody else has written at the same time
		return again.NextBackOff()
	}
	r.say(err)
	if len(want.Admissions)+len(want.Conversions) == 0 && kube.IsRefused(err) {
		return 0 // nothing is wanted, and what may be left of it is not ours to touch
	}
	return again.NextBackOff()
}

// say tells of what went wrong, once.
func (r *Registrar) say(err error) {
	if !r.said[err.Error()] {
		r.said[err.Error()] = true
		r.options.Failed(err)
	}
}

// reconcile returns how long others' changes are left alone, if they come again and again.
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
		h := r.heals[object]
		if h == nil {
			h = &healing{}
			r.heals[object] = h
		}
		if pause := h.pause(r.options.Clock()); pause > 0 && !altered {
			wait = max(wait, pause)
			return
		}
		wrote, err := write()
		if wrote && !altered {
			h.healed(r.options.Clock())
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

// follow watches what is wanted, so that others' changes are seen.
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
	return r.lookout.Follow(views...)
}

// configuration is the name of both webhook configurations.
func (r *Registrar) configuration() string { return r.options.Name + "-hooks" }

// foreignError is why an object is not written: it is somebody else's.
type foreignError struct{ object, owner string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("%s belongs to %s and is left alone; its hooks are not asked", e.object, e.owner)
}

// healing paces the undoing of others' changes: the first is undone at once, those that follow soon after it later and
// later.
type healing struct {
	last  time.Time
	delay time.Duration
}

// The delays of healing.
const (
	healFirst = time.Second
	healLast  = 5 * time.Minute
)

func (h *healing) pause(now time.Time) time.Duration {
	return h.last.Add(h.delay).Sub(now)
}

func (h *healing) healed(now time.Time) {
	if now.Sub(h.last) > 10*max(h.delay, healFirst) {
		h.delay = 0
	}
	h.last, h.delay = now, min(max(healFirst, 2*h.delay), healLast)
}
