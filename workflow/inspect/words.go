package inspect

import (
	"strings"

	"addon-operator/workflow/draw"
)

// The functions of this file return parts of the texts of this package, for callers with a layout of their own, such as
// the web page.

// Badge returns the icon, the word and the tone of a state. The icon and the word have the same meaning
// as the color, so that no state is shown by color alone.
func (s State) Badge() (icon, word string, tone draw.Tone) {
	l, ok := badges[s]
	if !ok {
		return "", string(s), draw.Plain
	}
	return l.icon, l.word, l.tone
}

// Notes returns the notes that are shown below the row of the step s of w.
func (w *Run) Notes(s *Step, layout Layout) []string { return noter{layout, w}.notes(s) }

// CauseText returns a description of the event that began w.
func (w *Run) CauseText() string { return causeText(&w.Cause) }

// ProgressText returns the numbers of modules and steps, and the number of the pass, as text.
func (w *Run) ProgressText(layout Layout) string { return w.progress(layout) }

// Title returns the title of the step s. parent is the step above it; nil for a step at the top of the
// tree.
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

// Name returns the node and the subject of the task, separated by a blank.
func (r Ref) Name() string { return r.name() }

// Waits returns the reason why the task at the head of q does not run; empty if a task of q runs.
func (q *StatusQueue) Waits(layout Layout) string {
	if q.Wait == nil {
		return ""
	}
	return (&statusPage{page: page{layout: layout}}).waits(q)
}

// ProcessText describes the process of the operator and the last converge.
func (s *Status) ProcessText(layout Layout) string {
	return strings.Join((&statusPage{page: page{layout: layout}, status: s}).process(), ", ")
}

// Text describes the numbers and the duration of the requests.
func (r *Requests) Text() string { return r.text() }

// Printable returns the output of a program without the escape sequences for colors, and without other
// characters that a terminal would interpret.
func Printable(output string) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.Map(printable, controls.ReplaceAllString(line, "")), " ")
	}
	return strings.Join(lines, "\n")
}
