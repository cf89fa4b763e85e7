package inspect

import "strings"

// mostImportant is the number of answers for which WhyText makes space. If fewer answers fit,
// WhyText cuts the nearest cause more.
const mostImportant = 4

// WhyText returns w as text: each question with its causes, the nearest cause first, then the fix and the next
// commands. Unless the layout shows whole texts, WhyText shortens a text of more than 23 lines: first it omits the
// blank lines between the answers, then the last answers. If fewer than mostImportant answers are left, WhyText cuts
// the nearest cause. Layout.Now must be set.
func WhyText(w *Why, layout Layout) string {
	text, shown := w.text(layout, mostNearest)
	if shown < min(len(w.Answers), mostImportant) {
		text, _ = w.text(layout, mostLast)
	}
	return text
}

// text returns the text of WhyText. The parameter nearest is the maximum number of lines of the nearest cause.
// shown is the number of answers in the text.
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
			lines++ // the line about omitted answers is added
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

// text returns a question, and below it one or more lines for each cause. nearest is the maximum number of lines of the
// first cause.
func (a *Answer) text(l Layout, nearest int) string {
	var lines strings.Builder
	for _, line := range wrap(a.Question, l.width()) {
		lines.WriteString(l.paint(bold, line) + "\n")
	}
	return lines.String() + l.causes(a.Causes, nearest)
}
