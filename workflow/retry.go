package workflow

import (
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// firstDelay and longestDelay bound the time between a failed attempt and the
// next one.
const (
	firstDelay   = 5 * time.Second
	longestDelay = 30 * time.Second
)

// longestError is the greatest length in bytes of an error that is kept.
const longestError = 4 << 10

// A failure is why an attempt failed.
type failure struct {
	err     error
	subject store.Subject // whom it is about
	// resume is set where the attempt goes on from its journal.
	resume bool
	// strict is set where the failure is none that a binding can allow: the
	// step had its say on that and failed too.
	strict bool
}

// text returns the part of the error that is kept: of a long one the beginning, which
// says what failed, and the end, which says how. It cuts between characters.
func (f failure) text() string {
	s := f.err.Error()
	if len(s) <= longestError {
		return s
	}
	whole := func(part string) string { return strings.ToValidUTF8(part, "") }
	return whole(s[:longestError/4]) + " … " + whole(s[len(s)-longestError*3/4:])
}

// fail ends an attempt that did not succeed. Where the binding allows that, it
// ends as if it had, with nothing to follow.
func (m *transition) fail(c *claim, f failure) (*claim, error) {
	t, err := m.reload(c)
	if err != nil {
		return nil, err
	}
	if !f.resume && (t.Abandoned || c.allowsFailure() && !f.strict) {
		return m.finish(c, Outcome{Allowed: f.text()})
	}
	if !f.resume && t.Journal {
		store.DropJournal(m.tx, t.ID)
		t.Journal = false
	}
	if !f.resume && len(c.task.Batch) > 1 && !f.strict {
		if t, err = m.keepStrict(c, t, f); err != nil {
			return nil, err
		}
		f.subject = t.Subject
	}
	if err := m.retryLater(c.bound, c.node, t, f); err != nil {
		return nil, err
	}
	return m.advance(t.Queue)
}

// allowsFailure reports whether all that c covers may fail.
func (c *claim) allowsFailure() bool {
	for _, t := range c.task.Batch[1:] {
		if !t.AllowFailure {
			return false
		}
	}
	return c.task.AllowFailure
}

// retryLater has t, or the run it belongs to, tried again after a delay.
func (m *transition) retryLater(b *bound, n *graph.Node, t *store.Task, f failure) error {
	if err := m.endExclusive(t); err != nil {
		return err
	}
	count := 1
	if t.Failed != nil {
		count += t.Failed.Count
	}
	r := recordOf(t, store.Failed)
	r.Subject, r.Try, r.Error = f.subject, count, f.text()
	if err := m.record(r); err != nil {
		return err
	}
	t.Failed = &store.Failure{Node: t.Node, Subject: f.subject, Count: count, Error: r.Error, At: m.now}
	t.Due = m.now.Add(retryDelay(n, count))
	if f.resume && t.Claim != nil {
		t.Claim = &store.Claim{End: t.Claim.End} // the journal speaks for all of the range, and for no more
	} else {
		t.Claim = nil
	}
	if n.RetryFrom == "" || f.resume || t.Detached {
		if err := m.save(t); err != nil {
			return err
		}
		return m.lagBehind(b, t)
	}
	back := m.backTo(b, n.RetryFrom, t)
	if err := m.remove(t); err != nil {
		return err
	}
	if err := m.enqueue(back); err != nil {
		return err
	}
	return m.lagBehind(b, back)
}

// backTo returns the task at node with which the run of t starts over in t's stead, not yet put.
func (m *transition) backTo(b *bound, node graph.NodeID, t *store.Task) *store.Task {
	back := m.follow(b, graph.Edge{To: node}, t.Run, t.Subject)
	if t.FanOut == nil || t.FanOut.Open == 0 {
		back.ID = t.ID // else the items that still run would name it as their parent
	}
	back.Pos, back.HomeQueue, back.Parent, back.Past, back.Loop = t.Pos, t.HomeQueue, t.Parent, t.Past, t.Loop
	back.Rewinds, back.Failed, back.Due = t.Rewinds, t.Failed, t.Due
	return back
}

// retryDelay returns the delay after the n-th failure in a row at node.
func retryDelay(node *graph.Node, n int) time.Duration {
	if node.FixedDelay {
		return firstDelay
	}
	return delay(n)
}

// delay returns how long the n-th failure in a row is waited out: 5 s, doubling
// to 30 s, without jitter, so that people can rely on what they read.
func delay(n int) time.Duration {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstDelay),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxInterval(longestDelay),
		backoff.WithMaxElapsedTime(0),
	)
	d := b.NextBackOff()
	for range min(n, 8) - 1 {
		d = b.NextBackOff()
	}
	return d
}
