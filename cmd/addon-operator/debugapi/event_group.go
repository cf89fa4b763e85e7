package debugapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// readTasks is the number of tasks in all queues together that one answer reads to find groups of events. When this
// number is reached, the answer reads at most shownTasks tasks of each further queue.
const readTasks = 2000

// fewEvents is the maximum number of waiting events of a binding that are shown in separate lines.
const fewEvents = 3

// An EventGroup is several waiting events of one binding. All tasks between the events of a group are events too, but
// can be events of other bindings.
type EventGroup struct {
	// Index is the position of the first event in the queue or in the list.
	Index   int      `json:"index"`
	Count   int      `json:"count"`
	First   store.ID `json:"first"`
	Last    store.ID `json:"last"`
	Node    string   `json:"node"`
	Hook    string   `json:"hook"`
	Binding string   `json:"binding"`
	// State is the common state of the events, if they are deferred or held; empty for events in a queue.
	State string `json:"state,omitempty"`
	// Newest is the object of the last event. Manager is the field manager that changed the object; empty
	// if it is not known.
	Newest  store.ObjectRef `json:"newest"`
	Manager string          `json:"manager,omitempty"`

	last  *store.Task
	lines []*TaskLine // lines of the tasks that were read
}

// eventGroups collects groups while the tasks of a list are read. The field open has the groups to which later events
// can still be added.
type eventGroups struct {
	open   []*EventGroup
	closed []*EventGroup
}

// close ends the open groups. close is called for a task that is not an event, and at the end of a list.
func (g *eventGroups) close() { g.closed, g.open = append(g.closed, g.open...), nil }

// add adds a task with its line. The argument state is the state of a deferred or held task; empty for a task in a
// queue.
func (g *eventGroups) add(t *store.Task, line *TaskLine, state string) {
	switch {
	case t.Object == nil:
		g.close()
		return
	case t.Claim != nil || t.Failed != nil:
		return // a running, interrupted or failed event is shown on a separate line
	}
	group := g.of(t, state)
	if group == nil {
		hook := t.Subject
		hook.Binding = ""
		group = &EventGroup{Index: line.Index, First: t.ID, Node: t.Node, Hook: hook.String(), Binding: t.Subject.Binding, State: state}
		g.open = append(g.open, group)
	}
	group.Count++
	group.last = t
	group.lines = append(group.lines, line)
}

// of returns the group of the event t; nil if there is none yet.
func (g *eventGroups) of(t *store.Task, state string) *EventGroup {
	for _, group := range g.open {
		if l := group.last; l.Subject == t.Subject && l.Node == t.Node && l.Queue == t.Queue && group.State == state {
			return group
		}
	}
	return nil
}

// countBehind adds to each open group the number of its events after the last task that was read. The argument read is
// the key of this task. If the newest event of a group cannot be read, the group keeps its last event.
func (g *eventGroups) countBehind(tx *store.Tx, read store.Key) error {
	for _, group := range g.open {
		count, newest, err := store.EventsBehind(tx, group.last, read)
		if err != nil && !isUnreadable(err) {
			return err
		}
		group.Count += count
		if newest != nil {
			group.last = newest
		}
	}
	return nil
}

// finish returns the groups of more than fewEvents events, in the order of their first events. finish marks the lines
// of the tasks in these groups.
func (g *eventGroups) finish(tx *store.Tx) (groups []EventGroup, err error) {
	for _, group := range append(g.closed, g.open...) {
		if group.Count <= fewEvents {
			continue
		}
		run, _, err := store.Load[store.Run](tx, store.RunKey(group.last.Run))
		if err != nil && !isUnreadable(err) {
			return nil, err
		}
		group.Last, group.Newest, group.Manager = group.last.ID, *group.last.Object, run.Cause.Manager
		groups = append(groups, *group)
		for _, line := range group.lines {
			line.Grouped = true
		}
	}
	slices.SortFunc(groups, func(a, b EventGroup) int { return cmp.Compare(a.Index, b.Index) })
	return groups, nil
}

// String describes the group.
func (g *EventGroup) String() string {
	text := fmt.Sprintf("%d events of hook %s, binding %s, newest: %s", g.Count, g.Hook, g.Binding, objectText(&g.Newest))
	if g.Manager != "" {
		text += ", changed by " + inspect.WriterText(g.Manager)
	}
	return text
}

// objectText describes an event of an object, such as "Modified Pod default/web".
func objectText(o *store.ObjectRef) string {
	return strings.TrimSpace(o.Event + " " + o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// A taskList writes a list of tasks as text.
type taskList struct {
	tasks  []TaskLine
	groups []EventGroup
	count  int  // number of all tasks, listed or not
	states bool // each line ends with the state of its task
}

// write writes the tasks and groups in the order of their indexes. The tasks of a group have no lines of
// their own. If layout.All is set, each task has a line, and groups are not written.
func (l taskList) write(b *strings.Builder, layout inspect.Layout) {
	groups, shown := l.groups, 0
	if layout.All {
		groups = nil
	}
	for i := range l.tasks {
		t := &l.tasks[i]
		for len(groups) > 0 && groups[0].Index <= t.Index {
			shown += l.writeGroup(b, layout, &groups[0])
			groups = groups[1:]
		}
		if layout.All || !t.Grouped {
			l.writeLine(b, layout, t.Index, t.Description, "["+t.ID+"]", t.State)
			shown++
		}
	}
	for i := range groups {
		shown += l.writeGroup(b, layout, &groups[i])
	}
	if more := l.count - shown; more > 0 {
		_, _ = fmt.Fprintf(b, "     and %d more\n", more)
	}
}

func (l taskList) writeGroup(b *strings.Builder, layout inspect.Layout, g *EventGroup) int {
	l.writeLine(b, layout, g.Index, g.String(), "["+g.First.String()+" to "+g.Last.String()+"]", g.State)
	return g.Count
}

func (l taskList) writeLine(b *strings.Builder, layout inspect.Layout, index int, text, id, state string) {
	end := "  " + id
	if l.states {
		text, end = text+end+", "+state, ""
	}
	b.WriteString(layout.Item(fmt.Sprintf("%3d. ", index), text, end))
}
