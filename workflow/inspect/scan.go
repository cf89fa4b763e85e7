package inspect

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
)

// mostCounted is the maximum number of tasks that are read from one queue, and from each of the tables
// of deferred and of held tasks. If a queue has more tasks, its field more is set.
const mostCounted = 50_000

// mostNamed is the maximum number of tasks that are named in a list of waiting tasks.
const mostNamed = 3

// A scan is the result of reading all queues. A scan has the heads of queues and the failed tasks,
// and the positions of all other tasks. [scan.of] also decodes the tasks of one run.
type scan struct {
	tx     *store.Tx
	now    time.Time
	epoch  uint64
	live   bool
	queues map[string]*queue
	names  []string         // names of the queues, sorted
	mine   []*pendingTask   // tasks of the run for which [scan.of] was called
	failed []*pendingTask   // tasks whose last attempt failed
	late   []lateTask       // tasks in no queue: up to mostCounted deferred ones and up to mostCounted held ones
	kept   map[store.ID]int // number of tasks that an item in quarantine or a pause holds, by its ID

	subjects subjects // subjects of the counted tasks in queues

	unreadable *unreadable
}

// A queue has the data of one queue.
type queue struct {
	name    string
	head    *store.Task // the first task that can be read
	busy    *store.Task // the task that runs although other tasks were put before it
	more    bool        // the queue has more tasks than were counted
	entries []entry     // the counted tasks, in order
}

// tasks returns the number of counted tasks.
func (q *queue) tasks() int { return len(q.entries) }

// An entry has the position of a task in its queue, and the run and the subject of the task.
type entry struct {
	slot  uint64
	run   uint64
	depth uint32 // depth in its slot

	subject int32 // number of the subject in [scan.subjects]
}

// A lateTask is a deferred or held task, which is in no queue.
type lateTask struct {
	key store.Key
	run uint64
}

// A pendingTask is a task with its position in its queue.
type pendingTask struct {
	*store.Task
	before int         // number of tasks in earlier slots
	above  int         // number of tasks in its slot that are processed before it
	depth  int         // number of tasks in its slot
	top    *store.Task // top task of its slot
	later  bool        // the task is deferred or held, and in no queue
}

// scanQueues reads all queues, and the deferred and held tasks.
func scanQueues(tx *store.Tx, live bool) (*scan, error) {
	s := &scan{subjects: subjects{numbers: map[string]int32{}}, tx: tx, now: tx.Now(), epoch: tx.Epoch(), live: live, queues: map[string]*queue{}, unreadable: &unreadable{tx: tx}}
	for name, err := range store.AllQueues(tx) {
		if err != nil {
			return nil, err
		}
		q, err := s.queue(name)
		if err != nil {
			return nil, err
		}
		if q.head == nil {
			continue // no task of the queue can be read
		}
		s.queues[name] = q
		s.names = append(s.names, name)
		if err := s.findBusy(q); err != nil {
			return nil, err
		}
	}
	return s, errors.Join(s.lanes(), s.outOfQueues())
}

// of returns a copy of the scan with the decoded tasks of run.
func (s *scan) of(run uint64) (*scan, error) {
	own := *s
	own.mine = nil
	for _, name := range s.names {
		q := s.queues[name]
		for i := range q.entries {
			if q.entries[i].run != run {
				continue
			}
			at, err := s.pendingTask(q, i)
			if err := s.unreadable.pass(err); err != nil {
				return nil, err
			}
			if at != nil && at.Run == run {
				own.mine = append(own.mine, at)
			}
		}
	}
	for _, late := range s.late {
		if late.run != run {
			continue
		}
		t, ok, err := store.LoadAt(s.tx, late.key)
		if err := s.unreadable.pass(err); err != nil {
			return nil, err
		}
		if ok {
			own.mine = append(own.mine, &pendingTask{Task: t, top: t, later: true})
		}
	}
	return &own, nil
}

