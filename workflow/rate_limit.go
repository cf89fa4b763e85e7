package workflow

import (
	"errors"
	"slices"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A RateLimiter returns the rate limit of its step for one hook. RateLimit is called in transactions that claim t,
// defer t, or move t back to its queue. RateLimit must not write.
//
// Only the tasks of nodes with Batch are deferred. If a task reaches the head of its queue before
// the limit allows an attempt, the task leaves the queue. Later tasks of the same hook are deferred
// with this task, so that one attempt can process all of them. The items of a fan-out are not
// deferred, but their attempts count against the limit too.
type RateLimiter interface {
	RateLimit(tx *store.Tx, t *store.Task) RateLimit
}

// A RateLimit limits the attempts for one hook, as a token bucket. The zero value means no limit.
type RateLimit struct {
	// Every is the time after which one more attempt is allowed; zero means no limit.
	Every time.Duration
	// Burst is the maximum number of attempts in a row after a long time without attempts. A value
	// below 1 means 1.
	Burst int
	// NoBatch is set if each attempt processes only one task.
	NoBatch bool
}

// maxSpan is the maximum time to fill a bucket.
const maxSpan = 100 * 365 * 24 * time.Hour

// span returns the time to fill an empty bucket.
func (p RateLimit) span() time.Duration {
	return p.Every * time.Duration(max(1, min(int64(p.Burst), int64(maxSpan/p.Every))))
}

// next returns the time from which the next attempt is allowed. The parameter full is the time at which the bucket is
// full again. If this time is more than one span in the future, it was computed with a wrong clock, or for a limit that
// was stricter, and the attempt is allowed now.
func (p RateLimit) next(full, now time.Time) time.Time {
	if full.Sub(now) > p.span() {
		return now
	}
	return full.Add(p.Every - p.span())
}

// reserve returns the time at which the bucket will be full again if an attempt begins now.
func (p RateLimit) reserve(full, now time.Time) time.Time {
	if full.Before(now) || full.Sub(now) > p.span() {
		full = now
	}
	if full = full.Add(p.Every); full.Sub(now) > p.span() {
		full = now.Add(p.span()) // the attempt did not wait for the limit, so the next one waits no longer than usual
	}
	return full
}

// limits applies the rate limits of hooks, and keeps their buckets. A hook runs for events and schedule ticks at most
// as often as its limit allows. The limit does not apply to tasks that a person expedites, or to the repetition of an
// interrupted attempt. The deferred tasks of a hook in one queue keep their order.
type limits struct {
	*txn
	queues   *queues
	unique   *unique
	backlogs *backlogs
}

// rateLimit returns the rate limit of n's step for subject.
func (l *limits) rateLimit(b *bound, n *graph.Node, t *store.Task, subject graph.Subject) (p RateLimit, err error) {
	limiter, ok := b.Steps[n.ID].(RateLimiter)
	if !ok {
		return p, nil
	}
	asked := *t
	asked.Subject = subject
	err = guard(n, "RateLimit", func() error { p = limiter.RateLimit(l.tx, &asked); return nil })
	p.Every = min(max(p.Every, 0), maxSpan)
	return p, err
}

// intervalOf returns the field Every of the rate limit of t's hook; zero if the hook has no limit,
// or if this version does not have the node of t.
func (l *limits) intervalOf(t *store.Task) (time.Duration, error) {
	b, n, err := l.graphs.boundTo(t)
	if err != nil {
		return 0, nil //nolint:nilerr // the task returns to its queue, where it is removed
	}
	p, err := l.rateLimit(b, n, t, t.Subject)
	return p.Every, err
}

// bucketOf returns the bucket of subject's hook, and its key.
func bucketOf(tx *store.Tx, subject graph.Subject) (store.Key, store.Bucket, error) {
	key := store.BucketKey(subject)
	bucket, _, err := store.Load[store.Bucket](tx, key)
	return key, bucket, err
}

// spendRun takes one token for an attempt that begins for subject.
func (l *limits) spendRun(p RateLimit, subject graph.Subject) error {
	if p.Every == 0 {
		return nil
	}
	key, bucket, err := bucketOf(l.tx, subject)
	if err != nil {
		return err
	}
	bucket.Full = p.reserve(bucket.Full, l.now)
	return store.Save(l.tx, key, bucket)
}

// reason returns the reason why the rate limit of t's hook defers t; nil if it does not defer t.
func (l *limits) reason(b *bound, n *graph.Node, t *store.Task) (*store.Reason, error) {
	put, err := l.deferralFor(b, n, t)
	if err != nil || put.Due.IsZero() {
		return nil, err
	}
	return limitReason(put.Every, put.Due), nil
}

// deferralFor returns the deferral of t, the head of its queue, or zero if t need not wait. t must
// wait while the rate limit of its hook allows no attempt, or while an earlier deferral of the hook
// in this queue is in effect.
func (l *limits) deferralFor(b *bound, n *graph.Node, t *store.Task) (none store.Deferral, err error) {
	if !n.Batch || hasBegun(t) {
		return none, nil
	}
	if _, limited := b.Steps[n.ID].(RateLimiter); !limited {
		return none, nil
	}
	_, bucket, err := bucketOf(l.tx, t.Subject)
	if err != nil || bucket.Deferrals[t.Queue].Expedites(t.ID) {
		return none, err
	}
	if put, err := l.deferralOf(&bucket, t); err != nil || !put.Due.IsZero() {
		return put, err
	}
	p, err := l.rateLimit(b, n, t, t.Subject)
	if err != nil || p.Every == 0 || !l.now.Before(p.next(bucket.Full, l.now)) {
		return none, err
	}
	return store.Deferral{Due: p.next(bucket.Full, l.now), Every: p.Every}, nil
}

// limitAgain makes the rate limit of t's hook apply to t again, because the attempt at t has failed.
func (l *limits) limitAgain(t *store.Task) error {
	_, bucket, err := bucketOf(l.tx, t.Subject)
	put := bucket.Deferrals[t.Queue]
	if err != nil || !put.Expedites(t.ID) {
		return err
	}
	put.Expedited = store.ID{}
	return l.saveDeferral(t, put)
}

// saveDeferral saves put as the deferral of t's hook in the queue of t.
func (l *limits) saveDeferral(t *store.Task, put store.Deferral) error {
	key, bucket, err := bucketOf(l.tx, t.Subject)
	if err != nil {
		return err
	}
	if bucket.Deferrals == nil {
		bucket.Deferrals = map[string]store.Deferral{}
	}
	bucket.Deferrals[t.Queue] = put
	return store.Save(l.tx, key, bucket)
}

// deferTask defers t, the head of its queue, because of the rate limit of its hook. deferTask also
// defers the tasks behind t that the same attempt would process.
func (l *limits) deferTask(b *bound, n *graph.Node, t *store.Task) error {
	put, err := l.deferralFor(b, n, t)
	if err != nil {
		return err
	}
	if err := l.deferBatch(b, t, &put); err != nil {
		return err
	}
	if err := l.saveDeferral(t, put); err != nil {
		return err
	}
	return l.armDeferred()
}

// deferBatch defers t and the tasks behind it that the same attempt would process, as far as the
// budget allows.
func (l *limits) deferBatch(b *bound, t *store.Task, put *store.Deferral) error {
	if err := l.queues.saveTop(); err != nil {
		return err
	}
	for other, err := range store.TasksFrom(l.tx, t.Queue, t.Slot) {
		if err != nil {
			return err
		}
		if other.ID != t.ID && (!b.alike(t, other) || !l.fits(costOf(other))) {
			return nil
		}
		if err := l.deferUntil(other, put); err != nil {
			return err
		}
	}
	return nil
}

// joinDeferred defers t, which was just put at the tail of its queue, if the rate limit of its hook
// still defers older tasks of that queue.
func (l *limits) joinDeferred(t *store.Task) error {
	b, n, err := l.graphs.boundTo(t)
	if err != nil {
		return nil // a task of an unknown node is removed when it reaches the head of its queue
	}
	if _, limited := b.Steps[n.ID].(RateLimiter); !limited || !n.Batch {
		return nil
	}
	key, bucket, err := bucketOf(l.tx, t.Subject)
	if err != nil {
		return err
	}
	put, ok := bucket.Deferrals[t.Queue]
	if !ok || l.tx.Get(t.Key()) == nil {
		return nil // nothing is deferred, or an equal task has replaced t
	}
	for first, err := range store.DeferredTasks(l.tx, store.DeferredAt(put.Due)) {
		if err != nil {
			return err
		}
		if !sameLimit(t, first) {
			continue
		}
		if err := l.deferUntil(t, &put); err != nil {
			return err
		}
		bucket.Deferrals[t.Queue] = put
		return store.Save(l.tx, key, bucket)
	}
	return nil
}

// deferralOf returns the deferral of t's hook and queue if the next deferred task is older than t, or
// is not due yet, so that t must wait. Otherwise, deferralOf returns zero.
func (l *limits) deferralOf(bucket *store.Bucket, t *store.Task) (none store.Deferral, err error) {
	put, ok := bucket.Deferrals[t.Queue]
	if !ok {
		return none, nil
	}
	for first, err := range store.DeferredTasks(l.tx, store.DeferredAt(put.Due)) {
		if err != nil {
			return none, err
		}
		if !sameLimit(t, first) {
			continue
		}
		due, err := l.due(first)
		if err != nil {
			return none, err
		}
		if first.ID.Before(t.ID) || l.now.Before(due) {
			return put, nil
		}
		break
	}
	return none, nil
}

// deferUntil removes t from its queue until put.Due, and counts t in the deferral put.
func (l *limits) deferUntil(t *store.Task, put *store.Deferral) error {
	l.tx.Delete(t.Key())
	l.queues.touch(t.Queue)
	t.Slot, t.Depth, t.Due, t.Every = 0, 0, put.Due, put.Every
	l.unique.mark(t)
	if err := l.backlogs.follows(t); err != nil {
		return err
	}
	if err := l.queues.save(t); err != nil {
		return err
	}
	if put.Tasks++; put.Tasks%l.sizes.backlog == 0 {
		return l.backlogs.countBacklog(t)
	}
	return nil
}

// newerTasks defers the queued tasks of a hook that are newer than a deferred task of the hook, before
// the deferred task returns to their queue. newerTasks reads each queue once for each hook.
type newerTasks struct {
	limits *limits
	done   []*returning // one for each hook and queue
}

// returning are the deferred tasks of one hook and queue that return in one transition.
type returning struct {
	first *store.Task // copy of the first of these tasks, made before it returned
	last  *store.Task // the task that has returned last; nil if there is none yet
	mixed bool        // whether a returned task was older than the task that had returned before it
}

// deferFor defers the tasks that are newer than t, have the same hook and queue as t, and have not begun. It does this
// only if t is the first deferred task of this hook and queue that returns in this transition. If deferFor has deferred
// a task, it returns errEnough, and t does not return yet: a later transition calls deferFor again, which may find
// further newer tasks. A separate transition is used because a transaction that has deleted many tasks finds the tail
// of the queue slowly. If no rate limit has deferred t, deferFor does nothing.
func (n *newerTasks) deferFor(t *store.Task) error {
	if t.Every == 0 || n.find(t) != nil {
		return nil
	}
	if err := n.limits.deferNewer(t); err != nil {
		return err
	}
	first := *t
	n.done = append(n.done, &returning{first: &first})
	return nil
}

// find returns the returning tasks that have the hook and the queue of t, a deferred task; nil if t is the first of
// them, or if no rate limit has deferred t.
func (n *newerTasks) find(t *store.Task) *returning {
	if t.Every == 0 {
		return nil
	}
	i := slices.IndexFunc(n.done, func(r *returning) bool { return sameLimit(t, r.first) })
	if i < 0 {
		return nil
	}
	return n.done[i]
}

// returned records that t has returned to its queue. r is nil if no rate limit had deferred t.
func (r *returning) returned(t *store.Task) {
	if r == nil {
		return
	}
	r.mixed = r.mixed || r.last != nil && t.ID.Before(r.last.ID)
	last := *t
	r.last = &last
}

// save stores, for each hook and queue whose tasks have returned in order, the task that has returned last, and its
// slot. The next transition begins its search for newer tasks behind this slot.
func (n *newerTasks) save() error {
	for _, r := range n.done {
		if r.last == nil || r.mixed {
			continue
		}
		key, bucket, err := bucketOf(n.limits.tx, r.last.Subject)
		if err != nil {
			return err
		}
		put, deferred := bucket.Deferrals[r.last.Queue]
		if !deferred {
			continue
		}
		put.Returned, put.ReturnedTo = r.last.ID, r.last.Slot
		bucket.Deferrals[r.last.Queue] = put
		if err := store.Save(n.limits.tx, key, bucket); err != nil {
			return err
		}
	}
	return nil
}

// deferNewer defers the newer tasks for [newerTasks.deferFor]. The parameter first is the first deferred task that
// returns. The newer tasks get the due time of first. deferNewer returns errEnough if it has deferred any of them.
func (l *limits) deferNewer(first *store.Task) error {
	b, _, err := l.graphs.boundTo(first)
	if err != nil {
		return nil //nolint:nilerr // a task of an unknown node is removed when it reaches the head of its queue
	}
	key, bucket, err := bucketOf(l.tx, first.Subject)
	if err != nil {
		return err
	}
	put, current := bucket.Deferrals[first.Queue]
	if current = current && put.Due.Equal(first.Due); !current {
		put = store.Deferral{Due: first.Due, Every: first.Every}
	}
	before := put.Tasks
	if err := l.queues.saveTop(); err != nil {
		return err
	}
	from, err := l.newerFrom(bucket.Deferrals[first.Queue], first)
	if err != nil {
		return err
	}
	err = l.eachNewer(b, first, from, func(t *store.Task) error {
		if !l.fits(costOf(t)) {
			return errEnough
		}
		return l.deferUntil(t, &put)
	})
	if err != nil && !errors.Is(err, errEnough) || put.Tasks == before {
		return err
	}
	if current {
		bucket.Deferrals[first.Queue] = put
		if err := store.Save(l.tx, key, bucket); err != nil {
			return err
		}
	}
	return errEnough
}

// newerFrom returns the slot at which the search for newer tasks can begin. A newer task is newer than first, has the
// same hook and queue as first, and has not begun. If the last task that returned in an earlier transition is still at
// its position, all newer tasks are behind it, because the queue has not been empty since then.
func (l *limits) newerFrom(put store.Deferral, first *store.Task) (from uint64, err error) {
	if put.Returned.IsZero() || first.ID.Before(put.Returned) {
		return 0, nil
	}
	for t, err := range store.Slot(l.tx, first.Queue, put.ReturnedTo) {
		if err != nil {
			return 0, err
		}
		if t.ID == put.Returned {
			return put.ReturnedTo + 1, nil
		}
	}
	return 0, nil
}

// eachNewer calls fn for the tasks that are newer than first, have the same hook and queue as first, can be deferred,
// and have not begun. eachNewer ends when fn fails. The parameter from is the slot at which the search begins.
func (l *limits) eachNewer(b *bound, first *store.Task, from uint64, fn func(*store.Task) error) error {
	begun, err := l.begunBefore(first, from)
	if err != nil {
		return err
	}
	for t, err := range store.TasksOfHook(l.tx, first.Queue, from, first.Subject) {
		if err != nil {
			return err
		}
		if hasBegun(t) {
			begun = t
		}
		if begun != nil && covers(begun, t) || t.Failed != nil {
			continue
		}
		n := b.nodes[graph.NodeID(t.Node)]
		if n == nil || !n.Batch || t.Graph != first.Graph || !first.ID.Before(t.ID) {
			continue
		}
		if err := fn(t); err != nil {
			return err
		}
	}
	return nil
}

// begunBefore returns the begun task that has the same hook and queue as first; nil if there is none. Only the first
// task of a hook in a queue can have begun, but its attempt can cover tasks in later slots. If the parameter from is 0,
// begunBefore returns nil, because the search of eachNewer finds the begun task itself.
func (l *limits) begunBefore(first *store.Task, from uint64) (*store.Task, error) {
	if from == 0 {
		return nil, nil
	}
	for t, err := range store.TasksOfHook(l.tx, first.Queue, 0, first.Subject) {
		if err != nil || !hasBegun(t) {
			return nil, err
		}
		return t, nil
	}
	return nil, nil
}

// hasBegun reports whether an attempt at t has begun and not ended.
func hasBegun(t *store.Task) bool { return t.Claim != nil && t.Claim.Epoch != 0 || t.Journal }

// sameLimit reports whether other was deferred from t's queue by the rate limit of t's hook.
func sameLimit(t, other *store.Task) bool {
	return other.Every > 0 && other.Queue == t.Queue && other.Subject.Module == t.Subject.Module && other.Subject.Hook == t.Subject.Hook
}

// due returns the time at which t is due. A task is due now if the rate limit of its hook has
// changed since it was deferred.
func (l *limits) due(t *store.Task) (time.Time, error) {
	if t.Every > 0 {
		if every, err := l.intervalOf(t); err != nil || every != t.Every {
			return l.now, err
		}
	}
	return dueAt(t, l.now), nil
}

// armDeferred sets the alarm for the first deferred task.
func (l *limits) armDeferred() error {
	err := eachDeferred(l.tx, func(t *store.Task) error {
		due, err := l.due(t)
		if err != nil {
			return err
		}
		l.later(followUp{work: bringDueTasks, queue: deferredTasks, due: due})
		return errEnough
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
