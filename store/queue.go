package store

import (
	"bytes"
	"encoding/json"
	"iter"

	"addon-operator/workflow/graph"
)

// QueueKey returns the common prefix of the keys of queue's tasks.
func QueueKey(queue string) Key { return At(Queues).Str(queue) }

// Head returns the header of the task that is processed next in queue: the top of the stack in its
// first slot. Head returns false for an empty queue.
func Head(tx *Tx, queue string) (*Task, bool, error) {
	for t, err := range Tasks(tx, queue) {
		return t, err == nil, err
	}
	return nil, false, nil
}

// Tasks yields the headers of queue's tasks in the order in which they are processed. The loop's
// body may change the tasks.
func Tasks(tx *Tx, queue string) iter.Seq2[*Task, error] {
	return tasks(tx.Range(At(Queues).Str(queue)))
}

// TasksFrom yields the headers of queue's tasks, beginning with the tasks in the given slot.
func TasksFrom(tx *Tx, queue string, slot uint64) iter.Seq2[*Task, error] {
	prefix := At(Queues).Str(queue)
	return tasks(tx.RangeFrom(prefix, prefix.Uint(slot)))
}

// Slot yields the headers of the tasks in one slot of the given queue, in the order in which they
// are processed.
func Slot(tx *Tx, queue string, slot uint64) iter.Seq2[*Task, error] {
	return tasks(tx.Range(QueueKey(queue).Uint(slot)))
}

// TasksOfHook yields the headers of the tasks of the hook s in the given queue, in the order in which they are
// processed. TasksOfHook begins at the slot whose number is the argument from. It skips the tasks of hooks with other
// names without decoding them, because there can be many. The loop's body may change the tasks.
func TasksOfHook(tx *Tx, queue string, from uint64, s graph.Subject) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		name, err := json.Marshal(s.Hook)
		if err != nil {
			yield(nil, err)
			return
		}
		part := append([]byte(`"hook":`), name...)
		for k, v := range tx.RangeFrom(QueueKey(queue), QueueKey(queue).Uint(from)) {
			if !bytes.Contains(v, part) {
				continue
			}
			t, err := queuedTask(k, v)
			if err == nil && (t.Subject.Module != s.Module || t.Subject.Hook != s.Hook) {
				continue
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func tasks(records iter.Seq2[Key, []byte]) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		for k, v := range records {
			if !yield(queuedTask(k, v)) {
				return
			}
		}
	}
}

// queuedTask decodes v, the header of a queued task with the key k.
func queuedTask(k Key, v []byte) (*Task, error) {
	p, err := ParsePos(k)
	if err != nil {
		return nil, recordError(k, err)
	}
	return decodeTask(p, v)
}

// AllTasks yields the headers of the tasks of all queues, one queue after the
// other. The loop's body may change the tasks.
func AllTasks(tx *Tx) iter.Seq2[*Task, error] { return tasks(tx.Range(At(Queues))) }

// AllQueues yields the names of the queues with tasks, shorter names first, without decoding the tasks.
func AllQueues(tx *Tx) iter.Seq2[string, error] { return QueuesFrom(tx, "") }

// QueuesFrom is like [AllQueues], but starts at the queue whose name is the argument first. If that queue is empty,
// QueuesFrom starts at the next queue.
func QueuesFrom(tx *Tx, first string) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		from := QueueKey(first)
		for {
			next := ""
			for k := range tx.RangeFrom(At(Queues), from) {
				p, err := ParsePos(k)
				if err != nil {
					yield("", err)
					return
				}
				next = p.Queue
				break
			}
			if next == "" {
				return
			}
			if !yield(next, nil) {
				return
			}
			from = QueueKey(next).end()
		}
	}
}

// TailSlot returns the slot after the last slot of the given queue; [FirstSlot] if the queue is empty.
func TailSlot(tx *Tx, queue string) (uint64, error) {
	for k := range tx.Backwards(At(Queues).Str(queue)) {
		p, err := ParsePos(k)
		return p.Slot + 1, err
	}
	return FirstSlot, nil
}

// FrontSlot returns the slot before the first slot of the given queue. The result is always less
// than [FirstSlot].
func FrontSlot(tx *Tx, queue string) (uint64, error) {
	for k := range tx.Range(At(Queues).Str(queue)) {
		p, err := ParsePos(k)
		return min(p.Slot, FirstSlot) - 1, err
	}
	return FirstSlot - 1, nil
}
