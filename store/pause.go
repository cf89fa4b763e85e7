package store

import (
	"time"

	"addon-operator/workflow/graph"
)

// A Pause describes who paused work, and why. While work is paused, its events and schedule ticks are still recorded,
// but no new attempt starts.
type Pause struct {
	By     string    `json:"by"`
	Reason string    `json:"reason"`
	At     time.Time `json:"at"`
}

// PausesQueue reports whether q is a pause of the given queue or of all work.
func (q *QuarantinedItem) PausesQueue(queue string) bool {
	return q.Paused != nil && q.Subject == (graph.Subject{}) && (q.Queue == "" || q.Queue == queue)
}

// What returns arguments for the command pause. They name the work that q pauses: all work, a queue, a module or a
// hook.
func (q *QuarantinedItem) What() []string {
	s := q.Subject
	switch {
	case s.Hook != "" && s.Module != "":
		return []string{"hook", s.Module + "/" + s.Hook}
	case s.Hook != "":
		return []string{"hook", s.Hook}
	case s.Module != "":
		return []string{"module", s.Module}
	case q.Queue != "":
		return []string{"queue", q.Queue}
	default:
		return []string{"all"}
	}
}

// PauseOfQueue returns the pause that keeps the tasks of the given queue from starting; nil if there is none.
func PauseOfQueue(tx *Tx, queue string) (*QuarantinedItem, error) {
	for q, err := range QuarantinedItems(tx) {
		if err != nil {
			return nil, err
		}
		if q.PausesQueue(queue) {
			return &q, nil
		}
	}
	return nil, nil
}
