package webui

import (
	"net/http"
	"net/url"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// queues is the model of the view of all queues.
type queues struct {
	frame

	List debugapi.QueueList
}

func (p *reader) queues(r *http.Request) (model, error) {
	q := &queues{frame: p.frame(r, "Queues", command("queue", "list", "--show-empty"))}
	return q, p.api.get(r.Context(), "/queue/list", url.Values{"showEmpty": {"true"}}, &q.List)
}

// First returns a copy of d with only the first five tasks. The field More of the copy is the number of
// the other tasks.
func (*queues) First(d debugapi.QueueDump) debugapi.QueueDump {
	const most = 5
	if len(d.Tasks) > most {
		d.Tasks = d.Tasks[:most]
	}
	d.More = d.TasksCount - len(d.Tasks)
	return d
}

// A queue is the model of the view of one queue.
type queue struct {
	frame

	Queue debugapi.QueueDump
	Pause pauseControl
}

func (p *reader) queue(r *http.Request) (model, error) {
	name := r.PathValue("queue")
	q := &queue{frame: p.frame(r, "Queue "+name, command("queue", "show", name), command("why", name))}
	if err := p.api.get(r.Context(), "/queue/show", url.Values{"queue": {name}}, &q.Queue); err != nil {
		return nil, err
	}
	var err error
	q.Pause, err = p.pauseOf(r, "queue", name)
	return q, err
}

// A task is the model of the view of one pending or ended task.
type task struct {
	frame

	ID  string
	Why inspect.Why
	// Each of the fields Running, Failing and Quarantined is set if the task is in the state of
	// that name. These fields select the action buttons that the view shows.
	Running, Failing, Quarantined bool
	Output                        inspect.Timeline
}

func (p *reader) task(r *http.Request) (model, error) {
	id := r.PathValue("task")
	t := &task{frame: p.frame(r, "Task "+id, command("why", id), command("logs", id)), ID: id}
	var status inspect.Status
	if err := p.api.get(r.Context(), "/status", nil, &status); err != nil {
		return nil, err
	}
	for i := range status.Running {
		t.Running = t.Running || status.Running[i].Task.String() == id
	}
	for i := range status.Problems {
		if problem := &status.Problems[i]; problem.Task.String() == id {
			t.Failing = t.Failing || problem.Kind == inspect.KindFailing
			t.Quarantined = t.Quarantined || problem.Kind == inspect.KindQuarantined
		}
	}
	if err := p.api.get(r.Context(), "/workflow/why", url.Values{"subject": {id}}, &t.Why); err != nil {
		return nil, err
	}
	var err error
	t.Output, err = p.outputOf(r, id, debugapi.ShownLogs)
	return t, err
}
