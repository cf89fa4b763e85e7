package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"sync"
	"time"
)

// Pair is a serving certificate and its CA.
type Pair struct {
	Certificate tls.Certificate
	// CA contains the certificates of the issuing CA as PEM.
	CA []byte
	// Expires is when the first of its certificates expires.
	Expires time.Time
}

// Rotator holds the pair in use, the next pair, and the bundle of CAs that must be trusted during
// the change. It is safe for concurrent use. Create one with [NewRotator].
type Rotator struct {
	// settle is the time that the API server has to load a registered bundle before a certificate
	// that needs it is used.
	settle  time.Duration
	clock   func() time.Time
	changed func()
	wake    chan struct{}

	mu      sync.Mutex
	serving *Pair     // guarded by mu
	next    *Pair     // guarded by mu
	former  []byte    // the CA of the previous pair; guarded by mu
	known   time.Time // since when next's CA is registered, zero if it is not; guarded by mu
	used    func(Pair)
}

// NewRotator returns a rotator without a pair. A pair is used when its CA has been registered for
// the time settle. The rotator calls changed after a change of the bundle, and used after a change
// of the pair in use; either may be nil.
func NewRotator(settle time.Duration, clock func() time.Time, changed func(), used func(Pair)) *Rotator {
	return &Rotator{settle: settle, clock: clock, changed: changed, used: used, wake: make(chan struct{}, 1)}
}

// Offer makes p the next pair. It is used at once if there is no valid pair in use, and otherwise
// when the API server knows its CA. A later offer replaces a waiting pair.
func (k *Rotator) Offer(p Pair) {
	k.mu.Lock()
	replaces := false
	switch {
	case k.serving == nil || !k.clock().Before(k.serving.Expires):
		replaces = k.serving != nil
		k.serving, k.next, k.former = &p, nil, nil
	default:
		k.next, k.known, k.former = &p, time.Time{}, nil
		if bytes.Equal(p.CA, k.serving.CA) { // it is already registered
			k.known = k.clock().Add(-k.settle)
		}
	}
	k.mu.Unlock()
	if replaces && k.used != nil {
		k.used(p)
	}
	if k.changed != nil {
		k.changed()
	}
	signal(k.wake)
}

// Bundle returns the CAs to trust now, as PEM; nil if there is no pair.
func (k *Rotator) Bundle() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bundle()
}

func (k *Rotator) bundle() []byte {
	if k.serving == nil {
		return nil
	}
	all := [][]byte{k.serving.CA}
	if k.next != nil && !bytes.Equal(k.next.CA, k.serving.CA) {
		all = append(all, k.next.CA)
	}
	if k.former != nil && !bytes.Equal(k.former, k.serving.CA) {
		all = append(all, k.former)
	}
	for i, ca := range all {
		all[i] = append(bytes.TrimSpace(slices.Clone(ca)), '\n')
	}
	return bytes.Join(all, nil)
}

// InForce records that all registered webhooks trust bundle.
func (k *Rotator) InForce(bundle []byte) {
	k.mu.Lock()
	if k.next != nil && k.known.IsZero() && bytes.Equal(bundle, k.bundle()) {
		k.known = k.clock()
	}
	k.mu.Unlock()
	signal(k.wake)
}

// Certificate returns the certificate in use.
func (k *Rotator) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return &k.serving.Certificate, nil
}

// Serving returns the pair in use. It is empty if there is none yet.
func (k *Rotator) Serving() Pair {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving == nil {
		return Pair{}
	}
	return *k.serving
}

// Run replaces the pair in use by the next pair when it is time, until ctx ends.
func (k *Rotator) Run(ctx context.Context) {
	repeat(ctx, k.wake, k.rotate)
}

// rotate uses the next pair if it is time, and otherwise returns the remaining time; zero if there
// is no next pair.
func (k *Rotator) rotate() time.Duration {
	k.mu.Lock()
	next := k.next
	if next == nil {
		k.mu.Unlock()
		return 0
	}
	now := k.clock()
	due := k.serving.Expires // an untrusted certificate is better than an expired one
	if !k.known.IsZero() && k.known.Add(k.settle).Before(due) {
		due = k.known.Add(k.settle)
	}
	if due.After(now) {
		k.mu.Unlock()
		return due.Sub(now)
	}
	k.former, k.serving, k.next = k.serving.CA, next, nil
	k.mu.Unlock()
	if k.used != nil {
		k.used(*next)
	}
	return 0
}

// signal sends an element on a channel of capacity 1, unless it already holds one.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
