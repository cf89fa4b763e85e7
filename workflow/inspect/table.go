package inspect

import "strings"

const (
	// leastLast is the minimum width of the last column of a table. If there is less space, the last
	// column is written below the row.
	leastLast = 28
	// mostLast is the maximum number of lines of the last column, if long texts are cut.
	mostLast = 3
)

// Table returns rows in columns; the first row is the heading. The last column has at most three lines,
// or any number if the layout cuts nothing.
func (l Layout) Table(rows [][]string) string { return l.rows(rows, mostLast) }

// rows is like Table, but the parameter most is the maximum number of lines in the last column.
func (l Layout) rows(rows [][]string, most int) string {
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

// Item returns a text, with lead before its first line and end after its last line. If long texts are
// cut, the text has at most three lines.
func (l Layout) Item(lead, text, end string) string { return l.item(lead, text, end, mostLast) }

// item is like Item, but the parameter most is the maximum number of lines.
func (l Layout) item(lead, text, end string, most int) string {
	indent := columns(lead)
	lines := l.lines(text, l.width()-indent-columns(end), most)
	return lead + strings.Join(lines, "\n"+strings.Repeat(" ", indent)) + end + "\n"
}
