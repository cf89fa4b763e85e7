package triggers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/internal/kube"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// repairFirst and repairLongest are the shortest and the longest time between two repairs of a
// release that loses the same objects repeatedly.
const (
	repairFirst   = 5 * time.Second
	repairLongest = 5 * time.Minute
)

// An Absent raises an event when an object of an installed release no longer exists in the cluster, unless a hook of
// the module has deleted the object. The first event is raised at once or, if a run or deletion of the module is in
// progress, after its end. For an object that disappears again and again, the time between events grows, up to five
// minutes.
type Absent struct {
	// Delivered is called for each raised event, after the event is committed, with the absent objects.
	// Delivered must be set before Run, and can be nil.
	Delivered func(release string, absent []kube.Ref)

	db       *store.DB
	engine   workflow.Raiser
	absences *kube.Absences
	changed  *store.ChangedKeys // keys of changed records; see absentKeys
	waited   chan struct{}      // receives a value when the wait of a release has ended; see [Absent.after]

	mu      sync.Mutex
	stale   map[string]bool                  // releases to read again; guarded by mu
	watched map[string]string                // last registered revision and objects of each release; guarded by mu
	repairs map[string]map[kube.Ref]*repairs // by release and object; guarded by mu
	waiting map[string]time.Time             // when the absent objects of a release are reported again; guarded by mu
}

// repairs is the recent history of the repairs of an object.
type repairs struct {
	delays *backoff.ExponentialBackOff
	next   time.Time // earliest time of the next repair
}

// absentKeys are the prefixes of the records that an Absent follows: releases; modules, because the run or deletion of
// a module may have ended; and bindings, because a Synchronization may have ended.
var absentKeys = []store.Key{store.At(store.Releases), store.At(store.Modules), store.At(store.Bindings)}

// NewAbsent returns an Absent for releases whose objects carry the given labels.
func NewAbsent(db *store.DB, engine workflow.Raiser, kinds *kube.Kinds, labels string, observer kube.Observer) *Absent {
	a := &Absent{
		db: db, engine: engine, changed: store.NewChangedKeys(db, absentKeys...),
		waited: make(chan struct{}, 1), stale: map[string]bool{}, watched: map[string]string{},
		repairs: map[string]map[kube.Ref]*repairs{}, waiting: map[string]time.Time{},
	}
	a.absences = kube.NewAbsences(kinds, labels, a.raiseAbsent, observer)
	return a
}

// Run watches the objects of the installed releases, and raises events for absent objects, until
// ctx is done. If the record of a release cannot be read, Run does not watch the objects of this
// release until the record changes.
func (a *Absent) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { a.absences.Run(watching) })
	defer running.Wait()
	defer stop() // before the wait, because otherwise an error would be returned only when ctx is done
	if err := a.followAll(); err != nil {
		return fmt.Errorf("read releases: %w", err)
	}
	for {
		if err := a.follow(); err != nil && ctx.Err() == nil {
			return fmt.Errorf("read releases: %w", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.changed.C():
		case <-a.waited:
		}
	}
}

// followAll makes the next call of follow read all releases in the store.
func (a *Absent) followAll() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.db.View(func(tx *store.Tx) error {
		for k := range tx.Range(store.At(store.Releases)) {
			if err := a.readAgain(k); err != nil {
				return err
			}
		}
		return nil
	})
}

// readAgain makes the next call of follow read one release. k is the key of the record of the release, of its module,
// or of a binding of this module. The caller must hold a.mu.
func (a *Absent) readAgain(k store.Key) error {
	p, err := k.Parts()
	if err == nil {
		a.stale[p.Str()] = true
	}
	return err
}

// follow reads the changed releases. If the record of a release exists and can be read, follow watches the objects of
// the release; otherwise it stops watching them.
func (a *Absent) follow() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range a.changed.Take() {
		if err := a.readAgain(k); err != nil {
			return err
		}
	}
	return a.db.View(func(tx *store.Tx) error {
		for _, name := range slices.Sorted(maps.Keys(a.stale)) {
			r, ok, err := store.Load[store.Release](tx, store.ReleaseKey(name))
			if err != nil && unreadable(err, store.Releases) == nil {
				return err
			}
			delete(a.stale, name)
			if !ok {
				delete(a.watched, name)
				delete(a.repairs, name)
				a.absences.Unregister(name)
				continue
			}
			refs := refsOf(r)
			seen := fmt.Sprintf("%d %v", r.Revision, refs)
			if a.watched[name] != seen {
				a.watched[name] = seen
				a.absences.Register(name, refs)
			}
		}
		return nil
	})
}

// refsOf returns the objects that r should have: all except those that hooks of its module have
// deleted.
func refsOf(r store.Release) []kube.Ref {
	refs := make([]kube.Ref, 0, len(r.Objects))
	for _, o := range r.Objects {
		if !r.Lacks(o) {
			refs = append(refs, kube.Ref(o))
		}
	}
	return refs
}

