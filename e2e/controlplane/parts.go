package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// stopWithin is the maximum time for the shutdown of each part. The slowest part, the API server, needs about a
// second.
const stopWithin = time.Minute

// part is one of the servers of the control plane. It runs in its own goroutine.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when the part has ended, after err is set
	err    error
}

// parts are the running parts in the order of their start. Each part needs the parts before it.
type parts struct {
	running []*part
	ended   chan *part // receives the first part to end
}

func newParts() *parts { return &parts{ended: make(chan *part, 1)} }

// start runs the given function in a goroutine, as the part called name. Only stop ends the context of the function, so
// that the parts stop in order.
func (ps *parts) start(name string, serve func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	ps.running = append(ps.running, p)
	go func() {
		defer cancel()
		p.err = serve(ctx)
		close(p.done)
		select {
		case ps.ended <- p:
		default: // only the first part to end is reported, because it is the cause
		}
	}()
}

// failure returns an error that says that the part ended before it was stopped.
func (p *part) failure() error {
	if p.err != nil {
		return fmt.Errorf("%s ended: %w", p.name, p.err)
	}
	return fmt.Errorf("%s ended by itself", p.name)
}

// wait returns nil when ctx ends, and an error if a part ends before that.
func (ps *parts) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-ps.ended:
		return p.failure()
	}
}

// await runs check and returns its result. If a part ends before that, await returns the error of the part.
func (ps *parts) await(ctx context.Context, check func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	checked := make(chan error, 1)
	go func() { checked <- check(ctx) }()
	select {
	case err := <-checked:
		return err
	case p := <-ps.ended:
		return p.failure()
	}
}

// stop stops all parts in reverse order. It waits until a part has ended before it stops the next one, because each
// part needs the parts that were started before it. stop returns the errors of parts that failed to stop.
func (ps *parts) stop() error {
	var errs []error
	for _, p := range slices.Backward(ps.running) {
		select {
		case <-p.done:
			continue // the method wait or await has returned its error
		default:
			p.cancel()
		}
		select {
		case <-p.done:
			if p.err != nil {
				errs = append(errs, fmt.Errorf("stop %s: %w", p.name, p.err))
			}
		case <-time.After(stopWithin):
			errs = append(errs, fmt.Errorf("stop %s: still running after %s", p.name, stopWithin))
		}
	}
	return errors.Join(errs...)
}
