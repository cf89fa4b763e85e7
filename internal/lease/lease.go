package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Name is the name of the Lease: that of the existing addon-operator's leader election.
const Name = "addon-operator-leader-election"

// The annotations of the Lease.
const (
	// TermAnnotation is the value of spec.leaseTransitions that the last operator of this program acquired.
	TermAnnotation = "addon-operator/term"
	// StoreAnnotation is the id of the store that was worked on last.
	StoreAnnotation = "addon-operator/store"
	// EpochAnnotation is the epoch of that store.
	EpochAnnotation = "addon-operator/epoch"
)

const (
	// defaultDuration is how long a Lease is valid after a renewal, as in the existing operator.
	defaultDuration = 35 * time.Second
	// defaultRenew is the time between two renewals.
	defaultRenew = 2 * time.Second
	// marginPart of the duration is how much earlier the holder stops than others may begin.
	marginPart = 7
)

// ErrLost is what errors.Is finds in the error of a Lease that is not held any more.
var ErrLost = errors.New("the Lease is lost")

// ErrForbidden is what errors.Is finds in the error of an operator that may not use Leases.
var ErrForbidden = errors.New("the operator has no right to Leases")

// Options say which Lease to keep and in whose name. Config, Namespace and Identity are needed.
type Options struct {
	// Config reaches the cluster.
	Config    *rest.Config
	Namespace string
	// Identity names the holder. A process takes a Lease that its own identity holds at once: that process has ended.
	Identity string
	// Duration is how long the Lease is valid after a renewal, Renew the time between two renewals; zero for 35 s and 2 s.
	Duration, Renew time.Duration
	// Clock tells the time.
	Clock func() time.Time
	// Waiting is called when the process begins to wait for another holder, and when what it waits for changes. Its error
	// is that of the API server where that cannot be asked. Nil is silence.
	Waiting func(Holder, error)
}

// A Holder is who keeps a Lease.
type Holder struct {
	Identity string
	// Store and Epoch are those the annotations name; they are empty for a program that writes none.
	Store string
	Epoch uint64
	// Renewed is when the holder has renewed the Lease last, by its own clock.
	Renewed time.Time
}

// String names the holder for people.
func (h Holder) String() string {
	text := h.Identity
	if text == "" {
		text = "nobody"
	}
	if h.Store != "" {
		text += fmt.Sprintf(" (last epoch %d of store %s)", h.Epoch, h.Store)
	}
	return text
}

// Previous says who worked in the namespace before this process.
type Previous struct {
	Holder
	// Foreign is set where the last holder was another program, which writes no annotations: Store and Epoch are those of
	// the operator before it.
	Foreign bool
}

// A Lease is the Lease of a namespace for one process. It is acquired once, then kept until it is released or lost.
type Lease struct {
	options Options
	client  coordinationclient.LeaseInterface

	writing sync.Mutex // held while the Lease is written, so that one change never undoes another

	mu    sync.Mutex
	held  *coordinationv1.Lease // as the API server has it; nil while it is not held
	until time.Time             // the process may act until then
	lost  error
}

// New returns the Lease that o names. It sends nothing.
func New(o Options) (*Lease, error) {
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Renew == 0 {
		o.Renew = defaultRenew
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Timeout = -1, 0 // a renewal never waits behind other requests
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for Leases: %w", err)
	}
	return &Lease{options: o, client: client.Leases(o.Namespace)}, nil
}

// String names the Lease.
func (l *Lease) String() string { return "Lease " + l.options.Namespace + "/" + Name }

// Check returns nil while the process may act, and else why not.
func (l *Lease) Check() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.lost != nil:
		return l.lost
	case l.held == nil:
		return fmt.Errorf("%s is not held yet", l)
	case !l.options.Clock().Before(l.until):
		return fmt.Errorf("%w: %s could not be renewed in time", ErrLost, l)
	}
	return nil
}

// Mark writes into the Lease that the process works on epoch of store from now on.
func (l *Lease) Mark(ctx context.Context, store string, epoch uint64) error {
	return l.update(ctx, func(lease *coordinationv1.Lease) {
		lease.Annotations[StoreAnnotation] = store
		lease.Annotations[EpochAnnotation] = strconv.FormatUint(epoch, 10)
	})
}

