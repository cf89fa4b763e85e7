package steps

import (
	"fmt"
	"path/filepath"

	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/lifecycle"
)

// A Report tells of one run of a hook.
type Report struct {
	Task  workflow.Task
	Node  graph.NodeID
	Usage hook.Usage
	// Binding is the type of the binding that the hook ran for, such as kubernetes.
	Binding string
	// Err is nil when the hook succeeded.
	Err error
}

// runReports report the runs of hooks and log their output.
type runReports struct {
	log      *logger
	observer Observer
}

// ran reports a run of t's hook.
func (r *runReports) ran(t workflow.Task, n *graph.Node, binding string, u hook.Usage, err error) {
	r.observer.HookRan(Report{Task: t, Node: n.ID, Binding: binding, Usage: u, Err: err})
}

// event returns what kind of binding the step's hooks are run for.
func (s *hookStep) event() string {
	switch {
	case s.binding != "":
		return s.binding
	case s.node.Has(lifecycle.Objects), s.node.Has(lifecycle.EventObject):
		return "kubernetes"
	default:
		return "schedule"
	}
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

// saySkipped says, once for each, what lies among module's hooks and is none,
// and which python hooks run without an environment of their own.
func (hs *Hooks) saySkipped(module string, files []hook.File, skipped []hook.Skipped) {
	of := ""
	if module != "" {
		of = " of module " + module
	}
	for _, f := range skipped {
		hs.log.once(zerolog.WarnLevel, fmt.Sprintf("among the hooks%s is what is no hook: %s: %s", of, f.Path, f.Reason))
	}
	for _, f := range files {
		if f.Scope == hook.Module && f.Interpreter == "" && filepath.Ext(f.Path) == ".py" {
			hs.log.once(zerolog.WarnLevel, fmt.Sprintf("python hook %s%s runs with the python of its #! line: there is no hooks/venv/bin/python3", f.Name, of))
		}
	}
}

func (v *Values) warnSkipped(skipped []values.Skipped) {
	for _, op := range skipped {
		v.log.Warn().Str("hook", op.Hook).Str("operation", op.Op.Op).Str("path", op.Path).Str("reason", op.Reason).
			Msg("a saved values operation no longer fits and is left out")
	}
}
