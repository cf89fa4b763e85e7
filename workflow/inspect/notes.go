package inspect

import (
	"strings"

	"addon-operator/store"
	"addon-operator/workflow"
)

// note writes text below a row, in the column of the steps and to the right of it.
func (p *page) note(bar, text string) {
	width := p.look.width() - stateColumn - 1 - columns(bar)
	for i, part := range wrap(text, max(width, 20)) {
		if i > 0 {
			bar = strings.NewReplacer("└─ ", "   ", "├─ ", "│  ", "`- ", "   ", "|- ", "|  ").Replace(bar)
		}
		p.line(strings.Repeat(" ", stateColumn+1) + bar + p.look.paint(grey, part))
	}
}

// notes returns what is to be said of a step besides its row.
func (p *page) notes(s *Step) []string {
	l := p.look
	var out []string
	add := func(text string) { out = append(out, text) }
	leaf := len(s.Steps) == 0
	if s.Again && leaf {
		add("interrupted by a restart, and begun anew")
	}
	if s.State == Interrupted && leaf {
		add("cut short when the operator ended; goes on " + p.turn())
	}
	if leaf && s.State == Backoff && !s.Due.IsZero() && p.walk.Live && !p.told(s) {
		add("next try " + l.due(s.Due))
	}
	if s.Merged > 1 {
		add(plural(s.Merged, "task", "tasks") + " in one run")
	}
	if s.Error != "" && (s.State == Allowed || s.State == Dropped || s.State == Failed && !p.told(s)) {
		first, _, _ := strings.Cut(s.Error, "\n")
		add(l.clip(flat(first), 200))
	}
	if s.LastError != "" {
		first, _, _ := strings.Cut(s.LastError, "\n")
		add("failed " + plural(s.Failures, "time", "times") + " before, last error: " + flat(first))
	}
	if s.State == Dropped && s.Detail != "" && !l.Wide {
		add(flat(s.Detail))
	}
	if s.State == Skipped && s.Detail != "" || l.Wide && s.Detail != "" {
		add(l.clip(flat(s.Detail), 200))
	}
	if o := s.Object; o != nil {
		add(causeText(o.Event, strings.TrimSpace(o.Kind+" "+strings.TrimLeft(o.Namespace+"/"+o.Name, "/")), o.ResourceVersion, "", ""))
	}
	switch {
	case s.Into == "" || s.Wait != nil && s.Wait.For == ForHold:
	case s.State == Quarantined:
		add("in quarantine as task " + s.Into)
	default:
		add("done by task " + s.Into)
	}
	if text := p.wait(s); text != "" {
		add(text)
	}
	if leaf && !s.State.ended() && s.Subject.Hook != "" && s.Queue != "" && s.Queue != workflow.Main && (s.Wait == nil || s.Wait.For != ForQueue) {
		add("in queue " + s.Queue)
	}
	if leaf && s.State == Running && s.Behind != nil && s.Behind.Tasks > 0 {
		add(plural(s.Behind.Tasks, "task waits", "tasks wait") + " behind it in queue " + s.Behind.Queue)
	}
	if l.Wide && (leaf || !s.State.ended()) && !s.Task.IsZero() {
		add("task " + s.Task.String() + " in queue " + s.Queue)
	}
	return out
}

// told reports whether the error of s stands above the tree.
func (p *page) told(s *Step) bool {
	for i := range p.walk.Problems {
		if r := &p.walk.Problems[i]; r.Walk == p.walk.ID && r.Node == s.Node && r.Subject == s.Subject {
			return true
		}
	}
	return false
}

// turn says when what waits for nothing goes on.
func (p *page) turn() string {
	if p.walk.Live {
		return "at its turn"
	}
	return "when an operator starts"
}

// wait says what a step waits for, where its place in the tree does not.
func (p *page) wait(s *Step) string {
	w, l := s.Wait, p.look
	if w == nil || s.State == Interrupted {
		return ""
	}
	switch w.For {
	case ForHold:
		text := "held: " + w.Held.Detail
		if w.Held.Kind == store.AwaitsRelease {
			text += "; task release " + w.Held.By.String() + " lets it go on"
		}
		return text
	case ForTime:
		return "its run changes values each time, so it is put off until " + l.due(s.Due)
	case ForLimit:
		return "its hook may run once in " + w.Every + ", so it waits out of queue " + s.Queue + " until " + l.due(s.Due)
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
	case ForMembers:
		parts := []string{"waits for " + plural(w.Ahead, "task in another queue", "tasks in other queues")}
		for _, r := range w.On {
			if r.Walk != p.walk.ID {
				parts = append(parts, l.ref(r)+" in queue "+r.Queue)
			}
		}
		return strings.Join(parts, "; ")
	case ForStart:
		return "goes on when an operator starts"
	case ForAlone:
		parts := []string{"nothing else runs meanwhile"}
		for _, r := range w.On {
			parts = append(parts, l.ref(r)+" runs alone, as the operator died while it ran")
		}
		return strings.Join(parts, ": ")
	case ForTurn:
		return "about to begin"
	default:
		return ""
	}
}

// ref says which task r points to and how it stands.
func (l Look) ref(r Ref) string {
	text := r.name() + " (walk " + id(r.Walk) + ", " + looks[r.State].word
	if r.State == Backoff && !r.Due.IsZero() {
		text += ", next try " + l.due(r.Due)
	}
	return text + ")"
}
