package debugapi

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// readTasks is how many tasks are read to group the events among them. The tasks of all queues of a list share it.
const readTasks = 2000

// fewEvents is the number of waiting events of a binding up to which each is shown in a line of its own.
const fewEvents = 3

// An EventGroup is several waiting events of one binding. Other events can be between them, but no other task.
type EventGroup struct {
	// Index is the position of the first in the queue or in the list.
	Index   int      `json:"index"`
	Count   int      `json:"count"`
	First   store.ID `json:"first"`
	Last    store.ID `json:"last"`
	Node    string   `json:"node"`
	Hook    string   `json:"hook"`
	Binding string   `json:"binding"`
	// State is that of all events that are in no queue.
	State string `json:"state,omitempty"`
	// Newest is the object of the last event, and Manager the field manager that changed it, if that is known.
	Newest  store.ObjectRef `json:"newest"`
	Manager string          `json:"manager,omitempty"`

	last  *store.Task
	lines []*TaskLine // those of the listed tasks
}

// eventGroups collects groups of the events of a list of tasks.
type eventGroups struct {
	open   []*EventGroup
	closed []*EventGroup
}

// close ends the groups: the next task is in another one.
func (g *eventGroups) close() { g.closed, g.open = append(g.closed, g.open...), nil }

// add adds a task that line shows. state is that of a task in no queue.
func (g *eventGroups) add(t *store.Task, line *TaskLine, state string) {
	switch {
	case t.Object == nil:
		g.close()
		return
	case t.Claim != nil || t.Failed != nil:
		return // it is shown in a line of its own
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

// of returns the group that the event t belongs to, nil if there is none yet.
func (g *eventGroups) of(t *store.Task, state string) *EventGroup {
	for _, group := range g.open {
		if l := group.last; l.Subject == t.Subject && l.Node == t.Node && l.Queue == t.Queue && group.State == state {
			return group
		}
	}
	return nil
}

// countBehind adds the events to the open groups that are in the queue behind the last task that was read.
func (g *eventGroups) countBehind(tx *store.Tx, read store.Key) error {
	for _, group := range g.open {
		count, newest, err := store.EventsBehind(tx, group.last, read)
		if err != nil {
			return err
		}
		if newest != nil {
			group.Count += count
			group.last = newest
		}
	}
	return nil
}

// finish returns the groups that are shown in one line each, in the order of their first events, and marks the lines of
// their tasks.
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

// String returns the group in words.
func (g *EventGroup) String() string {
	text := fmt.Sprintf("%d events of hook %s, binding %s, newest: %s", g.Count, g.Hook, g.Binding, objectText(&g.Newest))
	if g.Manager != "" {
		text += ", changed by " + inspect.WriterText(g.Manager)
	}
	return text
}

// objectText returns what happened to an object.
func objectText(o *store.ObjectRef) string {
	return strings.TrimSpace(o.Event + " " + o.Kind + " " + strings.TrimPrefix(o.Namespace+"/"+o.Name, "/"))
}

// A taskList is tasks as lines of text: some of the first, and groups of events.
type taskList struct {
	tasks  []TaskLine
	groups []EventGroup
	count  int  // of all tasks, also those in neither
	states bool // each line ends with its state
}

// write writes the tasks and groups in the order of their indexes. Events of a group have no line of their own, unless look
// shows all.
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
