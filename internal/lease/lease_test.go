package lease_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"addon-operator/e2e/cluster"
	"addon-operator/internal/lease"
)

func TestMain(m *testing.M) { os.Exit(cluster.Run(m)) }

// A fixture is a namespace in which several operators run.
type fixture struct {
	t         *testing.T
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	c := cluster.Start(t)
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &fixture{t: t, config: c.Config(), client: client, namespace: c.Namespace(t)}
}

// validFor is the duration of the Leases of these tests. The duration is long, so that holders do
// not lose their Leases while the machine is busy.
const validFor = 10 * time.Second

// atOnce is the time limit for an acquisition that need not wait until the Lease expires.
const atOnce = validFor * 3 / 4

// lease returns the Lease for a process whose identity is the argument name.
func (s *fixture) lease(name string, change ...func(*lease.Options)) *lease.Lease {
	s.t.Helper()
	o := lease.Options{
		Config: s.config, Namespace: s.namespace, Identity: name, Duration: validFor, Renew: 100 * time.Millisecond, Clock: time.Now,
	}
	for _, f := range change {
		f(&o)
	}
	l, err := lease.New(o)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

func (s *fixture) acquire(l *lease.Lease) lease.Previous {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 90*time.Second)
	defer cancel()
	previous, err := l.Acquire(ctx)
	if err != nil {
		s.t.Fatal(err)
	}
	return previous
}

// renew renews l until stop is called. The function stop returns the result of Renew.
func (s *fixture) renew(l *lease.Lease) (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- l.Renew(ctx) }()
	stopped := false
	stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	s.t.Cleanup(func() { _ = stop() })
	return stop
}

func (s *fixture) stored() *coordinationv1.Lease {
	s.t.Helper()
	found, err := s.client.CoordinationV1().Leases(s.namespace).Get(s.t.Context(), lease.Name, metav1.GetOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func TestSecondWaitsForTheHolderAndTakesOverWhenItReleases(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.lease("a")
	if err := a.Check(); err == nil {
		t.Error("a Lease that was not acquired is held")
	}
	if p := s.acquire(a); p.Identity != "" || p.Foreign {
		t.Errorf("the previous holder of a new Lease is %+v", p)
	}
	if err := a.Mark(t.Context(), "store-a", 7); err != nil {
		t.Fatal(err)
	}
	stop := s.renew(a)
	waits := make(chan lease.Holder, 10)
	b := s.lease("b", func(o *lease.Options) { o.Waiting = func(h lease.Holder, _ error) { waits <- h } })
	got := make(chan lease.Previous, 1)
	go func() { got <- s.acquire(b) }()
	select {
	case <-got:
		t.Fatal("two hold the Lease")
	case h := <-waits:
		if h.Identity != "a" || h.Store != "store-a" || h.Epoch != 7 {
			t.Errorf("it waits for %+v", h)
		}
	}
	select {
	case <-got:
		t.Fatal("two hold the Lease")
	case <-time.After(validFor + time.Second):
	}
	if err := a.Check(); err != nil {
		t.Error(err)
	}
	if err := errors.Join(stop(), a.Release(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
	released := time.Now()
	p := <-got
	if took := time.Since(released); took > atOnce {
		t.Errorf("it took over %s after the release", took)
	}
	if p.Store != "store-a" || p.Epoch != 7 || p.Foreign {
		t.Errorf("the previous holder is %+v", p)
	}
	if err := a.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("after the release, the previous holder still has the Lease: %v", err)
	}
	if len(waits) > 0 {
		t.Errorf("the same wait was reported again: %+v", <-waits)
	}
}

func TestLeaseOfADeadHolderIsTakenWhenItExpires(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a, b := s.lease("a"), s.lease("b")
	s.acquire(a)
	began := time.Now()
	s.acquire(b)
	if took := time.Since(began); took < atOnce {
		t.Errorf("it was taken after %s", took)
	}
	if err := a.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("a holder that did not renew the Lease still has it: %v", err)
	}
	if err := s.renew(a)(); err != nil && !errors.Is(err, lease.ErrLost) {
		t.Error(err)
	}
	if holder := *s.stored().Spec.HolderIdentity; holder != "b" {
		t.Errorf("%s holds it", holder)
	}
}

func TestLeaseOfTheOwnIdentityIsTakenAtOnceAndTheOtherLosesIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.lease("pod_store")
	s.acquire(a)
	if err := a.Mark(t.Context(), "store", 3); err != nil {
		t.Fatal(err)
	}
	again := s.lease("pod_store")
	began := time.Now()
	if p := s.acquire(again); p.Store != "store" || p.Epoch != 3 || p.Foreign {
		t.Errorf("the previous holder is %+v", p)
	}
	if took := time.Since(began); took > atOnce {
		t.Errorf("it took %s", took)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := a.Renew(ctx); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the first goes on: %v", err)
	}
	if err := a.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("the first may act: %v", err)
	}
	if err := again.Mark(t.Context(), "store", 4); err != nil {
		t.Error(err)
	}
}

