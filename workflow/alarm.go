package workflow

import (
	"sync"
	"time"
)

// longestSleep is the maximum time that an alarm sleeps before it reads the clock again. The timer
// of an alarm and the clock can differ: a timer counts elapsed time, but a person can set the
// clock, and the clock jumps when a machine wakes from sleep.
const longestSleep = time.Minute

// alarms start work when the head of a queue or the first deferred task is due. There is at most one
// alarm for each queue, and one for the deferred tasks. There is no alarm before the call of the
// method open or after the call of close.
type alarms struct {
	now  func() time.Time
	ring func(followUp)

	mu      sync.Mutex
	byQueue map[string]*alarm // nil before the call of open and after the call of close; guarded by mu
}

// An alarm starts its work at the due time of the work.
type alarm struct {
	work  followUp
	timer *time.Timer
	left  time.Duration // time until the work is due, as counted by the timer
}

// sleep returns how long to wait before the clock is read again.
func (a *alarm) sleep() time.Duration { return min(a.left, longestSleep) }

// open allows alarms to be set. The argument ring is a function that is called with the work of an
// alarm when this work is due. The argument now is a function that returns the time of the clock.
func (s *alarms) open(now func() time.Time, ring func(followUp)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now, s.ring, s.byQueue = now, ring, map[string]*alarm{}
}

// close stops all alarms.
func (s *alarms) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.byQueue {
		a.timer.Stop()
	}
	s.byQueue = nil
}

// arm sets an alarm for the work f. arm replaces the alarm for the same queue. Before the call of
// open and after the call of close, arm does nothing.
func (s *alarms) arm(now time.Time, f followUp) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byQueue == nil {
		return
	}
	if old := s.byQueue[f.queue]; old != nil {
		old.timer.Stop()
	}
	a := &alarm{work: f, left: f.due.Sub(now)}
	s.byQueue[f.queue] = a
	a.timer = time.AfterFunc(a.sleep(), func() {
		if s.rings(a) {
			s.ring(f)
		}
	})
}

// rings reports whether the work of a is due. The work is due when the clock reaches its due time.
// Because a person can set back the clock, the work is also due when the timer has counted the whole
// delay. If the work is not due yet, rings starts the timer again. If a was replaced or stopped,
// rings returns false.
func (s *alarms) rings(a *alarm) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byQueue[a.work.queue] != a {
		return false
	}
	if a.left -= a.sleep(); a.left <= 0 || !s.now().Before(a.work.due) {
		return true
	}
	a.timer.Reset(a.sleep())
	return false
}
