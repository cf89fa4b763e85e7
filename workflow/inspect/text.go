package inspect

import (
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
)

// Text returns w as lines for a terminal, within the width of look: its title and state, its
// problems, the tree of steps, and useful commands. Steps that succeeded are merged into one line,
// unless they lead to a failure.
func Text(w *Run, look Look) string {
	if look.Now.IsZero() {
		look.Now = w.At
	}
	p := &page{look: look, run: w}
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
	run   *Run
	lines []string
	// Lines of the tree that tell of work that has ended, and that waits.
	ended, waiting []int
	// widest is the width of the widest title of a step, found that of the widest so far.
	widest, found int
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

// head says what run it is and how it stands.
func (p *page) head() {
	w, l := p.run, p.look
	if w.Standby != "" {
		for _, part := range wrap("standby: "+w.Standby, l.width()) {
			p.line(l.paint(bold+yellow, part))
		}
	}
	badge, colour := l.badge(w.State)
	text := "run " + id(w.ID) + ": " + w.Trigger
	if w.Subject != "" {
		text += ", " + flat(w.Subject)
	}
	for i, part := range wrap(text, l.width()-columns(badge)-2) {
		if i > 0 {
			badge = fill("", columns(badge))
		}
		p.line(l.paint(bold+colour, badge) + "  " + part)
	}
	began := l.Clock(w.Began) + l.zone(w.Began) + ", " + age(l.Now.Sub(w.Began)) + " ago"
	switch {
	case !w.Ended.IsZero():
		began += "; took " + Span(w.Ended.Sub(w.Began))
	case w.Open > 0:
		began += "; " + plural(w.Open, "task", "tasks") + " pending"
	}
	if cause := causeText(&w.Cause); cause != "" {
		p.field("cause", cause)
	}
	if lost := w.Lost; lost != nil && !strings.Contains(w.Cause.Detail, lost.String()) {
		p.field("lost", lost.String())
	}
	p.field("began", began)
	p.field("progress", w.progress(l))
	if r := w.Restarts; r != nil {
		name, text := "restarts", id(uint64(r.Count))+", epoch "+id(r.First)+" to "+id(r.Last) //nolint:gosec // a count
		if !r.Resumed.IsZero() {
			name = "resumed"
			text = l.Clock(r.Resumed) + " after " + plural(r.Count, "restart", "restarts") + ", epoch " + id(r.First) + " to " + id(r.Last)
		}
		if r.Again > 0 {
			text += "; " + plural(r.Again, "step was started again", "steps were started again")
		}
		p.field(name, text)
	}
	if w.Joined != 0 {
		p.field("goes on", "as run "+id(w.Joined))
	}
	if l.Source != "" {
		p.field("source", l.Source)
	}
}

// causeText returns in words what a trigger saw.
func causeText(c *store.Cause) string {
	var parts []string
	if c.Object != "" {
		text := strings.TrimSpace(c.Object + " " + strings.ToLower(c.Event))
		if c.ResourceVersion != "" {
			text += " (resourceVersion " + c.ResourceVersion + ")"
		}
		parts = append(parts, text)
	}
	if c.Manager != "" {
		parts = append(parts, "field manager "+WriterText(c.Manager))
	}
	if c.Detail != "" {
		parts = append(parts, c.Detail)
	}
	if c.By != "" {
		parts = append(parts, "by "+c.By)
	}
	return strings.Join(parts, ", ")
}

// ownManager is the field manager of objects that the operator writes, for hooks too.
const ownManager = "addon-operator"

// WriterText names the field manager of a change, and says so if it is the operator itself.
func WriterText(manager string) string {
	if manager == ownManager || strings.HasPrefix(manager, ownManager+" (") && !strings.Contains(manager, " or ") {
		return manager + ", the operator itself or a patch of one of its hooks"
	}
	return manager
}

// progress returns the counts in words.
func (w *Run) progress(l Look) string {
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
			text += ", taken back at " + l.Clock(w.Cut)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// advice says what to type next.
func (p *page) advice() {
	if len(p.run.Advice) == 0 {
		return
	}
	p.line("")
	l := p.look
	commands := make([]string, len(p.run.Advice))
	longest := 0
	for i, a := range p.run.Advice {
		commands[i] = strings.TrimSpace(l.Program + " " + strings.Join(a.Args, " ") + l.More)
		longest = max(longest, columns(commands[i]))
	}
	for i, a := range p.run.Advice {
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
		return Span(s.Ended.Sub(s.Began))
	case s.State == Running || s.State == Backoff || s.State == Failed:
		return Span(l.Now.Sub(s.Began).Truncate(100 * time.Millisecond))
	default:
		return ""
	}
}
