package debugapi

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/inspect"
)

// shownTasks is the number of tasks at the head of a queue that a list always shows. Of the tasks behind them, the list
// shows up to shownTasks tasks that are in no group of events. All other tasks are only counted.
const shownTasks = 200

// A QueueList has the queues with their tasks, in the format of the queue dump of flant/shell-operator.
type QueueList struct {
	Active []QueueDump `json:"active"`
	Empty  []QueueDump `json:"empty,omitempty"`
	// Later has the first deferred and held tasks, which are in no queue. LaterEvents has the groups of deferred and
	// held events. LaterCount is the number of all deferred and held tasks.
	Later       []TaskLine   `json:"later,omitempty"`
	LaterEvents []EventGroup `json:"laterEvents,omitempty"`
	LaterCount  int          `json:"laterCount,omitempty"`
	Summary     queueSummary `json:"summary"`
}

type queueSummary struct {
	MainQueueTasks int         `json:"mainQueueTasks"`
	OtherQueues    otherQueues `json:"otherQueues"`
	TotalTasks     int         `json:"totalTasks"`
}

type otherQueues struct {
	Active int `json:"active"`
	Empty  int `json:"empty"`
	Tasks  int `json:"tasks"`
}

// A QueueDump is one queue with its first tasks.
type QueueDump struct {
	Name       string `json:"name"`
	TasksCount int    `json:"tasksCount"`
	Status     string `json:"status"`
	// Tasks has the tasks at the head of the queue, and some of the tasks behind them that are in no group of events.
	// More is the number of tasks of the queue that are not in Tasks.
	Tasks []TaskLine `json:"tasks,omitempty"`
	More  int        `json:"more,omitempty"`
	// Events has the groups of waiting events. An event that is in a group and among the first tasks of the queue is
	// also in Tasks.
	Events []EventGroup `json:"events,omitempty"`
}

// A TaskLine is one task of a list.
type TaskLine struct {
	Index       int    `json:"index"`
	ID          string `json:"id"`
	Description string `json:"description"`
	State       string `json:"state"`
	// Reason is the reason why the task cannot start; nil if there is none. Reason is also nil if other tasks are
	// before the task in its queue.
	Reason *store.Reason `json:"reason,omitempty"`
	// Grouped is set if the task is in a group of events.
	Grouped bool `json:"grouped,omitempty"`
}

// A queueReader reads the tasks in queues, and the deferred and held tasks. If redacted is true, it omits the errors of
// failed tasks, and the errors in the reasons of held tasks: these errors can quote the output of hooks.
type queueReader struct {
	db       *store.DB
	engine   *workflow.Engine // nil if no operator runs
	redacted bool
}

// queueRoute serves a path below /queue/: all queues for "list", the main queue for "main", and the
// queue that r names for "show".
func (reader queueReader) queueRoute(r *http.Request, path string) (Page, error) {
	list, err := reader.queues()
	if err != nil {
		return Page{}, err
	}
	switch path {
	case "list":
		if r.URL.Query().Get("showEmpty") != "true" {
			list.Empty = nil
		}
	case "main", "show":
		name := workflow.Main
		if path == "show" {
			name = r.URL.Query().Get("queue")
		}
		one, found := list.named(name)
		if !found {
			return Page{}, notFound("no queue is called %q; see addon-operator queue list --show-empty", name)
		}
		return Page{one, func(l inspect.Layout) string { return one.Text(l) }}, nil
	default:
		return Page{}, notFound("there is no /queue/%s: ask for /queue/list, /queue/main or /queue/show?queue=NAME", path)
	}
	return Page{list, func(l inspect.Layout) string { return list.Text(l) }}, nil
}

// named returns the queue with the given name. named also finds the queue main and the queues of attached bindings if
// they are empty. Scripts that wait until one of these queues is empty need the answer for an empty queue.
func (q *QueueList) named(name string) (QueueDump, bool) {
	for _, d := range append(q.Active, q.Empty...) {
		if d.Name == name {
			return d, true
		}
	}
	return QueueDump{Name: name, Status: noTasks}, name == workflow.Main
}

