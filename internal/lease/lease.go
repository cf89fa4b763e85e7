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

// Name is the name of the Lease. flant/addon-operator uses the same name for its leader election.
const Name = "addon-operator-leader-election"

// The annotations of the Lease.
const (
	// TermAnnotation contains the value that spec.leaseTransitions had when this program last acquired the Lease.
	// Acquire sets the annotation, unless the previous holder was another program: in this case only Mark sets it. So if
	// the process ends before it calls Mark, the next process also detects that another program held the Lease.
	TermAnnotation = "addon-operator/term"
	// StoreAnnotation contains the ID of the store of the last operator that called [Lease.Mark].
	StoreAnnotation = "addon-operator/store"
	// EpochAnnotation contains the epoch of the last operator that called [Lease.Mark].
	EpochAnnotation = "addon-operator/epoch"
	// EndedAnnotation contains the epoch of the last operator that called [Lease.Mark], if the operator recorded its
	// clean exit in the store before it called [Lease.Release]. Otherwise the annotation is not set.
	EndedAnnotation = "addon-operator/ended"
)

const (
	// defaultDuration is the default time for which the Lease is valid after a renewal.
	// flant/addon-operator uses the same time.
	defaultDuration = 35 * time.Second
	// defaultRenew is the default time between two renewals.
	defaultRenew = 2 * time.Second
	// marginPart determines the safety margin between two holders: a holder must stop its work at
	// least duration/marginPart before other processes may acquire the Lease.
	marginPart = 7
)

// ErrLost matches, with errors.Is, the error of a Lease that is no longer held.
var ErrLost = errors.New("the Lease is lost")

// ErrForbidden matches, with errors.Is, the error of an operator without permission for Leases.
var ErrForbidden = errors.New("the operator has no permission for Leases")

// Options configure a Lease. Config, Namespace, Identity and Clock are required.
type Options struct {
	// Config is the configuration of the connection to the cluster.
	Config    *rest.Config
	Namespace string
	// Identity identifies the holder. If the Lease is held by the same identity already, Acquire
	// does not wait, because the previous process with this identity must have ended.
	Identity string
	// Duration is the time for which the Lease is valid after a renewal, and Renew is the interval
	// between renewals. Zero means 35 s for Duration and 2 s for Renew.
	Duration, Renew time.Duration
	// Clock returns the current time.
	Clock func() time.Time
	// Waiting is called when Acquire starts to wait, and when the holder of the Lease or the error
	// changes. The error is that of the last request to the API server; it is nil if the request
	// succeeded. Waiting may be nil.
	Waiting func(Holder, error)
}

// A Holder is the holder of a Lease.
type Holder struct {
	Identity string
	// Store, Epoch and Ended are read from the annotations of the Lease. They have their zero values
	// if the Lease has no annotations.
	Store        string
	Epoch, Ended uint64
	// Renewed is the time of the last renewal, by the clock of the holder.
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
	// Foreign is true if the last holder was another program, which writes no annotations. If
	// Foreign is true, Store, Epoch and Ended are those of the last operator before that program.
	Foreign bool
}

// A Lease is the Lease of a namespace, used by one process. The process acquires the Lease once,
// and holds it until the Lease is released or lost.
type Lease struct {
	options Options
	client  coordinationclient.LeaseInterface

	writing sync.Mutex // locked while the Lease is updated, so that concurrent changes of this process do not overwrite each other

	mu    sync.Mutex
	held  *coordinationv1.Lease // the Lease as this process last wrote it; nil before the process has acquired the Lease
	until time.Time             // the process may act until this time
	lost  error
}

// New returns the Lease of o.Namespace. It sends no request.
func New(o Options) (*Lease, error) {
	if o.Duration == 0 {
		o.Duration = defaultDuration
	}
	if o.Renew == 0 {
		o.Renew = defaultRenew
	}
	config := rest.CopyConfig(o.Config)
	config.QPS, config.Timeout = -1, 0 // a renewal must not wait for other requests, and a watch has no time limit
	client, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make a client for Leases: %w", err)
	}
	return &Lease{options: o, client: client.Leases(o.Namespace)}, nil
}

