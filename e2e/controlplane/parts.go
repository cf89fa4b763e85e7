package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// stopWithin is how long a part may take to stop. The API server, the slowest, needs about a second.
const stopWithin = 20 * time.Second

// part is one of the servers that make up the control plane, running in a goroutine of its own.
type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{} // closed when the part has ended; err is set before
	err    error
}

// parts are the running parts in the order they were started: each needs those before it.
type parts struct {
	running []*part
	ended   chan *part // receives the first part to end
}

func newParts() *parts { return &parts{ended: make(chan *part, 1)} }

// start runs serve in a goroutine as the part called name. The part is not cancelled when the program is asked to stop,
// only by stop, in its turn.
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
		default: // another part ended first, and that one is the news
		}
	}()
}

// failure is why the control plane cannot go on after p ended by itself.
func (p *part) failure() error {
	if p.err != nil {
		return fmt.Errorf("%s ended: %w", p.name, p.err)
	}
	return fmt.Errorf("%s ended by itself", p.name)
}

// wait returns nil when ctx is done, and an error when a part ends before that.
func (ps *parts) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case p := <-ps.ended:
		return p.failure()
	}
}

// await runs check, and returns what it returned. It gives up when a part ends.
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

// stop ends all parts, the last started first, each only when the one before has ended: a part that outlives what it
// needs spends its time on retries. The error is about the parts that did not end well when told to.
func (ps *parts) stop() error {
	var errs []error
	for _, p := range slices.Backward(ps.running) {
		select {
		case <-p.done:
			continue // wait or await has told why
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
