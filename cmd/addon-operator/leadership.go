package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"k8s.io/client-go/rest"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/cmd/addon-operator/settings"
	"addon-operator/internal/hook"
	"addon-operator/internal/lease"
	"addon-operator/store"
	"addon-operator/triggers"
	"addon-operator/workflow"
)

// A leadership is the right of this process to be the only operator of its namespace.
type leadership struct {
	settings *settings.Settings
	log      zerolog.Logger
	config   *rest.Config // for requests that the Lease does not guard: those for the Lease itself, and the TokenReviews and SubjectAccessReviews of the web page
	file     *storeFile   // the store must be open before acquire is called

	lease *lease.Lease // nil with --lease=off, and before acquire
	// waits describes the wait for the Lease; nil if this process is not a standby.
	waits atomic.Pointer[debugapi.Standby]

	got      chan struct{} // closed once the Lease is held, is not used, or cannot be acquired
	previous lease.Previous
	err      error
	waited   bool // this process was a standby before it got the Lease; set together with previous

	stop  context.CancelFunc // stops the wait for the Lease and the renewals; nil with --lease=off, and before acquire
	ended chan struct{}      // closed once the wait and the renewals have ended
}

// check returns nil while this process may change the cluster.
func (l *leadership) check() error {
	if l.lease == nil {
		return nil
	}
	return l.lease.Check()
}

// standby returns a text about the wait for the Lease; empty if this process is not a standby.
func (l *leadership) standby() string { return l.waiting().Text }

// waiting describes the wait for the Lease. The result is zero if this process is not a standby.
func (l *leadership) waiting() debugapi.Standby {
	if w := l.waits.Load(); w != nil {
		return *w
	}
	return debugapi.Standby{}
}

// describe describes the state of the Lease: whether this process holds it, waits for it, or does
// not use it.
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

// acquire begins to acquire the Lease in the background, and returns. l.got is closed when the Lease is held or cannot
// be acquired, or when ctx ends. With --lease=off, l.got is closed at once. A held Lease is renewed until release is
// called, also after ctx has ended. If the Lease is lost, the store is fenced.
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
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	waiting, stopWaiting := context.WithCancel(ctx)
	l.stop = func() { stopWaiting(); stopKeeping() }
	l.ended = make(chan struct{})
	go func() {
		defer close(l.ended)
		l.previous, l.err = l.lease.Acquire(waiting)
		l.waited = l.standby() != ""
		close(l.got)
		if l.err != nil {
			return
		}
		// The renewals begin at once, because the preparation of the first work may take longer than the Lease lasts.
		if err := l.lease.Renew(keeping); err != nil {
			l.file.db.Fence(err)
		}
	}()
	return nil
}

// release stops the wait for the Lease. If this process holds the Lease, release releases it. All work of this process
// that changes the cluster must have ended before the call.
func (l *leadership) release() {
	if l.stop == nil {
		return
	}
	l.stop()
	<-l.ended
	if err := l.lease.Release(context.Background(), store.RecordedEnd(l.file.db)); err != nil {
		l.log.Warn().Err(err).Msg("the Lease was not released; another operator can take it when it expires")
	}
}

// setStandby records that this process waits for the Lease: because holder holds it, or because of err.
func (l *leadership) setStandby(holder lease.Holder, err error) {
	now := debugapi.Standby{Since: time.Now()}
	if before := l.waits.Load(); before != nil {
		now.Since = before.Since
	}
	now.Text = fmt.Sprintf("waiting for %s, which %s holds", l.lease, holder)
	if err != nil {
		now.Text, now.Error = fmt.Sprintf("waiting for %s: %v", l.lease, err), err.Error()
	}
	l.waits.Store(&now)
	level := zerolog.InfoLevel
	if err != nil {
		level = zerolog.WarnLevel
	}
	l.log.WithLevel(level).Str("holder", holder.Identity).Str("store", holder.Store).Time("renewed", holder.Renewed).Msg("standby: " + now.Text)
}

// becomeLeader waits until the Lease is held, and prepares the store. The result dropped is the reason why the store's
// pending work was dropped; empty if nothing was dropped. If ctx ends before the Lease is held, becomeLeader returns
// the error of ctx.
func (l *leadership) becomeLeader(ctx context.Context) (dropped string, err error) {
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case <-l.got:
	}
	if l.err != nil {
		if errors.Is(l.err, lease.ErrForbidden) {
			return "", fmt.Errorf("%w; grant get, watch, create and update of leases in namespace %s (see docs/reference/rights.md), "+
				"or start with --lease=off where no other operator can work in this namespace", l.err, l.settings.Namespace)
		}
		return "", l.err
	}
	l.waits.Store(nil)
	if dropped, err = triggers.TakeOver(ctx, l.file.db, l.previous, l.file.written); err != nil {
		return "", err
	}
	if dropped != "" {
		l.log.Warn().Str("store", l.file.path).Str("previous", l.previous.String()).
			Msg("pending work of the store is dropped, a new start begins: " + dropped)
	}
	if l.lease == nil {
		return dropped, nil
	}
	return dropped, l.lease.Mark(ctx, l.file.db.ID(), l.file.db.Epoch())
}

// killHooks kills the running hooks, because this process has lost the right to act.
func (l *leadership) killHooks() {
	if killed, err := hook.KillLeftovers(l.file.db.ID()); err != nil || len(killed) > 0 {
		l.log.Warn().Ints("pids", killed).AnErr("error", err).Msg("killing the running hooks: this operator must not act any more")
	}
}

// killHooksIfFenced waits in the background until the store is fenced, and then drains the engine and kills the running
// hooks. The returned function ends the wait.
func (l *leadership) killHooksIfFenced(engine *workflow.Engine) (stop func()) {
	db, stopped, ended := l.file.db, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-stopped:
		case <-db.Done():
			if errors.Is(db.Err(), store.ErrFenced) {
				engine.Drain()
				l.killHooks()
			}
		}
	}()
	return func() {
		close(stopped)
		<-ended
	}
}