// String returns "Lease namespace/name".
func (l *Lease) String() string { return "Lease " + l.options.Namespace + "/" + Name }

// Check returns nil while the process may act. Otherwise it returns the reason why the process must
// not act.
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

// Mark writes the store and the epoch of this process to the annotations of the Lease, and removes the
// annotation about the clean exit of an earlier process. If a request fails, Mark tries again until ctx
// ends or the Lease is lost.
func (l *Lease) Mark(ctx context.Context, store string, epoch uint64) error {
	for {
		err := l.update(ctx, func(lease *coordinationv1.Lease) {
			lease.Annotations[TermAnnotation] = strconv.Itoa(int(term(lease)))
			lease.Annotations[StoreAnnotation] = store
			lease.Annotations[EpochAnnotation] = strconv.FormatUint(epoch, 10)
			delete(lease.Annotations, EndedAnnotation) // this epoch can have the same number as the one that has ended
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

// Renew renews the Lease periodically. It returns nil when ctx ends. If Renew returns an error, the
// Lease is lost, and all later calls of Check return an error.
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

// Release releases the Lease, so that another process can acquire it at once. After Release, Check returns an error,
// and this process must not act. If Release returns an error, other processes may have to wait until the Lease expires.
// The argument ended is the epoch of this process if the store has a record of its clean exit; otherwise 0.
func (l *Lease) Release(ctx context.Context, ended uint64) error {
	if l.Check() != nil {
		return nil //nolint:nilerr // this process does not hold the Lease
	}
	err := l.update(ctx, func(lease *coordinationv1.Lease) {
		nobody, second := "", int32(1)
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = &nobody, &second
		if ended != 0 {
			lease.Annotations[EndedAnnotation] = strconv.FormatUint(ended, 10)
		}
	})
	_ = l.end(fmt.Errorf("%w: %s was released", ErrLost, l))
	return err
}

// update renews the Lease, and makes the changes of the function change in the same request. If
// another process has acquired the Lease, or the Lease was deleted, update records that this process
// has lost the Lease.
func (l *Lease) update(ctx context.Context, change func(*coordinationv1.Lease)) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	held, err := l.current()
	for err == nil {
		began := l.options.Clock()
		next := held.DeepCopy()
		if next.Annotations == nil { // the API server does not keep an empty map
			next.Annotations = map[string]string{}
		}
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

// current returns the Lease as this process last wrote it.
func (l *Lease) current() (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil || l.lost != nil {
		return nil, errors.Join(l.lost, fmt.Errorf("%w: %s is not held", ErrLost, l))
	}
	return l.held, nil
}

// recordRenewal records a renewal that the API server has confirmed. The argument began is the time
// at which the renewal was sent. This process must stop its work before other processes may acquire
// the Lease, because the last requests of this process may reach the API server with a delay.
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

// end records err as the reason why the process must not act, unless a reason was recorded before.
// It returns the recorded reason.
func (l *Lease) end(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost == nil {
		l.lost = err
	}
	return l.lost
}

// same reports whether two versions of the Lease, held and current, have the same UID, term and holder.
func same(held, current *coordinationv1.Lease) bool {
	return current != nil && current.UID == held.UID && term(current) == term(held) &&
		holderOf(current).Identity == holderOf(held).Identity
}

// requestTimeout is the timeout of each request except watches.
const requestTimeout = 5 * time.Second

func (l *Lease) write(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if lease.ResourceVersion == "" {
		return l.client.Create(ctx, lease, metav1.CreateOptions{})
	}
	return l.client.Update(ctx, lease, metav1.UpdateOptions{})
}

// read returns the Lease, or nil if it does not exist.
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
	h.Ended, _ = strconv.ParseUint(lease.Annotations[EndedAnnotation], 10, 64) // as above
	return h
}

// term returns the term of lease: the value of spec.leaseTransitions, or 0 if this field is not
// set.
func term(lease *coordinationv1.Lease) int32 {
	if n := lease.Spec.LeaseTransitions; n != nil {
		return *n
	}
	return 0
}
