package inspect

import (
	"cmp"
	"slices"
	"time"

	"addon-operator/store"
)

// A Status is a snapshot of the whole operator: whether something needs attention, the problems, and the
// current work.
type Status struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"`    // time of the snapshot
	Epoch  uint64    `json:"epoch"` // epoch of the last write to the store
	// Live is set if the snapshot was made by the running operator.
	Live bool `json:"live"`
	// Attention is set if there are problems or findings.
	Attention bool `json:"attention"`

	// Converged is the end of the last completed converge, and ConvergedRun is its run. Starting is
	// set if no converge has been completed in this start yet.
	Converged    time.Time `json:"converged,omitzero"`
	ConvergedRun uint64    `json:"convergedRun,omitempty"`
	Starting     bool      `json:"starting,omitempty"`

	// Stopped is the time at which the last operator stopped cleanly. Stopped is zero if an operator runs, or if the
	// last one did not stop cleanly.
	Stopped time.Time `json:"stopped,omitzero"`

	// Problems is sorted by reach. The problems of the disk and of the API server are first, because they
	// affect all work. Stalled queues, slow steps and pauses follow. The other problems are sorted by
	// run, newest first.
	Problems []Problem `json:"problems,omitempty"`
	// Findings has the current findings that are not about one problem, such as a crash loop. Only
	// [Reader.Diagnose] returns findings with evidence.
	Findings []Finding `json:"findings,omitempty"`
	// Modules is sorted by order, then by name.
	Modules []StatusModule `json:"modules"`
	// Queues has the queues with tasks: first the blocked queues, then the others, both sorted by name.
	Queues []StatusQueue `json:"queues,omitempty"`
	// Running has the running tasks. The task that has run longest is first.
	Running []StatusTask `json:"running,omitempty"`
	// Later is the number of deferred and held tasks, which are in no queue. Up to 50,000 deferred and
	// 50,000 held tasks are counted.
	Later int `json:"later,omitempty"`

	// Lost is as in [Run].
	Lost *store.LostSpan `json:"lost,omitempty"`

	// Requests describes the requests to the API server; nil if no operator runs.
	Requests *Requests `json:"requests,omitempty"`

	Operator StatusOperator `json:"operator"`
}

// A StatusOperator is the part of a status that is not in the store.
type StatusOperator struct {
	Version string `json:"version,omitempty"`
	// Namespace is the namespace of the running operator; empty if no operator runs.
	Namespace string `json:"namespace,omitempty"`
	// Started is the start of the process.
	Started time.Time `json:"started,omitzero"`
	// Standby is as in [Run]. StandbySince is the time at which the wait began. StandbyError is the error with which
	// this operator could not read or acquire the Lease; empty if another operator holds the Lease.
	Standby      string    `json:"standby,omitempty"`
	StandbySince time.Time `json:"standbySince,omitzero"`
	StandbyError string    `json:"standbyError,omitempty"`
	// Store is the path of the store, and StoreBytes is the size of its file. FreeBytes is the free space
	// on its disk; nil if it is not known.
	Store      string  `json:"store,omitempty"`
	StoreBytes int64   `json:"storeBytes,omitempty"`
	FreeBytes  *uint64 `json:"freeBytes,omitempty"`
	// Aside has the paths of stores of other clusters. The operator found these stores at the path of Store, and
	// renamed them. AsideSince is the time at which it last renamed a store.
	Aside      []string  `json:"aside,omitempty"`
	AsideSince time.Time `json:"asideSince,omitzero"`
	// Skew is the time by which the clock of the API server is ahead of the clock of the operator. Skew is negative if
	// the clock of the API server is behind, and 0 if the clocks differ by at most a few seconds. SkewSince is the time
	// at which the operator noticed the difference.
	Skew      time.Duration `json:"clockSkew,omitempty"`
	SkewSince time.Time     `json:"clockSkewSince,omitzero"`
	// Lease describes the Lease; empty if no operator runs.
	Lease string `json:"lease,omitempty"`
}

// A StatusModule is one module in a [Status].
type StatusModule struct {
	Name  string `json:"name"`
	Order int    `json:"order"`
	ModuleStatus
	// LastRun is the workflow run in which the last run of the module ended, and LastRunAt is the time of
	// this end.
	LastRun   uint64    `json:"lastRun,omitempty"`
	LastRunAt time.Time `json:"lastRunAt,omitzero"`
	// Revision is the revision of the module's Helm release; 0 if there is no release.
	Revision int `json:"revision,omitempty"`
}

// A StatusQueue is one queue with tasks in a [Status].
type StatusQueue struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"`
	More  bool   `json:"more,omitempty"` // the queue has more tasks than were counted
	Head  Ref    `json:"head"`
	// Since is the time at which the task at the head was created. If the task has failed, Since is the time of the
	// first of the consecutive failures.
	Since time.Time `json:"since,omitzero"`
	// Wait says why the task at the head does not run; nil if that task or another task of the
	// queue runs.
	Wait *Wait `json:"wait,omitempty"`
}

// Moves reports whether a task of q runs or is about to run.
func (q *StatusQueue) Moves() bool { return q.Wait == nil || q.Wait.For == ForWorker }

// A StatusTask is a running task.
type StatusTask struct {
	Ref
	Since time.Time `json:"since"`
	// Slow is set if the hook runs much longer than before, or if the task waits long for a Helm hook.
	Slow bool `json:"slow,omitempty"`
}

