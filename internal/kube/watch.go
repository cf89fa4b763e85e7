package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// watch reads one source. The goroutine of run reads from the API server, updates the views and calls the receiver.
//
// The views first get their objects from a list, which has a version L. If the receiver has stored the views only up to
// an older version S, the watch starts at S. The changes between S and L are delivered to the receiver, but not applied
// to the views. The changes after L are delivered and applied. When a watch request ends, the next one starts at the
// last version that was read. If the API server cannot continue at this version, or at S, a list is delivered instead
// of the changes.
type watch struct {
	source   Source
	reads    *reads
	picks    func(name string) bool
	previous <-chan struct{} // closed when an earlier watch of the same source has ended; nil if there was none

	stop func()
	done chan struct{} // closed when run has returned
	wake chan struct{} // has an element if views or owners have changed

	mu    sync.Mutex
	views views
	err   error // why the last read of the source has failed; nil if it was successful

	// Only the goroutine of run uses the fields below.
	version     string // all changes up to this version have been read
	undelivered bool   // the receiver does not have the current version yet
	opened      bool   // stream has already opened a watch
	rewound     bool   // rewind has set version back, so a new watch must be opened
	retry       retry
	again       periodicTimer
}

// run reads the source until ctx ends.
func (f *watch) run(ctx context.Context) {
	defer f.reads.ended(f)
	if f.previous != nil {
		<-f.previous
	}
	f.again = newPeriodicTimer()
	defer f.again.alarm.Stop()
	for ctx.Err() == nil {
		err := f.follow(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			f.failed(err)
		}
		f.retry.pause(ctx, err, f.wake)
	}
}

// follow registers new owners, opens a watch, and reads it until it ends. If there was no error, it returns nil, and
// the caller may call follow again without a delay.
func (f *watch) follow(ctx context.Context) error {
	if err := f.register(ctx); err != nil {
		return err
	}
	if f.version == "" {
		f.mu.Lock()
		f.version = f.views.oldestDelivered()
		f.mu.Unlock()
	}
	if f.version == "" {
		return nil // all owners have left
	}
	f.rewound = false
	err := f.stream(ctx)
	if isVersionRefused(err) {
		f.reads.observer.versionRefused(f.source, f.version, err)
		return f.compare(ctx)
	}
	return err
}

// failed records err as the error of the source, and reports it to the observer. If the API server does not serve the
// source, failed also calls notServed of all owners.
func (f *watch) failed(err error) {
	f.mu.Lock()
	f.err = err
	var callbacks []func()
	for _, v := range f.views {
		for _, o := range v.owners {
			if o.notServed != nil {
				callbacks = append(callbacks, o.notServed)
			}
		}
	}
	f.mu.Unlock()
	f.reads.observer.sourceFailed(f.source, err)
	if apierrors.IsNotFound(err) { // a collection that is served, but empty, does not cause this error
		for _, notServed := range callbacks {
			notServed()
		}
	}
}

// stream opens a watch that starts after f.version, and reads it until it ends.
func (f *watch) stream(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if f.opened {
		// If the API server was restored from a backup, it may not have reached f.version yet. In this case, it would
		// accept the version, but send nothing until it has reached the version.
		newest, err := f.reads.client.newest(ctx, f.source)
		if err != nil {
			return err
		}
		if newest != f.version && After(f.version, newest) {
			return fmt.Errorf("watch from version %s, newest is %s: %w", f.version, newest, errAhead)
		}
	}
	body, err := f.reads.client.watch(ctx, f.source, f.reads.metadata, f.version)
	if err != nil {
		return err
	}
	f.opened = true
	f.mu.Lock()
	f.err = nil
	f.mu.Unlock()

	in := newBuffer()
	var filling sync.WaitGroup
	filling.Go(func() { in.fill(ctx, body) })
	err = f.read(ctx, in)
	cancel()
	closed := body.Close()
	filling.Wait()
	return errors.Join(err, closed)
}

