package inspect

import "strings"

// mostImportant is how many answers are more important than the whole text of the nearest cause.
const mostImportant = 4

// WhyText returns w as text: each question, then its causes, the nearest first, then the fix and the next commands. Unless
// the layout cuts nothing, there are at most 23 lines: first the blank lines between the questions are omitted, then the last
// questions. If few answers are left, the nearest cause is cut. Layout.Now must be set.
func WhyText(w *Why, layout Layout) string {
	text, shown := w.text(layout, mostNearest)
	if shown < min(len(w.Answers), mostImportant) {
		text, _ = w.text(layout, mostLast)
	}
	return text
}

// text is WhyText with at most nearest lines of the nearest cause, and returns how many answers it has.
func (w *Why) text(layout Layout, nearest int) (text string, shown int) {
	var advice page
	advice.layout = layout
	advice.remedy(w.Fix, w.Advice)
	answers := make([]string, len(w.Answers))
	lines := heightOf(advice.lines, layout.width())
	for i := range w.Answers {
		answers[i] = w.Answers[i].text(layout, nearest)
		lines += strings.Count(answers[i], "\n")
	}
	if lines+len(answers) <= statusHeight || layout.whole() {
		for i := range answers {
			answers[i] += "\n"
		}
	}
	n := len(answers)
	for ; n > 1 && lines > statusHeight && !layout.whole(); n-- {
		lines -= strings.Count(answers[n-1], "\n")
		if n == len(answers) {
			lines++ // for the line about omitted questions
		}
	}
	text = strings.Join(answers[:n], "")
	if left := len(answers) - n; left > 0 {
		text += layout.dots() + " and " + plural(left, "more answer", "more answers") + "; see them with " +
			layout.command("why", w.Subject, "-o", "wide") + "\n"
	}
	if len(advice.lines) == 0 {
		return strings.TrimSuffix(text, "\n"), n
	}
	return text + strings.Join(advice.lines, "\n") + "\n", n
}

// text returns a question, and below it one or more lines for each cause with its time.
func (a *Answer) text(l Layout, nearest int) string {
	var lines strings.Builder
	for _, line := range wrap(a.Question, l.width()) {
		lines.WriteString(l.paint(bold, line) + "\n")
	}
	return lines.String() + l.causes(a.Causes, nearest)
}