// Status returns a snapshot of the whole operator. operator is the part of the status that is not
// in the store.
func (r *Reader) Status(tx *store.Tx, operator StatusOperator) (*Status, error) {
	s, err := r.scan(tx)
	if err != nil {
		return nil, err
	}
	status := &Status{Schema: Schema, At: s.now, Epoch: s.epoch, Live: r.Live, Later: len(s.late), Requests: r.Requests, Modules: []StatusModule{}, Operator: operator}
	if status.Problems, err = r.problems(s); err != nil {
		return nil, err
	}
	if status.Stopped, err = r.stopped(s); err != nil {
		return nil, err
	}
	if err := status.converge(s); err != nil {
		return nil, err
	}
	if err := status.modules(s); err != nil {
		return nil, err
	}
	if err := status.queues(r, s); err != nil {
		return nil, err
	}
	if status.Lost, err = lostSpan(s.unreadable, s.now); err != nil {
		return nil, err
	}
	rest, err := r.others(s)
	if err != nil {
		return nil, err
	}
	status.Problems = withoutReviews(append(status.Problems, rest...))
	slices.SortStableFunc(status.Problems, func(a, b Problem) int { return cmp.Compare(a.reach(), b.reach()) })
	if err := status.findings(r, s); err != nil {
		return nil, err
	}
	status.Attention = len(status.Problems)+len(status.Findings) > 0
	return status, nil
}

// findings searches for the current patterns that are not about one problem.
func (status *Status) findings(r *Reader, s *scan) error {
	d := &diagnostician{evidence: &evidence{reader: r, scan: s, problems: status.Problems}, operator: status.Operator}
	for _, layout := range []func() ([]Finding, error){d.unavailableLease, d.otherCluster, d.disk, d.future, d.crashes, d.loops, d.storms} {
		found, err := layout()
		if err != nil {
			return err
		}
		for _, f := range found {
			status.Findings = append(status.Findings, Finding{Pattern: f.Pattern, Text: f.Text, Since: cmp.Or(f.Since, f.since(s.now))})
		}
	}
	return nil
}

// reach returns a number for the amount of work that the problem affects: 0 if it stops all work, and a
// greater number for a smaller amount.
func (r *Problem) reach() int {
	switch r.Kind {
	case KindFull:
		return 0
	case KindAPIServer:
		return 1
	case KindStalled, KindSlow:
		return 2
	case KindPaused:
		return 3
	default:
		return 4
	}
}

// stopped returns the time at which the last operator stopped cleanly. The time is zero if an operator runs, or if the
// last one did not stop cleanly.
func (r *Reader) stopped(s *scan) (at time.Time, _ error) {
	if r.Live {
		return at, nil
	}
	for start, err := range store.StartsBackwards(s.tx) {
		return start.Ended, err
	}
	return at, nil
}

// converge sets the fields about the last converge.
func (status *Status) converge(s *scan) error {
	startup, _, err := load[store.Startup](s.unreadable, store.StartupKey())
	if err != nil {
		return err
	}
	status.Converged, status.ConvergedRun = startup.ConvergedAt, startup.Converged
	status.Starting = !startup.HasConverged()
	return nil
}

// modules sets status.Modules. status.Problems must be set.
func (status *Status) modules(s *scan) error {
	states, err := s.modules(status.Problems)
	if err != nil {
		return err
	}
	for name, is := range states.Modules {
		m, _, err := load[store.Module](s.unreadable, store.ModuleKey(name))
		if err != nil {
			return err
		}
		release, _, err := load[store.Release](s.unreadable, store.ReleaseKey(name))
		if err != nil {
			return err
		}
		status.Modules = append(status.Modules, StatusModule{
			Name: name, Order: m.Order, ModuleStatus: is, LastRun: m.RanIn, LastRunAt: m.RanAt, Revision: release.Revision,
		})
	}
	slices.SortFunc(status.Modules, func(a, b StatusModule) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return nil
}

// queues sets status.Queues and status.Running.
func (status *Status) queues(r *Reader, s *scan) error {
	for _, name := range s.names {
		q := s.queues[name]
		wait, err := s.wait(&pendingTask{Task: q.head, top: q.head})
		if err != nil {
			return err
		}
		if q.busy != nil {
			wait = nil
		}
		status.Queues = append(status.Queues, StatusQueue{
			Name: name, Tasks: q.tasks(), More: q.more, Head: s.ref(q.head), Since: headSince(q.head), Wait: wait,
		})
		if t := cmp.Or(q.busy, q.head); s.claimed(t) {
			status.Running = append(status.Running, StatusTask{Ref: s.ref(t), Since: t.Claim.Since, Slow: r.isSlow(t.ID)})
		}
	}
	slices.SortStableFunc(status.Queues, func(a, b StatusQueue) int {
		switch {
		case a.Moves() == b.Moves():
			return 0
		case b.Moves():
			return -1
		default:
			return 1
		}
	})
	slices.SortStableFunc(status.Running, func(a, b StatusTask) int { return a.Since.Compare(b.Since) })
	return nil
}

// headSince returns [StatusQueue.Since] for the task t at the head of a queue.
func headSince(t *store.Task) time.Time {
	since := t.Queued
	for f := t.Failed; f != nil; f = f.Before {
		if first := cmp.Or(f.Since, f.At); f == t.Failed || first.Before(since) {
			since = first
		}
	}
	return since
}

// isSlow reports whether the hook of the task runs much longer than before, or whether the task waits long for a Helm
// hook.
func (r *Reader) isSlow(task store.ID) bool {
	return slices.ContainsFunc(r.Slow, func(p Problem) bool { return p.Task == task })
}
