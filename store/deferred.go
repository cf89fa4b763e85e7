package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"
)

// An outOfQueueTask is the record of a task that is in no queue, because it is deferred or held.
// The task returns to the tail of Queue. Until the task returns, its Pos has no slot.
type outOfQueueTask struct {
	Queue string `json:"queue"`
	*Task
}

// IsOutOfQueue reports whether t is in no queue, because it is deferred or held.
func (t *Task) IsOutOfQueue() bool { return t.Slot == 0 }

// Key returns the key of t's header: in table [Queues] for a queued task, in table [Held] for a held task, and in table
// [Deferred] for a deferred task.
func (t *Task) Key() Key {
	if t.IsHeld() {
		return t.LaneKey().held().Uint(t.ID.Epoch).Uint(t.ID.N)
	}
	if t.IsOutOfQueue() {
		return DeferredAt(t.Due).Uint(t.ID.Epoch).Uint(t.ID.N)
	}
	return t.Pos.Key()
}

// DeferredAt returns the prefix of the keys of the deferred tasks that are due at the given time.
func DeferredAt(due time.Time) Key {
	return At(Deferred).Uint(uint64(due.UnixNano())) //nolint:gosec // times in this century are positive
}

// SaveOutOfQueue writes the header of the task t, which must be in no queue.
func SaveOutOfQueue(tx *Tx, t *Task) error {
	indexEvent(tx, t, t.Key())
	return saveHeader(tx, t.Key(), t, outOfQueueTask{Queue: t.Queue, Task: header(tx, t)})
}

// LoadAt reads the task header under the key k, and reports whether there is one. The task can be queued, held or
// deferred.
func LoadAt(tx *Tx, k Key) (*Task, bool, error) {
	b := tx.Get(k)
	if b == nil {
		return nil, false, nil
	}
	t, err := decodeAt(k, b)
	return t, err == nil, err
}

func decodeAt(k Key, b []byte) (*Task, error) {
	if k.Table() == Queues {
		p, err := ParsePos(k)
		if err != nil {
			return nil, err
		}
		return decodeTask(p, b)
	}
	later := outOfQueueTask{Task: new(Task)}
	err := damageOf(k, b)
	if err == nil {
		err = recordError(k, json.Unmarshal(b, &later))
	}
	if err == nil {
		later.Task.Queue = later.Queue
		if string(later.Task.Key()) != string(k) {
			err = recordError(k, errors.New("its key is that of another task"))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("a task that is in no queue: %w", err)
	}
	return later.Task, nil
}

// DeferredTasks yields the headers of the deferred tasks, in the order in which they are due. If
// prefix is the result of DeferredAt, DeferredTasks yields only the tasks that are due at the time
// passed to DeferredAt. The loop's body may change the tasks.
func DeferredTasks(tx *Tx, prefix ...Key) iter.Seq2[*Task, error] {
	if len(prefix) == 0 {
		prefix = []Key{At(Deferred)}
	}
	return outOfQueue(tx.Range(prefix[0]))
}

func outOfQueue(records iter.Seq2[Key, []byte]) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		for k, v := range records {
			if !yield(decodeAt(k, v)) {
				return
			}
		}
	}
}