func TestLeaseThatCannotBeRenewedIsLostByTheClock(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var late time.Duration
	a := s.lease("a", func(o *lease.Options) { o.Clock = func() time.Time { return time.Now().Add(late) } })
	s.acquire(a)
	if err := a.Check(); err != nil {
		t.Fatal(err)
	}
	late = validFor - validFor/30 // the clock of a process that was paused; other processes still wait, because less than validFor has passed
	if err := a.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("it may act: %v", err)
	}
}

// A slowServer is a transport that advances a clock during each request.
type slowServer struct {
	http.RoundTripper
	takes *time.Duration
	clock *time.Duration
}

// RoundTrip sends the request, and advances the clock before it returns.
func (s slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := s.RoundTripper.RoundTrip(r)
	*s.clock += *s.takes
	return answer, err
}

func TestLeaseCountsFromTheRequestAndNotFromItsAnswer(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	var late, takes time.Duration
	a := s.lease("a", func(o *lease.Options) {
		o.Clock = func() time.Time { return time.Now().Add(late) }
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return slowServer{rt, &takes, &late} })
	})
	s.acquire(a)
	takes = validFor // when the response to the renewal arrives, other processes may already acquire the Lease
	if err := a.Mark(t.Context(), "store", 1); err != nil {
		t.Fatal(err)
	}
	if err := a.Check(); !errors.Is(err, lease.ErrLost) {
		t.Errorf("it may act: %v", err)
	}
}

func TestDeletedLeaseIsLost(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.lease("a")
	s.acquire(a)
	if err := s.client.CoordinationV1().Leases(s.namespace).Delete(t.Context(), lease.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if err := a.Renew(ctx); !errors.Is(err, lease.ErrLost) {
		t.Errorf("it goes on: %v", err)
	}
}

func TestExistingOperatorWaitsForUsAndWeForIt(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	a := s.lease("a")
	s.acquire(a)
	if err := a.Mark(t.Context(), "store-a", 7); err != nil {
		t.Fatal(err)
	}
	stop := s.renew(a)
	leads, ended := make(chan bool, 1), make(chan bool)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		defer close(ended)
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: &resourcelock.LeaseLock{
				LeaseMeta: metav1.ObjectMeta{Name: "addon-operator-leader-election", Namespace: s.namespace},
				Client:    s.client.CoordinationV1(), LockConfig: resourcelock.ResourceLockConfig{Identity: "pod.1-2-3-4.ns.pod"},
			},
			LeaseDuration: validFor, RenewDeadline: atOnce, RetryPeriod: 200 * time.Millisecond, ReleaseOnCancel: true,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leads <- true }, OnStoppedLeading: func() {},
			},
		})
	}()
	select {
	case <-leads:
		t.Fatal("two hold the Lease")
	case <-time.After(validFor + time.Second):
	}
	if err := errors.Join(stop(), a.Release(t.Context(), 0)); err != nil {
		t.Fatal(err)
	}
	<-leads
	got := make(chan lease.Previous, 1)
	go func() { got <- s.acquire(s.lease("a")) }()
	select {
	case <-got:
		t.Fatal("it did not wait for the existing operator")
	case <-time.After(validFor + time.Second):
	}
	cancel()
	<-ended
	if p := <-got; !p.Foreign || p.Store != "store-a" {
		t.Errorf("the previous holder is %+v", p)
	}
	again := s.lease("a") // the previous process acquired the Lease from the foreign holder, but ended without a call of Mark
	if p := s.acquire(again); !p.Foreign {
		t.Errorf("after the end of a process that did not mark the Lease, the previous holder is %+v", p)
	}
	if err := again.Mark(t.Context(), "store-a", 8); err != nil {
		t.Fatal(err)
	}
	if p := s.acquire(s.lease("a")); p.Foreign {
		t.Errorf("after the Lease was marked, the previous holder is %+v", p)
	}
}

// failing is a transport that answers the next PUT requests with status 503, without sending them.
// The counter left has the number of PUT requests that are still to be answered in this way.
type failing struct {
	next http.RoundTripper
	left *atomic.Int32
}

func (f failing) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut && f.left.Add(-1) >= 0 {
		return &http.Response{
			StatusCode: http.StatusServiceUnavailable, Request: r, Body: io.NopCloser(strings.NewReader("{}")),
			Header: http.Header{"Content-Type": {"application/json"}},
		}, nil
	}
	return f.next.RoundTrip(r)
}

func TestTheStoreIsRecordedAlthoughTheAPIServerFailsForAWhile(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var left atomic.Int32
	l := f.lease("a", func(o *lease.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Wrap(func(next http.RoundTripper) http.RoundTripper { return failing{next, &left} })
	})
	f.acquire(l)
	left.Store(3)
	if err := l.Mark(t.Context(), "store-a", 7); err != nil {
		t.Fatal(err)
	}
	if got := f.stored().Annotations[lease.StoreAnnotation]; got != "store-a" || left.Load() >= 0 {
		t.Errorf("the Lease names the store %q", got)
	}
}

func TestAcquireWithoutRightsSaysSo(t *testing.T) {
	t.Parallel()
	s := newFixture(t)
	l := s.lease("a", func(o *lease.Options) {
		o.Config = rest.CopyConfig(o.Config)
		o.Config.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	})
	if _, err := l.Acquire(t.Context()); !errors.Is(err, lease.ErrForbidden) {
		t.Errorf("the error is %v", err)
	}
}
