package inspect

import (
	"strings"

	"addon-operator/workflow/draw"
)

// The functions of this file are the words of the texts, for pages that lay them out themselves.

// Badge returns the icon and the word of a state, and its tone. They mean the same, so that no state is told by colour alone.
func (s State) Badge() (icon, word string, tone draw.Tone) {
	l, ok := looks[s]
	if !ok {
		return "", string(s), draw.Plain
	}
	return l.icon, l.word, l.tone
}

// Notes returns what is to be said of a step of w below its row.
func (w *Run) Notes(s *Step, look Look) []string { return noter{look, w}.notes(s) }

// CauseText returns in words what the trigger of w saw.
func (w *Run) CauseText() string { return causeText(&w.Cause) }

// ProgressText returns the counts of modules and steps in words.
func (w *Run) ProgressText(look Look) string { return w.progress(look) }

// Title names the step below parent, or with nil at the top of the tree.
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

// Waits says why the head of q is not being done, empty if it is.
func (q *StatusQueue) Waits(look Look) string {
	if q.Wait == nil {
		return ""
	}
	return (&statusPage{page: page{look: look}}).waits(q)
}

// ProcessText returns what is known of the process and its last converge.
func (s *Status) ProcessText(look Look) string {
	return strings.Join((&statusPage{page: page{look: look}, status: s}).process(), ", ")
}

// Text describes the requests.
func (r *Requests) Text() string { return r.text() }

// Headline describes a problem in one line, with the time since which it exists if it stops something.
func (r *Problem) Headline(look Look) string { return look.title(r) }

// Printable returns the output of a program without the sequences by which programs colour their output, and without other
// characters that a terminal would obey.
func Printable(output string) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.Map(printable, controls.ReplaceAllString(line, "")), " ")
	}
	return strings.Join(lines, "\n")
}
