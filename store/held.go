package store

import (
	"fmt"
	"iter"
	"math"
	"time"
)

// Reactions is the kind of the lane for a hook's events and schedule ticks.
const Reactions = "reactions"

// A LaneKey names a lane: the held tasks of one queue that must stay in order. The events and
// schedule ticks of a hook share one lane. All other tasks share a lane if they are at the same node
// and have the same module and hook.
type LaneKey struct {
	Queue, Module, Hook string
	Kind                string // Reactions, or the node
}

// A Lane describes the tasks held in a lane.
type Lane struct {
	LaneKey `json:"-"` // stored as the key of the record
	// Open is set when nothing blocks the tasks of the lane any more. The tasks of an open lane
	// return to the tail of their queue, oldest first.
	Open bool `json:"-"`
	// Tasks is the number of held tasks. Reason is the last reason why they could not start. Since is the time
	// at which the lane got its first task.
	Tasks  int       `json:"tasks"`
	Reason Reason    `json:"reason"`
	Since  time.Time `json:"since"`
	// After is the last slot of the queue at the time when the lane was opened. If a task that belongs in the lane is
	// queued in this slot or in an earlier one, it is newer than the held tasks, so it is held as well. The held tasks
	// return after all tasks in these slots have left the queue.
	After uint64 `json:"after,omitempty"`
}

// The first part of a lane's key.
const (
	shutLanes = "shut"
	openLanes = "open"
)

func (k LaneKey) key(state string) Key {
	return At(Lanes).Str(state).Str(k.Queue).Str(k.Module).Str(k.Hook).Str(k.Kind)
}

// held returns the prefix of the keys of the tasks in lane k.
func (k LaneKey) held() Key {
	return At(Held).Str(k.Module).Str(k.Hook).Str(k.Queue).Str(k.Kind)
}

// LaneKey returns the lane of the held task t.
func (t *Task) LaneKey() LaneKey {
	return LaneKey{Queue: t.Queue, Module: t.Subject.Module, Hook: t.Subject.Hook, Kind: t.Lane}
}

// HeldTasks yields the headers of the tasks in lane k, oldest first. The loop's
// body may change the tasks.
func HeldTasks(tx *Tx, k LaneKey) iter.Seq2[*Task, error] { return outOfQueue(tx.Range(k.held())) }

// HeldTasksOf yields the headers of the held tasks of the module or, if a hook is given, of that hook only.
func HeldTasksOf(tx *Tx, module string, hook ...string) iter.Seq2[*Task, error] {
	k := At(Held).Str(module)
	for _, h := range hook {
		k = k.Str(h)
	}
	return outOfQueue(tx.Range(k))
}

// AllHeldTasks yields the headers of all held tasks.
func AllHeldTasks(tx *Tx) iter.Seq2[*Task, error] { return outOfQueue(tx.Range(At(Held))) }

// LoadLane returns the lane k, and whether it has tasks.
func LoadLane(tx *Tx, k LaneKey) (Lane, bool, error) {
	for _, state := range []string{shutLanes, openLanes} {
		l, ok, err := Load[Lane](tx, k.key(state))
		if ok || err != nil {
			l.LaneKey, l.Open = k, state == openLanes
			return l, ok, err
		}
	}
	return Lane{LaneKey: k}, false, nil
}

// SaveLane writes l. A lane without tasks is deleted.
func SaveLane(tx *Tx, l Lane) error {
	state, other := shutLanes, openLanes
	if l.Open {
		state, other = other, state
	}
	if k := l.key(other); tx.Get(k) != nil {
		tx.Delete(k)
	}
	if l.Tasks == 0 {
		tx.Delete(l.key(state))
		return nil
	}
	return Save(tx, l.key(state), l)
}

// OpenLanes yields the open lanes of the given queue.
func OpenLanes(tx *Tx, queue string) iter.Seq2[Lane, error] {
	return lanes(tx, At(Lanes).Str(openLanes).Str(queue))
}

