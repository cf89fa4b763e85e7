package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"addon-operator/workflow/graph"
)

// An ID identifies a task or another record, such as a round, an action or a damaged record. It has
// the epoch in which it was created, and a number that is unique in that epoch. An ID is never
// reused.
type ID struct{ Epoch, N uint64 }

// String returns the ID as people type it: "12-345".
func (id ID) String() string {
	return strconv.FormatUint(id.Epoch, 10) + "-" + strconv.FormatUint(id.N, 10)
}

// Before reports whether id was assigned before other.
func (id ID) Before(other ID) bool {
	return id.Epoch < other.Epoch || id.Epoch == other.Epoch && id.N < other.N
}

// IsZero reports whether id is the zero ID, which identifies nothing.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID parses the result of [ID.String].
func ParseID(s string) (ID, error) {
	epoch, n, ok := strings.Cut(s, "-")
	e, err1 := strconv.ParseUint(epoch, 10, 64)
	c, err2 := strconv.ParseUint(n, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return ID{}, fmt.Errorf("%q is not a task id: want two numbers joined by a dash, as in 12-345", s)
	}
	return ID{Epoch: e, N: c}, nil
}

// MarshalText makes IDs JSON strings.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText parses the result of MarshalText.
func (id *ID) UnmarshalText(b []byte) (err error) {
	*id, err = ParseID(string(b))
	return err
}

// A Pos is the position of a task: a queue is a row of slots, each of which holds a stack of tasks.
// Of the tasks in a slot, the one with the greatest depth is processed first.
type Pos struct {
	Queue string `json:"queue"`
	Slot  uint64 `json:"place"`
	Depth uint32 `json:"height"`
}

// FirstSlot is the slot of a task that is added to the tail of an empty queue. Slots that are added at the tail are
// numbered upward from FirstSlot. Slots that are added at the front are numbered downward from FirstSlot-1.
const FirstSlot uint64 = 1 << 63

// Key returns the key of the header of the task at p. The keys of one queue sort in the order in
// which its tasks are processed.
func (p Pos) Key() Key {
	k := make(Key, 0, 1+2+len(p.Queue)+8+4) // allocated once, because each transition makes several keys
	k = append(k, byte(Queues))
	k = binary.BigEndian.AppendUint16(k, uint16(min(len(p.Queue), 1<<16-1))) //nolint:gosec // as Key.Str does
	k = append(k, p.Queue...)
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint64(k, p.Slot), ^p.Depth)
}

// ParsePos parses the key of a task's header.
func ParsePos(k Key) (Pos, error) {
	parts, err := k.Parts()
	if err != nil || k.Table() != Queues {
		return Pos{}, errors.Join(fmt.Errorf("key %x is not a position in a queue", []byte(k)), err)
	}
	p := Pos{Queue: parts.Str(), Slot: parts.Uint(), Depth: ^parts.Uint32()}
	return p, parts.Err()
}

// ParsePosInQueue parses the rest of a task's key after its [QueueKey]. The Queue of the result is empty.
func ParsePosInQueue(rest []byte) (Pos, error) {
	parts := Parts{rest: rest}
	p := Pos{Slot: parts.Uint(), Depth: ^parts.Uint32()}
	return p, parts.Err()
}

