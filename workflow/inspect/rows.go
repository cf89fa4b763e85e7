package inspect

import (
	"strconv"
	"strings"
	"time"
)

// Widths of the columns, except the column of the steps.
const (
	stateColumn = 13
	startColumn = 8
	tookColumn  = 6
	tryColumn   = 3

	// leastStep is the minimum width of the column of the steps on a terminal of 80 columns or
	// more.
	leastStep = 46
	// mostNames is the maximum width to which the names of merged steps can widen their column.
	mostNames = 72
)

// mostAlike is the maximum number of adjacent steps that are shown in separate rows although they can be merged into
// one row; see [noter.alike]. The limit is the same for the failed attempts of one task in a timeline.
const mostAlike = 3

// tree writes the steps as rows. On a terminal of more than 80 columns, the column of the steps is as
// wide as its widest text, if there is enough space.
func (p *page) tree() {
	if p.widest = leastStep; p.layout.width() > 80 {
		measured := &page{layout: p.layout, run: p.run, widest: Unlimited}
		measured.rows()
		p.widest = max(p.widest, measured.found)
	}
	p.rows()
}

// rows writes the steps as rows.
func (p *page) rows() {
	w, l := p.run, p.layout
	if len(w.Steps) == 0 && len(w.Ahead) == 0 && w.Unfound == 0 {
		return
	}
	p.line("")
	p.line(l.paint(grey, p.cells(fill("STATE", stateColumn), "STEP", "START", "TOOK", "TRY")))
	for i := range w.Steps {
		p.top(&w.Steps[i])
	}
	if text := AheadText(w.Ahead); text != "" {
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

// cells joins the columns of a row. The caller must have filled state to the width of its column, or
// must write the state itself and pass an empty state.
func (p *page) cells(state, step, start, took, try string) string {
	width := p.stepColumn()
	if p.found = max(p.found, columns(step)); p.widest == Unlimited {
		return "" // only measured
	}
	return state + " " + fill(p.layout.clip(step, width), width) + " " + fill(start, startColumn) + " " +
		left(took, tookColumn) + " " + left(try, tryColumn)
}

func (p *page) stepColumn() int {
	return min(p.widest, p.layout.width()-stateColumn-startColumn-tookColumn-tryColumn-4)
}

// split returns the part of a title that fits in the column of the steps after head. The result rest is the remaining
// title, which is written below the row. If the layout cuts long titles, split returns the whole title and no rest.
func (p *page) split(head, title string) (first, rest string) {
	room := p.stepColumn() - columns(head)
	if columns(title) <= room || !p.layout.whole() {
		return title, ""
	}
	first = wrap(title, max(room, 10))[0]
	return first, strings.TrimSpace(strings.TrimPrefix(flat(title), first))
}

func left(text string, width int) string {
	return strings.Repeat(" ", max(0, width-columns(text))) + text
}

// top writes a step of the first level. A fan-out with one item is shown as that item, unless the item is a hook.
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

// step writes the row of s, its notes, and the rows below it. The text in head is written before the title, and each
// line below the row begins with the text in under.
func (p *page) step(s *Step, title, head, under string) {
	l := p.layout
	badge, colour := l.badge(s.State)
	open := l.All || s.Interesting() || under == "" && len(s.Steps) == 0
	if n := len(s.Steps); n > 0 && !open {
		title += " (" + plural(n, s.Kind(), s.Kind()+"s") + ")"
	}
	try := ""
	if s.Try > 1 {
		try = strconv.Itoa(s.Try)
	}
	if s.State == Backoff && s.Failures > 1 {
		try = strconv.Itoa(s.Failures) // s.Try is the number of the next attempt, which has not begun
	}
	bar := under + l.ascii("│  ", "|  ")
	if !open || len(s.Steps) == 0 {
		bar = under + "   "
	}
	p.mark(s.State)
	first, rest := p.split(head, title)
	p.line(l.paint(colour, fill(badge, stateColumn)) + p.cells("", head+first, l.short(s.Began), l.took(s), try))
	p.note(bar, rest)
	if !open {
		return
	}
	notes := noter{p.layout, p.run}.notes(s)
	if subject := flat(s.Subject.String()); under == "" && !strings.Contains(title, subject) {
		notes = append([]string{subject}, notes...)
	}
	for _, text := range notes {
		p.note(bar, text)
	}
	p.steps(s, under)
}

// mark records the state of the row that is written next. If there is too little space, rows of ended
// and of waiting work can be omitted.
func (p *page) mark(s State) {
	switch {
	case s.ended():
		p.ended = append(p.ended, len(p.lines))
	case s == Waiting:
		p.waiting = append(p.waiting, len(p.lines))
	}
}

// Kind returns a singular noun for the steps below s, such as "hook". There must be at least one step
// below s.
func (s *Step) Kind() string {
	switch below := &s.Steps[0]; {
	case below.Subject.Hook != "":
		return "hook"
	case below.Subject.Configuration != "":
		return "configuration"
	case below.Node == s.Node && s.Subject.Module == "":
		return "module"
	default:
		return "step"
	}
}

// steps writes the rows below s. More than mostAlike adjacent steps of one state are merged into one row, unless the
// layout has all rows. Only steps without notes are merged: waiting steps with no steps below them, and steps for which
// [Step.Interesting] returns false.
func (p *page) steps(s *Step, under string) {
	l, all, ahead := p.layout, s.Steps, s.Ahead
	for i := 0; i < len(all); {
		alike := noter{p.layout, p.run}.alike(all[i:])
		last := i+alike == len(all) && len(ahead) == 0
		head, below := l.ascii("├─ ", "|- "), l.ascii("│  ", "|  ")
		if last {
			head, below = l.ascii("└─ ", "`- "), "   "
		}
		if alike == 1 {
			p.step(&all[i], s.title(&all[i]), under+head, under+below)
		} else {
			p.mergedRow(s, all[i:i+alike], under+head, under+below)
		}
		i += alike
	}
	if text := AheadText(ahead); text != "" {
		p.note(under+l.ascii("└─ ", "`- "), "then "+text)
	}
}

// title returns the title of the step below, which is a direct child of s.
func (s *Step) title(below *Step) string {
	switch {
	case below.Subject.Hook != "":
		return flat(below.Subject.Hook + " " + below.Subject.Binding)
	case below.Node == s.Node:
		return flat(below.Subject.String())
	default:
		return flat(below.Number + " " + below.Node)
	}
}

// alike returns how many steps, counted from the first one, are merged into one row; 1 if the first step
// has a row of its own.
func (n noter) alike(steps []Step) int {
	first := &steps[0]
	if n.layout.All {
		return 1
	}
	plain := func(s *Step) bool {
		return s.State == first.State && len(n.notes(s)) == 0 && (s.State == Waiting && len(s.Steps) == 0 || !s.Interesting())
	}
	same := 0
	for same < len(steps) && plain(&steps[same]) {
		same++
	}
	if same <= mostAlike {
		return 1
	}
	return same
}

// mergedRow writes one row for steps of one state below s. The lines below the row begin with bar.
func (p *page) mergedRow(s *Step, steps []Step, head, bar string) {
	l := p.layout
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
	title := strconv.Itoa(len(steps)) + " " + s.Kind() + "s: " + strings.Join(names, ", ")
	all := Step{State: steps[0].State, Began: began, Ended: ended}
	first, rest := p.split(head, title)
	found := max(p.found, min(columns(head+title), mostNames))
	p.line(l.paint(colour, fill(badge, stateColumn)) + p.cells("", head+first, l.short(began), l.took(&all), ""))
	p.found = found
	p.note(bar, rest)
}

// AheadText returns the names of nodes that may follow, each with the facts on which its edge depends.
func AheadText(all []Ahead) string {
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
