package store

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"
)

// A Walk is everything that follows from one trigger.
type Walk struct {
	ID      uint64    `json:"id"`
	Graph   string    `json:"graph"`
	Trigger string    `json:"trigger"`
	Cause   Cause     `json:"cause,omitzero"`
	Subject Subject   `json:"subject,omitzero"`
	Began   time.Time `json:"began"`
	// Open is how many of its tasks are pending. At zero the walk has ended.
	Open  int       `json:"open"`
	Ended time.Time `json:"ended,omitzero"`
	// Joined is the walk that goes on in this one's stead.
	Joined uint64 `json:"joined,omitempty"`
}

// A Cause says what a trigger saw.
type Cause struct {
	// Object is what changed, as "Kind namespace/name".
	Object          string `json:"object,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// Event is Added, Modified or Deleted.
	Event string `json:"event,omitempty"`
	// By is the person who asked for it.
	By     string `json:"by,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// WalkKey returns the key of walk id.
func WalkKey(id uint64) Key { return At(Walks).Uint(id) }

// NextWalk returns the number of the walk that begins next.
func NextWalk(tx *Tx) (uint64, error) {
	for w, err := range WalksBackwards(tx) {
		return w.ID + 1, err
	}
	return 1, nil
}

// WalksBackwards yields the walks, newest first.
func WalksBackwards(tx *Tx) iter.Seq2[Walk, error] {
	return func(yield func(Walk, error) bool) {
		for k := range tx.Backwards(At(Walks)) {
			w, _, err := Load[Walk](tx, k)
			if !yield(w, err) {
				return
			}
		}
	}
}

// A State is what a piece of work came to.
type State string

// The states a record of history can tell of.
const (
	Done        State = "done"        // succeeded
	Failed      State = "failed"      // failed and is tried again
	Allowed     State = "allowed"     // failed, as its binding allows
	Skipped     State = "skipped"     // a person passed over it
	Dropped     State = "dropped"     // what it was about is gone, or it no longer counts
	Superseded  State = "superseded"  // another run takes its place
	Joined      State = "joined"      // an equal task that waited already does it
	Quarantined State = "quarantined" // set aside until a person lets it go
)

// A Record is one line of history: what became of a piece of work, once.
type Record struct {
	Walk    uint64    `json:"walk"`
	Task    ID        `json:"task"`
	Node    string    `json:"node"`
	Subject Subject   `json:"subject,omitzero"`
	Queue   string    `json:"queue"`
	State   State     `json:"state"`
	Queued  time.Time `json:"queued,omitzero"`
	Began   time.Time `json:"began,omitzero"`
	Ended   time.Time `json:"ended"`
	Try     int       `json:"try,omitempty"`
	// Again tells that this try began anew after a restart had interrupted it.
	Again bool     `json:"again,omitempty"`
	Facts []string `json:"facts,omitempty"`
	// Merged is how many tasks this run did at once, when more than one.
	Merged int    `json:"merged,omitempty"`
	Error  string `json:"error,omitempty"`
	// Detail is what the step has to say of it, in one line.
	Detail string `json:"detail,omitempty"`
	// Into names what goes on in its stead.
	Into string `json:"into,omitempty"`
}

// AddRecord appends r to the history of its walk.
func AddRecord(tx *Tx, r Record) error {
	return Save(tx, At(History).Uint(r.Walk).Uint(tx.Epoch()).Uint(tx.NextID()), r)
}

// RecordsOf yields the history of walk, oldest first.
func RecordsOf(tx *Tx, walk uint64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for k := range tx.Range(At(History).Uint(walk)) {
			r, _, err := Load[Record](tx, k)
			if !yield(r, err) {
				return
			}
		}
	}
}

// TrimHistory forgets the oldest finished walks and their history: those that
// ended before, and as many more as it takes to bring excess bytes back. It
// stops after limit records and reports how many bytes it freed and whether
// there is more to forget. The newest walk stays.
func TrimHistory(tx *Tx, before time.Time, excess int64, limit int) (freed int64, more bool, err error) {
	newest, err := NextWalk(tx)
	if err != nil {
		return 0, false, err
	}
	for k, v := range tx.Range(At(Walks)) {
		w, _, err := Load[Walk](tx, k)
		if err != nil {
			return freed, false, err
		}
		if w.Open > 0 || w.ID+1 == newest {
			continue
		}
		if !w.Ended.Before(before) && freed >= excess {
			return freed, false, nil
		}
		for hk, hv := range tx.Range(At(History).Uint(w.ID)) {
			if limit--; limit < 0 {
				return freed, true, nil
			}
			freed += int64(len(hk) + len(hv))
			tx.Delete(hk)
		}
		freed += int64(len(k) + len(v))
		tx.Delete(k)
	}
	return freed, false, nil
}