// A Task is the header of a pending task: its node, its subject and its progress. A large payload and
// the items of a fan-out are stored separately, in [Payloads], so that a transition that changes the
// header does not write them again.
type Task struct {
	ID  ID         `json:"id"`
	Pos `json:"-"` // stored as the key of the record

	Graph   string        `json:"graph"`
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Run     uint64        `json:"walk"`
	Queued  time.Time     `json:"queued,omitzero"`

	// Payload is stored in the header if it has at most [InlinePayload] bytes. A larger payload is
	// stored in separate pieces, which [LoadPayload] reads. Chunks is the number of these pieces.
	Payload json.RawMessage `json:"payload,omitempty"`
	Chunks  int             `json:"chunks,omitempty"`

	// Object is the object of a cluster event; nil for other tasks.
	Object *ObjectRef `json:"object,omitempty"`
	// AllowFailure is set if the binding allows its hook to fail.
	AllowFailure bool `json:"lenient,omitempty"`
	// NoBatch is set if an attempt must process this task alone.
	NoBatch bool `json:"alone,omitempty"`
	// OwnQueue is set if the task processes one item of a node's fan-out. The task is in another queue than the fan-out
	// task, or has no fan-out task.
	OwnQueue bool `json:"solo,omitempty"`
	// Waits is set while a unique task waits for its first attempt. If an attempt of a batch fails, Waits is set again
	// in the unique tasks of the batch, except the first task. While Waits is set, a new equal task joins this task or
	// replaces it.
	Waits bool `json:"waits,omitempty"`
	// Parent is the task that waits for this task and its successors. The parent is a fan-out task,
	// or the last task of a run if Parent.Lags is set.
	Parent *Ref `json:"of,omitempty"`
	// FanOut is set if the task is a fan-out task.
	FanOut *FanOut `json:"list,omitempty"`
	// HomeQueue is the queue of the fan-out task if this task runs in a queue of a
	// parallel group.
	HomeQueue string `json:"home,omitempty"`
	// Past is the last node that the run has begun among the nodes to which an edge can rewind the run; empty if it has
	// begun none of them.
	Past string `json:"past,omitempty"`
	// Rewinds is the number of times that the run was rewound. Rewinds while a step failed repeatedly are not counted.
	Rewinds int `json:"rewinds,omitempty"`
	// Lagging is set on the last task of a run. Lagging is the number of runs of failing modules,
	// in retry queues, that must end before this task starts.
	Lagging int `json:"lagging,omitempty"`
	// Loop counts how many consecutive times the run has taken the same loop edge.
	Loop *Loop `json:"loop,omitempty"`
	// Skips are the steps of the run that a person has skipped. If the run starts over, it passes over these steps. The
	// field is cleared when the run takes a loop edge or an edge to a unique node. When an equal task joins this task,
	// the steps that are not in the Skips of the other task are removed.
	Skips []StepRef `json:"skips,omitempty"`
	// Failed is the last failure of a step of the run that has not succeeded since; nil if there is no such step.
	Failed *Failure `json:"failed,omitempty"`
	// Due is the time at which a failed task is retried, or at which a deferred task returns to the
	// tail of its queue; zero means now.
	Due time.Time `json:"due,omitzero"`
	// Every is set while a rate limit defers the task. On average, the rate limit allows one run of
	// the hook in this time.
	Every time.Duration `json:"every,omitempty"`
	// Lane is the kind of the lane that holds the task. A task in a lane is in no queue.
	Lane string `json:"lane,omitempty"`
	// Claim is set while a worker processes the task, and while the task waits to execute its
	// journal. If the claim has an older epoch, the attempt was interrupted.
	Claim *Claim `json:"claim,omitempty"`
	// CancelsPending is set until the waiting tasks of the module have been removed, including
	// deferred and held tasks. While CancelsPending is set, this task does not start.
	CancelsPending bool `json:"clears,omitempty"`
	// Prepared is set when the node's preparation is done.
	Prepared bool `json:"prepared,omitempty"`
	// Abandoned is set if the result of the task is ignored. The end of the task is written to the
	// history, and has no other effect.
	Abandoned bool `json:"orphan,omitempty"`
	// DropEffects is set if no further effect of the abandoned task may begin, because the module of the task is being
	// deleted.
	DropEffects bool `json:"dropEffects,omitempty"`
	// Journal is set while the table [Journal] has the outcome of the task, whose effects are being
	// carried out.
	Journal bool `json:"journal,omitempty"`
}

// IsHeld reports whether t is in a lane and in no queue.
func (t *Task) IsHeld() bool { return t.Lane != "" }