// raiseAbsent raises an event for a release with absent objects. If a run or deletion of the module
// is in progress, or if the next repair must wait, raiseAbsent makes the trigger report the release
// again later instead.
func (a *Absent) raiseAbsent(ctx context.Context, release string, absent []kube.Ref) error {
	if len(absent) == 0 {
		return nil
	}
	return a.db.UpdateWithRoom(ctx, func(tx *store.Tx) error {
		r, ok, err := store.Load[store.Release](tx, store.ReleaseKey(release))
		if err != nil || !ok {
			return err
		}
		absent := slices.DeleteFunc(slices.Clone(absent), func(o kube.Ref) bool { return r.Lacks(store.Object(o)) })
		if len(absent) == 0 {
			return nil
		}
		now := tx.Now()
		if busy, err := workedAt(tx, release); busy || err != nil {
			// Call reportAgain before the commit, because the same commit may contain the end of the run, and the
			// goroutine that calls follow wakes at that end. If the commit fails, the absent objects are reported once
			// more than necessary.
			a.reportAgain(release)
			// The end of the run changes no followed record if, for example, somebody skips the failing task.
			tx.OnCommit(func() { a.after(release, repairLongest, now) })
			return err
		}
		if due := a.due(release, absent, now); due > 0 {
			tx.OnCommit(func() { a.after(release, due, now) })
			return nil
		}
		tx.OnCommit(func() {
			a.answered(release, absent, now)
			if a.Delivered != nil {
				a.Delivered(release, absent)
			}
		})
		return a.engine.Raise(tx, absentEvent(release, absent))
	})
}

// workedAt reports whether a run or deletion of the release's module is in progress at the head of a queue, or behind
// tasks that were put in front of it. The steps of the run or deletion may delete objects of the release, so the
// release is checked again after they have ended.
func workedAt(tx *store.Tx, release string) (bool, error) {
	for queue, err := range store.AllQueues(tx) {
		if err != nil {
			return false, err
		}
		for t, err := range store.Tasks(tx, queue) {
			if err != nil {
				return false, err
			}
			n, ok := lifecycle.Graph.Node(graph.NodeID(t.Node))
			if ok && !n.Batch && t.Subject.Module == release && !t.Waits {
				return true, nil
			}
			if t.Slot >= store.FirstSlot {
				break
			}
		}
	}
	return false, nil
}

// reportAgain makes the trigger report the absent objects of the release again when it next reads
// this release.
func (a *Absent) reportAgain(release string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.watched, release)
}

func absentEvent(release string, absent []kube.Ref) workflow.Event {
	detail := ""
	if len(absent) > 1 {
		detail = fmt.Sprintf("and %d more", len(absent)-1)
	}
	return workflow.Event{
		On: lifecycle.OnResourcesAbsent, Subject: graph.Subject{Module: release},
		Cause: store.Cause{Object: absent[0].String(), Event: string(kube.Deleted), Detail: detail},
	}
}

// due returns how long the next repair of the release must wait: the shortest wait of its absent objects. If the result
// is zero, a repair can begin at once. A wait that is longer than repairLongest means that the clock was set back, so
// due returns zero.
func (a *Absent) due(release string, absent []kube.Ref, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	wait := repairLongest
	for _, ref := range absent {
		h := a.repairs[release][ref]
		if h == nil || now.Sub(h.next) > 2*repairLongest || h.next.Sub(now) > repairLongest {
			return 0
		}
		wait = min(wait, h.next.Sub(now))
	}
	return max(wait, 0)
}

// answered is called when an event for the absent objects was raised. It delays the next repair of each of these
// objects. now is the time of the event.
func (a *Absent) answered(release string, absent []kube.Ref, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.repairs[release] == nil {
		a.repairs[release] = map[kube.Ref]*repairs{}
	}
	maps.DeleteFunc(a.repairs[release], func(_ kube.Ref, h *repairs) bool { return now.Sub(h.next) > 2*repairLongest })
	for _, ref := range absent {
		h := a.repairs[release][ref]
		if h == nil {
			h = &repairs{delays: backoff.NewExponentialBackOff(
				backoff.WithInitialInterval(repairFirst), backoff.WithMultiplier(2), backoff.WithRandomizationFactor(0),
				backoff.WithMaxInterval(repairLongest), backoff.WithMaxElapsedTime(0),
			)}
			a.repairs[release][ref] = h
		}
		h.next = now.Add(h.delays.NextBackOff())
	}
}

// after makes the trigger report the absent objects of the release again when the wait has ended, unless an earlier
// call does so earlier. now is the current time.
func (a *Absent) after(release string, wait time.Duration, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	end := now.Add(wait)
	if first, ok := a.waiting[release]; ok && !end.Before(first) {
		return
	}
	a.waiting[release] = end
	time.AfterFunc(wait, func() {
		a.mu.Lock()
		if !a.waiting[release].Equal(end) { // a later call has started a timer that ends first
			a.mu.Unlock()
			return
		}
		delete(a.waiting, release)
		delete(a.watched, release)
		a.stale[release] = true
		a.mu.Unlock()
		select {
		case a.waited <- struct{}{}:
		default:
		}
	})
}
