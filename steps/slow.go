package steps

import (
	"context"
	"time"

	"addon-operator/internal/helm"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// The time after which a run is reported is slowFactor times that of the longest run before, but
// not below slowLeast, and not above slowMost unless the longest run took more than half of that.
const (
	slowFactor = 5
	slowLeast  = time.Minute
	slowMost   = 10 * time.Minute
)

// slowAfter returns the time after which a run of a hook is reported as slow. longest is the
// duration of its longest run.
func slowAfter(longest time.Duration) time.Duration {
	if longest <= 0 {
		return slowMost
	}
	return min(max(slowFactor*longest, slowLeast), max(slowMost, 2*longest))
}

// watchSlow reports the run of t's hook if it takes too long. The caller calls the returned function
// at the end of the run.
func (r *runReports) watchSlow(t workflow.Task, n *graph.Node, longest time.Duration) (ends func()) {
	if t.Claim == nil {
		return func() {}
	}
	return reportSlow(r.observer, SlowRun{Task: t, Node: n.ID, Since: t.Claim.Since, After: slowAfter(longest), Longest: longest})
}

// watchHelmHooks returns a context for an action on the release of t's module. While the action waits for the Job or Pod of a
// Helm hook for long, that is reported as a slow run.
func (rs *Releases) watchHelmHooks(ctx context.Context, t workflow.Task) context.Context {
	return helm.WithAwaits(ctx, func(hook helm.Object) (ended func()) {
		return reportSlow(rs.observer, SlowRun{
			Task: t, Node: graph.NodeID(t.Node), Since: rs.db.Now(), After: slowLeast, Awaits: hook.String(),
		})
	})
}

// reportSlow reports run unless the returned function, which the caller calls at its end, is called in time.
func reportSlow(to Observer, run SlowRun) (ends func()) {
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

// noteDuration saves the duration of the run of t's hook, if it is the longest by far.
func noteDuration(tx *store.Tx, t workflow.Task, took time.Duration) error {
	if took <= 0 {
		return nil
	}
	key := store.HookKey(t.Subject.Module, t.Subject.Hook)
	h, ok, err := store.Load[store.Hook](tx, key)
	if err != nil || !ok {
		return err
	}
	// Below the minimum time that is reported, the exact time does not matter.
	if h.Longest > 0 && (took < slowLeast/slowFactor || took < h.Longest+h.Longest/4) {
		return nil
	}
	h.Longest = took
	return store.Save(tx, key, h)
}
