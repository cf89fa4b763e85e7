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
	// Expires is the time at which the certificate expires.
	Expires time.Time
}

// Rotator holds the pair in use and the next pair. It returns the bundle of CAs that clients must
// trust. The bundle is also correct during the change from one pair to the next. It is safe for
// concurrent use. Create one with [NewRotator].
type Rotator struct {
	// settle is the time between the registration of a bundle with a new CA and the use of a
	// certificate of this CA. The API server must load the bundle during this time.
	settle  time.Duration
	clock   func() time.Time
	changed func()
	wake    chan struct{}

	mu      sync.Mutex
	serving *Pair     // guarded by mu
	next    *Pair     // guarded by mu
	former  []byte    // the CA of the previous pair, until the next call of Offer; guarded by mu
	known   time.Time // when the CA of next was registered; zero if it is not; guarded by mu
	used    func(Pair)
}

// NewRotator returns a rotator without a pair. The argument settle is the time for which the CA of a
// new pair must be registered before the rotator uses the pair. The rotator calls changed() after
// each call of Offer, because Offer can change the bundle. It calls used(pair) when a new pair
// replaces the pair in use. Both functions may be nil.
func NewRotator(settle time.Duration, clock func() time.Time, changed func(), used func(Pair)) *Rotator {
	return &Rotator{settle: settle, clock: clock, changed: changed, used: used, wake: make(chan struct{}, 1)}
}

// Offer makes p the next pair. If no valid pair is in use, the rotator uses p at once. Otherwise it
// uses p when the API server has had time to load the CA of p, or when the pair in use expires. A
// later call of Offer replaces p if p is not in use yet.
func (k *Rotator) Offer(p Pair) {
	k.mu.Lock()
	replaces := false
	switch {
	case k.serving == nil || !k.clock().Before(k.serving.Expires):
		replaces = k.serving != nil
		k.serving, k.next, k.former = &p, nil, nil
	default:
		k.next, k.known, k.former = &p, time.Time{}, nil
		if bytes.Equal(p.CA, k.serving.CA) { // this CA is already registered
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

// Bundle returns the CAs that clients must trust now, as PEM. It returns nil if the rotator has no
// pair yet.
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

// InForce records that bundle is the bundle of CAs in all registered webhooks.
func (k *Rotator) InForce(bundle []byte) {
	k.mu.Lock()
	if k.next != nil && k.known.IsZero() && bytes.Equal(bundle, k.bundle()) {
		k.known = k.clock()
	}
	k.mu.Unlock()
	signal(k.wake)
}

// Certificate returns the certificate in use, or an error if the rotator has none yet. It has the
// signature of tls.Config.GetCertificate.
func (k *Rotator) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return &k.serving.Certificate, nil
}

// Serving returns the pair in use. If the rotator has no pair yet, Serving returns the zero value.
func (k *Rotator) Serving() Pair {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving == nil {
		return Pair{}
	}
	return *k.serving
}

// Run replaces the pair in use by each next pair when it is due, until ctx ends.
func (k *Rotator) Run(ctx context.Context) {
	repeat(ctx, k.wake, k.rotate)
}

// rotate replaces the pair in use by the next pair if the next pair is due, and returns zero. If the
// next pair is not due yet, rotate returns the delay after which it must be called again. If there is
// no next pair, rotate returns zero.
func (k *Rotator) rotate() time.Duration {
	k.mu.Lock()
	next := k.next
	if next == nil {
		k.mu.Unlock()
		return 0
	}
	now := k.clock()
	wait := k.serving.Expires.Sub(now) // a certificate that is not trusted yet is better than an expired one
	if !k.known.IsZero() {
		wait = min(wait, k.known.Add(k.settle).Sub(now))
	}
	if wait > 0 {
		k.mu.Unlock()
		return min(wait, clockCheck)
	}
	k.former, k.serving, k.next = k.serving.CA, next, nil
	k.mu.Unlock()
	if k.used != nil {
		k.used(*next)
	}
	return 0
}

// signal sends an element on c, which has capacity 1. If c already holds an element, signal does
// nothing.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
