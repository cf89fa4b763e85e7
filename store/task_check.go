package store

import (
	"encoding/json"
	"errors"
	"fmt"
)

// checkQueues returns all errors of the tasks in tx as one error. Examples of such errors are a
// header that is unreadable, a payload that has no task, a fan-out task with a wrong count of
// items, a queue with two claimed tasks, and a waiting task that does not match its record in table
// Unique.
func checkQueues(tx *Tx) error {
	c := taskCheck{
		tx: tx, open: map[uint64]int{}, children: map[ID]int{}, lagging: map[ID]int{}, owned: map[string]bool{},
		byID: map[ID]*Task{}, byKey: map[string]*Task{}, runs: map[string]*Task{},
	}
	for t, err := range AllTasks(tx) {
		if err != nil {
			c.bad("%v", err)
			continue
		}
		c.byKey[string(t.Pos.Key())] = t
		c.task(t)
		c.claims(t)
	}
	c.later()
	c.lanes()
	c.lists()
	c.apart()
	c.marks()
	c.backlogs()
	c.events()
	c.checkRuns()
	return errors.Join(c.errs...)
}

type taskCheck struct {
	tx       *Tx
	open     map[uint64]int   // number of tasks of each run
	children map[ID]int       // number of tasks that each fan-out task waits for
	lagging  map[ID]int       // number of lagging tasks that each task waits for
	owned    map[string]bool  // keys of records that must exist, because they belong to a task
	byID     map[ID]*Task     // all tasks
	byKey    map[string]*Task // all tasks by the keys of their headers
	runs     map[string]*Task // the task of each queue that was claimed in the latest epoch
	errs     []error
}

func (c *taskCheck) bad(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *taskCheck) task(t *Task) {
	if c.byID[t.ID] != nil {
		c.bad("two tasks have the id %s", t.ID)
	}
	c.byID[t.ID] = t
	c.open[t.Run]++
	switch {
	case t.Parent == nil:
	case t.Parent.Lags:
		c.lagging[t.Parent.ID]++
	default:
		c.children[t.Parent.ID]++
	}
	for i := range t.Chunks {
		c.owned[string(payloadKey(t.ID, i))] = true
	}
	if l := t.FanOut; l != nil {
		for i := l.Next; i < l.Len; i++ {
			c.owned[string(itemKey(t.ID, i))] = true
		}
		if l.Next > l.Len || l.Open < 0 {
			c.bad("fan-out task %s at node %s is at item %d of %d with %d open", t.ID, t.Node, l.Next, l.Len, l.Open)
		}
	}
	if t.Journal {
		c.owned[string(JournalKey(t.ID))] = true
	}
}

// claims reports a queue in which two tasks are claimed by the same epoch. Restored claims do not count, because they
// may have been made in other queues.
func (c *taskCheck) claims(t *Task) {
	if t.Claim == nil || t.Claim.Epoch == 0 || t.Claim.Restored {
		return
	}
	if other := c.runs[t.Queue]; other != nil && other.Claim.Epoch == t.Claim.Epoch {
		c.bad("tasks %s and %s of queue %s are claimed at once", other.ID, t.ID, t.Queue)
	}
	if other := c.runs[t.Queue]; other == nil || other.Claim.Epoch < t.Claim.Epoch {
		c.runs[t.Queue] = t
	}
}

// lists compares the counts in each parent task with the number of tasks that refer to it. lists
// also checks that each referring task has the right position of its parent.
func (c *taskCheck) lists() {
	for _, t := range c.byID {
		if t.FanOut != nil && t.FanOut.Open != c.children[t.ID] {
			c.bad("fan-out task %s at node %s waits for %d items, but %d exist", t.ID, t.Node, t.FanOut.Open, c.children[t.ID])
		}
		if t.Lagging != c.lagging[t.ID] {
			c.bad("task %s at node %s waits for %d lagging tasks, but %d exist", t.ID, t.Node, t.Lagging, c.lagging[t.ID])
		}
		if t.Parent == nil {
			continue
		}
		if parent := c.byID[t.Parent.ID]; parent != nil && parent.Pos != t.Parent.Pos {
			c.bad("task %s names its parent %s at %v, but the parent is at %v", t.ID, parent.ID, t.Parent.Pos, parent.Pos)
		}
	}
}

func (c *taskCheck) later() {
	for t, err := range DeferredTasks(c.tx) {
		if err != nil {
			c.bad("%v", err)
			continue
		}
		c.byKey[string(t.Key())] = t
		c.task(t)
	}
}

// apart reports missing records of tasks, and records without a task.
func (c *taskCheck) apart() {
	seen := 0
	for _, table := range []Table{Payloads, Journal} {
		for k := range c.tx.Range(At(table)) {
			if !c.owned[string(k)] {
				c.bad("%s belongs to no task", k)
				continue
			}
			seen++
		}
	}
	for k := range c.tx.Range(At(Notes)) {
		if journal := append(At(Journal), k[1:]...); !c.owned[string(journal)] {
			c.bad("%s belongs to no journal", k)
		}
	}
	if seen < len(c.owned) {
		c.bad("%d records of payloads, fan-out items or journals are missing", len(c.owned)-seen)
	}
}

// marks compares the records of table Unique with the waiting tasks. A key with an empty queue name
// is the mark of a module whose pending tasks are being canceled.
func (c *taskCheck) marks() {
	marked := map[ID]bool{}
	for k, v := range c.tx.Range(At(Unique)) {
		if isCancelMark(k) {
			if !json.Valid(v) {
				c.bad("%s, the record of a module whose pending tasks are removed, is not JSON", k)
			}
			continue
		}
		t := c.byKey[string(v)]
		if t == nil || !t.Waits {
			c.bad("%s leads to no waiting task", k)
			continue
		}
		marked[t.ID] = true
	}
	for _, t := range c.byKey {
		if t.Waits && !marked[t.ID] {
			c.bad("task %s waits at node %s without a record in table %s", t.ID, t.Node, Unique)
		}
	}
}

// events compares the records of table Events with the tasks. A store of an older version has no such
// records.
func (c *taskCheck) events() {
	if c.tx.db.identity.schema < 3 {
		return
	}
	n := 0
	for k, header := range c.tx.Range(At(Events)) {
		n++
		if t := c.byKey[string(header)]; t == nil || t.Object == nil || string(eventKey(t)) != string(k) {
			c.bad("%s leads to no event", k)
		}
	}
	for _, t := range c.byKey {
		if t.Object == nil {
			continue
		}
		if n--; c.tx.Get(eventKey(t)) == nil {
			c.bad("event %s has no record in table %s", t.ID, Events)
		}
	}
	if n > 0 {
		c.bad("table %s has %d more records than there are events", Events, n)
	}
}

func (c *taskCheck) checkRuns() {
	for run, err := range RunsBackwards(c.tx) {
		if err != nil {
			c.bad("a run cannot be read: %v", err)
			continue
		}
		if run.Open != c.open[run.ID] {
			c.bad("run %d counts %d tasks, but has %d", run.ID, run.Open, c.open[run.ID])
		}
		delete(c.open, run.ID)
	}
	for id, n := range c.open {
		c.bad("%d tasks belong to run %d, which does not exist", n, id)
	}
}
