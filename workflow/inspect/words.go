package inspect

import (
	"strings"

	"addon-operator/workflow/draw"
)

// The functions of this file return parts of the texts, for pages with a layout of their own.

// Badge returns the icon and the word of a state, and its tone. Icon and word have the same
// meaning, so that no state is shown by colour alone.
func (s State) Badge() (icon, word string, tone draw.Tone) {
	l, ok := badges[s]
	if !ok {
		return "", string(s), draw.Plain
	}
	return l.icon, l.word, l.tone
}

// Notes returns the notes about a step of w, which are shown below its row.
func (w *Run) Notes(s *Step, layout Layout) []string { return noter{layout, w}.notes(s) }

// CauseText returns a description of the event that began w.
func (w *Run) CauseText() string { return causeText(&w.Cause) }

// ProgressText returns the numbers of modules and steps as text.
func (w *Run) ProgressText(layout Layout) string { return w.progress(layout) }

// Title returns the title of a step below parent. At the top of the tree, parent is nil.
func (s *Step) Title(parent *Step) string {
	if parent != nil {
		return parent.title(s)
	}
	title := flat(s.Number + " " + s.Node)
	if subject := flat(s.Subject.String()); subject != "" {
		title += "  " + subject
	}
	return title
}

// Name returns the node and the subject of the task.
func (r Ref) Name() string { return r.name() }

// Waits returns the reason why the task at the head of q does not run; empty if it runs.
func (q *StatusQueue) Waits(layout Layout) string {
	if q.Wait == nil {
		return ""
	}
	return (&statusPage{page: page{layout: layout}}).waits(q)
}

// ProcessText describes the process and its last converge.
func (s *Status) ProcessText(layout Layout) string {
	return strings.Join((&statusPage{page: page{layout: layout}, status: s}).process(), ", ")
}

// Text describes the requests.
func (r *Requests) Text() string { return r.text() }

// Printable returns the output of a program without the escape sequences for colours, and without
// other characters that a terminal would interpret.
func Printable(output string) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.Map(printable, controls.ReplaceAllString(line, "")), " ")
	}
	return strings.Join(lines, "\n")
}
