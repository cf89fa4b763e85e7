package store

import (
	"bytes"
	"errors"
	"iter"

	"addon-operator/workflow/graph"
)

// An event is a task about a Kubernetes object. The table [Events] is an index of the events,
// ordered by queue, hook and binding: each record has the key of the header of one event. With this index,
// the events of one hook are found without reading the other tasks of its queue.

// eventKey returns the key of the index record of the event t.
func eventKey(t *Task) Key {
	return eventsLike(t).Uint(t.ID.Epoch).Uint(t.ID.N)
}

// eventsLike returns the prefix of the keys of the index records for the events that have the same
// queue, binding and node as t.
func eventsLike(t *Task) Key {
	return eventsOf(t.Queue, t.Subject).Str(t.Subject.Binding).Str(t.Graph).Str(t.Node)
}

// eventsOf returns the prefix of the keys of the index records for the events of the hook s in the
// given queue.
func eventsOf(queue string, s graph.Subject) Key {
	return At(Events).Str(queue).Str(s.Module).Str(s.Hook)
}

// indexEvent sets the index record of t to k, the key of t's header, if t is an event.
func indexEvent(tx *Tx, t *Task, k Key) {
	if t.Object == nil {
		return
	}
	if index := eventKey(t); !bytes.Equal(tx.Get(index), k) {
		tx.Put(index, k)
	}
}

// unindexEvent deletes the index record of t, if t is an event.
func unindexEvent(tx *Tx, t *Task) {
	if t.Object != nil {
		tx.Delete(eventKey(t))
	}
}

// EventsOf yields the headers of the events of the hook s in the given queue, whether they are
// queued, running, held or deferred. The events of one binding and node are in order, oldest first.
// The loop's body may change the tasks.
func EventsOf(tx *Tx, queue string, s graph.Subject) iter.Seq2[*Task, error] {
	return func(yield func(*Task, error) bool) {
		for k, header := range tx.Range(eventsOf(queue, s)) {
			if !yield(indexed(tx, k, header)) {
				return
			}
		}
	}
}

// indexed returns the event to which the index record under k refers.
func indexed(tx *Tx, k Key, header []byte) (*Task, error) {
	if err := damageOf(k, header); err != nil {
		return nil, err
	}
	t, ok, err := LoadAt(tx, Key(header))
	if err != nil {
		return nil, err
	}
	if !ok || t.Object == nil || !bytes.Equal(eventKey(t), k) {
		return nil, recordError(k, errors.New("it leads to no event"))
	}
	return t, nil
}

// CountEvents returns the number of events that have the same queue, binding and node as t.
// CountEvents does not read the events.
func CountEvents(tx *Tx, t *Task) (n int) {
	for range tx.Range(eventsLike(t)) {
		n++
	}
	return n
}

// EventsBehind returns the number of queued events that have the same queue, binding and node as t, and that are behind
// the task with the key k. EventsBehind also returns the newest of these events; nil if there are no such events.
// EventsBehind reads only the header of the newest event.
func EventsBehind(tx *Tx, t *Task, k Key) (n int, newest *Task, err error) {
	var last, header []byte
	for index, at := range tx.Skim(eventsLike(t)) {
		if len(at) > 0 && Table(at[0]) == Queues && bytes.Compare(at, k) > 0 {
			n++
			last, header = append(last[:0], index...), append(header[:0], at...)
		}
	}
	if n > 0 {
		newest, err = indexed(tx, last, header)
	}
	return n, newest, err
}

// BindingEvents describes the queued events of one binding and node in a queue.
type BindingEvents struct {
	Subject graph.Subject
	Count   int
	// First and Last are the keys of the headers of the oldest and the newest event.
	First, Last Key
}

// QueuedEvents yields descriptions of the events in the given queue, grouped by binding and node. Events that are held
// or deferred are left out. QueuedEvents does not read the tasks.
func QueuedEvents(tx *Tx, queue string) iter.Seq2[BindingEvents, error] {
	return func(yield func(BindingEvents, error) bool) {
		const id = 16 // bytes of a task id at the end of a key
		var group BindingEvents
		var like Key
		for k, header := range tx.Skim(At(Events).Str(queue)) {
			if len(k) < id || len(header) == 0 || Table(header[0]) != Queues {
				continue // the event is held or deferred
			}
			if !bytes.Equal(k[:len(k)-id], like) {
				if group.Count > 0 && !yield(group, nil) {
					return
				}
				parts, err := k.Parts()
				if err != nil {
					yield(group, err)
					return
				}
				_ = parts.Str() // the queue
				like, group = k[:len(k)-id], BindingEvents{Subject: graph.Subject{Module: parts.Str(), Hook: parts.Str(), Binding: parts.Str()}, First: header}
				if err := parts.Err(); err != nil {
					yield(group, err)
					return
				}
			}
			group.Count++
			group.Last = header
		}
		if group.Count > 0 {
			yield(group, nil)
		}
	}
}

// ReindexEvents makes the index of events match the headers of all tasks. ReindexEvents returns an
// error if a header cannot be read.
func ReindexEvents(tx *Tx) error {
	for k, header := range tx.Range(At(Events)) {
		if _, err := indexed(tx, k, header); err != nil {
			tx.Delete(k)
		}
	}
	for _, table := range []Table{Queues, Deferred, Held} {
		for k, v := range tx.Range(At(table)) {
			t, err := decodeAt(k, v)
			if err != nil {
				return err
			}
			indexEvent(tx, t, k)
		}
	}
	return nil
}
