package steps

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/steps/oncelog"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// runReports reports the runs of hooks and logs their output.
type runReports struct {
	log      *oncelog.Logger
	observer Observer
}

// ran reports a run of t's hook.
func (r *runReports) ran(t workflow.Task, n *graph.Node, binding string, u hook.Usage, err error) {
	r.observer.HookRan(Report{Task: t, Node: n.ID, Binding: binding, Usage: u, Err: err})
}

// output returns a function for the lines that t's hook, run for event, prints. The function logs
// each line with its fields and adds it to the output of the attempt. The lines of an enabled
// script begin with its module, because one attempt runs several scripts.
func (r *runReports) output(t workflow.Task, n *graph.Node, event string) func(hook.Stream, string) {
	binding := t.Subject.Binding
	if binding == "" {
		binding = event
	}
	log := r.log.With().
		Str("module", t.Subject.Module).Str("hook", t.Subject.Hook).Str("binding", binding).Str("event.type", event).
		Str("node", string(n.ID)).Str("queue", t.Queue).Str("task.id", t.ID.String()).Logger()
	toLog, lead := linesTo(log), ""
	if event == "enabled" {
		lead = t.Subject.String() + ": "
	}
	return func(stream hook.Stream, line string) {
		toLog(stream, line)
		t.Print(lead + line)
	}
}

// linesTo returns a function that logs the lines of a hook.
func linesTo(log zerolog.Logger) func(hook.Stream, string) {
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
		if r.Time != "" { // the time of the log line is that of the operator
			e = e.Str("hook_time", r.Time)
		}
		e.Msg(r.Message)
	}
}
