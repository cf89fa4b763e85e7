package inspect

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// Text returns w as lines for a terminal, none wider than look says: what it is
// and how it stands, what needs a person, the tree, and what to type next. What
// has ended well is folded to one line; the way to a failure never is.
func Text(w *Walk, look Look) string {
	if look.Now.IsZero() {
		look.Now = w.At
	}
	p := &page{look: look, walk: w}
	p.head()
	p.problems()
	top := len(p.lines)
	p.tree()
	bottom := len(p.lines)
	p.advice()
	p.fit(top, bottom)
	return strings.Join(p.lines, "\n") + "\n"
}

// A page is text under way.
type page struct {
	look  Look
	walk  *Walk
	lines []string
	// Lines of the tree that tell of work that has ended, and that waits.
	ended, waiting []int
}

func (p *page) line(text string) { p.lines = append(p.lines, strings.TrimRight(text, " ")) }

// field writes a name and a text, which may take several lines.
func (p *page) field(name, text string) {
	const column = 10
	for i, part := range wrap(text, p.look.width()-column) {
		if i > 0 {
			name = ""
		}
		p.line(p.look.paint(grey, fill(name, column)) + part)
	}
}

// head says what walk it is and how it stands.
func (p *page) head() {
	w, l := p.walk, p.look
	badge, colour := l.badge(w.State)
	text := "walk " + id(w.ID) + ": " + w.Trigger
	if w.Subject != "" {
		text += ", " + flat(w.Subject)
	}
	p.line(l.paint(bold+colour, badge) + "  " + l.clip(text, l.width()-columns(badge)-2))
	began := l.clock(w.Began) + ", " + age(l.Now.Sub(w.Began)) + " ago"
	switch {
	case !w.Ended.IsZero():
		began += "; took " + span(w.Ended.Sub(w.Began))
	case w.Open > 0:
		began += "; " + plural(w.Open, "task", "tasks") + " pending"
	}
	if cause := causeText(w.Cause.Event, w.Cause.Object, w.Cause.ResourceVersion, w.Cause.By, w.Cause.Detail); cause != "" {
		p.field("cause", cause)
	}
	p.field("began", began)
	p.field("progress", l.progress(w))
	if r := w.Restarts; r != nil {
		name, text := "restarts", id(uint64(r.Count))+", life "+id(r.First)+" to "+id(r.Last) //nolint:gosec // a count
		if !r.Resumed.IsZero() {
			name = "resumed"
			text = l.clock(r.Resumed) + " after " + plural(r.Count, "restart", "restarts") + ", life " + id(r.First) + " to " + id(r.Last)
		}
		if r.Again > 0 {
			text += "; " + plural(r.Again, "step was begun anew", "steps were begun anew")
		}
		p.field(name, text)
	}
	if w.Joined != 0 {
		p.field("goes on", "as walk "+id(w.Joined))
	}
	if l.Source != "" {
		p.field("source", l.Source)
	}
}

// causeText returns in words what a trigger saw.
func causeText(event, object, version, by, detail string) string {
	var parts []string
	if object != "" {
		text := strings.TrimSpace(object + " " + strings.ToLower(event))
		if version != "" {
			text += " (resourceVersion " + version + ")"
		}
		parts = append(parts, text)
	}
	if detail != "" {
		parts = append(parts, detail)
	}
	if by != "" {
		parts = append(parts, "by "+by)
	}
	return strings.Join(parts, ", ")
}

