package report

import (
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A run is reported as slow after slowFactor times the duration of the longest earlier run, but not before SlowLeast,
// and not later than slowMost. As an exception, if the longest earlier run lasted longer than half of slowMost, a run
// is reported after twice the duration of that earlier run.
const (
	slowFactor = 5
	SlowLeast  = time.Minute
	slowMost   = 10 * time.Minute
)

// slowAfter returns the duration after which a run of a hook is reported as slow. The argument longest is the
// duration of the longest earlier run of the hook; zero if no run with the same code has succeeded.
func slowAfter(longest time.Duration) time.Duration {
	if longest <= 0 {
		return slowMost
	}
	return min(max(slowFactor*longest, SlowLeast), max(slowMost, 2*longest))
}

// WatchSlow reports the run of the hook or the enabled script of t as slow when it takes much longer than longest, which
// is the duration of the longest earlier run. If longest is zero, it reports the run after slowMost. The caller must call
// the returned function at the end of the run.
func (r *Runs) WatchSlow(t workflow.Task, longest time.Duration) (ends func()) {
	if t.Claim == nil {
		return func() {}
	}
	return Slow(r.Observer, SlowRun{Task: t, Node: graph.NodeID(t.Node), Since: t.Claim.Since, After: slowAfter(longest), Longest: longest})
}

// Slow reports run to the observer when run.After has passed. The caller must call the returned function at the end
// of the run. If the run ends before run.After has passed, Slow reports nothing.
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

// NoteDuration saves the duration of a run of the hook of t, if no duration is saved yet, or if the run lasted at
// least a quarter longer than the saved duration.
func NoteDuration(tx *store.Tx, t workflow.Task, took time.Duration) error {
	if took <= 0 {
		return nil
	}
	key := store.HookKey(t.Subject.Module, t.Subject.Hook)
	h, ok, err := store.Load[store.Hook](tx, key)
	if err != nil || !ok {
		return err
	}
	// If a duration is saved already, durations below SlowLeast/slowFactor are ignored: they do not change the time
	// after which a run is reported as slow.
	if h.Longest > 0 && (took < SlowLeast/slowFactor || took < h.Longest+h.Longest/4) {
		return nil
	}
	h.Longest = took
	return store.Save(tx, key, h)
}