// queue reads the tasks of one queue.
func (s *scan) queue(name string) (*queue, error) {
	q := &queue{name: name}
	prefix := store.QueueKey(name)
	var failed []int
	for k, v := range s.tx.Skim(prefix) {
		if q.tasks() == mostCounted {
			q.more = true
			break
		}
		pos, err := store.ParsePosInQueue(k[len(prefix):])
		if err != nil {
			return nil, err
		}
		subject, rest, known := subjectOf(v)
		run, found := leadingRun(rest)
		if !found {
			run = runOf(v)
		}
		q.entries = append(q.entries, entry{pos.Slot, run, pos.Depth, s.subjects.number(subject, known)})
		if q.head == nil {
			q.head, _, err = store.LoadTask(s.tx, q.pos(q.tasks()-1))
			if err := s.unreadable.pass(err); err != nil {
				return nil, err
			}
		}
		if hasFailed(v) {
			failed = append(failed, q.tasks()-1)
		}
	}
	for _, i := range failed {
		at, err := s.pendingTask(q, i)
		if err := s.unreadable.pass(err); err != nil {
			return nil, err
		}
		if at != nil && at.Failed != nil {
			s.failed = append(s.failed, at)
		}
	}
	return q, nil
}

// tasks yields the tasks of a table for which mayBe returns true. Only these tasks are decoded.
func (s *scan) tasks(table store.Table, mayBe func(k store.Key, text []byte) bool) iter.Seq2[*store.Task, error] {
	return func(yield func(*store.Task, error) bool) {
		for k, v := range s.tx.Skim(store.At(table)) {
			if !mayBe(k, v) {
				continue
			}
			t, ok, err := store.LoadAt(s.tx, k)
			if err = s.unreadable.pass(err); !ok && err == nil {
				continue
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

// pos returns the position of the i-th task of q.
func (q *queue) pos(i int) store.Pos {
	return store.Pos{Queue: q.name, Slot: q.entries[i].slot, Depth: q.entries[i].depth}
}

// pendingTask reads the i-th task of q, with its position. pendingTask returns nil if the task does
// not exist.
func (s *scan) pendingTask(q *queue, i int) (*pendingTask, error) {
	t, ok, err := store.LoadTask(s.tx, q.pos(i))
	if err != nil || !ok {
		return nil, err
	}
	first, end := i, i+1
	for first > 0 && q.entries[first-1].slot == t.Slot {
		first--
	}
	for end < q.tasks() && q.entries[end].slot == t.Slot {
		end++
	}
	at := &pendingTask{Task: t, before: first, above: i - first, depth: end - first, top: t}
	for ; first < i; first++ {
		top, ok, err := store.LoadTask(s.tx, q.pos(first))
		if err := s.unreadable.pass(err); err != nil {
			return nil, err
		}
		if ok {
			at.top = top
			break
		}
	}
	return at, nil
}

// findBusy sets q.busy if the running task of q is not at the head. A running task is not at the head if other tasks
// are put at the front of q while the task runs. The search ends at the first task that was added at the tail, because
// no task behind it can run.
func (s *scan) findBusy(q *queue) error {
	if q.head.Slot >= store.FirstSlot || s.claimed(q.head) {
		return nil
	}
	for t, err := range readable(s.unreadable, store.Tasks(s.tx, q.head.Queue)) {
		if err != nil {
			return err
		}
		if s.claimed(t) {
			q.busy = t
			return nil
		}
		if t.Slot >= store.FirstSlot {
			return nil
		}
	}
	return nil
}

// outOfQueues reads the runs of the deferred and held tasks, and the deferred tasks whose last attempt failed. Such a
// task waits for the rate limit of its hook.
func (s *scan) outOfQueues() error {
	for _, table := range []store.Table{store.Deferred, store.Held} {
		looked := 0
		for k, v := range s.tx.Range(store.At(table)) {
			if looked++; looked > mostCounted {
				break
			}
			run := runOf(v)
			if run == 0 || v[0] != '{' { // the record is unusual, and possibly damaged
				t, _, err := store.LoadAt(s.tx, k)
				if err != nil {
					if err := s.unreadable.pass(err); err != nil {
						return err
					}
					continue
				}
				run = t.Run
			}
			s.late = append(s.late, lateTask{k, run})
			if table != store.Deferred || !hasFailed(v) {
				continue
			}
			t, ok, err := store.LoadAt(s.tx, k)
			if err := s.unreadable.pass(err); err != nil {
				return err
			}
			if ok && t.Failed != nil {
				s.failed = append(s.failed, &pendingTask{Task: t, top: t, later: true})
			}
		}
	}
	return nil
}

// newest returns the newest run that has a deferred or held task; 0 if there is none.
func (s *scan) newest() (run uint64) {
	for _, late := range s.late {
		run = max(run, late.run)
	}
	return run
}

// lanes counts the tasks that items in quarantine and pauses hold.
func (s *scan) lanes() error {
	s.kept = map[store.ID]int{}
	for l, err := range readable(s.unreadable, store.AllLanes(s.tx)) {
		if err != nil {
			return err
		}
		if by := l.Reason.By; !l.Open && !by.IsZero() {
			s.kept[by] += l.Tasks
		}
	}
	return nil
}

// more reports whether a queue has more tasks than were read.
func (s *scan) more() bool {
	for _, q := range s.queues {
		if q.more {
			return true
		}
	}
	return false
}

// claimed reports whether t is running.
func (s *scan) claimed(t *store.Task) bool {
	return s.live && t.Claim != nil && t.Claim.Epoch == s.epoch
}

// covered reports whether t is part of a running batch: the running attempt of its queue processes t
// together with an earlier task.
func (s *scan) covered(t *store.Task) bool {
	q := s.queues[t.Queue]
	if q == nil {
		return false
	}
	runs := q.busy
	if runs == nil {
		runs = q.head
	}
	return s.claimed(runs) && runs.Slot < t.Slot && t.Slot <= runs.Claim.End
}

// state returns the state of a pending task.
func (s *scan) state(t *store.Task) State {
	switch {
	case t.IsHeld():
		return Waiting
	case s.claimed(t), s.covered(t):
		return Running
	case t.Failed != nil && !t.Due.IsZero():
		return Backoff
	case t.Claim != nil && t.Claim.Epoch != 0:
		return Interrupted
	default:
		return Waiting
	}
}

// ref returns a reference to t. If t has failed, the reference names the step that failed.
func (s *scan) ref(t *store.Task) Ref {
	r := Ref{
		Task: t.ID, Run: t.Run, Node: t.Node, Subject: t.Subject, Queue: t.Queue, State: s.state(t),
	}
	if f := t.Failed; f != nil {
		r.Node, r.Subject, r.Due = f.Node, f.Subject, t.Due
	}
	return r
}

// wait returns the reason why a pending task does not run; nil if the task runs.
func (s *scan) wait(at *pendingTask) (*Wait, error) {
	t := at.Task
	q := s.queues[t.Queue]
	switch {
	case at.later: // the task is in no queue, so it waits for no other task of a queue
	case s.claimed(t), s.covered(t):
		return nil, nil
	case at.above > 0:
		return &Wait{For: ForStep, Ahead: at.above, On: []Ref{s.ref(at.top)}}, nil
	case at.before > 0:
		return &Wait{For: ForQueue, Ahead: at.before, On: []Ref{s.ref(q.head)}}, nil
	case q.busy != nil:
		return &Wait{For: ForRunning, Ahead: 1, On: []Ref{s.ref(q.busy)}}, nil
	}
	reason, err := workflow.BlockedBy(s.tx, t)
	switch {
	case err != nil && s.unreadable.pass(err) != nil:
		return nil, err
	case reason != nil:
		return s.blocked(t, reason)
	case !s.live:
		return &Wait{For: ForStart}, nil
	}
	return &Wait{For: ForWorker}, nil
}

// waitsFor maps each kind of reason in the store to a Reason.
var waitsFor = map[store.ReasonKind]Reason{
	store.AwaitsStart: ForHold, store.AwaitsRelease: ForHold, store.AwaitsLimit: ForLimit, store.AwaitsDelay: ForTime,
	store.AwaitsResume: ForHold, store.AwaitsQueue: ForPause,
	store.AwaitsRetry: ForRetry, store.AwaitsExclusive: ForExclusive, store.AwaitsItems: ForItems, store.AwaitsModules: ForModules,
}

// blocked returns the Wait of the task t, which cannot start because of reason.
func (s *scan) blocked(t *store.Task, reason *store.Reason) (w *Wait, err error) {
	w = &Wait{For: waitsFor[reason.Kind], Held: reason}
	if w.For == ForLimit {
		w.Every = t.Every.String()
	}
	if w.For == ForItems {
		w.Ahead = t.FanOut.Open
		w.On, err = s.items(t)
	}
	return w, err
}

// items returns the first open items of the fan-out task t, at most mostNamed.
func (s *scan) items(t *store.Task) ([]Ref, error) {
	var on []Ref
	needle := fmt.Appendf(nil, `"of":{"id":"%s"`, t.ID)
	for item, err := range s.tasks(store.Queues, func(_ store.Key, text []byte) bool { return bytes.Contains(text, needle) }) {
		if err != nil {
			return nil, err
		}
		if item.Parent != nil && item.Parent.ID == t.ID {
			on = append(on, s.ref(item))
		}
		if len(on) == min(t.FanOut.Open, mostNamed) {
			break
		}
	}
	return on, nil
}

// behind describes the work behind a task. behind returns nil if there is no work behind the task, or if the task is
// not the first of its queue. A running or failed task is treated as the first, because the tasks before it were put at
// the front later. These tasks wait until a running task has ended, but they do not wait for a failed task.
func (s *scan) behind(at *pendingTask) (*Behind, error) {
	q := s.queues[at.Queue]
	running := s.claimed(at.Task)
	first := at.before == 0 || at.Failed != nil || running
	if at.later || q == nil || !first || at.above > 0 {
		return nil, nil
	}
	below, err := s.below(at)
	if err != nil {
		return nil, err
	}
	b := &Behind{Queue: at.Queue, Run: below, Tasks: q.tasks() - at.depth, More: q.more}
	if c := at.Claim; c != nil && c.End > at.Slot {
		b.Tasks -= int(c.End - at.Slot) //nolint:gosec // a range is bounded
	}
	if !running {
		b.Tasks -= at.before
	}
	if b.Run+b.Tasks == 0 {
		return nil, nil
	}
	last := at.Slot
	if at.Claim != nil {
		last = max(last, at.Claim.End)
	}
	from := last + 1
	if running {
		from = 0
	}
	for t, err := range readable(s.unreadable, store.TasksFrom(s.tx, at.Queue, from)) {
		if err != nil {
			return nil, err
		}
		if len(b.Next) == mostNamed {
			break
		}
		if t.Slot < at.Slot || t.Slot > last {
			b.Next = append(b.Next, s.ref(t))
		}
	}
	return b, nil
}

// below counts the steps that are processed after the given task in the same slot. The counted
// steps are other tasks, and items of fan-out tasks that have not started.
func (s *scan) below(at *pendingTask) (n int, err error) {
	for t, err := range readable(s.unreadable, store.Slot(s.tx, at.Queue, at.Slot)) {
		if err != nil {
			return 0, err
		}
		switch {
		case t.FanOut != nil && t.ID == at.ID:
			n += max(t.FanOut.Len-t.FanOut.Next-1, 0)
		case t.FanOut != nil:
			n += t.FanOut.Len - t.FanOut.Next
		case t.ID != at.ID:
			n++
		}
	}
	return n, nil
}

// order returns the tasks of the run, with those of the main queue first. The fan-out tasks of the
// main queue must add rows for their items before the tasks of these items in other queues are
// added to the tree.
func (s *scan) order() []*pendingTask {
	var first, others []*pendingTask
	for _, at := range s.mine {
		if at.Queue == workflow.Main && !at.later {
			first = append(first, at)
		} else {
			others = append(others, at)
		}
	}
	return append(first, others...)
}
