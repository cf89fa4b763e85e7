package inspect

import "strings"

// WhyText returns w as text: each question, then its causes, the nearest first. Look.Now must be set.
func WhyText(w *Why, look Look) string {
	var b strings.Builder
	for i := range w.Answers {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(look.answer(&w.Answers[i]))
	}
	if len(w.Advice) > 0 {
		b.WriteByte('\n')
	}
	for _, a := range w.Advice {
		b.WriteString("next: " + strings.TrimSpace(look.Program+" "+strings.Join(a.Args, " ")+look.More) + "\n")
	}
	return b.String()
}

// answer returns a question, and below it a line or more for each cause with its time.
func (l Look) answer(a *Answer) string {
	times, widest := make([]string, len(a.Causes)), 0
	for i, c := range a.Causes {
		if times[i] = "-"; !c.At.IsZero() {
			times[i] = l.Clock(c.At)
		}
		widest = max(widest, columns(times[i]))
	}
	lines := []string{l.paint(bold, flat(a.Question)) + "\n"}
	for i, c := range a.Causes {
		if !c.Next.IsZero() {
			c.Text += ", next try " + l.due(c.Next)
		}
		if !c.Until.IsZero() {
			c.Text += ", until " + l.due(c.Until)
		}
		lines = append(lines, l.Item("  "+fill(times[i], widest)+"  ", c.Text, ""))
	}
	return strings.Join(lines, "")
}
