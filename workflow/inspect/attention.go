package inspect

import (
	"slices"
	"strconv"
	"strings"
)

// problems writes each problem of this run with its error, and with the steps and tasks that wait behind it. p.other
// writes the problems of other runs, of modules and of no run: at most three of them, unless the layout has all rows or
// whole texts.
func (p *page) problems() {
	if len(p.run.Problems) == 0 {
		return
	}
	p.line("")
	others := 0
	for i := range p.run.Problems {
		problem := &p.run.Problems[i]
		if problem.Run != p.run.ID || problem.Kind == KindBroken || problem.Kind == KindNoCRDs {
			if others++; others > 3 && !p.layout.All && !p.layout.whole() {
				continue
			}
			p.other(problem)
			continue
		}
		p.problem(problem)
	}
	if others > 3 && !p.layout.All && !p.layout.whole() {
		p.line("  " + p.layout.dots() + " and " + plural(others-3, "more problem", "more problems") + "; see them with --all")
	}
}

// problem writes one problem of this run.
func (p *page) problem(r *Problem) {
	l := p.layout
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	for _, part := range wrap(r.Headline(p.layout), l.width()-2) {
		p.line(lead + part)
		lead = "  "
	}
	for _, line := range p.layout.tail(r.Error) {
		p.line("  " + l.ascii("│ ", "| ") + line)
	}
	switch {
	case r.Kind == KindRefused:
		p.below("the previous settings stay in force; the operator reads a corrected ConfigMap by itself")
	case r.Kind == KindFailing && !p.run.Live:
		p.line("  last try " + l.Clock(r.At) + ", the next when an operator starts")
	case r.Kind == KindFailing && !r.Due.IsZero():
		p.line("  last try " + l.Clock(r.At) + ", next try " + l.due(r.Due))
	case r.Kind == KindFailing:
		p.line("  last try " + l.Clock(r.At) + ", its run is under way again")
	}
	if r.Held > 0 {
		p.below("holds " + plural(r.Held, "task", "tasks") + " until it is released or skipped")
	}
	if text := r.Behind.text(p.layout); text != "" {
		for i, part := range wrap(text, l.width()-12) {
			lead := "  behind it "
			if i > 0 {
				lead = "            "
			}
			p.line(lead + part)
		}
	}
}

// below writes text below the title of a problem.
func (p *page) below(text string) {
	for _, part := range wrap(text, p.layout.width()-2) {
		p.line("  " + part)
	}
}

// Headline describes a problem in one line. For some kinds of problems, the line ends with the time at which the
// problem began.
func (r *Problem) Headline(layout Layout) string {
	text := r.headline()
	if slices.Contains([]Kind{KindRefused, KindBroken, KindQuarantined, KindFull, KindSlow}, r.Kind) && !r.At.IsZero() {
		text += ", since " + layout.Clock(r.At)
	}
	return text
}

// name returns the node and the subject of the problem.
func (r *Problem) name() string { return strings.TrimSpace(r.Node + " " + r.Subject.String()) }

// headline describes the problem in one line.
func (r *Problem) headline() string {
	name := r.name()
	switch {
	case r.stored():
		return r.Error
	case r.Kind == KindRefused:
		return "the ConfigMap is invalid and not in force"
	case r.Kind == KindBroken:
		return "module " + name + " cannot be loaded"
	case r.Kind == KindNoCRDs:
		return "module " + name + " is not run, because its CRDs cannot be installed"
	case r.Kind == KindQuarantined:
		return name + " is in quarantine as " + r.Task.String()
	case r.Kind == KindAPIServer:
		return "the API server does not respond as it should"
	case r.Kind == KindFull:
		return "no task starts, because the disk is full"
	case r.Kind == KindSlow && r.Awaits != "":
		return name + " waits long for a Helm hook, " + r.Awaits
	case r.Kind == KindSlow:
		return name + " runs unusually long"
	case r.Kind == KindStalled:
		return "queue " + r.Queue + " stands still"
	case r.Try == 1:
		return name + " failed"
	default:
		return name + " failed " + strconv.Itoa(r.Try) + " times"
	}
}

// other writes a problem of another run, of a module or of no run: a stored problem in full, and any
// other problem in at most two lines if the layout cuts texts.
func (p *page) other(r *Problem) {
	l := p.layout
	text := r.Headline(p.layout)
	if r.stored() {
		p.stored(r)
		return
	}
	if r.Run != 0 {
		text = "run " + id(r.Run) + ": " + text
	}
	if r.Error != "" && (r.Kind != KindFailing || l.whole()) {
		text += ": " + r.Error
	}
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	for _, line := range l.lines(text, l.width()-2, 2) {
		p.line(lead + line)
		lead = "  "
	}
}

// stored writes a problem in full, with its fix. [Problem.stored] must be true for the problem.
func (p *page) stored(r *Problem) {
	l := p.layout
	text := r.Error
	if r.More > 0 {
		text += "; " + plural(r.More, "other has", "others have") + " the same problem"
	}
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	when := "; since "
	if r.Kind == KindMissedTick {
		when = "; at "
	}
	for _, part := range wrap(text+when+l.Clock(r.At), l.width()-2) {
		p.line(lead + part)
		lead = "  "
	}
	fix := "  fix: "
	for _, part := range wrapFix(r.Fix, l.width()-columns(fix)) {
		p.line(fix + part)
		fix = "       "
	}
	if len(r.Command) > 0 {
		lead := "  fix: "
		if r.Fix != "" {
			lead = "  or:  "
		}
		p.line(lead + l.command(r.Command...))
	}
	if r.Effect != "" {
		p.comment("       ", "this "+r.Effect)
	}
}

// tail returns the lines of an error that are shown: the first line, which says what failed, and the last lines, which
// say how it failed. Nothing is omitted if the layout has all rows or whole texts.
func (l Layout) tail(text string) []string {
	const most = 6
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, wrap(line, l.width()-4)...)
	}
	if len(lines) <= most || l.All || l.whole() {
		return lines
	}
	out := append([]string{}, lines[0], l.dots()+" "+plural(len(lines)-most+1, "line", "lines")+" left out; see them with --all")
	return append(out, lines[len(lines)-most+2:]...)
}

// text describes b, the work that waits behind a task. The result is empty if b is nil.
func (b *Behind) text(l Layout) string {
	if b == nil {
		return ""
	}
	var parts []string
	if b.Run > 0 {
		parts = append(parts, plural(b.Run, "more step", "more steps")+" of this run")
	}
	if b.Tasks > 0 {
		more := ""
		if b.More {
			more = " or more"
		}
		text := plural(b.Tasks, "task", "tasks") + more + " in queue " + b.Queue
		var names []string
		for _, r := range b.Next {
			names = appendNew(names, r.name())
		}
		if b.Tasks > len(names) {
			names = append(names, l.dots())
		}
		parts = append(parts, text+": "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; then ")
}

func (r Ref) name() string { return strings.TrimSpace(r.Node + " " + r.Subject.String()) }
