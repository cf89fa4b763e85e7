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

	"addon-operator/internal/failpoint"
)

// Name is the name of the Lease, the same as for the leader election of the existing
// addon-operator.
const Name = "addon-operator-leader-election"

// The annotations of the Lease.
const (
	// TermAnnotation is the value of spec.leaseTransitions when an operator of this program last
	// acquired the Lease. After another program it is set only by Mark.
	TermAnnotation = "addon-operator/term"
	// StoreAnnotation is the id of the store that was last used.
	StoreAnnotation = "addon-operator/store"
	// EpochAnnotation is the last epoch of that store.
	EpochAnnotation = "addon-operator/epoch"
)

const (
	// defaultDuration is the validity of a Lease after a renewal, as in the existing operator.
	defaultDuration = 35 * time.Second
	// defaultRenew is the time between two renewals.
	defaultRenew = 2 * time.Second
	// marginPart is a divisor of the duration. The holder must stop duration/marginPart before
	// others may take the Lease.
	marginPart = 7
)

// ErrLost matches, with errors.Is, the error of a Lease that is no longer held.
var ErrLost = errors.New("the Lease is lost")

// ErrForbidden matches, with errors.Is, the error of an operator without permission for Leases.
var ErrForbidden = errors.New("the operator has no right to Leases")

// Options configure a Lease. Config, Namespace and Identity are required.
type Options struct {
	// Config is for the cluster.
	Config    *rest.Config
	Namespace string
	// Identity names the holder. A process takes a Lease of its own identity at once, because the
	// previous process with that identity has ended.
	Identity string
	// Duration is the validity of the Lease after a renewal, Renew the interval of renewals; zero
	// means 35 s and 2 s.
	Duration, Renew time.Duration
	// Clock returns the current time.
	Clock func() time.Time
	// Waiting is called when the process starts to wait for another holder, and when the holder or
	// the error changes. The error is set if the API server could not be asked. It may be nil.
	Waiting func(Holder, error)
}

// A Holder is the holder of a Lease.
type Holder struct {
	Identity string
	// Store and Epoch are read from the annotations; they are empty for a program that writes none.
	Store string
	Epoch uint64
	// Renewed is the holder's last renewal, by its own clock.
	Renewed time.Time
}

// String returns the holder for messages.
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

// Previous is the previous holder of the Lease.
type Previous struct {
	Holder
	// Foreign is true if the last holder was another program, which writes no annotations. Store
	// and Epoch are then those of the operator before it.
	Foreign bool
}

// A Lease is the Lease of a namespace for one process. It is acquired once, and held until it is
// released or lost.
type Lease struct {
	options Options
	client  coordinationclient.LeaseInterface

	writing sync.Mutex // locked during writes, so that concurrent changes do not overwrite each other

	mu    sync.Mutex
	held  *coordinationv1.Lease // the Lease as last written; nil while it is not held
	until time.Time             // the process may act until this time
	lost  error
}

// New returns the Lease for o. It sends no request.
func New(o Options) (*Lease, error) {
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Renew == 0 {
		o.Renew = defaultRenew
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Timeout = -1, 0 // a renewal must not wait for other requests
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for Leases: %w", err)
	}
	return &Lease{options: o, client: client.Leases(o.Namespace)}, nil
}

// String names the Lease.
func (l *Lease) String() string { return "Lease " + l.options.Namespace + "/" + Name }

// Check returns nil while the process may act, and otherwise the reason why not.
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

// Mark writes the store and its epoch that the process uses from now on into the Lease. If the API
// server fails, it tries again until ctx ends or the Lease is lost.
func (l *Lease) Mark(ctx context.Context, store string, epoch uint64) error {
	for {
		err := l.update(ctx, func(lease *coordinationv1.Lease) {
			lease.Annotations[TermAnnotation] = strconv.Itoa(int(term(lease)))
			lease.Annotations[StoreAnnotation] = store
			lease.Annotations[EpochAnnotation] = strconv.FormatUint(epoch, 10)
		})
		if err == nil || errors.Is(err, ErrLost) || ctx.Err() != nil {
			return err
		}
		if lost := l.Check(); lost != nil {
			return l.lose(errors.Join(lost, err))
		}
		pause(ctx, l.options.Renew)
	}
}

// Renew renews the Lease until ctx ends. When it returns an error, the Lease is lost, and Check
// fails from then on.
func (l *Lease) Renew(ctx context.Context) error {
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
		if err == nil {
			failpoint.Reach("lease", "renewed")
		}
		if errors.Is(err, ErrLost) {
			return err
		}
		if lost := l.Check(); lost != nil {
			return l.lose(errors.Join(lost, err))
		}
	}
}

// Release releases the Lease, so that another process can take it at once. This process must not
// act any more.
func (l *Lease) Release(ctx context.Context) error {
	if l.Check() != nil {
		return nil //nolint:nilerr // it is not the process's own
	}
	err := l.update(ctx, func(lease *coordinationv1.Lease) {
		nobody, second := "", int32(1)
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &second
	})
	_ = l.end(fmt.Errorf("%w: %s was released", ErrLost, l))
	return err
}

// update renews the Lease and applies change to it. If another process has taken the Lease, it is
// lost.
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
			l.recordRenewal(written, began)
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

// current returns the Lease as the process last wrote it.
func (l *Lease) current() (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || l.lost != nil {
		return nil, errors.Join(l.lost, fmt.Errorf("%w: %s is not held", ErrLost, l))
	}
	return l.held, nil
}

// recordRenewal records a confirmed renewal that was started at began. The process may act for a shorter
// time than others wait, because its last requests may still be on their way.
func (l *Lease) recordRenewal(written *coordinationv1.Lease, began time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.until = written, began.Add(l.options.Duration-l.options.Duration/marginPart)
}

// lose records that the process lost the Lease because of err.
func (l *Lease) lose(err error) error {
	failpoint.Reach("lease", "lost")
	return l.end(err)
}

// end records err as the reason why the process may not act any more, unless there already is one.
func (l *Lease) end(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = err
	}
	return l.lost
}

// same reports whether current has the term and the holder of held.
func same(held, current *coordinationv1.Lease) bool {
	return current != nil && current.UID == held.UID && term(current) == term(held) &&
		holderOf(current).Identity == holderOf(held).Identity
}

// requestTimeout limits one request.
const requestTimeout = 5 * time.Second

func (l *Lease) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if lease.ResourceVersion == "" {
		return l.client.Create(ctx, lease, metav1.CreateOptions{})
	}
	return l.client.Update(ctx, lease, metav1.UpdateOptions{})
}

// read returns the Lease, nil if it does not exist.
func (l *Lease) read(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	lease, err := l.client.Get(ctx, Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return lease, err
}

// holderOf returns the holder of lease, which may be nil.
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
	h.Epoch, _ = strconv.ParseUint(lease.Annotations[EpochAnnotation], 10, 64) // 0 if the annotation is not a number
	return h
}

// term returns the number of the term of a Lease.
func term(lease *coordinationv1.Lease) int32 {
	if n := lease.Spec.LeaseTransitions; n != nil {
		return *n
	}
	return 0
}
