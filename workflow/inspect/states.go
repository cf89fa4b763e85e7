package inspect

import (
	"slices"
	"strconv"
	"strings"

	"addon-operator/workflow/draw"
	"addon-operator/workflow/graph"
)

func id(run uint64) string { return strconv.FormatUint(run, 10) }

// States returns the state of each node that w has reached, for a drawing of its graph. The parameter
// most is the maximum width of an error in columns. If several steps are at one node, the most
// important state is used.
func States(w *Run, most int) draw.States {
	out := draw.States{}
	var visit func([]Step)
	visit = func(steps []Step) {
		for i := range steps {
			s := &steps[i]
			node := graph.NodeID(s.Node)
			old, known := out[node]
			next := stateOf(s, most)
			if !known || rank(next.Tone) > rank(old.Tone) || next.Tone == old.Tone && old.Detail == "" {
				out[node] = next
			}
			visit(s.Steps)
		}
	}
	visit(w.Steps)
	return out
}

// stateOf returns the state of a step for a drawing. The parameter most is the maximum width of the
// error in columns.
func stateOf(s *Step, most int) draw.State {
	layout := badges[s.State]
	out := draw.State{Tone: layout.tone, Icon: layout.icon, Word: layout.word}
	if len(s.Steps) == 0 {
		out.Detail = s.Subject.String()
	}
	if s.Error != "" && !s.State.ended() {
		text := s.Error
		if most < Unlimited {
			text, _, _ = strings.Cut(text, "\n")
		}
		out.Detail = strings.TrimSpace(out.Detail + " " + Layout{}.clip(flat(text), most))
	}
	return out
}

// rank orders tones by importance.
func rank(t draw.Tone) int {
	switch t {
	case draw.Failed:
		return 4
	case draw.Active:
		return 3
	case draw.Waiting:
		return 2
	case draw.Done:
		return 1
	default:
		return 0
	}
}

// Interesting reports whether s or a step below s has not ended, or has more to show than the fact that it has ended.
func (s *Step) Interesting() bool {
	return !s.State.ended() || s.State == Allowed || s.State == Refused || s.State == Skipped || s.State == Quarantined || s.Again || s.LastError != "" || s.Warning != "" ||
		slices.ContainsFunc(s.Steps, func(below Step) bool { return below.Interesting() })
}
