package steps

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// runReports report the runs of hooks and log their output.
type runReports struct {
	log      *logger
	observer Observer
}

// ran reports a run of t's hook.
func (r *runReports) ran(t workflow.Task, n *graph.Node, binding string, u hook.Usage, err error) {
	r.observer.HookRan(Report{Task: t, Node: n.ID, Binding: binding, Usage: u, Err: err})
}

// output returns what logs the lines that t's hook prints, run for event, with
// its fields.
func (r *runReports) output(t workflow.Task, n *graph.Node, event string) func(hook.Stream, string) {
	binding := t.Subject.Binding
	if binding == "" {
		binding = event
	}
	log := r.log.With().
		Str("module", t.Subject.Module).Str("hook", t.Subject.Hook).Str("binding", binding).Str("event.type", event).
		Str("node", string(n.ID)).Str("queue", t.Queue).Str("task.id", t.ID.String()).Logger()
	return linesTo(log)
}

// linesTo returns what logs the lines that a hook prints.
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
		if r.Time != "" { // the line's own time is that of the operator
			e = e.Str("hook_time", r.Time)
		}
		e.Msg(r.Message)
	}
}