// checkQueues reports what is wrong with the tasks in tx, joined: headers that
// cannot be read, stacks with gaps, payloads and members that are missing or
// belong to no task, lists that count members which do not exist, walks that
// miscount their tasks, and marks of waiting tasks that lead nowhere.
func checkQueues(tx *Tx) error {
	c := taskCheck{tx: tx, open: map[uint64]int{}, members: map[ID]int{}, owned: map[string]bool{}}
	for queue, err := range AllQueues(tx) {
		if err != nil {
			return err
		}
		for t, err := range Tasks(tx, queue) {
			if err != nil {
				c.bad("%v", err)
				continue
			}
			c.task(t)
		}
	}
	c.later()
	c.lists()
	c.apart()
	c.walks()
	return errors.Join(c.errs...)
}

type taskCheck struct {
	tx      *Tx
	open    map[uint64]int  // tasks of each walk
	members map[ID]int      // tasks that name each list
	owned   map[string]bool // keys that belong to a task
	all     []*Task
	errs    []error
}

func (c *taskCheck) bad(format string, args ...any) {
	c.errs = append(c.errs, fmt.Errorf(format, args...))
}

func (c *taskCheck) task(t *Task) {
	c.all = append(c.all, t)
	c.open[t.Walk]++
	if t.Of != nil {
		c.members[t.Of.ID]++
	}
	for i := range t.Chunks {
		c.owned[string(payloadKey(t.ID, i))] = true
	}
	if l := t.List; l != nil {
		for i := l.Next; i < l.Len; i++ {
			c.owned[string(payloadKey(t.ID, i))] = true
		}
		if l.Next > l.Len || l.Open < 0 {
			c.bad("list %s at node %s stands at member %d of %d with %d open", t.ID, t.Node, l.Next, l.Len, l.Open)
		}
	}
	if t.Journal {
		c.owned[string(JournalKey(t.ID))] = true
	}
}

// lists compares what lists count with the tasks that name them.
func (c *taskCheck) lists() {
	for _, t := range c.all {
		if t.List != nil && t.List.Open != c.members[t.ID] {
			c.bad("list %s at node %s waits for %d members, %d exist", t.ID, t.Node, t.List.Open, c.members[t.ID])
		}
	}
}

func (c *taskCheck) later() {
	for k := range c.tx.Range(At(Later)) {
		t, _, err := Load[Task](c.tx, k)
		if err != nil {
			c.bad("a task that is due later cannot be read: %v", err)
			continue
		}
		c.task(&t)
	}
}

// apart looks for what no task owns, and for what a task owns and is missing.
func (c *taskCheck) apart() {
	seen := 0
	for _, table := range []Table{Payloads, Journal} {
		for k := range c.tx.Range(At(table)) {
			if !c.owned[string(k)] {
				c.bad("%s record %x belongs to no task", table, []byte(k))
				continue
			}
			seen++
		}
	}
	if seen < len(c.owned) {
		c.bad("%d pieces of payloads, lists or journals are missing", len(c.owned)-seen)
	}
	for k, v := range c.tx.Range(At(Once)) {
		i := slices.IndexFunc(c.all, func(t *Task) bool { return string(t.Pos.Key()) == string(v) })
		if i < 0 || !c.all[i].Waits {
			c.bad("the mark %x of a waiting task leads to none", []byte(k))
		}
	}
}

func (c *taskCheck) walks() {
	for w, err := range WalksBackwards(c.tx) {
		if err != nil {
			c.bad("a walk cannot be read: %v", err)
			continue
		}
		if w.Open != c.open[w.ID] {
			c.bad("walk %d counts %d tasks, has %d", w.ID, w.Open, c.open[w.ID])
		}
		delete(c.open, w.ID)
	}
	for id, n := range c.open {
		c.bad("%d tasks belong to walk %d, which does not exist", n, id)
	}
}
