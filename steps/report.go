package steps

import (
	"github.com/rs/zerolog"

	"addon-operator/internal/hook"
	"addon-operator/internal/values"
	"addon-operator/workflow"
	"addon-operator/workflow/graph"
)

// A Report tells of one run of a hook.
type Report struct {
	Task  workflow.Task
	Node  graph.NodeID
	Usage hook.Usage
	// Err is nil when the hook succeeded.
	Err error
}

func (s *Site) ran(t workflow.Task, n *graph.Node, u hook.Usage, err error) {
	if s.Ran != nil {
		s.Ran(Report{Task: t, Node: n.ID, Usage: u, Err: err})
	}
}

// output returns what logs the lines that t's hook prints, with its fields.
func (s *Site) output(t workflow.Task, n *graph.Node) func(hook.Stream, string) {
	log := s.Log.With().
		Str("module", t.Subject.Module).Str("hook", t.Subject.Hook).Str("binding", t.Subject.Binding).
		Str("node", string(n.ID)).Str("queue", t.Queue).Str("task", t.ID.String()).Logger()
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
		log.WithLevel(level).Str("output", string(stream)).Fields(r.Fields).Msg(r.Message)
	}
}

func (s *Site) saySkipped(module string, skipped []hook.Skipped) {
	for _, f := range skipped {
		s.Log.Warn().Str("module", module).Str("file", f.Path).Str("reason", f.Reason).Msg("file among hooks is no hook")
	}
}

func (s *Site) warnSkipped(skipped []values.Skipped) {
	for _, op := range skipped {
		s.Log.Warn().Str("hook", op.Hook).Str("operation", op.Op.Op).Str("path", op.Path).Str("reason", op.Reason).
			Msg("a saved values operation no longer fits and is left out")
	}
}
