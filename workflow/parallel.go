package workflow

import (
	"fmt"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// parallelPrefix begins the names of the queues in which members of a list run
// side by side.
const parallelPrefix = "parallel-"

// homeQueue returns the queue that t counts as a task of.
func homeQueue(t *store.Task) string {
	if t.HomeQueue != "" {
		return t.HomeQueue
	}
	return t.Queue
}

// waitsForGroup reports whether members of the list t run side by side elsewhere.
func waitsForGroup(t *store.Task) bool {
	return t.FanOut != nil && t.FanOut.Edge && t.FanOut.Group != "" && t.FanOut.Open > 0
}

// laneForItem returns the queue in which member, the next of the list t, is to run
// beside others, or none where it says itself where. It is not ready while
// members of another group run, or as many of its own as may.
func (m *transition) laneForItem(t *store.Task, item graph.Item) (queue string, ready bool, err error) {
	l := t.FanOut
	grouped := item.Group != "" && item.Width > 1
	if l.Open > 0 && l.Group != item.Group && (l.Group != "" || grouped) {
		return "", false, nil
	}
	if queue, err = m.leftOver(t, item); queue != "" || err != nil {
		if l.Open > 0 {
			return "", false, err
		}
		l.Group = queue // what comes next waits for its end
		return queue, err == nil, err
	}
	if grouped && l.Group != item.Group {
		if grouped, err = m.hasFellow(t, item); err != nil {
			return "", false, err
		}
	}
	if !grouped {
		l.Group = ""
		return "", true, nil
	}
	if l.Open >= item.Width {
		return "", false, nil
	}
	l.Group = item.Group
	queue, err = m.freeLane(t, item.Width)
	return queue, err == nil, err
}

// hasFellow reports whether the member behind the next of the list t is of the
// same group. One that is alone runs where the list stands.
func (m *transition) hasFellow(t *store.Task, item graph.Item) (bool, error) {
	if t.FanOut.Next+1 == t.FanOut.Len {
		return false, nil
	}
	next, err := store.LoadItem[graph.Item](m.tx, t.ID, t.FanOut.Next+1)
	return next.Group == item.Group, err
}

// freeLane returns the first of width queues that holds no member of the list t,
// one that holds nothing at all if there is one.
func (m *transition) freeLane(t *store.Task, width int) (free string, err error) {
	for i := range width {
		queue := fmt.Sprint(parallelPrefix, i)
		empty, taken := true, false
		for other, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return "", err
			}
			empty, taken = false, taken || other.Parent != nil && other.Parent.ID == t.ID
		}
		if empty {
			return queue, nil
		}
		if free == "" && !taken {
			free = queue
		}
	}
	return free, nil
}

// leftOver returns the lane in which a step of member's module, of a run that
// was superseded, has yet to end: the new run goes behind it. A run of a Unique node also goes
// behind one that another list has there, so that a module never runs twice at a time.
func (m *transition) leftOver(t *store.Task, item graph.Item) (string, error) {
	_, n, err := m.e.boundTo(t)
	if err != nil {
		return "", err
	}
	once := n.Unique
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(queue, parallelPrefix) || queue == t.Queue {
			continue
		}
		for other, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return "", err
			}
			if other.HomeQueue == "" || other.Graph != t.Graph || other.Subject.Module != item.Subject.Module {
				continue
			}
			if other.Abandoned || once {
				return queue, nil
			}
		}
	}
	return "", nil
}

// keepGroup takes away what members of the list t have waiting. It reports
// whether any of them still run: then t stays until they have ended, and starts
// no more.
func (m *transition) keepGroup(t *store.Task) (bool, error) {
	dropped, err := m.cancelItems(t)
	if err != nil {
		return false, err
	}
	t.FanOut.Open -= dropped
	if t.FanOut.Open == 0 {
		return false, nil
	}
	t.Abandoned = true
	return true, m.save(t)
}

// cancelGroupItem takes away the run of a member that stands side by side with
// others; bottom is the task of it that its list waits for. It reports whether
// nothing of it is left; a step that is being done takes bottom's part.
func (m *transition) cancelGroupItem(bottom *store.Task) (ended bool, err error) {
	var s stack
	for t, err := range store.Slot(m.tx, bottom.Queue, bottom.Slot) {
		if err != nil {
			return false, err
		}
		s = append(s, t)
	}
	kept, err := m.cancelStack(s, "")
	if err != nil || kept == nil {
		return err == nil, err
	}
	kept.Parent = bottom.Parent
	return false, m.save(kept)
}