// read processes the frames of an open watch until it ends. Between frames, it registers new owners, and delivers
// periodic lists and the current version.
func (f *watch) read(ctx context.Context, in *buffer) error {
	timer := time.NewTimer(f.reads.versionEvery)
	timer.Stop()
	defer timer.Stop()
	f.setPeriod()
	for armed := false; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
			if err := f.register(ctx); err != nil || f.rewound {
				return err
			}
			f.setPeriod()
		case <-f.again.alarm.C:
			f.again.rearm()
			if err := f.relist(ctx); err != nil {
				return err
			}
		case <-timer.C:
			armed = false
			if err := f.deliverVersion(ctx); err != nil {
				return err
			}
		case <-in.arrived:
			if ended, err := f.applyBuffered(ctx, in); ended || err != nil {
				return err
			}
		}
		if f.undelivered && !armed {
			timer.Reset(f.reads.versionEvery)
			armed = true
		}
	}
}

// setPeriod sets the interval of periodic lists to the shortest period of an owner.
func (f *watch) setPeriod() {
	f.mu.Lock()
	period := f.views.shortestPeriod()
	f.mu.Unlock()
	f.again.set(period)
}

// applyBuffered applies the frames that are in the buffer. applyBuffered reports whether the watch has ended. If the
// connection was broken, applyBuffered returns an error. If the API server has ended the watch properly, that is no
// error.
func (f *watch) applyBuffered(ctx context.Context, in *buffer) (ended bool, err error) {
	frames, ended, ending := in.drain()
	if len(frames) > 0 {
		f.retry.reset()
	}
	if err := f.applyFrames(ctx, frames); err != nil {
		return ended, err
	}
	if ended && !errors.Is(ending, io.EOF) {
		return true, fmt.Errorf("the connection of the watch broke: %w", ending)
	}
	return ended, nil
}

// applyFrames applies frames to the views, and delivers the resulting changes to the receiver.
func (f *watch) applyFrames(ctx context.Context, frames []frame) error {
	var changes []Change
	var ending error
	passed := f.reads.observer.time()
	for _, frame := range frames {
		if frame.Type == frameError {
			ending = statusError(frame.Object)
			break
		}
		doc, err := readDocument(frame.Object, f.source)
		if err != nil {
			ending = err
			break
		}
		if frame.Type != frameBookmark && f.picks(doc.id.Metadata.Name) {
			applied, err := f.apply(ctx, frame.Type, doc)
			if err != nil {
				ending = err // the object will also be in the next watch
				break
			}
			changes = append(changes, applied...)
		}
		f.version, f.undelivered = later(f.version, doc.id.Metadata.ResourceVersion), true
	}
	f.announce()
	if len(changes) > 0 {
		if err := f.deliver(ctx, changes); err != nil {
			return err
		}
		f.reads.observer.reportDelivered(f.source, changes, passed())
	}
	return ending
}

// deliver delivers changes to the receiver, with the current version. The caller must pass all changes up to this
// version that have not been delivered yet.
func (f *watch) deliver(ctx context.Context, changes []Change) error {
	batch := Batch{Source: f.source, Version: f.version, Changes: changes}
	f.mu.Lock()
	for _, v := range f.views.ordered() {
		if v.asked && !isAhead(v.delivered, f.version) {
			batch.Filters = append(batch.Filters, v.name.Filter)
		}
	}
	f.mu.Unlock()
	if len(batch.Filters) == 0 {
		return nil // the receiver already has a newer version of every view
	}
	err := f.reads.callReceiver(ctx, f.source, func(r Receiver) error { return r.Changed(ctx, batch) })
	if err == nil {
		f.undelivered = false
	}
	return err
}

// deliverVersion delivers the current version if the receiver does not have it yet.
func (f *watch) deliverVersion(ctx context.Context) error {
	if !f.undelivered {
		return nil
	}
	return f.deliver(ctx, nil)
}

// announce finds the views whose objects have changed, and calls owner.changed for each owner of these views.
func (f *watch) announce() {
	f.mu.Lock()
	var callbacks []func()
	for _, v := range f.views {
		if !v.dirty {
			continue
		}
		v.dirty = false
		for _, o := range v.owners {
			if o.changed != nil {
				callbacks = append(callbacks, o.changed)
			}
		}
	}
	f.mu.Unlock()
	for _, changed := range callbacks {
		changed()
	}
}
