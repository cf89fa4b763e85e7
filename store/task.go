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

// An ID names a task: the epoch that created it and a counter within that epoch. It
// is never used again.
type ID struct{ Epoch, N uint64 }

// String returns the ID as people type it: "12-345".
func (id ID) String() string {
	return strconv.FormatUint(id.Epoch, 10) + "-" + strconv.FormatUint(id.N, 10)
}

// Before reports whether id was assigned before other.
func (id ID) Before(other ID) bool {
	return id.Epoch < other.Epoch || id.Epoch == other.Epoch && id.N < other.N
}

// IsZero reports whether id names no task.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID parses the result of [ID.String].
func ParseID(s string) (ID, error) {
	epoch, n, ok := strings.Cut(s, "-")
	e, err1 := strconv.ParseUint(epoch, 10, 64)
	c, err2 := strconv.ParseUint(n, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return ID{}, fmt.Errorf("%q is no task id: want two numbers joined by a dash, as in 12-345", s)
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
// The task with the greatest depth is processed first.
type Pos struct {
	Queue string `json:"queue"`
	Slot  uint64 `json:"place"`
	Depth uint32 `json:"height"`
}

// FirstSlot is the slot of the first task of an empty queue. Slots count up from it at the tail and
// down from it at the front.
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

// ParsePosInQueue parses the rest of a task's key after its [QueueKey]. The result has no queue.
func ParsePosInQueue(rest []byte) (Pos, error) {
	parts := Parts{rest: rest}
	p := Pos{Slot: parts.Uint(), Depth: ^parts.Uint32()}
	return p, parts.Err()
}

// A Task is one pending step as data: its node, its subject and its progress. A transition
// reads and writes only this header. A large payload and the items of a fan-out are stored
// separately, in [Payloads].
type Task struct {
	ID  ID         `json:"id"`
	Pos `json:"-"` // its key, not its value

	Graph   string        `json:"graph"`
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Run     uint64        `json:"walk"`
	Queued  time.Time     `json:"queued,omitzero"`

	// Payload is part of the header up to [InlinePayload] bytes. Larger ones are in Chunks separate
	// pieces, which [LoadPayload] reads.
	Payload json.RawMessage `json:"payload,omitempty"`
	Chunks  int             `json:"chunks,omitempty"`

	// Object is the object of a cluster event.
	Object *ObjectRef `json:"object,omitempty"`
	// AllowFailure is set if the binding allows its hook to fail.
	AllowFailure bool `json:"lenient,omitempty"`
	// NoBatch is set if an attempt must process this task alone.
	NoBatch bool `json:"alone,omitempty"`
	// OwnQueue marks an item of a node's fan-out that is processed in a queue of its own.
	OwnQueue bool `json:"solo,omitempty"`
	// Waits is set as long as an equal task that is added is dropped in favour of this one.
	Waits bool `json:"waits,omitempty"`
	// Parent is the fan-out task that waits for this task, or for its successors.
	Parent *Ref `json:"of,omitempty"`
	// FanOut is set if the task is a fan-out task.
	FanOut *FanOut `json:"list,omitempty"`
	// HomeQueue is the queue of the fan-out task if this task runs in a queue of a
	// parallel group.
	HomeQueue string `json:"home,omitempty"`
	// Past is the node to which a rewind leads back, once the run has begun it.
	Past string `json:"past,omitempty"`
	// Rewinds is the number of consecutive rewinds of the run to the node Past.
	Rewinds int `json:"rewinds,omitempty"`
	// Lagging is the number of runs of failing modules in retry queues that must end before this
	// task, the last one of its run, starts.
	Lagging int `json:"lagging,omitempty"`
	// Loop counts how many consecutive times the run has taken the same loop edge.
	Loop *Loop `json:"loop,omitempty"`
	// Failed is the last failure, until the failed node succeeds.
	Failed *Failure `json:"failed,omitempty"`
	// Due is the time at which a failed task is retried, or at which a deferred task returns to the
	// tail of its queue; zero means now.
	Due time.Time `json:"due,omitzero"`
	// Every is set while a rate limit defers the task. It is the time between two runs of the hook.
	Every time.Duration `json:"every,omitempty"`
	// Lane is the kind of the lane that holds the task. Such a task is in no queue.
	Lane string `json:"lane,omitempty"`
	// Claim is set while a worker processes the task, and while the task waits to execute its
	// journal. A claim of an older epoch was interrupted.
	Claim *Claim `json:"claim,omitempty"`
	// CancelsPending is set while waiting tasks of the module must still be removed from the queues
	// before the task starts.
	CancelsPending bool `json:"clears,omitempty"`
	// Prepared is set when the node's preparation is done.
	Prepared bool `json:"prepared,omitempty"`
	// Abandoned is set if the result of the task no longer counts. Its end is written to the history,
	// and has no other effect.
	Abandoned bool `json:"orphan,omitempty"`
	// Journal is set while an outcome with effects is stored in [Journal].
	Journal bool `json:"journal,omitempty"`
}

// IsHeld reports whether t is in a lane and in no queue.
func (t *Task) IsHeld() bool { return t.Lane != "" }

// An ObjectRef names one version of a cluster object, and the event about it.
type ObjectRef struct {
	Event           string `json:"event"` // Added, Modified or Deleted
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
	// meanwhile. That task counts this reference in its Lagging.
	Lags bool `json:"lags,omitempty"`
}

// A FanOut is the state of a fan-out task, which represents its items.
type FanOut struct {
	Len  int `json:"len"`
	Next int `json:"next"` // the first item that is neither done nor started
	Open int `json:"open"` // items in other queues that have not ended
	// Edge is set for the fan-out of an edge, which starts a task for each item. The fan-out task
	// of a node processes its items itself.
	Edge bool `json:"edge,omitempty"`
	// Group is the parallel group of the items that run now. An item of another group
	// starts after they have ended.
	Group string `json:"side,omitempty"`
	// Note is the note that the step returned with the items.
	Note json.RawMessage `json:"note,omitempty"`
	// Facts are those reported by items so far.
	Facts []string `json:"facts,omitempty"`
}

// A Loop counts how many consecutive times a run has taken one loop edge.
type Loop struct {
	From string `json:"from"` // the node at which the edge begins
	N    int    `json:"n"`
}

// A Failure has the last error of a run, the number of consecutive failures, and the step.
type Failure struct {
	Node    string        `json:"node"`
	Subject graph.Subject `json:"subject,omitzero"`
	Count   int           `json:"count"`
	Error   string        `json:"error"`
	At      time.Time     `json:"at"`
	// Since is the time of the first of Count failures. It is zero in a record of an older version.
	Since time.Time `json:"since,omitzero"`
}

// A Claim records the epoch that processes a task, the start of the attempt, and the last slot of
// the batch. With epoch 0 no worker processes the task: it waits to execute its journal, which
// covers the same slots as the claim.
type Claim struct {
	Epoch uint64    `json:"epoch"`
	Since time.Time `json:"since,omitzero"`
	// End is the last slot that the claim covers; zero for the task's own slot.
	End uint64 `json:"end,omitempty"`
	// Again is set if an older epoch started the work and did not end it.
	Again bool `json:"again,omitempty"`
	// Crashes is the number of earlier epochs that crashed while they processed this task.
	// Exclusive is set if no other task runs at the same time.
	Crashes   int  `json:"crashes,omitempty"`
	Exclusive bool `json:"alone,omitempty"`
	// Excused is set if the end of that epoch is no longer counted as a crash.
	Excused bool `json:"excused,omitempty"`
	// Tasks is the number of tasks that the claim covers, if these are not in their queue.
	Tasks int `json:"tasks,omitempty"`
}

// InlinePayload is the maximum size in bytes of a payload inside the header.
const InlinePayload = 2 << 10

// PayloadChunk is the maximum size in bytes of a piece of a larger payload, well below the maximum
// value of any backend.
const PayloadChunk = 256 << 10

// SaveTask writes t's header at its position, and a large payload separately. A loaded payload is
// not written again.
func SaveTask(tx *Tx, t *Task) error {
	indexEvent(tx, t, t.Pos.Key())
	return saveHeader(tx, t.Pos.Key(), t, header(tx, t))
}

// header returns the header of t. It writes a large payload separately.
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

// ReplacePayload gives t another payload; the caller saves t.
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

// LoadPayload reads t's payload if it is stored separately.
func LoadPayload(tx *Tx, t *Task) error {
	if t.Chunks == 0 || len(t.Payload) > 0 {
		return nil
	}
	for i := range t.Chunks {
		b := tx.Get(payloadKey(t.ID, i))
		if b == nil {
			return recordError(payloadKey(t.ID, i), fmt.Errorf("piece %d of the payload of task %s is missing", i, t.ID))
		}
		if err := damageOf(payloadKey(t.ID, i), b); err != nil {
			return fmt.Errorf("piece %d of the payload of task %s: %w", i, t.ID, err)
		}
		t.Payload = append(t.Payload, b...)
	}
	if !json.Valid(t.Payload) {
		t.Payload = nil
		return recordError(payloadKey(t.ID, 0), fmt.Errorf("the payload of task %s is not JSON", t.ID))
	}
	return nil
}

// DropTask deletes t's header and its separate records.
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

// firstItem separates the keys of items from those of a payload's pieces, because a task may have
// both.
const firstItem = 1 << 32

func itemKey(id ID, i int) Key { return payloadKey(id, i+firstItem) }
