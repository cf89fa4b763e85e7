package workflow

import (
	"fmt"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/graph"
)

// besidePrefix begins the names of the queues in which members of a list run
// side by side.
const besidePrefix = "parallel-"

// home returns the queue that t counts as a task of.
func home(t *store.Task) string {
	if t.Home != "" {
		return t.Home
	}
	return t.Queue
}

// waitsBeside reports whether members of the list t run side by side elsewhere.
func waitsBeside(t *store.Task) bool {
	return t.List != nil && t.List.Edge && t.List.Side != "" && t.List.Open > 0
}

// seat returns the queue in which member, the next of the list t, is to run
// beside others, or none where it says itself where. It is not ready while
// members of another group run, or as many of its own as may.
func (m *move) seat(t *store.Task, member graph.Member) (queue string, ready bool, err error) {
	l := t.List
	grouped := member.Group != "" && member.Width > 1
	if l.Open > 0 && l.Side != member.Group && (l.Side != "" || grouped) {
		return "", false, nil
	}
	if queue, err = m.leftOver(t, member); queue != "" || err != nil {
		if l.Open > 0 {
			return "", false, err
		}
		l.Side = queue // what comes next waits for its end
		return queue, err == nil, err
	}
	if grouped && l.Side != member.Group {
		if grouped, err = m.hasFellow(t, member); err != nil {
			return "", false, err
		}
	}
	if !grouped {
		l.Side = ""
		return "", true, nil
	}
	if l.Open >= member.Width {
		return "", false, nil
	}
	l.Side = member.Group
	queue, err = m.freeSeat(t, member.Width)
	return queue, err == nil, err
}

// hasFellow reports whether the member behind the next of the list t is of the
// same group. One that is alone runs where the list stands.
func (m *move) hasFellow(t *store.Task, member graph.Member) (bool, error) {
	if t.List.Next+1 == t.List.Len {
		return false, nil
	}
	next, err := store.LoadMember[graph.Member](m.tx, t.ID, t.List.Next+1)
	return next.Group == member.Group, err
}

// freeSeat returns the first of width queues that holds no member of the list t,
// one that holds nothing at all if there is one.
func (m *move) freeSeat(t *store.Task, width int) (free string, err error) {
	for i := range width {
		queue := fmt.Sprint(besidePrefix, i)
		empty, taken := true, false
		for other, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return "", err
			}
			empty, taken = false, taken || other.Of != nil && other.Of.ID == t.ID
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
func (m *move) leftOver(t *store.Task, member graph.Member) (string, error) {
	_, n, err := m.e.boundTo(t)
	if err != nil {
		return "", err
	}
	once := n.Once
	for queue, err := range store.AllQueues(m.tx) {
		if err != nil {
			return "", err
		}
		if !strings.HasPrefix(queue, besidePrefix) || queue == t.Queue {
			continue
		}
		for other, err := range store.Tasks(m.tx, queue) {
			if err != nil {
				return "", err
			}
			if other.Home == "" || other.Graph != t.Graph || other.Subject.Module != member.Subject.Module {
				continue
			}
			if other.Orphan || once {
				return queue, nil
			}
		}
	}
	return "", nil
}

// keepBeside takes away what members of the list t have waiting. It reports
// whether any of them still run: then t stays until they have ended, and starts
// no more.
func (m *move) keepBeside(t *store.Task) (bool, error) {
	dropped, err := m.dropMembers(t)
	if err != nil {
		return false, err
	}
	t.List.Open -= dropped
	if t.List.Open == 0 {
		return false, nil
	}
	t.Orphan = true
	return true, m.save(t)
}

// clearBeside takes away the run of a member that stands side by side with
// others; bottom is the task of it that its list waits for. It reports whether
// nothing of it is left; a step that is being done takes bottom's part.
func (m *move) clearBeside(bottom *store.Task) (ended bool, err error) {
	var s stack
	for t, err := range store.Slot(m.tx, bottom.Queue, bottom.Place) {
		if err != nil {
			return false, err
		}
		s = append(s, t)
	}
	kept, err := m.clearStack(s, "")
	if err != nil || kept == nil {
		return err == nil, err
	}
	kept.Of = bottom.Of
	return false, m.save(kept)
}
