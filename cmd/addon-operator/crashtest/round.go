package crashtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"addon-operator/internal/redact"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// step identifies a step by its node and by the hook, chart or module that runs in it.
type step struct {
	node, doer string
}

// A Failure describes the failed attempts of a step in one round. The failures in a [Finding] are of steps that do not
// fail in the undisturbed runs.
type Failure struct {
	Node string `json:"node"`
	Doer string `json:"of"`
	// Error is the error of the last attempt, without secrets.
	Error string `json:"error"`
	// Attempts is the number of failed attempts.
	Attempts int `json:"attempts"`
}

// A round is one run of the operator until it has no work left. If target is not nil, the round kills the operator at
// this target.
type round struct {
	options     *Options
	environment environment
	client      *client
	target      *Target // nil in an undisturbed run
	known       map[step]bool

	operator *operator
	began    bool // set if the running operator has reported its start
	recorder *recorder
	killed   bool
	failures map[step]*Failure
	order    []step // keys of failures, by the time of the first failed attempt
}

// errFailing ends a round early because a step fails repeatedly.
var errFailing = errors.New("a step fails repeatedly")

// open acquires a plane for the round in dir, creates the namespace and the objects, and starts the operator.
func (o *Options) open(ctx context.Context, dir string, target *Target, known map[step]bool) (r *round, release func() error, err error) {
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o700); err != nil {
		return nil, nil, err
	}
	p, err := o.planes.acquire(ctx, dir)
	if err != nil {
		return nil, nil, err
	}
	r = &round{
		options: o, target: target, known: known, recorder: newRecorder(), failures: map[step]*Failure{},
		environment: o.environment(dir, p.kubeconfig()),
	}
	release = func() error {
		if r.operator != nil {
			r.operator.stop()
		}
		return p.release(context.WithoutCancel(ctx))
	}
	if r.client, err = connect(p.kubeconfig()); err == nil {
		err = r.client.createNamespace(ctx, o.Namespace)
	}
	if err == nil {
		err = r.client.apply(ctx, o.Namespace, o.objects)
	}
	if err == nil {
		r.operator, err = r.environment.start()
	}
	if err != nil {
		return nil, nil, errors.Join(err, release())
	}
	return r, release, nil
}

// settle waits until the operator has had no work for the time Options.Quiet, applies the objects
// of Options.Events, and waits in the same way again.
func (r *round) settle(ctx context.Context) error {
	if err := r.rest(ctx); err != nil {
		return err
	}
	if len(r.options.events) == 0 {
		return nil
	}
	if err := r.client.apply(ctx, r.environment.namespace, r.options.events); err != nil {
		return err
	}
	return r.rest(ctx)
}

// rest handles messages of the operator until it has had no work for the quiet time. rest fails if
// the operator ends by itself, if a step fails repeatedly, or if ctx ends.
func (r *round) rest(ctx context.Context) error {
	quiet := time.NewTimer(r.options.Quiet)
	defer quiet.Stop()
	for {
		select {
		case m := <-r.operator.messages:
			if err := r.handle(m); err != nil {
				return err
			}
			quiet.Reset(r.options.Quiet)
		case <-r.operator.ended:
			return fmt.Errorf("the operator ended by itself: %s; the end of its log:\n%s", r.operator.cmd.ProcessState, r.environment.endOfLog(5))
		case <-quiet.C:
			if r.isIdle(ctx) {
				return nil
			}
			quiet.Reset(min(r.options.Quiet, 200*time.Millisecond))
		case <-ctx.Done():
			return fmt.Errorf("the operator still has work: %w", context.Cause(ctx))
		}
	}
}

// isIdle reports whether the start run has ended and no task is pending.
func (r *round) isIdle(ctx context.Context) bool {
	var status inspect.Status
	err := r.environment.get(ctx, "/status.json", &status)
	return err == nil && r.began && !status.Starting && len(status.Queues) == 0 && status.Later == 0
}

// handle records a message. If the message reports the target of the round, handle kills the
// operator and starts it again.
func (r *round) handle(m message) error {
	switch {
	case m.Begun:
		r.began = true
	case m.State == store.Failed || m.State == store.Allowed:
		return r.fail(m)
	case m.At != "":
		t := r.recorder.record(m)
		if r.target == nil || r.killed || t != *r.target {
			r.operator.allow()
			return nil
		}
		r.operator.kill()
		r.killed, r.began = true, false
		var err error
		r.operator, err = r.environment.start()
		return err
	}
	return nil
}

// fail records a failed attempt. After the kill, fail returns errFailing if the step has failed at
// least twice in this round and never failed in the undisturbed runs.
func (r *round) fail(m message) error {
	at := step{string(m.Node), doer(m.Node, m.Subject)}
	f := r.failures[at]
	if f == nil {
		f = &Failure{Node: at.node, Doer: at.doer}
		r.failures[at] = f
		r.order = append(r.order, at)
	}
	f.Error = redact.Text(m.Error)
	f.Attempts++
	const enough = 2
	if r.killed && !r.known[at] && f.Attempts >= enough {
		return errFailing
	}
	return nil
}

// newFailures returns the failures that do not occur in the undisturbed runs.
func (r *round) newFailures() (out []Failure) {
	for _, at := range r.order {
		if !r.known[at] {
			out = append(out, *r.failures[at])
		}
	}
	return out
}

// state returns the current state of the cluster and of the operator's modules.
func (r *round) state(ctx context.Context) (state, error) {
	return r.environment.state(ctx, r.client)
}

// compare returns the differences from the undisturbed state. While there are differences, it waits
// up to the settle time for late changes of controllers and watches.
func (r *round) compare(ctx context.Context, want state, n noise) ([]Difference, error) {
	wanted := n.apply(want, want)
	for deadline := time.Now().Add(r.options.Settle); ; {
		got, err := r.state(ctx)
		if err != nil {
			return nil, err
		}
		differences := diff(wanted, n.apply(got, want))
		if len(differences) == 0 || time.Now().After(deadline) {
			return differences, nil
		}
		if err := r.rest(ctx); err != nil {
			return differences, err
		}
	}
}
