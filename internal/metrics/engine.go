package metrics

import "time"

// QueueActed observes the duration of an action of the engine on a queue.
func (s *Set) QueueActed(queue, action string, took time.Duration) {
	s.queueAction.WithLabelValues(queue, action).Observe(took.Seconds())
}

// Committed observes a commit of the store and its number of written keys.
func (s *Set) Committed(took time.Duration, writes int) {
	s.commit.Observe(took.Seconds())
	s.commitWrites.Add(float64(writes))
}
