package report

import (
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A run is reported after slowFactor times the duration of the longest run before, but not before
// SlowLeast. It is reported after slowMost at the latest, unless the longest run took more than
// half of that.
const (
	slowFactor = 5
	SlowLeast  = time.Minute
	slowMost   = 10 * time.Minute
)

// slowAfter returns the time after which a run of a hook is reported as slow. longest is the
// duration of its longest earlier run.
func slowAfter(longest time.Duration) time.Duration {
	if longest <= 0 {
		return slowMost
	}
	return min(max(slowFactor*longest, SlowLeast), max(slowMost, 2*longest))
}

// WatchSlow reports the run of t's hook if it takes too long. The caller calls the returned function
// at the end of the run.
func (r *Runs) WatchSlow(t workflow.Task, longest time.Duration) (ends func()) {
	if t.Claim == nil {
		return func() {}
	}
	return Slow(r.Observer, SlowRun{Task: t, Node: graph.NodeID(t.Node), Since: t.Claim.Since, After: slowAfter(longest), Longest: longest})
}

// Slow reports run to the observer when run.After has passed, unless the caller has called the
// returned function before.
func Slow(to Observer, run SlowRun) (ends func()) {
	reported := make(chan func(), 1)
	timer := time.AfterFunc(run.After, func() { reported <- to.HookSlow(run) })
	return func() {
		if timer.Stop() {
			return
		}
		if ended := <-reported; ended != nil {
			ended()
		}
	}
}

// NoteDuration saves the duration of the run of t's hook, if it is much longer than any run before.
func NoteDuration(tx *store.Tx, t workflow.Task, took time.Duration) error {
	if took <= 0 {
		return nil
	}
	key := store.HookKey(t.Subject.Module, t.Subject.Hook)
	h, ok, err := store.Load[store.Hook](tx, key)
	if err != nil || !ok {
		return err
	}
	// Below the minimum time that is reported, the exact time does not matter.
	if h.Longest > 0 && (took < SlowLeast/slowFactor || took < h.Longest+h.Longest/4) {
		return nil
	}
	h.Longest = took
	return store.Save(tx, key, h)
}