// progress returns the counts in words.
func (l Look) progress(w *Walk) string {
	var parts []string
	if w.Progress != nil && w.Progress.Of > 1 {
		parts = append(parts, strconv.Itoa(w.Progress.Done)+" of "+plural(w.Progress.Of, "module", "modules"))
	}
	var counts []string
	for _, s := range []State{Done, Running, Failed, Backoff, Refused, Interrupted, Waiting, Allowed, Skipped, Dropped, Superseded, Joined, Quarantined} {
		n := w.Counts[s]
		if s == Failed {
			n += w.Counts[Backoff]
		}
		if n > 0 && s != Backoff {
			word := looks[s].word
			if len(counts) == 0 {
				word = plural(n, "step", "steps")[len(strconv.Itoa(n))+1:] + " " + word
			}
			counts = append(counts, strconv.Itoa(n)+" "+word)
		}
	}
	if len(counts) > 0 {
		parts = append(parts, strings.Join(counts, ", "))
	}
	if w.Passes > 1 {
		text := "pass " + strconv.Itoa(w.Passes)
		if !w.Cut.IsZero() {
			text += ", taken back at " + l.clock(w.Cut)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// problems says what a person should look at: of this walk in full, of others
// in one line each.
func (p *page) problems() {
	if len(p.walk.Problems) == 0 {
		return
	}
	p.line("")
	others := 0
	for i := range p.walk.Problems {
		problem := &p.walk.Problems[i]
		if problem.Walk != p.walk.ID || problem.Kind == KindBroken {
			if others++; others > 3 && !p.look.All {
				continue
			}
			p.other(problem)
			continue
		}
		p.problem(problem)
	}
	if others > 3 && !p.look.All {
		p.line("  " + p.look.dots() + " and " + plural(others-3, "more problem", "more problems") + " elsewhere")
	}
}

// problem writes one of this walk.
func (p *page) problem(r *Problem) {
	l := p.look
	lead := l.paint(red, l.ascii("✖", "x")) + " "
	for _, part := range wrap(p.title(r), l.width()-2) {
		p.line(lead + part)
		lead = "  "
	}
	for _, line := range p.tail(r.Error) {
		p.line("  " + l.ascii("│ ", "| ") + line)
	}
	switch {
	case r.Kind == KindRefused:
		p.line(l.clip("  what was in force before stays; a corrected ConfigMap is read by itself", l.width()))
	case r.Kind == KindFailing && !p.walk.Live:
		p.line("  last try " + l.clock(r.At) + ", the next when an operator starts")
	case r.Kind == KindFailing && !r.Due.IsZero():
		p.line("  last try " + l.clock(r.At) + ", next try " + l.due(r.Due))
	case r.Kind == KindFailing:
		p.line("  last try " + l.clock(r.At) + ", its run is under way again")
	}
	if text := p.behind(r.Behind); text != "" {
		for i, part := range wrap(text, l.width()-12) {
			lead := "  behind it "
			if i > 0 {
				lead = "            "
			}
			p.line(lead + part)
		}
	}
}

// title says in one line what is wrong.
func (p *page) title(r *Problem) string {
	subject := r.Subject.String()
	switch r.Kind {
	case KindRefused:
		return "the ConfigMap is invalid and not in force, since " + p.look.clock(r.At)
	case KindBroken:
		return "module " + subject + " cannot be loaded"
	case KindStalled:
		return "queue " + r.Queue + " stands still"
	default:
		text := strings.TrimSpace(r.Node+" "+subject) + " failed"
		if r.Try == 1 {
			return text
		}
		return text + " " + strconv.Itoa(r.Try) + " times"
	}
}

// other writes a problem that is not of this walk.
func (p *page) other(r *Problem) {
	l := p.look
	text := p.title(r)
	if r.Walk != 0 {
		text = "walk " + id(r.Walk) + ": " + text
	}
	if r.Error != "" && r.Kind != KindFailing {
		text += ": " + r.Error
	}
	lines := wrap(text, l.width()-2)
	for i, line := range lines[:min(len(lines), 2)] {
		lead := l.paint(red, l.ascii("✖", "x")) + " "
		if i > 0 {
			lead = "  "
		}
		if i == 1 && len(lines) > 2 {
			line = l.clip(line+" "+lines[2], l.width()-2)
		}
		p.line(lead + line)
	}
}

// tail returns the lines of an error that are shown: the first, which says what
// failed, and the last, which say how.
func (p *page) tail(text string) []string {
	const most = 6
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(text)) {
		lines = append(lines, wrap(line, p.look.width()-4)...)
	}
	if len(lines) <= most || p.look.All {
		return lines
	}
	out := append([]string{}, lines[0], p.look.dots()+" "+plural(len(lines)-most+1, "line", "lines")+" left out; see them with --all")
	return append(out, lines[len(lines)-most+2:]...)
}

// behind says what waits behind a task.
func (p *page) behind(b *Behind) string {
	if b == nil {
		return ""
	}
	var parts []string
	if b.Walk > 0 {
		parts = append(parts, plural(b.Walk, "more step", "more steps")+" of this walk")
	}
	if b.Tasks > 0 {
		more := ""
		if b.More {
			more = " or more"
		}
		text := plural(b.Tasks, "task", "tasks") + more + " in queue " + b.Queue
		var names []string
		for _, r := range b.Next {
			names = append(names, r.name())
		}
		if b.Tasks > len(names) {
			names = append(names, p.look.dots())
		}
		parts = append(parts, text+": "+strings.Join(names, ", "))
	}
	return strings.Join(parts, "; then ")
}

func (r Ref) name() string { return strings.TrimSpace(r.Node + " " + r.Subject.String()) }

// advice says what to type next.
func (p *page) advice() {
	if len(p.walk.Advice) == 0 {
		return
	}
	p.line("")
	l := p.look
	commands := make([]string, len(p.walk.Advice))
	longest := 0
	for i, a := range p.walk.Advice {
		commands[i] = strings.TrimSpace(l.Program + " " + strings.Join(a.Args, " ") + l.More)
		longest = max(longest, columns(commands[i]))
	}
	for i, a := range p.walk.Advice {
		switch {
		case longest+4+20 <= l.width():
			p.line("  " + fill(commands[i], longest) + l.paint(grey, l.clip("  "+"# "+a.Why, l.width()-longest-2)))
		default:
			p.line(l.paint(grey, "  # "+l.clip(a.Why, l.width()-4)))
			p.line("  " + commands[i]) // a command must stay whole to be copied
		}
	}
}

// fit leaves lines of the tree out where there are more than the look allows:
// those of ended work first.
func (p *page) fit(top, bottom int) {
	if p.look.Height <= 0 || len(p.lines) <= p.look.Height {
		return
	}
	excess := len(p.lines) - p.look.Height + 1
	out := map[int]bool{}
	for _, i := range append(p.ended, p.waiting...) {
		if len(out) < excess {
			out[i] = true
		}
	}
	for i := bottom - 1; i > top+1 && len(out) < excess; i-- {
		out[i] = true
	}
	var kept []string
	for i, line := range p.lines {
		if i == bottom {
			kept = append(kept, "  "+p.look.dots()+" "+plural(len(out), "line", "lines")+" left out")
		}
		if !out[i] {
			kept = append(kept, line)
		}
	}
	if bottom == len(p.lines) {
		kept = append(kept, "  "+p.look.dots()+" "+plural(len(out), "line", "lines")+" left out")
	}
	p.lines = kept
}

// took returns how long a step took, or takes by now.
func (l Look) took(s *Step) string {
	switch {
	case s.Began.IsZero():
		return ""
	case !s.Ended.IsZero():
		return span(s.Ended.Sub(s.Began))
	case s.State == Running || s.State == Backoff || s.State == Failed:
		return span(l.Now.Sub(s.Began).Truncate(100 * time.Millisecond))
	default:
		return ""
	}
}

// interesting reports whether there is more to say of s than that it ended well.
func interesting(s *Step) bool {
	return !s.State.ended() || s.State == Allowed || s.State == Refused || s.State == Skipped || s.State == Quarantined || s.Again ||
		slices.ContainsFunc(s.Steps, func(below Step) bool { return interesting(&below) })
}
