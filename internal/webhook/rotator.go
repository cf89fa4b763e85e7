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

// Pair is a certificate to serve with.
type Pair struct {
	Certificate tls.Certificate
	// CA is what it is trusted by, certificates as PEM.
	CA []byte
	// Expires is when the first of its certificates does.
	Expires time.Time
}

// Rotator holds the pair that is served with, the one that comes next, and the bundle of CAs that are to be trusted
// meanwhile. It may be used from many goroutines at once. Make one with [NewRotator].
type Rotator struct {
	// settle is how long the API server is given to learn of a bundle that is known to be in force.
	settle  time.Duration
	clock   func() time.Time
	changed func()
	wake    chan struct{}

	mu      sync.Mutex
	serving *Pair     // guarded by mu
	next    *Pair     // guarded by mu
	former  []byte    // the CA of the pair served before; guarded by mu
	known   time.Time // since when the API server can know next's CA, zero while it cannot; guarded by mu
	used    func(Pair)
}

// NewRotator returns a rotator without a pair. A pair is used when its CA has been in force for settle. Changed is called
// when the bundle has changed, and used when a pair is served with in place of another; either may be nil.
func NewRotator(settle time.Duration, clock func() time.Time, changed func(), used func(Pair)) *Rotator {
	return &Rotator{settle: settle, clock: clock, changed: changed, used: used, wake: make(chan struct{}, 1)}
}

// Offer has p served with: at once if there is nothing to serve with, or nothing that is still good, and otherwise when its
// CA is known to the API server. Of pairs that wait the last one counts.
func (k *Rotator) Offer(p Pair) {
	k.mu.Lock()
	replaces := false
	switch {
	case k.serving == nil || !k.clock().Before(k.serving.Expires):
		replaces = k.serving != nil
		k.serving, k.next, k.former = &p, nil, nil
	default:
		k.next, k.known, k.former = &p, time.Time{}, nil
		if bytes.Equal(p.CA, k.serving.CA) { // that is in force already
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

// Bundle returns the CAs to be trusted now, as PEM; nil while there is nothing to serve with.
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

// InForce says that all the API server is told of is to be trusted by bundle.
func (k *Rotator) InForce(bundle []byte) {
	k.mu.Lock()
	if k.next != nil && k.known.IsZero() && bytes.Equal(bundle, k.bundle()) {
		k.known = k.clock()
	}
	k.mu.Unlock()
	signal(k.wake)
}

// Certificate returns what is served with now.
func (k *Rotator) Certificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.serving == nil {
		return nil, errors.New("there is no certificate yet")
	}
	return &k.serving.Certificate, nil
}

// Run puts the next pair to use in its time, until ctx ends.
func (k *Rotator) Run(ctx context.Context) {
	turns(ctx, k.wake, k.rotate)
}

// rotate puts the next pair to use if it is time, and returns how long that is otherwise; zero if that is not known.
func (k *Rotator) rotate() time.Duration {
	k.mu.Lock()
	next := k.next
	if next == nil {
		k.mu.Unlock()
		return 0
	}
	now := k.clock()
	due := k.serving.Expires // better one that may not be trusted yet than one that is not good any more
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

// signal wakes whoever waits at c. It does not block.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
