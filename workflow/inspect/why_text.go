package inspect

import "strings"

// WhyText returns w as text: each question, then its causes, the nearest first. Look.Now must be set.
func WhyText(w *Why, look Look) string {
	var b strings.Builder
	for i := range w.Answers {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(w.Answers[i].text(look))
	}
	if len(w.Advice) > 0 {
		b.WriteByte('\n')
	}
	for _, a := range w.Advice {
		b.WriteString("next: " + strings.TrimSpace(look.Program+" "+strings.Join(a.Args, " ")+look.More) + "\n")
	}
	return b.String()
}

// text returns a question, and below it a line or more for each cause with its time.
func (a *Answer) text(l Look) string {
	var lines strings.Builder
	for _, line := range wrap(a.Question, l.width()) {
		lines.WriteString(l.paint(bold, line) + "\n")
	}
	return lines.String() + l.causes(a.Causes)
}

// causes returns a line or more for each cause with its time.
func (l Look) causes(all []CauseStep) string {
	times, widest := make([]string, len(all)), 0
	for i, c := range all {
		if times[i] = "-"; !c.At.IsZero() {
			times[i] = l.Clock(c.At)
		}
		widest = max(widest, columns(times[i]))
	}
	var lines strings.Builder
	for i, c := range all {
		lines.WriteString(l.Item("  "+fill(times[i], widest)+"  ", c.Words(l), ""))
	}
	return lines.String()
}
