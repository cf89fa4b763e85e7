package workflow

import (
	"errors"
	"time"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// A RateLimiter says how the runs of its step for one hook follow each other. It is
// asked in the transaction that is to claim t, and must not write.
//
// A node that covers ranges keeps the pace: a task that comes too early leaves
// its queue, and what of the hook comes after it joins it, until there is a run
// for all of them. What is a member of a list is done at its turn and counts.
type RateLimiter interface {
	RateLimit(tx *store.Tx, t *store.Task) RateLimit
}

// A RateLimit is how the runs for one hook follow each other. The zero RateLimit is no
// bound.
type RateLimit struct {
	// Every is the time in which one run is allowed; zero is no bound.
	Every time.Duration
	// Burst is how many runs that were not made may be made up for at once, at
	// least 1.
	Burst int
	// NoBatch is set where a run does one task, never a range.
	NoBatch bool
}

// maxSpan bounds the time it takes to fill a bucket.
const maxSpan = 100 * 365 * 24 * time.Hour

// span is how long an empty bucket takes to be full.
func (p RateLimit) span() time.Duration {
	return p.Every * time.Duration(max(1, min(int64(p.Burst), int64(maxSpan/p.Every))))
}

// next returns when the next run is allowed by a bucket that is full at full. A
// time further off than it can take comes from a clock that was wrong.
func (p RateLimit) next(full, now time.Time) time.Time {
	if full.Sub(now) > p.span() {
		return now
	}
	return full.Add(p.Every - p.span())
}

// take returns when the bucket is full after a run at now.
func (p RateLimit) take(full, now time.Time) time.Time {
	if full.Before(now) || full.Sub(now) > p.span() {
		full = now
	}
	if full = full.Add(p.Every); full.Sub(now) > p.span() {
		full = now.Add(p.span()) // a run that was not to wait; there is no debt
	}
	return full
}

// rateLimit returns the pace of n's runs for subject.
func (m *transition) rateLimit(b *bound, n *graph.Node, t *store.Task, subject store.Subject) RateLimit {
	pacer, ok := b.Steps[n.ID].(RateLimiter)
	if !ok {
		return RateLimit{}
	}
	asked := *t
	asked.Subject = subject
	p := pacer.RateLimit(m.tx, &asked)
	p.Every = min(max(p.Every, 0), maxSpan)
	return p
}

// intervalOf returns in what time one run is allowed of the hook that t is about.
func (m *transition) intervalOf(t *store.Task) time.Duration {
	b, n, err := m.e.boundTo(t)
	if err != nil {
		return 0
	}
	return m.rateLimit(b, n, t, t.Subject).Every
}

// bucketOf returns what is kept of the pace of subject's hook.
func (m *transition) bucketOf(subject store.Subject) (store.Key, store.Bucket, error) {
	key := store.BucketKey(subject)
	bucket, _, err := store.Load[store.Bucket](m.tx, key)
	return key, bucket, err
}

// spendRun notes that a run for subject begins.
func (m *transition) spendRun(p RateLimit, subject store.Subject) error {
	if p.Every == 0 {
		return nil
	}
	key, bucket, err := m.bucketOf(subject)
	if err != nil {
		return err
	}
	bucket.Full = p.take(bucket.Full, m.now)
	return store.Save(m.tx, key, bucket)
}

// deferTask takes the task t at the head of its queue, which is about to be done,
// and those behind it that the same run would do out of the queue, if it is too
// early for a run or what came before them is still put off.
func (m *transition) deferTask(b *bound, n *graph.Node, t *store.Task) (off bool, err error) {
	if !n.Batch || t.Journal || t.Claim != nil && t.Claim.Epoch != 0 {
		return false, nil
	}
	if _, paced := b.Steps[n.ID].(RateLimiter); !paced {
		return false, nil
	}
	key, bucket, err := m.bucketOf(t.Subject)
	if err != nil {
		return false, err
	}
	if bucket.Deferrals[t.Queue].Expedites(t.ID) {
		return false, nil
	}
	put, err := m.deferralOf(&bucket, t)
	if err != nil {
		return false, err
	}
	if put.Due.IsZero() {
		p := m.rateLimit(b, n, t, t.Subject)
		if p.Every == 0 || !m.now.Before(p.next(bucket.Full, m.now)) {
			return false, nil
		}
		put = store.Deferral{Due: p.next(bucket.Full, m.now), Every: p.Every}
	}
	if err := m.deferBatch(b, t, &put); err != nil {
		return false, err
	}
	if bucket.Deferrals == nil {
		bucket.Deferrals = map[string]store.Deferral{}
	}
	bucket.Deferrals[t.Queue] = put
	if err := store.Save(m.tx, key, bucket); err != nil {
		return true, err
	}
	return true, m.armLater()
}

// deferBatch takes t, and those behind it that one run would do with it, out of
// their queue.
func (m *transition) deferBatch(b *bound, t *store.Task, put *store.Deferral) error {
	if err := m.saveTop(); err != nil {
		return err
	}
	for other, err := range store.TasksFrom(m.tx, t.Queue, t.Slot) {
		if err != nil {
			return err
		}
		if other.ID != t.ID && (!b.alike(t, other) || !m.fits(costOf(other))) {
			return nil
		}
		if err := m.deferUntil(other, put); err != nil {
			return err
		}
	}
	return nil
}

// joinDeferred defers t, which was just put at the tail of its queue, if the rate limit of its hook
// still defers older tasks of that queue.
func (m *transition) joinDeferred(t *store.Task) error {
	b, n, err := m.e.boundTo(t)
	if err != nil {
		return nil // a task of an unknown node is dropped at its turn
	}
	if _, limited := b.Steps[n.ID].(RateLimiter); !limited || !n.Batch {
		return nil
	}
	key, bucket, err := m.bucketOf(t.Subject)
	if err != nil {
		return err
	}
	put, ok := bucket.Deferrals[t.Queue]
	if !ok || m.tx.Get(t.Key()) == nil {
		return nil // an equal task stays in its stead
	}
	for first, err := range store.LaterTasks(m.tx, store.LaterAt(put.Due)) {
		if err != nil {
			return err
		}
		if !sameLimit(t, first) {
			continue
		}
		if err := m.deferUntil(t, &put); err != nil {
			return err
		}
		bucket.Deferrals[t.Queue] = put
		return store.Save(m.tx, key, bucket)
	}
	return nil
}

// deferralOf returns what was put off of t's hook and queue, if any of it has yet
// to come in before t.
func (m *transition) deferralOf(bucket *store.Bucket, t *store.Task) (none store.Deferral, err error) {
	put, ok := bucket.Deferrals[t.Queue]
	if !ok {
		return none, nil
	}
	for first, err := range store.LaterTasks(m.tx, store.LaterAt(put.Due)) {
		if err != nil {
			return none, err
		}
		if !sameLimit(t, first) {
			continue
		}
		if first.ID.Before(t.ID) || m.now.Before(m.due(first)) {
			return put, nil
		}
		break
	}
	delete(bucket.Deferrals, t.Queue)
	return none, nil
}

// deferUntil takes t out of its queue until put is due.
func (m *transition) deferUntil(t *store.Task, put *store.Deferral) error {
	m.tx.Delete(t.Key())
	m.touch(t.Queue)
	t.Slot, t.Depth, t.Due, t.Every = 0, 0, put.Due, put.Every
	if t.Waits {
		m.tx.Put(uniqueKey(t), t.Key())
	}
	if err := m.follows(t); err != nil {
		return err
	}
	if err := m.save(t); err != nil {
		return err
	}
	if put.Tasks++; put.Tasks%mostEvents == 0 {
		return m.countBacklog(t)
	}
	return nil
}

// expedite puts t, which is due later, at the tail of its queue. If the rate limit of its hook deferred
// it, so are all tasks that were deferred with it, and the limit does not apply to them.
func (m *transition) expedite(t *store.Task) error {
	if t.IsHeld() {
		return m.heldError(t)
	}
	if t.Every == 0 {
		return m.bringIn(t)
	}
	key, bucket, err := m.bucketOf(t.Subject)
	if err != nil {
		return err
	}
	put := store.Deferral{Due: t.Due, Every: t.Every}
	if err := m.eachLater(func(other *store.Task) error {
		if sameLimit(t, other) && put.Expedited.Before(other.ID) {
			put.Expedited = other.ID
		}
		return nil
	}); err != nil {
		return err
	}
	if bucket.Deferrals == nil {
		bucket.Deferrals = map[string]store.Deferral{}
	}
	bucket.Deferrals[t.Queue] = put
	if err := store.Save(m.tx, key, bucket); err != nil {
		return err
	}
	return m.bringInExpedited()
}

// sameLimit reports whether other was deferred from t's queue by the rate limit of t's hook.
func sameLimit(t, other *store.Task) bool {
	return other.Every > 0 && other.Queue == t.Queue && other.Subject.Module == t.Subject.Module && other.Subject.Hook == t.Subject.Hook
}

// bringInExpedited puts the expedited tasks of all hooks at the tails of their queues, oldest first.
func (m *transition) bringInExpedited() error {
	err := m.eachLater(func(t *store.Task) error {
		if t.Every == 0 {
			return nil
		}
		if _, bucket, err := m.bucketOf(t.Subject); err != nil || !bucket.Deferrals[t.Queue].Expedites(t.ID) {
			return err
		}
		if !m.fits(costOf(t)) {
			m.continueWith(laterAlarm, (*transition).bringInExpedited)
			return errEnough
		}
		return m.bringIn(t)
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}
