package inspect

import (
	"bytes"
	"fmt"
	"iter"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
)

// mostCounted is how many tasks of one queue are looked at. Those behind are
// not, and a count that stops there says so.
const mostCounted = 50_000

// mostNamed is how many tasks are named where many wait.
const mostNamed = 3

// A scan is what one look at all queues has found. Tasks that do not matter are
// counted and not read.
type scan struct {
	tx     *store.Tx
	now    time.Time
	epoch  uint64
	live   bool
	queues map[string]*queue
	names  []string         // of the queues, as they sort
	mine   []*spot          // tasks of the run asked for
	failed []*spot          // tasks whose last attempt failed
	newest uint64           // run that has a task in no queue until it is due
	others int              // tasks that are in no queue, up to mostCounted that are due later and mostCounted that are held
	kept   map[store.ID]int // tasks that each item in quarantine holds

	unreadable *unreadable
}

// A queue is what is known of one.
type queue struct {
	head   *store.Task
	busy   *store.Task // runs while others were put before it
	tasks  int
	more   bool   // there are more than were counted
	place  []byte // of the task seen last, as keys hold it
	before int    // tasks on the places before that
	here   []*spot
	top    *store.Task // of that place; nil until a task of it is read
}

// A spot is a task and where it stands in its queue.
type spot struct {
	*store.Task
	before int         // tasks on the places before its own
	above  int         // tasks that are done before it on its own place
	depth  int         // tasks on its place
	top    *store.Task // of its place
	later  bool        // it stands in no queue until it is due
}

// look reads the queues for the tasks of run and those that matter to all.
func look(tx *store.Tx, live bool, run uint64) (*scan, error) {
	return lookAgain(tx, live, run, &unreadable{tx: tx})
}

// lookAgain is look, and adds the unreadable records to those of another look.
func lookAgain(tx *store.Tx, live bool, run uint64, found *unreadable) (*scan, error) {
	s := &scan{tx: tx, now: tx.Now(), epoch: tx.Epoch(), live: live, queues: map[string]*queue{}, unreadable: found}
	for name, err := range store.AllQueues(tx) {
		if err != nil {
			return nil, err
		}
		q, err := s.queue(name, run)
		if err != nil {
			return nil, err
		}
		if q.head == nil {
			continue // none of its tasks can be read
		}
		s.queues[name] = q
		s.names = append(s.names, name)
		if err := s.findBusy(q); err != nil {
			return nil, err
		}
	}
	return s, s.later(run)
}

// queue looks at the tasks of one queue.
func (s *scan) queue(name string, run uint64) (*queue, error) {
	q := &queue{}
	shown := shownWith(run)
	prefix := store.At(store.Queues).Str(name)
	for k, v := range s.tx.Range(prefix) {
		if q.tasks == mostCounted {
			q.more = true
			break
		}
		q.count(k[len(prefix):min(len(k), len(prefix)+8)])
		if q.head != nil && !shown(v) {
			continue
		}
		at, err := s.spot(q, k)
		if err := s.unreadable.pass(err); err != nil {
			return nil, err
		}
		if at == nil {
			continue
		}
		if q.head == nil {
			q.head = at.Task
		}
		q.here = append(q.here, at)
		if at.Run == run {
			s.mine = append(s.mine, at)
		}
		if at.Failed != nil {
			s.failed = append(s.failed, at)
		}
	}
	return q, nil
}

// shownWith reports by their bytes which tasks are read for run: its own, and all that failed.
func shownWith(run uint64) func(task []byte) bool {
	among, last := fmt.Appendf(nil, `"walk":%d,`, run), fmt.Appendf(nil, `"walk":%d}`, run)
	failed := []byte(`"failed":{`)
	return func(task []byte) bool {
		return bytes.Contains(task, failed) || bytes.Contains(task, among) || bytes.Contains(task, last)
	}
}

// count counts the next task, which is on place.
func (q *queue) count(place []byte) {
	if !bytes.Equal(place, q.place) {
		q.place, q.before, q.here, q.top = place, q.tasks, nil, nil
	}
	q.tasks++
	for _, other := range q.here {
		other.depth++
	}
}

// spot reads the task under k, which q has just counted.
func (s *scan) spot(q *queue, k store.Key) (*spot, error) {
	pos, err := store.ParsePos(k)
	if err != nil {
		return nil, err
	}
	t, ok, err := store.LoadTask(s.tx, pos)
	if err != nil || !ok {
		return nil, err
	}
	if q.top == nil {
		if q.top, err = s.topOf(pos, t, q); err != nil {
			return nil, err
		}
	}
	return &spot{Task: t, before: q.before, above: q.tasks - 1 - q.before, depth: q.tasks - q.before, top: q.top}, nil
}

// findBusy looks for the task of q that runs although it does not stand first.
// Behind what was put at the front it can only be the first.
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

// topOf returns the task that is done first on the place of t.
func (s *scan) topOf(pos store.Pos, t *store.Task, q *queue) (*store.Task, error) {
	if q.tasks-1 == q.before {
		return t, nil
	}
	for top, err := range readable(s.unreadable, store.Slot(s.tx, pos.Queue, pos.Slot)) {
		return top, err
	}
	return t, nil
}

