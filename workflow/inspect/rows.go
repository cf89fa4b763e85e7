package inspect

import (
	"strconv"
	"strings"
	"time"

	"addon-operator/workflow"
)

// Widths of the columns beside that of the steps.
const (
	stateColumn = 13
	startColumn = 8
	tookColumn  = 6
	tryColumn   = 3
)

// mostAlike is how many steps of one state stand side by side before they are
// folded into one line.
const mostAlike = 3

// tree writes the steps as rows.
func (p *page) tree() {
	w, l := p.walk, p.look
	if len(w.Steps) == 0 && len(w.Ahead) == 0 && w.Unfound == 0 {
		return
	}
	p.line("")
	p.line(l.paint(grey, p.cells(fill("STATE", stateColumn), "STEP", "START", "TOOK", "TRY")))
	for i := range w.Steps {
		p.top(&w.Steps[i])
	}
	if text := aheadText(w.Ahead); text != "" {
		p.note("", "then "+text)
	}
	if w.Unread > 0 {
		more := ""
		if w.Unread == mostSkimmed {
			more = " or more"
		}
		p.note("", plural(w.Unread, "older line", "older lines")+" of history"+more+" left out")
	}
	if w.Unfound > 0 {
		p.note("", plural(w.Unfound, "task stands", "tasks stand")+" too far back in long queues to be shown")
	}
}

// cells joins the columns of a row. The state is as wide as its column.
func (p *page) cells(state, step, start, took, try string) string {
	width := p.stepColumn()
	return state + " " + fill(p.look.clip(step, width), width) + " " + fill(start, startColumn) + " " +
		left(took, tookColumn) + " " + left(try, tryColumn)
}

func (p *page) stepColumn() int {
	return p.look.width() - stateColumn - startColumn - tookColumn - tryColumn - 4
}

func left(text string, width int) string {
	return strings.Repeat(" ", max(0, width-columns(text))) + text
}

// top writes a step of the first level. A list of one module is that module.
func (p *page) top(s *Step) {
	title := flat(s.Number + " " + s.Node)
	if subject := flat(s.Subject.String()); subject != "" && columns(title+"  "+subject) <= p.stepColumn() {
		title += "  " + subject
	}
	if len(s.Steps) == 1 && s.Steps[0].Node == s.Node && s.Steps[0].Subject.Hook == "" {
		only := s.Steps[0]
		title += "  " + flat(only.Subject.String())
		if only.Wait == nil {
			only.Wait = s.Wait
		}
		s = &only
	}
	p.step(s, title, "", "")
}

// step writes a row, what is to be said of it, and the rows below it. Head leads
// its title, under what stands below it.
func (p *page) step(s *Step, title, head, under string) {
	l := p.look
	badge, colour := l.badge(s.State)
	open := l.All || interesting(s) || under == "" && len(s.Steps) == 0
	if n := len(s.Steps); n > 0 && !open {
		title += " (" + plural(n, s.kind(), s.kind()+"s") + ")"
	}
	try := ""
	if s.Try > 1 {
		try = strconv.Itoa(s.Try)
	}
	if s.State == Backoff && s.Failures > 1 {
		try = strconv.Itoa(s.Failures) // the next has not been made
	}
	p.mark(s.State)
	p.line(l.paint(colour, fill(badge, stateColumn)) + p.cells("", head+title, l.short(s.Began), l.took(s), try))
	if !open {
		return
	}
	last := len(s.Steps) == 0
	bar := under + l.ascii("│  ", "|  ")
	if last {
		bar = under + "   "
	}
	notes := p.notes(s)
	if subject := flat(s.Subject.String()); under == "" && !strings.Contains(title, subject) {
		notes = append([]string{subject}, notes...)
	}
	for _, text := range notes {
		p.note(bar, text)
	}
	p.steps(s, under)
}

// mark notes that the next line may be left out for want of room.
func (p *page) mark(s State) {
	switch {
	case s.ended():
		p.ended = append(p.ended, len(p.lines))
	case s == Waiting:
		p.waiting = append(p.waiting, len(p.lines))
	}
}

