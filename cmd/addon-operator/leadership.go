package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/hook"
	"addon-operator/internal/lease"
	"addon-operator/store"
)

// A leadership is the right of this process to be the only operator of its namespace.
type leadership struct {
	settings *settings.Settings
	log      zerolog.Logger
	config   *rest.Config // for requests for the Lease, which are not guarded
	file     *storeFile   // open when acquire is called

	lease *lease.Lease // nil with --lease=off, and before acquire
	// waits describes the operator that a standby waits for.
	waits atomic.Pointer[string]

	got      chan struct{} // closed once the Lease is held or cannot be acquired
	previous lease.Previous
	err      error
	waited   bool // this process was a standby; set with previous
}

// check returns nil while this process may change the cluster.
func (l *leadership) check() error {
	if l.lease == nil {
		return nil
	}
	return l.lease.Check()
}

// standby describes the operator that this process waits for; empty unless it is a standby.
func (l *leadership) standby() string {
	if text := l.waits.Load(); text != nil {
		return *text
	}
	return ""
}

// describe returns whether this process holds the Lease, as text.
func (l *leadership) describe() string {
	switch {
	case l.lease == nil:
		return "none (--lease=off)"
	case l.standby() != "":
		return l.standby()
	}
	if err := l.lease.Check(); err != nil {
		return err.Error()
	}
	return "held by this operator: " + l.lease.String()
}

// guard returns a transport that rejects requests that change the cluster while the Lease is not
// held.
func (l *leadership) guard(next http.RoundTripper) http.RoundTripper {
	return &guardedTransport{l, next}
}

type guardedTransport struct {
	leadership *leadership
	next       http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (g *guardedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if changes(r) {
		if err := g.leadership.check(); err != nil {
			if r.Body != nil {
				_ = r.Body.Close() // required by http.RoundTripper
			}
			return nil, fmt.Errorf("not sent: %w", err)
		}
	}
	return g.next.RoundTrip(r)
}

// WrappedRoundTripper returns the guarded transport, for client-go.
func (g *guardedTransport) WrappedRoundTripper() http.RoundTripper { return g.next }

// changes reports whether r changes an object. Token and access reviews are sent by POST and change
// nothing.
func changes(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return !strings.HasPrefix(r.URL.Path, "/apis/authentication.k8s.io/") && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

var _ transport.WrapperFunc = (*leadership)(nil).guard

// acquire starts to acquire the Lease in the background, until ctx ends.
func (l *leadership) acquire(ctx context.Context) (err error) {
	l.got = make(chan struct{})
	if l.settings.Lease == settings.LeaseOff {
		l.log.Warn().Msg("started with --lease=off: nothing keeps a second operator from working in this namespace")
		close(l.got)
		return nil
	}
	l.lease, err = lease.New(lease.Options{
		Config: l.config, Namespace: l.settings.Namespace, Identity: l.settings.OwnPod() + "_" + l.file.db.ID(), Clock: time.Now,
		Waiting: l.setStandby,
	})
	if err != nil {
		return err
	}
	l.file.db.Guard(func() error {
		err := l.check()
		if errors.Is(err, lease.ErrLost) {
			return fmt.Errorf("%w: %w", store.ErrFenced, err)
		}
		return err
	})
	go func() {
		defer close(l.got)
		l.previous, l.err = l.lease.Acquire(ctx)
		l.waited = l.standby() != ""
	}()
	return nil
}

// setStandby records the operator that this process waits for.
func (l *leadership) setStandby(holder lease.Holder, err error) {
	text := fmt.Sprintf("waiting for %s, which %s holds", l.lease, holder)
	if err != nil {
		text = fmt.Sprintf("waiting for %s: %v", l.lease, err)
	}
	l.waits.Store(&text)
	level := zerolog.InfoLevel
	if err != nil {
		level = zerolog.WarnLevel
	}
	l.log.WithLevel(level).Str("holder", holder.Identity).Str("store", holder.Store).Time("renewed", holder.Renewed).Msg("standby: " + text)
}

// becomeLeader waits until the Lease is held, prepares the store, and keeps the Lease until release is
// called. Dropped is the reason why the store's pending work was dropped, or empty. If ctx ends
// first, becomeLeader returns its error.
func (l *leadership) becomeLeader(ctx context.Context) (dropped string, release func(), err error) {
	select {
	case <-ctx.Done():
		return "", nil, ctx.Err()
	case <-l.got:
	}
	if l.err != nil {
		if errors.Is(l.err, lease.ErrForbidden) {
			return "", nil, fmt.Errorf("%w; grant get, watch, create and update of leases in namespace %s (see docs/reference/rights.md), "+
				"or start with --lease=off where no other operator can work in this namespace", l.err, l.settings.Namespace)
		}
		return "", nil, l.err
	}
	l.waits.Store(nil)
	either, ctx := ctx, context.WithoutCancel(ctx)
	if dropped, err = l.takeOver(either, l.previous); err != nil || l.lease == nil {
		return dropped, func() {}, err
	}
	if err := l.lease.Mark(ctx, l.file.db.ID(), l.file.db.Epoch()); err != nil {
		return "", nil, err
	}
	keeping, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := l.lease.Renew(keeping); err != nil {
			l.file.db.Fence(err)
		}
	}()
	return dropped, func() {
		stop()
		<-ended
		if err := l.lease.Release(ctx); err != nil {
			l.log.Warn().Err(err).Msg("the Lease was not released; another operator can take it when it expires")
		}
	}, nil
}

// takeOver prepares the store for this process. If another operator has worked since the store's
// last epoch, it has done or replaced the pending tasks of this store, so they are dropped.
func (l *leadership) takeOver(ctx context.Context, previous lease.Previous) (why string, err error) {
	var lost *store.LostSpan
	if err := l.file.db.View(func(tx *store.Tx) (err error) {
		lost, err = l.lostSpan(tx, previous)
		return err
	}); err != nil {
		return "", err
	}
	if lost != nil {
		if err := l.file.db.DropWork(ctx, *lost); err != nil {
			return "", err
		}
		why = lost.String()
		l.log.Warn().Str("store", l.file.path).Str("previous", previous.String()).
			Msg("pending work of the store is dropped, a new start begins: " + why)
	}
	return why, l.file.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		tx.Delete(store.CopyKey())
		return store.Save(tx, store.TenureKey(), store.Tenure{Epoch: tx.Epoch(), Began: tx.Now()})
	})
}

