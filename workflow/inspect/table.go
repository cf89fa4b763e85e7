package inspect

import "strings"

const (
	// leastLast is the least width of the last column of a table. With less room, that column goes below the row.
	leastLast = 28
	// mostLast is how many lines of a last column are shown in a look that cuts off.
	mostLast = 3
)

// Table returns rows in columns, the first row as the heading. The last column continues on further lines where it
// does not fit; unless the look cuts nothing off, up to three.
func (l Look) Table(rows [][]string) string { return l.rows(rows, mostLast) }

// rows is Table with at most most lines of a last column.
func (l Look) rows(rows [][]string, most int) string {
	if len(rows) == 0 {
		return ""
	}
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, row := range rows {
		for i := range last {
			widths[i] = max(widths[i], columns(flat(row[i])))
		}
	}
	indent := 0
	for _, w := range widths {
		indent += w + 2
	}
	below := l.width()-indent < leastLast
	if below {
		indent = 4
	}
	var b strings.Builder
	for n, row := range rows {
		var line strings.Builder
		for i := range last {
			line.WriteString(fill(flat(row[i]), widths[i]) + "  ")
		}
		texts := l.lines(row[last], l.width()-indent, most)
		if len(texts) > 0 && (!below || n == 0) {
			line.WriteString(texts[0])
			texts = texts[1:]
		}
		text := strings.TrimRight(line.String(), " ")
		if n == 0 {
			text = l.paint(grey, text)
		}
		b.WriteString(text + "\n")
		for _, text := range texts {
			b.WriteString(strings.Repeat(" ", indent) + text + "\n")
		}
	}
	return b.String()
}

// Item returns a text with a lead before its first line, such as the number of a list, and an end behind its last.
// In a look that cuts off, the text takes at most three lines.
func (l Look) Item(lead, text, end string) string { return l.item(lead, text, end, mostLast) }

// item is Item with at most most lines.
func (l Look) item(lead, text, end string, most int) string {
	indent := columns(lead)
	lines := l.lines(text, l.width()-indent-columns(end), most)
	return lead + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + end + "\n"
}