// kind names what the steps below s are.
func (s *Step) kind() string {
	switch below := &s.Steps[0]; {
	case below.Subject.Hook != "":
		return "hook"
	case below.Node == s.Node && s.Subject.Module == "":
		return "module"
	default:
		return "step"
	}
}

// steps writes the rows below s. Many of one state that nothing is to be said of
// are one row.
func (p *page) steps(s *Step, under string) {
	l, all, ahead := p.look, s.Steps, s.Ahead
	for i := 0; i < len(all); {
		alike := p.alike(all[i:])
		last := i+alike == len(all) && len(ahead) == 0
		head, below := l.ascii("├─ ", "|- "), l.ascii("│  ", "|  ")
		if last {
			head, below = l.ascii("└─ ", "`- "), "   "
		}
		if alike == 1 {
			p.step(&all[i], s.title(&all[i]), under+head, under+below)
		} else {
			p.folded(s, all[i:i+alike], under+head)
		}
		i += alike
	}
	if text := aheadText(ahead); text != "" {
		p.note(under+l.ascii("└─ ", "`- "), "then "+text)
	}
}

// title names a step below s.
func (s *Step) title(below *Step) string {
	switch {
	case below.Subject.Hook != "":
		return flat(below.Subject.Hook + " " + below.Subject.Binding)
	case below.Node == s.Node:
		return flat(below.Subject.Module)
	default:
		return flat(below.Number + " " + below.Node)
	}
}

// alike returns how many steps from the first on are folded into one row.
func (p *page) alike(steps []Step) int {
	first := &steps[0]
	if p.look.All {
		return 1
	}
	plain := func(s *Step) bool {
		return s.State == first.State && len(p.notes(s)) == 0 && (s.State == Waiting && len(s.Steps) == 0 || !interesting(s))
	}
	n := 0
	for n < len(steps) && plain(&steps[n]) {
		n++
	}
	if n <= mostAlike {
		return 1
	}
	return n
}

// folded writes one row for steps of one state below s.
func (p *page) folded(s *Step, steps []Step, head string) {
	l := p.look
	badge, colour := l.badge(steps[0].State)
	var names []string
	began, ended := time.Time{}, time.Time{}
	for i := range steps {
		names = append(names, s.title(&steps[i]))
		if b := steps[i].Began; !b.IsZero() && (began.IsZero() || b.Before(began)) {
			began = b
		}
		if steps[i].Ended.After(ended) {
			ended = steps[i].Ended
		}
	}
	p.mark(steps[0].State)
	title := strconv.Itoa(len(steps)) + " " + s.kind() + "s: " + strings.Join(names, ", ")
	all := Step{State: steps[0].State, Began: began, Ended: ended}
	p.line(l.paint(colour, fill(badge, stateColumn)) + p.cells("", head+title, l.short(began), l.took(&all), ""))
}

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
	if s.State == Skipped && s.Detail != "" || l.Wide && s.Detail != "" {
		add(l.clip(flat(s.Detail), 200))
	}
	if o := s.Object; o != nil {
		add(causeText(o.Event, strings.TrimSpace(o.Kind+" "+strings.TrimLeft(o.Namespace+"/"+o.Name, "/")), o.ResourceVersion, "", ""))
	}
	if s.Into != "" {
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
	case ForTime:
		return "its run changes values each time, so it is put off until " + l.due(s.Due)
	case ForQueue:
		text := "behind " + plural(w.Ahead, "task", "tasks") + " in queue " + s.Queue
		for _, r := range w.On {
			text += ", at its head " + l.ref(r)
		}
		return text
	case ForMembers:
		text := "waits for " + plural(w.Ahead, "task in another queue", "tasks in other queues")
		for _, r := range w.On {
			if r.Walk != p.walk.ID {
				text += "; " + l.ref(r) + " in queue " + r.Queue
			}
		}
		return text
	case ForStart:
		return "goes on when an operator starts"
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

// aheadText names nodes that may follow, with what decides it.
func aheadText(all []Ahead) string {
	var names []string
	for _, a := range all {
		name := strings.TrimSpace(a.Number + " " + a.Node)
		switch {
		case a.If != "":
			name += " (if " + a.If + ")"
		case a.Unless != "":
			name += " (unless " + a.Unless + ")"
		}
		if a.Each != "" {
			name += " (each of " + a.Each + ")"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}
