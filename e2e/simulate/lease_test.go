package simulate_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/internal/lease"
	"addon-operator/store"
	"addon-operator/triggers"
)

// A term has the duration for which a Lease is valid after a renewal, and the interval between renewals.
type term struct{ duration, renew time.Duration }

var (
	shortTerm = term{105 * time.Second, 30 * time.Second}
	// longTerm is for quiet days. With shortTerm, a simulation of these days would spend most of its CPU time on
	// renewals.
	longTerm = term{35 * time.Hour, 6 * time.Hour}
)

// Identities of holders of the Lease. The identity of the simulated operator is ownIdentity followed by the id of its
// store. rivalIdentity is the identity of the rival, another operator in the same namespace.
const (
	ownIdentity   = "operator_"
	rivalIdentity = "rival"
)

var leaseAddress = address{"leases", namespace, lease.Name}

// seekLease creates p.lease, and makes the store of p reject commits while p does not hold the Lease.
func (p *process) seekLease() (err error) {
	p.lease, err = lease.New(lease.Options{
		Config: p.restConfig(), Namespace: namespace, Identity: p.identity(), Duration: p.term.duration, Renew: p.term.renew, Clock: time.Now,
		Waiting: func(h lease.Holder, err error) {
			who := "an operator of another store" // its identity is left out, because it contains the random id of a store
			if h.Identity == rivalIdentity {
				who = "the rival"
			}
			if err == nil {
				p.note("standby: %s holds the Lease", who)
			}
		},
	})
	if err != nil {
		return err
	}
	p.db.Guard(func() error {
		err := p.lease.Check()
		if errors.Is(err, lease.ErrLost) {
			return fmt.Errorf("%w: %w", store.ErrFenced, err)
		}
		return err
	})
	return nil
}

func (p *process) identity() string { return ownIdentity + p.db.ID() }

// lead waits until the process holds the Lease, and renews the Lease until release is called. If another operator has
// worked since the last epoch of this store, or if the store is a copy, lead drops the pending work, and the result
// dropped is the reason.
func (p *process) lead(ctx context.Context) (dropped string, release func(), err error) {
	previous, err := p.lease.Acquire(ctx)
	if err != nil {
		return "", nil, err
	}
	p.leads.Store(true)
	if dropped, err = triggers.TakeOver(ctx, p.db, previous, p.written); err != nil {
		return "", nil, err
	}
	if dropped != "" {
		p.hooks.lose("", true)
		p.note("drops the pending work of its store: %s", strings.ReplaceAll(dropped, previous.Store, "(id)"))
	}
	either, ctx := ctx, context.WithoutCancel(ctx)
	if err := p.lease.Mark(either, p.db.ID(), p.db.Epoch()); err != nil {
		return "", nil, errors.Join(err, p.lease.Release(ctx, 0))
	}
	keeping, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := p.lease.Renew(keeping); err != nil {
			p.db.Fence(err)
		}
	}()
	return dropped, func() {
		stop()
		<-ended
		_ = p.lease.Release(ctx, store.RecordedEnd(p.db)) // after an error, the Lease stays held until it expires
	}, nil
}

// lost reports whether p has ended because it has lost its Lease.
func (p *process) lost() bool {
	return p.lease != nil && errors.Is(p.lease.Check(), lease.ErrLost) && errors.Is(p.db.Err(), store.ErrFenced)
}

// judge is called when p changes its store or the cluster. The text in what names the change. judge reports a violation
// if p has acquired the Lease before, and the rival works at this time.
func (p *process) judge(what string) {
	if r := p.rival; p.leads.Load() && !r.from.IsZero() && !time.Now().Before(r.from) {
		p.violated("fence: %s of an operator that has lost its Lease is carried out", what)
	}
}

// A rival is another operator in the same namespace, with another store.
type rival struct {
	from  time.Time // start of the time in which the rival works and the operator must not; zero while the rival does not work
	terms int
}

// loseLease makes the rival take the Lease and hold it for the given duration. The string how is the reason why the
// operator loses the Lease. "stolen lease": the rival takes the Lease before it expires, and the operator notices this
// at its next renewal. "paused operator": the operator does nothing until the Lease has expired, as if its machine was
// suspended, and continues when the rival works. "expired lease": the operator cannot reach the API server until the
// Lease has expired.
func (w *simulation) loseLease(how string, held time.Duration) {
	server := w.network.server
	w.fenced = true
	switch how {
	case "stolen lease":
		w.note("rival", "takes the Lease that the operator holds")
		w.takeLease()
		w.live(w.term.duration)
	case "paused operator":
		w.changeSetting(moduleNames[w.rival.terms%len(moduleNames)], w.rival.terms)
		w.liveUntilWrite(time.Minute)
		w.note("environment", "the operator is paused")
		w.scheduler.pause(w.process)
		w.live(w.term.duration + time.Second)
		w.note("rival", "takes the Lease, which has expired")
		w.takeLease()
		w.scheduler.proceed()
	default:
		w.note("environment", "the operator is cut off from the API server")
		w.network.setDown(true)
		w.live(w.term.duration + time.Second)
		w.note("rival", "takes the Lease, which has expired")
		w.takeLease()
		w.network.setDown(false)
	}
	w.rival.from = time.Now()
	w.live(held / 2)
	w.changeObjects(2, int(held/time.Second))
	w.live(held / 2)
	if w.wrong() != "" {
		return
	}
	w.rival.from = time.Time{}
	w.note("rival", "releases the Lease")
	server.commit(leaseAddress, w.leaseOf("", 1))
	w.live(time.Second)
}

// liveUntilWrite continues the simulation until the operator is about to change a ConfigMap, but at
// most for d.
func (w *simulation) liveUntilWrite(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end) && w.wrong() == "" && !w.scheduler.writesConfigMap(); {
		if w.scheduler.next() == "" {
			w.scheduler.idle(end)
		}
		w.revive()
	}
}

// takeLease makes the rival the holder of the Lease.
func (w *simulation) takeLease() {
	w.rival.terms++
	w.network.server.commit(leaseAddress, w.leaseOf(rivalIdentity, int32(24*time.Hour/time.Second)))
}

// leaseOf returns the Lease that the rival writes when it takes or releases the Lease, with this holder and duration.
func (w *simulation) leaseOf(holder string, seconds int32) map[string]any {
	terms, now := int32(1), metav1.NewMicroTime(time.Now())
	if o := w.network.server.objects[leaseAddress]; o != nil {
		spec, _ := o.content["spec"].(map[string]any)
		if n, ok := spec["leaseTransitions"].(float64); ok {
			terms = int32(n)
		}
		if spec["holderIdentity"] != rivalIdentity {
			terms++
		}
	}
	next := coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: lease.Name, Namespace: namespace, Annotations: map[string]string{
			lease.TermAnnotation: strconv.Itoa(int(terms)), lease.StoreAnnotation: "of the rival", lease.EpochAnnotation: strconv.Itoa(w.rival.terms),
		}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &now, RenewTime: &now, LeaseTransitions: &terms},
	}
	content, err := decode(marshal(next))
	if err != nil {
		panic(err)
	}
	return content
}
