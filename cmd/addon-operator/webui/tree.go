package webui

import (
	"strconv"

	"addon-operator/workflow/inspect"
)

// A treeRow is a row in the tree of a run. A treeRow shows one step, or adjacent steps with the
// same state.
type treeRow struct {
	Badge badge
	Title string
	// URL is the path of the view of the step's hook or module; empty if the step has neither.
	URL string
	// Task is the pending task of the step; nil if there is none.
	Task  *taskLink
	Took  string
	Try   int
	Notes []string
	// Rows has the rows below this row. Open has the result of the method Interesting of the step; it is
	// false for a merged row.
	Rows []treeRow
	Open bool
	// Closed is the number of omitted steps below this row, with a noun, such as "12 modules";
	// empty if no step is omitted.
	Closed string
}

// A taskLink is a link to the view of a task.
type taskLink struct{ ID, URL string }

// A treeBuilder makes the rows of the tree of a run.
type treeBuilder struct {
	frame *frame
	run   *inspect.Run
	all   bool // if set, no steps are merged or omitted
}

// mostAlike is the maximum number of adjacent rows that show nothing but the same state. If there are more such
// rows, they are merged.
const mostAlike = 3

// rows returns the rows of the steps below parent. The argument ahead has the nodes that can follow; if there are any,
// the last row names them. If more than mostAlike adjacent rows would show only the same state, rows puts them below
// one merged row.
func (b *treeBuilder) rows(parent *inspect.Step, steps []inspect.Step, ahead []inspect.Ahead) (rows []treeRow) {
	for i := 0; i < len(steps); {
		n := b.alike(steps[i:])
		if n <= mostAlike {
			rows = append(rows, b.row(parent, &steps[i]))
			i++
			continue
		}
		merged := treeRow{Badge: b.frame.Badge(steps[i].State), Title: strconv.Itoa(n) + " steps"}
		if parent != nil {
			merged.Title = strconv.Itoa(n) + " " + parent.Kind() + "s"
		}
		for j := i; j < i+n; j++ {
			row := b.row(parent, &steps[j])
			merged.Rows = append(merged.Rows, row)
		}
		rows = append(rows, merged)
		i += n
	}
	if text := inspect.AheadText(ahead); text != "" {
		rows = append(rows, treeRow{Title: "then " + text})
	}
	return rows
}

// alike returns the number of steps at the beginning of the argument steps whose rows would show nothing but
// the same state. alike returns at least 1.
func (b *treeBuilder) alike(steps []inspect.Step) (n int) {
	if b.all {
		return 1
	}
	for n < len(steps) {
		s := &steps[n]
		plain := !s.Interesting() || s.State == inspect.Waiting && len(s.Steps) == 0
		if s.State != steps[0].State || !plain || len(b.run.Notes(s, b.frame.layout)) > 0 {
			break
		}
		n++
	}
	return max(n, 1)
}

// row returns the row of the step s, with the rows of the steps below s.
func (b *treeBuilder) row(parent, s *inspect.Step) treeRow {
	f := b.frame
	row := treeRow{Badge: f.Badge(s.State), Title: s.Title(parent), URL: b.url(s), Try: s.Try, Open: s.Interesting()}
	if s.State == inspect.Backoff && s.Failures > 1 {
		row.Try = s.Failures // show the number of ended attempts, because the next attempt has not begun
	}
	if ended := s.Ended; !s.Began.IsZero() {
		if ended.IsZero() {
			ended = b.run.At
		}
		row.Took = f.Took(s.Began, ended)
	}
	if len(s.Steps) == 0 && s.Ended.IsZero() && !s.Task.IsZero() {
		row.Task = &taskLink{s.Task.String(), f.TaskURL(s.Task)}
	}
	for _, note := range b.run.Notes(s, f.layout) {
		row.Notes = append(row.Notes, f.Redacted(note))
	}
	if n := len(s.Steps); n > 0 && !row.Open && !b.all && parent != nil {
		row.Closed = f.Count(n, s.Kind())
		return row
	}
	row.Rows = b.rows(s, s.Steps, s.Ahead)
	return row
}

// url returns the path of the view of the hook or the module of a step; empty if the step has neither.
func (b *treeBuilder) url(s *inspect.Step) string {
	switch f := b.frame; {
	case s.Subject.Hook != "":
		return f.HookURL(s.Subject.Module, s.Subject.Hook)
	case s.Subject.Module != "":
		return f.ModuleURL(s.Subject.Module)
	default:
		return ""
	}
}
