package inspect

import (
	"strconv"
	"strings"
)

// ListText returns runs as a table, none wider than look says. Look.Now must be set.
func ListText(runs []Summary, look Look) string {
	if len(runs) == 0 {
		return "no runs yet\n"
	}
	ids := len("ID")
	for i := range runs {
		ids = max(ids, len(id(runs[i].ID)))
	}
	const ages, spans, opens = 6, 6, 4
	room := min(look.width()-ids-stateColumn-ages-spans-opens-6, widestCause(runs))
	var b strings.Builder
	row := func(run, state, colour, what, age, took, open string) {
		lead := left(run, ids) + "  "
		for i, part := range look.lines(what, room, 1) {
			line := lead + look.paint(colour, fill(state, stateColumn)) + " " + fill(part, room) + " " +
				left(age, ages) + " " + left(took, spans) + " " + left(open, opens)
			if i > 0 {
				line = fill("", columns(lead)+stateColumn+1) + part
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	row("ID", "STATE", grey, "TRIGGER: CAUSE", "AGE", "TOOK", "OPEN")
	for i := range runs {
		w := &runs[i]
		took, open := Span(look.Now.Sub(w.Began)), ""
		if !w.Ended.IsZero() {
			took = Span(w.Ended.Sub(w.Began))
		}
		if w.Open > 0 {
			open = strconv.Itoa(w.Open)
		}
		badge, colour := look.badge(w.State)
		row(id(w.ID), badge, colour, w.What(), age(look.Now.Sub(w.Began)), took, open)
		if w.Warning != "" {
			margin := ids + 2 + stateColumn + 1
			for _, part := range wrap(w.Warning, max(look.width()-margin, least)) {
				b.WriteString(fill("", margin) + part + "\n")
			}
		}
	}
	return b.String()
}

// What returns what started the run.
func (w *Summary) What() string {
	what := w.Trigger
	if w.Subject != "" {
		what += ": " + w.Subject
	}
	if cause := causeText(&w.Cause); cause != "" {
		what += ": " + cause
	}
	if w.Joined != 0 {
		what = "as run " + id(w.Joined) + "; " + what
	}
	return flat(what)
}

// least is the least width of the column of the causes.
const least = 40

// widestCause returns the width of the column of the causes: that of the longest, or the least on 80 columns.
func widestCause(runs []Summary) int {
	widest := least
	for i := range runs {
		widest = max(widest, columns(runs[i].What()))
	}
	return widest
}
