package inspect

import (
	"strings"
	"time"

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

// AheadText names the nodes that may follow, with what decides it.
func AheadText(all []Ahead) string { return aheadText(all) }

// Interesting reports whether there is more to say of s than that it ended well.
func (s *Step) Interesting() bool { return interesting(s) }

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

// Kind names what the steps below s are: a hook, a configuration, a module or a step. There must be one.
func (s *Step) Kind() string { return s.kind() }

// Name returns the node and the subject of the task.
func (r Ref) Name() string { return r.name() }

// Moves reports whether a task of q runs or is about to.
func (q *StatusQueue) Moves() bool { return q.moves() }

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

// What returns what started the run.
func (w *Summary) What() string { return w.what() }

// Description returns what an entry says besides its time, its run and what happened.
func (e *Entry) Description(look Look) string { return e.description(look) }

// ChangesNothing reports whether a is a command that only shows something.
func (a *Advice) ChangesNothing() bool { return a.changesNothing() }

// Span returns a duration in at most six columns.
func Span(d time.Duration) string { return span(d) }

// Size returns a number of bytes as Kubernetes writes quantities.
func Size(n uint64) string { return size(n) }

// Printable returns the output of a program without the sequences by which programs colour their output, and without other
// characters that a terminal would obey.
func Printable(output string) string {
	lines := strings.Split(output, "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(strings.Map(printable, controls.ReplaceAllString(line, "")), " ")
	}
	return strings.Join(lines, "\n")
}