// ShutLanes yields the lanes whose tasks are blocked.
func ShutLanes(tx *Tx) iter.Seq2[Lane, error] { return lanes(tx, At(Lanes).Str(shutLanes)) }

// ShutLanesOf yields the lanes of the given module whose tasks are blocked. ShutLanesOf does not
// read lanes of other modules.
func ShutLanesOf(tx *Tx, module string) iter.Seq2[Lane, error] {
	return func(yield func(Lane, error) bool) {
		prefix := At(Held).Str(module)
		for from := prefix; ; {
			k, err := nextLane(tx, prefix, from)
			if k == nil && err == nil {
				return
			}
			if err != nil {
				yield(Lane{}, err)
				return
			}
			l, shut, err := Load[Lane](tx, k.key(shutLanes))
			l.LaneKey = *k
			if (shut || err != nil) && !yield(l, err) {
				return
			}
			from = k.held().Uint(math.MaxUint64).Uint(math.MaxUint64) // after the keys of all tasks in this lane
		}
	}
}

// nextLane returns the lane of the first held task whose key begins with prefix and is not less
// than the key from. nextLane returns nil if there is no such task.
func nextLane(tx *Tx, prefix, from Key) (*LaneKey, error) {
	for k := range tx.RangeFrom(prefix, from) {
		p, err := k.Parts()
		if err != nil {
			return nil, err
		}
		l := &LaneKey{Module: p.Str(), Hook: p.Str(), Queue: p.Str(), Kind: p.Str()}
		return l, p.Err()
	}
	return nil, nil
}

// AllLanes yields all lanes, the shut ones first.
func AllLanes(tx *Tx) iter.Seq2[Lane, error] {
	return func(yield func(Lane, error) bool) {
		for _, state := range []string{shutLanes, openLanes} {
			for l, err := range lanes(tx, At(Lanes).Str(state)) {
				if !yield(l, err) {
					return
				}
			}
		}
	}
}

func lanes(tx *Tx, prefix Key) iter.Seq2[Lane, error] {
	return func(yield func(Lane, error) bool) {
		for k := range tx.Range(prefix) {
			key, open, err := parseLaneKey(k)
			var l Lane
			if err == nil {
				l, _, err = Load[Lane](tx, k)
			}
			l.LaneKey, l.Open = key, open
			if !yield(l, err) {
				return
			}
		}
	}
}

func parseLaneKey(k Key) (l LaneKey, open bool, err error) {
	p, err := k.Parts()
	if err != nil {
		return l, false, err
	}
	open = p.Str() == openLanes
	l = LaneKey{Queue: p.Str(), Module: p.Str(), Hook: p.Str(), Kind: p.Str()}
	return l, open, p.Err()
}

// lanes compares the records of lanes with the tasks held in them.
func (c *taskCheck) lanes() {
	count := map[LaneKey]int{}
	for t, err := range AllHeldTasks(c.tx) {
		if err != nil {
			c.bad("%v", err)
			continue
		}
		c.byKey[string(t.Key())] = t
		c.task(t)
		count[t.LaneKey()]++
		if t.Parent != nil {
			c.bad("the held task %s is an item of the fan-out task %s, which would wait for it", t.ID, t.Parent.ID)
		}
	}
	for l, err := range AllLanes(c.tx) {
		if err != nil {
			c.bad("%v", err)
			continue
		}
		if l.Tasks != count[l.LaneKey] {
			c.bad("%s counts %d tasks, there are %d", l, l.Tasks, count[l.LaneKey])
		}
		delete(count, l.LaneKey)
	}
	for k, n := range count {
		c.bad("%d tasks are in %s, which does not exist", n, Lane{LaneKey: k})
	}
}

// String names the lane, for errors.
func (l Lane) String() string {
	return fmt.Sprintf("lane %s of %s/%s in queue %s", l.Kind, l.Module, l.Hook, l.Queue)
}
