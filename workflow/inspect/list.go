package inspect

import (
	"strconv"
	"strings"
)

// ListText returns runs as a table that fits the width of layout. Layout.Now must be set.
func ListText(runs []Summary, layout Layout) string {
	groups := make([]RunGroup, len(runs))
	for i, w := range runs {
		groups[i] = RunGroup{Summary: w, Count: 1}
	}
	return GroupsText(groups, layout)
}

// GroupsText is like [ListText], but for groups of runs, with a line for each group.
func GroupsText(groups []RunGroup, layout Layout) string {
	if len(groups) == 0 {
		return "no runs yet\n"
	}
	ids, widest := len("ID"), least
	for i := range groups {
		ids = max(ids, len(id(groups[i].ID)))
		widest = max(widest, columns(groups[i].Text(layout)))
	}
	const ages, spans, opens = 6, 6, 4
	room := min(layout.width()-ids-stateColumn-ages-spans-opens-6, widest)
	var b strings.Builder
	row := func(run, state, colour, what, age, took, open string) {
		lead := left(run, ids) + "  "
		for i, part := range layout.lines(what, room, 1) {
			line := lead + layout.paint(colour, fill(state, stateColumn)) + " " + fill(part, room) + " " +
				left(age, ages) + " " + left(took, spans) + " " + left(open, opens)
			if i > 0 {
				line = fill("", columns(lead)+stateColumn+1) + part
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
	}
	row("ID", "STATE", grey, "TRIGGER: CAUSE", "AGE", "TOOK", "OPEN")
	for i := range groups {
		w := &groups[i]
		took, open := Span(layout.Now.Sub(w.Began)), ""
		if !w.Ended.IsZero() {
			took = Span(w.Ended.Sub(w.Began))
		}
		if w.Count > 1 {
			took = ""
		}
		if w.Open > 0 {
			open = strconv.Itoa(w.Open)
		}
		badge, colour := layout.badge(w.State)
		row(id(w.ID), badge, colour, w.Text(layout), age(layout.Now.Sub(w.Began)), took, open)
		if w.Warning != "" {
			margin := ids + 2 + stateColumn + 1
			for _, part := range wrap(w.Warning, max(layout.width()-margin, least)) {
				b.WriteString(fill("", margin) + part + "\n")
			}
		}
	}
	return b.String()
}

// Text returns the text of [Summary.What] for a group of one run. For several runs, Text returns their number, the
// number of failed attempts, the subject, the id of the first run, the times at which the first and the last run began,
// and the trigger that all of them have in common.
func (g *RunGroup) Text(layout Layout) string {
	if g.Count == 1 {
		return g.What()
	}
	runs := plural(g.Count, "run", "runs")
	if g.More {
		runs = "at least " + runs
	}
	if g.Failures > 0 {
		runs += ", " + plural(g.Failures, "failed attempt", "failed attempts") + ","
	}
	return flat(runs + " of " + g.Subject + " from " + id(g.First) + ", " + layout.Clock(g.FirstBegan) + " to " + layout.Clock(g.Began) + ": " + g.Trigger)
}

// What returns the trigger of the run, with its subject and its cause.
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

// least is the minimum width of the column of the causes, if the width of the layout allows it.
const least = 40
