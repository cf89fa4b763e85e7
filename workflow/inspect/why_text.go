package inspect

import "strings"

// mostImportant is how many answers are more important than the whole text of the nearest cause.
const mostImportant = 4

// WhyText returns w as text: each question, then its causes, the nearest first, then what to mend and the commands to type next.
// Unless the look cuts nothing off, there are at most 23 lines: first the blank lines between the questions are left out, then the
// last questions. If few answers are left, the nearest cause is shortened. Look.Now must be set.
func WhyText(w *Why, look Look) string {
	text, shown := w.text(look, mostNearest)
	if shown < min(len(w.Answers), mostImportant) {
		text, _ = w.text(look, mostLast)
	}
	return text
}

// text is WhyText with at most nearest lines of the nearest cause, and returns how many answers it has.
func (w *Why) text(look Look, nearest int) (text string, shown int) {
	var advice page
	advice.look = look
	advice.remedy(w.Fix, w.Advice)
	answers := make([]string, len(w.Answers))
	lines := heightOf(advice.lines, look.width())
	for i := range w.Answers {
		answers[i] = w.Answers[i].text(look, nearest)
		lines += strings.Count(answers[i], "\n")
	}
	if lines+len(answers) <= statusHeight || look.whole() {
		for i := range answers {
			answers[i] += "\n"
		}
	}
	n := len(answers)
	for ; n > 1 && lines > statusHeight && !look.whole(); n-- {
		lines -= strings.Count(answers[n-1], "\n")
		if n == len(answers) {
			lines++ // to say so
		}
	}
	text = strings.Join(answers[:n], "")
	if left := len(answers) - n; left > 0 {
		text += look.dots() + " and " + plural(left, "more answer", "more answers") + "; see them with " +
			look.command("why", w.Subject, "-o", "wide") + "\n"
	}
	if len(advice.lines) == 0 {
		return strings.TrimSuffix(text, "\n"), n
	}
	return text + strings.Join(advice.lines, "\n") + "\n", n
}

// text returns a question, and below it a line or more for each cause with its time.
func (a *Answer) text(l Look, nearest int) string {
	var lines strings.Builder
	for _, line := range wrap(a.Question, l.width()) {
		lines.WriteString(l.paint(bold, line) + "\n")
	}
	return lines.String() + l.causes(a.Causes, nearest)
}