// An ObjectRef names the object of a cluster event, its version, and the type of the event. If other events were
// coalesced with the event, the version is that of the newest of them.
type ObjectRef struct {
	Event string `json:"event"` // Added, Modified or Deleted
	// Coalesced is the type of the newest event that was coalesced with this one, if it differs from Event.
	Coalesced       string `json:"coalesced,omitempty"`
	Kind            string `json:"kind,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	Name            string `json:"name"`
	UID             string `json:"uid,omitempty"`
	ResourceVersion string `json:"resourceVersion,omitempty"`
}

// A Ref points to a task by its position. The ID shows whether the same task is still there.
type Ref struct {
	ID  ID  `json:"id"`
	Pos Pos `json:"pos"`
	// Lags is set if the parent is not a fan-out task, but the last task of a run that continues
	// with other modules. The field Lagging of that task counts this reference.
	Lags bool `json:"lags,omitempty"`
}

// A FanOut is the state of a fan-out task, which represents its items.
type FanOut struct {
	Len  int `json:"len"`
	Next int `json:"next"` // number of the first remaining item; earlier items have ended or are tasks of their own
	Open int `json:"open"` // number of items in other queues that the fan-out task waits for
	// Edge is set for the fan-out of an edge, which starts a task for each item. The fan-out task
	// of a node processes its items itself, except items for other queues.
	Edge bool `json:"edge,omitempty"`
	// Group is the parallel group of the items that run now. If an item runs behind an earlier run of its module, and
	// the fan-out task waits for the item, Group is the queue of that run instead. Items of other groups, and items
	// without a group, start after these items have ended.
	Group string `json:"side,omitempty"`
	// Note is the note that the step returned with the items.
	Note json.RawMessage `json:"note,omitempty"`
	// Facts are the facts that items have reported so far.
	Facts []string `json:"facts,omitempty"`
}

// A Loop counts how many consecutive times a run has taken one loop edge.
type Loop struct {
	From string `json:"from"` // the node at which the edge begins
	N    int    `json:"n"`
}

// A StepRef names a step of a run: a node, and the subject of its task or of an item of its fan-out.
type StepRef struct {
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
}

// A Failure describes the last error of a step of a run: the step that failed, and how many times in a row it has
// failed. A Failure is never changed, because copies of a task share it.
type Failure struct {
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Count   int           `json:"count"`
	Error   string        `json:"error"`
	At      time.Time     `json:"at"`
	// Since is the time of the first of these failures. Since is zero in a record of an older
	// version.
	Since time.Time `json:"since,omitzero"`
	// Before is the failure of another step of the run, which failed before this step and has not succeeded since; nil
	// if there is no such step. For example, a run that starts over fails at an earlier step than before.
	Before *Failure `json:"before,omitempty"`
}

// Of returns the failure of step, in f or in the failures before f; nil if the step has no failure.
func (f *Failure) Of(step StepRef) *Failure {
	for f != nil && f.Step() != step {
		f = f.Before
	}
	return f
}

// Step returns the step that failed.
func (f *Failure) Step() StepRef { return StepRef{f.Node, f.Subject} }

// Without returns f and the failures before f, without the failures of steps for which match returns true; nil if no
// failure is left.
func (f *Failure) Without(match func(StepRef) bool) *Failure {
	if f == nil {
		return nil
	}
	before := f.Before.Without(match)
	if match(f.Step()) {
		return before
	}
	left := *f
	left.Before = before
	return &left
}

// WithoutStep returns f and the failures before f, without the failure of step; nil if no failure is left.
func (f *Failure) WithoutStep(step StepRef) *Failure {
	return f.Without(func(s StepRef) bool { return s == step })
}

// Total returns the number of failures in f and in the failures before f.
func (f *Failure) Total() (n int) {
	for ; f != nil; f = f.Before {
		n += f.Count
	}
	return n
}

// A Claim records the epoch that processes a task, the start of the attempt, and the last slot of the batch. If Epoch
// is 0, no worker processes the task, and the task waits until its journal is executed again. In this case, End is the
// last slot of the tasks to which the journal belongs.
type Claim struct {
	Epoch uint64    `json:"epoch"`
	Since time.Time `json:"since,omitzero"`
	// End is the last slot that the claim covers; zero for the task's own slot.
	End uint64 `json:"end,omitempty"`
	// Again is set if an older epoch started the work and did not end it.
	Again bool `json:"again,omitempty"`
	// Crashes is the number of earlier epochs that crashed while they processed this task.
	Crashes int `json:"crashes,omitempty"`
	// Exclusive is set if no other task may run during the attempt.
	Exclusive bool `json:"alone,omitempty"`
	// Excused is set if crashes of the process are not counted for this claim.
	Excused bool `json:"excused,omitempty"`
	// Restored is set if the claim was made on an earlier task with the same item. That task may have been in another
	// queue.
	Restored bool `json:"restored,omitempty"`
	// Tasks replaces End when the tasks of a batch leave their slots for a lane: it is the number of tasks that the
	// claim covers. For a batch in its slots, and for a single task, Tasks is zero.
	Tasks int `json:"tasks,omitempty"`
}

// InlinePayload is the maximum size in bytes of a payload inside the header.
const InlinePayload = 2 << 10

// PayloadChunk is the maximum size in bytes of a piece of a larger payload. PayloadChunk is well
// below the maximum size of a value in any backend.
const PayloadChunk = 256 << 10

// SaveTask writes t's header at its position, and a large payload separately. SaveTask does not
// write a payload again that LoadPayload has read.
func SaveTask(tx *Tx, t *Task) error {
	indexEvent(tx, t, t.Pos.Key())
	return saveHeader(tx, t.Pos.Key(), t, header(tx, t))
}

// header returns a copy of t that can be encoded as its record. If the payload is large, header
// writes the payload separately and removes it from the copy.
func header(tx *Tx, t *Task) *Task {
	h := *t
	if len(t.Payload) <= InlinePayload {
		return &h
	}
	if t.Chunks == 0 {
		for rest := t.Payload; len(rest) > 0; t.Chunks++ {
			n := min(len(rest), PayloadChunk)
			tx.Put(payloadKey(t.ID, t.Chunks), rest[:n])
			rest = rest[n:]
		}
	}
	h.Chunks, h.Payload = t.Chunks, nil
	return &h
}

func saveHeader(tx *Tx, k Key, t *Task, header any) error {
	b, err := json.Marshal(header)
	if err != nil {
		return fmt.Errorf("task %s at node %s: %w", t.ID, t.Node, err)
	}
	tx.write(Write{Key: k, Value: b})
	return nil
}

// ReplacePayload sets the payload of t and deletes the pieces of the old payload. The caller must
// save t.
func ReplacePayload(tx *Tx, t *Task, payload json.RawMessage) {
	for i := range t.Chunks {
		tx.Delete(payloadKey(t.ID, i))
	}
	t.Payload, t.Chunks = payload, 0
}

// LoadTask reads the header at p, and reports whether there is one.
func LoadTask(tx *Tx, p Pos) (*Task, bool, error) {
	b := tx.Get(p.Key())
	if b == nil {
		return nil, false, nil
	}
	t, err := decodeTask(p, b)
	return t, err == nil, err
}

func decodeTask(p Pos, b []byte) (*Task, error) {
	t := new(Task)
	err := damageOf(p.Key(), b)
	if err == nil {
		err = recordError(p.Key(), json.Unmarshal(b, t))
	}
	if err != nil {
		return nil, fmt.Errorf("the task in slot %d of queue %s: %w", p.Slot, p.Queue, err)
	}
	t.Pos = p
	return t, nil
}

// LoadPayload reads the payload of t into t.Payload, if it is stored separately.
func LoadPayload(tx *Tx, t *Task) error {
	if t.Chunks == 0 || len(t.Payload) > 0 {
		return nil
	}
	var payload json.RawMessage
	for i := range t.Chunks {
		b := tx.Get(payloadKey(t.ID, i))
		if b == nil {
			return recordError(payloadKey(t.ID, i), fmt.Errorf("piece %d of the payload of task %s is missing", i, t.ID))
		}
		if err := damageOf(payloadKey(t.ID, i), b); err != nil {
			return fmt.Errorf("piece %d of the payload of task %s: %w", i, t.ID, err)
		}
		payload = append(payload, b...)
	}
	if !json.Valid(payload) {
		return recordError(payloadKey(t.ID, 0), fmt.Errorf("the payload of task %s is not JSON", t.ID))
	}
	t.Payload = payload
	return nil
}

// DropTask deletes t's header, the pieces of its payload, its items, its journal and its record in table [Events]. The
// caller must delete the records of t in other tables, such as [Unique].
func DropTask(tx *Tx, t *Task) {
	tx.Delete(t.Key())
	unindexEvent(tx, t)
	for i := range t.Chunks {
		tx.Delete(payloadKey(t.ID, i))
	}
	if t.FanOut != nil {
		for i := t.FanOut.Next; i < t.FanOut.Len; i++ {
			DeleteItem(tx, t.ID, i)
		}
	}
	if t.Journal {
		DropJournal(tx, t.ID)
	}
}

// SaveItem writes item i of the fan-out task id.
func SaveItem[T any](tx *Tx, id ID, i int, item T) error {
	return Save(tx, itemKey(id, i), item)
}

// LoadItem reads item i of the fan-out task id.
func LoadItem[T any](tx *Tx, id ID, i int) (T, error) {
	m, ok, err := Load[T](tx, itemKey(id, i))
	if err == nil && !ok {
		err = recordError(itemKey(id, i), fmt.Errorf("item %d of task %s is missing", i, id))
	}
	return m, err
}

// DeleteItem deletes item i of the fan-out task id.
func DeleteItem(tx *Tx, id ID, i int) { tx.Delete(itemKey(id, i)) }

func payloadKey(id ID, i int) Key { return At(Payloads).Uint(id.Epoch).Uint(id.N).Uint(uint64(i)) }

// firstItem is added to the number of an item in its key, so that the keys of the items of a task
// differ from the keys of the pieces of its payload.
const firstItem = 1 << 32

func itemKey(id ID, i int) Key { return payloadKey(id, i+firstItem) }
