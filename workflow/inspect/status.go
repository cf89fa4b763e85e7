package inspect

import (
	"cmp"
	"slices"
	"time"

	"addon-operator/store"
)

// A Status is a snapshot of the whole operator: whether something needs a person, what that is, and
// what the operator does now.
type Status struct {
	Schema int       `json:"schema"`
	At     time.Time `json:"at"`    // of the snapshot
	Epoch  uint64    `json:"epoch"` // of the last write to the store
	// Live is set where the operator runs.
	Live bool `json:"live"`
	// Attention is set if there are problems.
	Attention bool `json:"attention"`

	// Converged is the end of the last completed converge, ConvergedRun its run. Starting is set
	// if no converge has been completed in this start yet.
	Converged    time.Time `json:"converged,omitzero"`
	ConvergedRun uint64    `json:"convergedRun,omitempty"`
	Starting     bool      `json:"starting,omitempty"`

	// Stopped is when the last operator stopped cleanly; zero while one runs, or if it did not.
	Stopped time.Time `json:"stopped,omitzero"`

	// Problems begin with those of the disk and the API server, which affect everything, then of queues that stand still and of
	// hooks that hang in them, then pauses. The others are sorted by their runs, newest run first.
	Problems []Problem `json:"problems,omitempty"`
	// Findings are patterns that no problem shows, such as a crash loop, without their evidence. [Reader.Diagnose] has it.
	Findings []Finding `json:"findings,omitempty"`
	// Modules are sorted by their order and name.
	Modules []StatusModule `json:"modules"`
	// Queues are the queues with tasks: first those that do not move, then by name.
	Queues []StatusQueue `json:"queues,omitempty"`
	// Running are the tasks in progress, oldest first.
	Running []StatusTask `json:"running,omitempty"`
	// Later is the number of tasks that are in no queue: they are due later, or held. Of each kind,
	// up to 50,000 are counted.
	Later int `json:"later,omitempty"`

	// Lost is the last span of which the store knows nothing, for seven days; nil if there is none.
	Lost *store.LostSpan `json:"lost,omitempty"`

	// Requests are those to the API server; nil where no operator runs.
	Requests *Requests `json:"requests,omitempty"`

	Operator StatusOperator `json:"operator"`
}

// A StatusOperator is the part of a status that is not in the store.
type StatusOperator struct {
	Version string `json:"version,omitempty"`
	// Started is the start of the process.
	Started time.Time `json:"started,omitzero"`
	// Standby names the operator that this one waits for, empty where it works. StandbySince is since when it waits.
	Standby      string    `json:"standby,omitempty"`
	StandbySince time.Time `json:"standbySince,omitzero"`
	// Store is the path of the store, StoreBytes the size of the file, FreeBytes the room on its disk, nil if it
	// is not known.
	Store      string  `json:"store,omitempty"`
	StoreBytes int64   `json:"storeBytes,omitempty"`
	FreeBytes  *uint64 `json:"freeBytes,omitempty"`
	// Aside are the paths of stores of other clusters beside Store, which were there before it. AsideSince is when the last of
	// them was renamed.
	Aside      []string  `json:"aside,omitempty"`
	AsideSince time.Time `json:"asideSince,omitzero"`
	// Skew is by how much the clock of the API server is ahead of the clock of the operator, negative if it is behind; 0 if
	// they differ by a few seconds at most. SkewSince is when the operator noticed it.
	Skew      time.Duration `json:"clockSkew,omitempty"`
	SkewSince time.Time     `json:"clockSkewSince,omitzero"`
	// Lease describes the Lease, empty where no operator runs.
	Lease string `json:"lease,omitempty"`
}

// A StatusModule is one module in a [Status].
type StatusModule struct {
	Name  string `json:"name"`
	Order int    `json:"order"`
	ModuleStatus
	// LastRun is the workflow run in which a run of the module ended last, and LastRunAt the time of that.
	LastRun   uint64    `json:"lastRun,omitempty"`
	LastRunAt time.Time `json:"lastRunAt,omitzero"`
	// Revision is that of its Helm release, 0 if it has none.
	Revision int `json:"revision,omitempty"`
}

// A StatusQueue is one queue with tasks in a [Status].
type StatusQueue struct {
	Name  string `json:"name"`
	Tasks int    `json:"tasks"`
	More  bool   `json:"more,omitempty"` // there are still more tasks than were counted
	Head  Ref    `json:"head"`
	// Since is when the task at the head was added to the queue, or first failed.
	Since time.Time `json:"since,omitzero"`
	// Wait says why the head is not being done; nil if it is, or if another task of the queue is.
	Wait *Wait `json:"wait,omitempty"`
}

// Moves reports whether a task of q runs or is about to.
func (q *StatusQueue) Moves() bool { return q.Wait == nil || q.Wait.For == ForWorker }

// A StatusTask is a task in progress.
type StatusTask struct {
	Ref
	Since time.Time `json:"since"`
	// Slow is set if the run of its hook takes far longer than any before.
	Slow bool `json:"slow,omitempty"`
}

// Status returns a snapshot of the whole operator. The argument is what the operator that answers, or the program that reads a
// stopped store, says of itself.
func (r *Reader) Status(tx *store.Tx, operator StatusOperator) (*Status, error) {
	s, err := r.look(tx)
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
	if status.Lost, err = s.lost(); err != nil {
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

// findings looks for the patterns of now that no problem shows.
func (status *Status) findings(r *Reader, s *scan) error {
	d := &diagnostician{evidence: &evidence{reader: r, scan: s, problems: status.Problems}, operator: status.Operator}
	for _, look := range []func() ([]Finding, error){d.otherCluster, d.disk, d.future, d.crashes, d.loops, d.storms} {
		found, err := look()
		if err != nil {
			return err
		}
		for _, f := range found {
			status.Findings = append(status.Findings, Finding{Pattern: f.Pattern, Text: f.Text, Since: cmp.Or(f.Since, f.since(s.now))})
		}
	}
	return nil
}

// reach returns how much the problem stops: 0 is everything.
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

// stopped returns when the last operator stopped cleanly; zero while one runs, or if it did not.
func (r *Reader) stopped(s *scan) (at time.Time, _ error) {
	if r.Live {
		return at, nil
	}
	for start, err := range store.StartsBackwards(s.tx) {
		return start.Ended, err
	}
	return at, nil
}

// converge reads how far the start is.
func (status *Status) converge(s *scan) error {
	startup, _, err := load[store.Startup](s.unreadable, store.StartupKey())
	if err != nil {
		return err
	}
	status.Converged, status.ConvergedRun = startup.ConvergedAt, startup.Converged
	status.Starting = startup.Converged < startup.StartRun || startup.Converged == 0
	return nil
}

// modules reads the modules.
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

// queues reads the queues and the tasks in progress.
func (status *Status) queues(r *Reader, s *scan) error {
	for _, name := range s.names {
		q := s.queues[name]
		wait, err := s.wait(&spot{Task: q.head, top: q.head})
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

// headSince returns since when t is at the head of its queue, as far as its record says.
func headSince(t *store.Task) time.Time {
	if t.Failed != nil {
		return cmp.Or(t.Failed.Since, t.Failed.At)
	}
	return t.Queued
}

// isSlow reports whether the run of task's hook takes far longer than any before.
func (r *Reader) isSlow(task store.ID) bool {
	return slices.ContainsFunc(r.Slow, func(p Problem) bool { return p.Task == task })
}
