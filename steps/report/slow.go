package report

import (
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A run is reported as slow after slowFactor times the duration of the longest earlier run, but never before
// SlowLeast. It is reported after slowMost at the latest; if the longest earlier run took more than half of slowMost,
// it is reported after twice that duration.
const (
	slowFactor = 5
	SlowLeast  = time.Minute
	slowMost   = 10 * time.Minute
)

// slowAfter returns the duration after which a run of a hook is reported as slow. longest is the duration of the
// longest earlier run of the hook; zero if there is none.
func slowAfter(longest time.Duration) time.Duration {
	if longest <= 0 {
		return slowMost
	}
	return min(max(slowFactor*longest, SlowLeast), max(slowMost, 2*longest))
}

// WatchSlow reports the run of t's hook as slow if it takes too long. longest is the duration of the longest earlier
// run. The caller calls the returned function at the end of the run.
func (r *Runs) WatchSlow(t workflow.Task, longest time.Duration) (ends func()) {
	if t.Claim == nil {
		return func() {}
	}
	return Slow(r.Observer, SlowRun{Task: t, Node: graph.NodeID(t.Node), Since: t.Claim.Since, After: slowAfter(longest), Longest: longest})
}

// Slow reports run to the observer when run.After has passed. The caller calls the returned function at the end of
// the run; if that is earlier, Slow reports nothing.
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

// NoteDuration saves the duration of the run of t's hook, if it is the first run or much longer than all earlier
// runs.
func NoteDuration(tx *store.Tx, t workflow.Task, took time.Duration) error {
	if took <= 0 {
		return nil
	}
	key := store.HookKey(t.Subject.Module, t.Subject.Hook)
	h, ok, err := store.Load[store.Hook](tx, key)
	if err != nil || !ok {
		return err
	}
	// Below SlowLeast/slowFactor, the duration does not change the time after which a run is reported.
	if h.Longest > 0 && (took < SlowLeast/slowFactor || took < h.Longest+h.Longest/4) {
		return nil
	}
	h.Longest = took
	return store.Save(tx, key, h)
}