// queues returns the queues with tasks, and the empty queues: main and the queues of attached bindings.
func (reader queueReader) queues() (list *QueueList, err error) {
	list = &QueueList{Active: []QueueDump{}}
	left := readTasks
	err = reader.db.View(func(tx *store.Tx) error {
		holds := map[string]bool{}
		for name, err := range store.AllQueues(tx) {
			if err != nil {
				return err
			}
			holds[name] = true
			q, err := reader.queue(tx, name, &left)
			if err != nil {
				return err
			}
			list.Active = append(list.Active, q)
		}
		empty, err := boundQueues(tx)
		if err != nil {
			return err
		}
		for _, name := range empty {
			if !holds[name] {
				list.Empty = append(list.Empty, QueueDump{Name: name, Status: noTasks})
			}
		}
		return reader.later(tx, list)
	})
	list.sum()
	return list, err
}

// boundQueues returns the names of main and of the queues of attached bindings, sorted. boundQueues passes over
// bindings whose records cannot be read.
func boundQueues(tx *store.Tx) ([]string, error) {
	names := []string{workflow.Main}
	for k := range tx.Range(store.At(store.Bindings)) {
		b, _, err := store.Load[store.Binding](tx, k)
		if isUnreadable(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !b.Detached && b.Queue != "" && !slices.Contains(names, b.Queue) {
			names = append(names, b.Queue)
		}
	}
	slices.Sort(names)
	return names, nil
}

func (q *QueueList) sum() {
	for _, d := range q.Active {
		q.Summary.TotalTasks += d.TasksCount
		if d.Name == workflow.Main {
			q.Summary.MainQueueTasks = d.TasksCount
			continue
		}
		q.Summary.OtherQueues.Active++
		q.Summary.OtherQueues.Tasks += d.TasksCount
	}
	for _, d := range q.Empty {
		if d.Name != workflow.Main {
			q.Summary.OtherQueues.Empty++
		}
	}
	q.Summary.TotalTasks += q.LaterCount
	// The main queue comes first.
	slices.SortStableFunc(q.Active, func(a, b QueueDump) int {
		switch {
		case a.Name == b.Name:
			return 0
		case a.Name == workflow.Main:
			return -1
		case b.Name == workflow.Main:
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// queue reads the first *left tasks of a queue, or the first shownTasks tasks if *left is smaller. queue only counts
// the other tasks and the tasks that cannot be read. queue reduces *left by the number of tasks that it has read, so
// *left can become negative.
func (reader queueReader) queue(tx *store.Tx, name string, left *int) (QueueDump, error) {
	q := QueueDump{Name: name}
	var all []*TaskLine
	var groups eventGroups
	most := max(*left, shownTasks)
	for t, err := range store.Readable(store.Tasks(tx, name)) {
		if err != nil {
			return q, err
		}
		state, reason, err := reader.stateOf(tx, t, len(all) == 0)
		if err != nil {
			return q, err
		}
		line := reader.lineOf(t, len(all)+1, state)
		line.Reason = reason
		all = append(all, &line)
		groups.add(t, &line, "")
		// The running task need not be the first task of the queue, because a task can be put
		// before it.
		if q.Status == "" || strings.HasPrefix(state, Running) && !strings.HasPrefix(q.Status, Running) {
			q.Status = state
		}
		if len(all) == most {
			if err := groups.countBehind(tx, t.Key()); err != nil {
				return q, err
			}
			break
		}
	}
	*left -= len(all)
	if len(all) == 0 {
		q.Status = unreadable
	}
	var err error
	q.Events, err = groups.finish(tx)
	q.Tasks = listed(all)
	q.TasksCount = countRecords(tx, store.QueueKey(name))
	q.More = q.TasksCount - len(q.Tasks)
	return q, err
}

// listed returns the first shownTasks lines. Of the other lines, listed returns the lines of tasks that are in no
// group. listed returns at most 2*shownTasks lines.
func listed(all []*TaskLine) (lines []TaskLine) {
	for _, line := range all {
		if line.Index <= shownTasks || !line.Grouped {
			lines = append(lines, *line)
		}
		if len(lines) == 2*shownTasks {
			break
		}
	}
	return lines
}

// countRecords returns the number of records whose keys have the given prefix. countRecords does not decode the
// records.
func countRecords(tx *store.Tx, prefix store.Key) (n int) {
	for range tx.Skim(prefix) {
		n++
	}
	return n
}

const (
	// Running is the text with which the state of a running task begins.
	Running  = "runs"
	retrying = "sleep after fail"
	idle     = "waits"
	noTasks  = "waits for tasks"
	// unreadable is the status of a queue if none of its tasks can be read.
	unreadable = "no task can be read, see addon-operator status"
)

// stateOf describes the state of t. If t is the first task of its queue and cannot start, stateOf also
// returns the reason.
func (reader queueReader) stateOf(tx *store.Tx, t *store.Task, first bool) (state string, reason *store.Reason, err error) {
	switch {
	case t.Claim != nil && t.Claim.Epoch > 0 && (reader.engine == nil || t.Claim.Epoch != reader.db.Epoch()):
		return "interrupted by a stop, continues when the operator processes the task", nil, nil
	case t.Claim != nil && t.Claim.Epoch > 0:
		return fmt.Sprintf("%s for %s", Running, Short(tx.Now().Sub(t.Claim.Since))), nil, nil
	case first:
		reason, err = workflow.BlockedBy(tx, t)
	}
	left := Short(t.Due.Sub(tx.Now()))
	switch {
	case err != nil:
		return "", nil, err
	case reason.Is(store.AwaitsQueue):
		state = reason.String()
	case t.Failed != nil && t.Due.After(tx.Now()):
		state = fmt.Sprintf("%s for %s (%s left)", retrying, Short(t.Due.Sub(t.Failed.At)), left)
	case reason != nil:
		state = reason.String()
	case t.Failed != nil:
		state = "failed, is tried again"
	default:
		state = idle
	}
	return state, reason, nil
}

// Short returns d as text. Short rounds d to 1 s if d is at least 10 s, to 100 ms if d is at least
// 1 s, to 1 ms if d is at least 10 ms, and to 100 µs otherwise. If d is negative, Short returns "0s".
func Short(d time.Duration) string {
	if d < 0 {
		return "0s"
	}
	unit := time.Second
	switch {
	case d < 10*time.Millisecond:
		unit = 100 * time.Microsecond
	case d < time.Second:
		unit = time.Millisecond
	case d < 10*time.Second:
		unit = 100 * time.Millisecond
	}
	return d.Round(unit).String()
}

// lineOf returns the line of t, which is the index-th task of its list.
func (reader queueReader) lineOf(t *store.Task, index int, state string) TaskLine {
	line := TaskLine{Index: index, ID: t.ID.String(), Description: describe(t), State: state}
	if t.Failed != nil && !reader.redacted {
		message := strings.Join(strings.Fields(t.Failed.Error), " ")
		if where := t.Failed.Subject.String(); where != "" && t.Failed.Subject != t.Subject {
			message = where + ": " + message
		}
		line.Description += ":" + message
	}
	return line
}

// describe returns the node, the queue, the subject, the object, the progress of a fan-out, and the number of failures
// of t, separated by colons. describe omits the parts that t does not have.
func describe(t *store.Task) string {
	parts := []string{t.Node, t.Queue}
	if subject := t.Subject.String(); subject != "" {
		parts = append(parts, subject)
	}
	if t.Object != nil {
		parts = append(parts, objectText(t.Object))
	}
	if t.FanOut != nil {
		parts = append(parts, fmt.Sprintf("%d of %d", min(t.FanOut.Next+1, t.FanOut.Len), t.FanOut.Len))
	}
	if t.Failed != nil {
		parts = append(parts, fmt.Sprintf("failures %d", t.Failed.Count))
	}
	return strings.Join(parts, ":")
}

// later adds to list the deferred tasks and the held tasks, which are in no queue.
func (reader queueReader) later(tx *store.Tx, list *QueueList) error {
	later := outOfQueue{reader: reader}
	if err := later.due(tx); err != nil {
		return err
	}
	if err := later.held(tx); err != nil {
		return err
	}
	var err error
	list.LaterEvents, err = later.groups.finish(tx)
	list.Later = listed(later.lines)
	list.LaterCount = countRecords(tx, store.At(store.Deferred)) + countRecords(tx, store.At(store.Held))
	return err
}

// outOfQueue collects deferred and held tasks. The constant readTasks is the maximum number of collected tasks.
type outOfQueue struct {
	reader queueReader
	lines  []*TaskLine
	groups eventGroups
}

// add adds a task. add returns false if the maximum number of tasks is reached.
func (o *outOfQueue) add(t *store.Task, state string, reason *store.Reason) bool {
	line := o.reader.lineOf(t, len(o.lines)+1, state)
	line.Reason = reason
	o.lines = append(o.lines, &line)
	o.groups.add(t, &line, state)
	return len(o.lines) < readTasks
}

// due adds the first deferred tasks, up to the maximum number of tasks.
func (o *outOfQueue) due(tx *store.Tx) error {
	for t, err := range store.Readable(store.DeferredTasks(tx)) {
		if err != nil {
			return err
		}
		reason, err := workflow.BlockedBy(tx, t)
		if err != nil {
			return err
		}
		state := "due now"
		if reason != nil {
			state = reason.String() + ", due in " + Short(reason.Until.Sub(tx.Now()))
		}
		if !o.add(t, state, reason) {
			break
		}
	}
	o.groups.close()
	return nil
}

// held adds the first held tasks, with the reasons that hold them, up to the maximum number of tasks.
func (o *outOfQueue) held(tx *store.Tx) error {
	for lane, err := range store.Readable(store.AllLanes(tx)) {
		if err != nil {
			return err
		}
		state, reason := "goes back to its queue", (*store.Reason)(nil)
		if !lane.Open {
			reason = &lane.Reason
			if o.reader.redacted {
				reason = reason.WithoutError()
			}
			state = reason.String()
		}
		for t, err := range store.Readable(store.HeldTasks(tx, lane.LaneKey)) {
			if err != nil {
				return err
			}
			if !o.add(t, state, reason) {
				return nil
			}
		}
		o.groups.close()
	}
	return nil
}

// Text returns the queue as text, for people and for scripts that search it.
func (d *QueueDump) Text(layout inspect.Layout) string {
	var b strings.Builder
	_, _ = fmt.Fprintf(&b, "Queue '%s': length %d, status: '%s'\n", d.Name, d.TasksCount, d.Status)
	taskList{tasks: d.Tasks, groups: d.Events, count: d.TasksCount}.write(&b, layout)
	b.WriteString("\n")
	return b.String()
}

// Text returns the queues as text.
func (q *QueueList) Text(layout inspect.Layout) string {
	var b strings.Builder
	for i := range q.Active {
		b.WriteString(q.Active[i].Text(layout))
	}
	if len(q.Later) > 0 {
		b.WriteString("Later, in no queue yet:\n")
		taskList{tasks: q.Later, groups: q.LaterEvents, count: q.LaterCount, states: true}.write(&b, layout)
		b.WriteString("\n")
	}
	if len(q.Empty) > 0 {
		var names []string
		for _, d := range q.Empty {
			names = append(names, "'"+d.Name+"'")
		}
		b.WriteString(layout.Item("", "Empty queues: "+strings.Join(names, ", "), "") + "\n")
	}
	main := "empty"
	if q.Summary.MainQueueTasks > 0 {
		main = count(q.Summary.MainQueueTasks, "task")
	}
	others := "empty"
	if q.Summary.OtherQueues.Active > 0 {
		others = fmt.Sprintf("%s in %s", count(q.Summary.OtherQueues.Tasks, "task"), count(q.Summary.OtherQueues.Active, "queue"))
	}
	_, _ = fmt.Fprintf(&b, "Summary:\n- 'main' queue: %s.\n- other queues: %s.\n- in all: %s.\n", main, others, count(q.Summary.TotalTasks, "task"))
	return b.String()
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
