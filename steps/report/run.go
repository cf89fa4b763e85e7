package report

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/steps/oncelog"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// Runs reports the runs of hooks for tasks, and logs their output.
type Runs struct {
	Log      *oncelog.Logger
	Observer Observer
}

// Ran reports a run of the hook of t. The argument err is nil if the run succeeded.
func (r *Runs) Ran(t workflow.Task, binding string, u hook.Usage, err error) {
	r.Observer.HookRan(Run{Task: t, Node: graph.NodeID(t.Node), Binding: binding, Usage: u, Err: err})
}

// Output returns a function that must be called for each line that the hook of t prints. The argument event is the
// binding type of the run. The function logs the line, with fields that describe the task, and adds the line to the
// output of the attempt. In this output, a line of an enabled script begins with the name of its module, because one
// attempt runs several scripts.
func (r *Runs) Output(t workflow.Task, event string) func(hook.Stream, string) {
	binding := t.Subject.Binding
	if binding == "" {
		binding = event
	}
	log := r.Log.With().
		Str("module", t.Subject.Module).Str("hook", t.Subject.Hook).Str("binding", binding).Str("event.type", event).
		Str("node", t.Node).Str("queue", t.Queue).Str("task.id", t.ID.String()).Logger()
	toLog, lead := Lines(log), ""
	if event == "enabled" {
		lead = t.Subject.String() + ": "
	}
	return func(stream hook.Stream, line string) {
		toLog(stream, line)
		t.Print(lead + line)
	}
}

// Lines returns a function that must be called for each line that a hook prints. The function writes the line to log.
func Lines(log zerolog.Logger) func(hook.Stream, string) {
	return func(stream hook.Stream, line string) {
		r, structured := hook.ParseRecord(line)
		if !structured {
			log.Info().Str("output", string(stream)).Msg(line)
			return
		}
		level, err := zerolog.ParseLevel(r.Level)
		if err != nil || r.Level == "" {
			level = zerolog.InfoLevel
		}
		e := log.WithLevel(level).Str("output", string(stream)).Fields(r.Fields)
		if r.Time != "" { // the operator sets the time of the log line itself, so the time in the record becomes a field
			e = e.Str("hook_time", r.Time)
		}
		e.Msg(r.Message)
	}
}