// Keep renews the Lease until ctx is done. It returns an error when the Lease is lost: then Check fails for ever.
func (l *Lease) Keep(ctx context.Context) error {
	tick := time.NewTicker(l.options.Renew)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		err := l.update(ctx, func(*coordinationv1.Lease) {})
		if ctx.Err() != nil {
			return nil
		}
		if errors.Is(err, ErrLost) {
			return err
		}
		if lost := l.Check(); lost != nil {
			return l.lose(errors.Join(lost, err))
		}
	}
}

// Release gives the Lease up, so that another can take it at once. The process must not act any more.
func (l *Lease) Release(ctx context.Context) error {
	if l.Check() != nil {
		return nil //nolint:nilerr // it is not the process's own
	}
	err := l.update(ctx, func(lease *coordinationv1.Lease) {
		nobody, second := "", int32(1)
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &second
	})
	_ = l.lose(fmt.Errorf("%w: %s was released", ErrLost, l))
	return err
}

// update renews the Lease with one more change. A Lease that another has taken is lost.
func (l *Lease) update(ctx context.Context, change func(*coordinationv1.Lease)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	held, err := l.current()
	for err == nil {
		began := l.options.Clock()
		next := held.DeepCopy()
		now := metav1.NewMicroTime(began)
		next.Spec.RenewTime = &now
		change(next)
		var written *coordinationv1.Lease
		written, err = l.write(ctx, next)
		switch {
		case err == nil:
			l.keep(written, began)
			return nil
		case !apierrors.IsConflict(err) && !apierrors.IsNotFound(err):
			return fmt.Errorf("renew %s: %w", l, err)
		}
		var current *coordinationv1.Lease
		if current, err = l.read(ctx); err != nil {
			return fmt.Errorf("read %s: %w", l, err)
		}
		if !same(held, current) {
			return l.lose(fmt.Errorf("%w: %s is held by %s now", ErrLost, l, holderOf(current)))
		}
		held = current
	}
	return err
}

// current returns the Lease as the process has written it last.
func (l *Lease) current() (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || l.lost != nil {
		return nil, errors.Join(l.lost, fmt.Errorf("%w: %s is not held", ErrLost, l))
	}
	return l.held, nil
}

// keep notes that the API server has confirmed a renewal that was begun at began. The process may act for somewhat less
// than others wait: its last requests are on their way then.
func (l *Lease) keep(written *coordinationv1.Lease, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.until = written, began.Add(l.options.Duration-l.options.Duration/marginPart)
}

// lose makes err the reason why the process may not act any more, unless there is one.
func (l *Lease) lose(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = err
	}
	return l.lost
}

// same reports whether current is of the term of held.
func same(held, current *coordinationv1.Lease) bool {
	return current != nil && current.UID == held.UID && term(current) == term(held) &&
		holderOf(current).Identity == holderOf(held).Identity
}

// requestTimeout bounds one request.
const requestTimeout = 5 * time.Second

func (l *Lease) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if lease.ResourceVersion == "" {
		return l.client.Create(ctx, lease, metav1.CreateOptions{})
	}
	return l.client.Update(ctx, lease, metav1.UpdateOptions{})
}

// read returns the Lease, nil where there is none.
func (l *Lease) read(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease, err := l.client.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// holderOf returns who holds lease, which may be nil.
func holderOf(lease *coordinationv1.Lease) (h Holder) {
	if lease == nil {
		return h
	}
	if id := lease.Spec.HolderIdentity; id != nil {
		h.Identity = *id
	}
	if at := lease.Spec.RenewTime; at != nil {
		h.Renewed = at.Time
	}
	h.Store = lease.Annotations[StoreAnnotation]
	h.Epoch, _ = strconv.ParseUint(lease.Annotations[EpochAnnotation], 10, 64) // of no number, 0, which is no epoch
	return h
}

// term returns the number of the term of a Lease.
func term(lease *coordinationv1.Lease) int32 {
	if n := lease.Spec.LeaseTransitions; n != nil {
		return *n
	}
	return 0
}