// lostSpan returns the span in which another operator has worked since the last epoch of the
// store, nil if there is none.
func (l *leadership) lostSpan(tx *store.Tx, previous lease.Previous) (*store.LostSpan, error) {
	worked, err := lastWorked(tx)
	if err != nil || worked == 0 {
		return nil, err // the store was never used
	}
	lost, err := l.copied(tx)
	if err != nil {
		return nil, err
	}
	how, other := "", true
	switch {
	case previous.Foreign:
		how = "another program held the Lease"
	case previous.Store == "":
		other = false
	case previous.Store != l.file.db.ID():
		how = fmt.Sprintf("an operator with another store (%s, epoch %d) held the Lease", previous.Store, previous.Epoch)
	case previous.Epoch > worked:
		how, other = fmt.Sprintf("the store is of epoch %d, and was worked on until epoch %d", worked, previous.Epoch), false
	default:
		other = false
	}
	switch {
	case lost == nil && how != "":
		lost = &store.LostSpan{How: how, From: l.file.written, To: tx.Now()}
	case lost != nil && (lost.To.IsZero() || other):
		lost.To = tx.Now()
	}
	return lost, nil
}

// lastWorked returns the last epoch in which an operator worked with the store, 0 if there is none.
// Two records contain the epoch, so that one of them may be lost.
func lastWorked(tx *store.Tx) (uint64, error) {
	tenure, _, err := store.Load[store.Tenure](tx, store.TenureKey())
	if err != nil {
		return 0, err
	}
	ends, _, err := store.Load[store.Ends](tx, store.EndsKey())
	return max(tenure.Epoch, ends.Begun), err
}

// copied returns the span that is missing in the store because it is a copy, nil if it is not a
// copy. The end of the span is zero if it is unknown. An unreadable mark still marks a copy.
func (l *leadership) copied(tx *store.Tx) (*store.LostSpan, error) {
	mark, marked, err := store.Load[store.Copy](tx, store.CopyKey())
	if damaged := (*store.RecordError)(nil); errors.As(err, &damaged) {
		return &store.LostSpan{How: "the store is a copy of one that was in use", From: l.file.written}, nil
	}
	if err != nil || !marked {
		return nil, err
	}
	return mark.Lost(), nil
}

// killHooks kills the running hooks, because this process may not act any more.
func (l *leadership) killHooks() {
	if killed, err := hook.KillLeftovers(l.file.db.ID()); err != nil || len(killed) > 0 {
		l.log.Warn().Ints("pids", killed).AnErr("error", err).Msg("killed the hooks that ran: this operator may not act any more")
	}
}