// later looks at the tasks that stand in no queue yet.
func (s *scan) later(run uint64) error {
	if err := s.lanes(); err != nil {
		return err
	}
	for _, tasks := range []iter.Seq2[*store.Task, error]{store.LaterTasks(s.tx), store.AllHeldTasks(s.tx)} {
		looked := 0
		for t, err := range readable(s.unreadable, tasks) {
			if err != nil {
				return err
			}
			if looked++; looked > mostCounted {
				break
			}
			s.others++
			s.newest = max(s.newest, t.Run)
			if t.Run == run {
				s.mine = append(s.mine, &spot{Task: t, top: t, later: true})
			}
		}
	}
	return nil
}

// lanes counts the tasks that items in quarantine hold.
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

// more reports whether a queue holds more tasks than were looked at.
func (s *scan) more() bool {
	for _, q := range s.queues {
		if q.more {
			return true
		}
	}
	return false
}

// claimed reports whether t is being done now.
func (s *scan) claimed(t *store.Task) bool {
	return s.live && t.Claim != nil && t.Claim.Epoch == s.epoch
}

// covered reports whether t is done at once with the task of its queue that runs.
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

// ref returns a pointer to t.
func (s *scan) ref(t *store.Task) Ref {
	r := Ref{
		Task: t.ID, Run: t.Run, Node: t.Node, Subject: t.Subject, Queue: t.Queue, State: s.state(t),
	}
	if f := t.Failed; f != nil {
		r.Node, r.Subject, r.Due = f.Node, f.Subject, t.Due
	}
	return r
}

// wait says why the pending task at is not being done; nil if it is.
func (s *scan) wait(at *spot) (*Wait, error) {
	t := at.Task
	q := s.queues[t.Queue]
	switch {
	case at.later: // no task is before it
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

// waitsFor says what a task waits for that a reason keeps from starting.
var waitsFor = map[store.ReasonKind]Reason{
	store.AwaitsStart: ForHold, store.AwaitsRelease: ForHold, store.AwaitsLimit: ForLimit, store.AwaitsDelay: ForTime,
	store.AwaitsResume: ForHold, store.AwaitsQueue: ForPause,
	store.AwaitsRetry: ForRetry, store.AwaitsExclusive: ForExclusive, store.AwaitsItems: ForItems, store.AwaitsModules: ForModules,
}

// blocked returns the wait of t, which reason keeps from starting.
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

// items returns the first of the items that the fan-out task t waits for.
func (s *scan) items(t *store.Task) ([]Ref, error) {
	var on []Ref
	needle := fmt.Appendf(nil, `"of":{"id":"%s"`, t.ID)
	for k, v := range s.tx.Range(store.At(store.Queues)) {
		if len(on) == min(t.FanOut.Open, mostNamed) {
			break
		}
		if !bytes.Contains(v, needle) {
			continue
		}
		pos, err := store.ParsePos(k)
		if err != nil {
			return nil, err
		}
		item, ok, err := store.LoadTask(s.tx, pos)
		if err := s.unreadable.pass(err); err != nil {
			return nil, err
		}
		if ok && item.Parent != nil && item.Parent.ID == t.ID {
			on = append(on, s.ref(item))
		}
	}
	return on, nil
}

// behind returns what waits behind the task at, which stands first in its
// queue, or did before it was begun; nil if nothing does.
func (s *scan) behind(at *spot) (*Behind, error) {
	q := s.queues[at.Queue]
	first := at.before == 0 || at.Failed != nil || s.claimed(at.Task)
	if at.later || q == nil || !first || at.above > 0 {
		return nil, nil
	}
	below, err := s.below(at)
	if err != nil {
		return nil, err
	}
	b := &Behind{Queue: at.Queue, Run: below, Tasks: q.tasks - at.depth, More: q.more}
	if c := at.Claim; c != nil && c.End > at.Slot {
		b.Tasks -= int(c.End - at.Slot) //nolint:gosec // a range is bounded
	}
	if b.Run+b.Tasks == 0 {
		return nil, nil
	}
	last := at.Slot
	if at.Claim != nil {
		last = max(last, at.Claim.End)
	}
	for t, err := range readable(s.unreadable, store.TasksFrom(s.tx, at.Queue, last+1)) {
		if err != nil {
			return nil, err
		}
		if len(b.Next) == mostNamed {
			break
		}
		b.Next = append(b.Next, s.ref(t))
	}
	return b, nil
}

// below counts the steps that wait in the slot of at: tasks, and items that have not
// started.
func (s *scan) below(at *spot) (n int, err error) {
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

// order sorts the tasks of the run: those of the main queue come first, because their
// fan-out tasks add items to other queues.
func (s *scan) order() []*spot {
	var first, others []*spot
	for _, at := range s.mine {
		if at.Queue == workflow.Main && !at.later {
			first = append(first, at)
		} else {
			others = append(others, at)
		}
	}
	return append(first, others...)
}
