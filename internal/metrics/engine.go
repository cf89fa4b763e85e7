package metrics

import "time"

// QueueActed observes an action of the engine on a queue.
func (s *Set) QueueActed(queue, action string, took time.Duration) {
	s.queueAction.WithLabelValues(queue, action).Observe(took.Seconds())
}

// Committed observes a commit of the store that wrote so many keys.
func (s *Set) Committed(took time.Duration, writes int) {
	s.commit.Observe(took.Seconds())
	s.commitWrites.Add(float64(writes))
}

// FilterTook observes what the jqFilter of a binding took on an object of kind.
func (s *Set) FilterTook(b Binding, kind string, took time.Duration) {
	s.filterTime.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue, kind).Observe(took.Seconds())
}

// EventTook observes how long it took until a change of an object of kind stood
// in the queue of a binding.
func (s *Set) EventTook(b Binding, kind string, took time.Duration) {
	s.eventTime.WithLabelValues(b.Module, b.Hook, b.Name, b.Queue, kind).Observe(took.Seconds())
}
