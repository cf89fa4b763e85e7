package inspect

import (
	"strings"

	"addon-operator/store"
	"addon-operator/workflow"
)

// note writes text below a row. The text begins in the column of the steps, after the lines in bar, and
// extends over the columns to the right.
func (p *page) note(bar, text string) {
	width := p.layout.width() - stateColumn - 1 - columns(bar)
	for i, part := range wrap(text, max(width, 20)) {
		if i > 0 {
			bar = strings.NewReplacer("└─ ", "   ", "├─ ", "│  ", "`- ", "   ", "|- ", "|  ").Replace(bar)
		}
		p.line(strings.Repeat(" ", stateColumn+1) + bar + p.layout.paint(grey, part))
	}
}

// A noter writes the notes below the rows of a run's steps.
type noter struct {
	layout Layout
	run    *Run
}

// notes returns the notes below the row of a step.
func (n noter) notes(s *Step) []string {
	out := n.attemptNotes(s)
	out = append(out, n.resultNotes(s)...)
	return append(out, n.placeNotes(s)...)
}

// attemptNotes returns the notes about the attempts of a step.
func (n noter) attemptNotes(s *Step) (out []string) {
	leaf := len(s.Steps) == 0
	if s.Again && leaf {
		out = append(out, "interrupted by a restart, and started again")
	}
	if s.State == Interrupted && leaf {
		out = append(out, "interrupted when the operator ended; starts again "+turn(n.run.Live))
	}
	if leaf && s.State == Backoff && !s.Due.IsZero() && n.run.Live && !n.reported(s) {
		out = append(out, "next try "+n.layout.due(s.Due))
	}
	if s.Merged > 1 {
		out = append(out, plural(s.Merged, "task", "tasks")+" in one run")
	}
	if n.hasOwnError(s) {
		out = append(out, n.layout.reason(s.Error))
	}
	if s.LastError != "" {
		out = append(out, "failed "+plural(s.Failures, "time", "times")+" before, last error: "+n.layout.reason(s.LastError))
	}
	return out
}

// hasOwnError reports whether the error of s is written as a note. The error is written as a note if s was dropped, if
// the failure of s was allowed, or if s failed and no problem shows the error.
func (n noter) hasOwnError(s *Step) bool {
	switch s.State {
	case Allowed, Dropped:
		return s.Error != ""
	case Failed:
		return s.Error != "" && !n.reported(s)
	default:
		return false
	}
}

// resultNotes returns the notes about the result of a step and about its object.
func (n noter) resultNotes(s *Step) (out []string) {
	if s.Warning != "" {
		out = append(out, flat(s.Warning))
	}
	if s.State == Dropped && s.Detail != "" && !n.layout.Wide {
		out = append(out, flat(s.Detail))
	}
	if s.State == Skipped && s.Detail != "" || n.layout.Wide && s.Detail != "" {
		out = append(out, n.layout.reason(s.Detail))
	}
	if o := s.Object; o != nil {
		out = append(out, causeText(&store.Cause{
			Event: o.Event, Object: strings.TrimSpace(o.Kind + " " + strings.TrimLeft(o.Namespace+"/"+o.Name, "/")), ResourceVersion: o.ResourceVersion,
		}))
	}
	switch {
	case s.Into == "" || s.Wait != nil && s.Wait.For == ForHold:
	case s.State == Quarantined:
		out = append(out, "in quarantine as task "+s.Into)
	default:
		out = append(out, "done by task "+s.Into)
	}
	return out
}

// placeNotes returns the notes about the queue of a step, and about the reason why the step waits.
func (n noter) placeNotes(s *Step) (out []string) {
	leaf := len(s.Steps) == 0
	if text := n.wait(s); text != "" {
		out = append(out, text)
	}
	if leaf && s.inHookQueue() && (s.Wait == nil || s.Wait.For != ForQueue) {
		out = append(out, "in queue "+s.Queue)
	}
	if leaf && s.State == Running && s.Behind != nil && s.Behind.Tasks > 0 {
		out = append(out, plural(s.Behind.Tasks, "task waits", "tasks wait")+" behind it in queue "+s.Behind.Queue)
	}
	if n.layout.Wide && (leaf || !s.State.ended()) && !s.Task.IsZero() {
		out = append(out, "task "+s.Task.String()+" in queue "+s.Queue)
	}
	return out
}

// inHookQueue reports whether s is a pending step of a hook in another queue than main.
func (s *Step) inHookQueue() bool {
	return !s.State.ended() && s.Subject.Hook != "" && s.Queue != "" && s.Queue != workflow.Main
}

// reported reports whether the error of s is among the problems above the tree.
func (n noter) reported(s *Step) bool {
	for i := range n.run.Problems {
		if r := &n.run.Problems[i]; r.Run == n.run.ID && r.Node == s.Node && r.Subject == s.Subject {
			return true
		}
	}
	return false
}

// turn says when an interrupted step starts again. The parameter live says whether an operator runs.
func turn(live bool) string {
	if live {
		return "when it is next in its queue"
	}
	return "when an operator starts"
}

// wait says why a step waits; empty if the place of the step in the tree, another note or a problem shows the reason.
func (n noter) wait(s *Step) string {
	w, l := s.Wait, n.layout
	if w == nil || s.State == Interrupted {
		return ""
	}
	switch w.For {
	case ForHold, ForPause, ForTime, ForLimit, ForExclusive, ForModules:
		return l.blocked(w.Held)
	case ForQueue:
		parts := []string{"behind " + plural(w.Ahead, "task", "tasks") + " in queue " + s.Queue}
		for _, r := range w.On {
			parts = append(parts, "at its head "+l.ref(r))
		}
		return strings.Join(parts, ", ")
	case ForRunning:
		parts := []string{"comes next"}
		for _, r := range w.On {
			parts = append(parts, "after "+l.ref(r))
		}
		return strings.Join(parts, ", ")
	case ForItems:
		parts := []string{l.blocked(w.Held)}
		for _, r := range w.On {
			if r.Run != n.run.ID {
				parts = append(parts, l.ref(r)+" in queue "+r.Queue)
			}
		}
		return strings.Join(parts, "; ")
	case ForStart:
		return "goes on when an operator starts"
	case ForWorker:
		return "about to begin"
	default:
		return ""
	}
}

// blocked returns a reason with the time until which it holds, or with the command that ends a
// quarantine.
func (l Layout) blocked(r *store.Reason) string {
	switch {
	case r.Kind == store.AwaitsRelease:
		return r.String() + "; task release " + r.By.String() + " lets it go on"
	case !r.Until.IsZero():
		return r.String() + ", until " + l.due(r.Until)
	default:
		return r.String()
	}
}

// ref describes the task to which r refers, with its run and its state.
func (l Layout) ref(r Ref) string {
	text := r.name() + " (run " + id(r.Run) + ", " + badges[r.State].word
	if r.State == Backoff && !r.Due.IsZero() {
		text += ", next try " + l.due(r.Due)
	}
	return text + ")"
}
