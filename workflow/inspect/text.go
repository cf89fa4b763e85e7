package inspect

import (
	"strconv"
	"strings"
	"time"

	"addon-operator/store"
)

// Text returns w as lines for a terminal, within the width of layout: its title and state, its problems,
// the tree of steps, and the next commands. Many adjacent steps of one state are merged into one line if
// there is nothing more to say about them.
func Text(w *Run, layout Layout) string {
	if layout.Now.IsZero() {
		layout.Now = w.At
	}
	p := &page{layout: layout, run: w}
	p.head()
	p.problems()
	top := len(p.lines)
	p.tree()
	bottom := len(p.lines)
	p.advice()
	p.fit(top, bottom)
	return strings.Join(p.lines, "\n") + "\n"
}

// A page is an unfinished text.
type page struct {
	layout Layout
	run    *Run
	lines  []string
	// ended and waiting have the indexes of the lines about ended work and about waiting work. The
	// lines in ended and waiting can be omitted.
	ended, waiting []int
	// widest is the maximum width of the column of the steps. The field found is the width of the widest
	// title that was written. If widest is Unlimited, the titles are only measured.
	widest, found int
}

func (p *page) line(text string) { p.lines = append(p.lines, strings.TrimRight(text, " ")) }

// field writes a name and, beside it, a text of one or more lines.
func (p *page) field(name, text string) {
	const column = 10
	for i, part := range wrap(text, p.layout.width()-column) {
		if i > 0 {
			name = ""
		}
		p.line(p.layout.paint(grey, fill(name, column)) + part)
	}
}

// head writes the title of the run, its state, and the fields about the whole run.
func (p *page) head() {
	w, l := p.run, p.layout
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

// causeText describes the event that began a run.
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

// ownManager is the field manager of the objects that the operator writes, for itself or on behalf
// of hooks.
const ownManager = "addon-operator"

// WriterText returns the field manager of a change. If the operator itself is the manager, the text says
// so.
func WriterText(manager string) string {
	if manager == ownManager || strings.HasPrefix(manager, ownManager+" (") && !strings.Contains(manager, " or ") {
		return manager + ", the operator itself or a patch of one of its hooks"
	}
	return manager
}

// progress returns the numbers of modules and steps, and the number of the pass, as text.
func (w *Run) progress(l Layout) string {
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
			word := badges[s].word
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
			text += ", started over at " + l.Clock(w.Cut)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// advice writes the next commands.
func (p *page) advice() {
	if len(p.run.Advice) == 0 {
		return
	}
	p.line("")
	l := p.layout
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
			p.line("  " + commands[i]) // commands are not cut, so that they can be copied
		}
	}
}

// fit removes lines of the tree if the page has more lines than the layout allows. fit removes lines about ended work
// first, then lines about waiting work, then the last lines. The tree is between the lines top and bottom.
func (p *page) fit(top, bottom int) {
	if p.layout.Height <= 0 || len(p.lines) <= p.layout.Height {
		return
	}
	excess := len(p.lines) - p.layout.Height + 1
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
			kept = append(kept, "  "+p.layout.dots()+" "+plural(len(out), "line", "lines")+" left out")
		}
		if !out[i] {
			kept = append(kept, line)
		}
	}
	if bottom == len(p.lines) {
		kept = append(kept, "  "+p.layout.dots()+" "+plural(len(out), "line", "lines")+" left out")
	}
	p.lines = kept
}

// took returns the duration of an ended step, or the time since a running or failing step began.
func (l Layout) took(s *Step) string {
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
