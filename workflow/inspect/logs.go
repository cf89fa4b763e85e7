package inspect

import (
	"strconv"
	"strings"

	"addon-operator/store"
)

// A LogsRequest selects the attempts whose output is shown.
type LogsRequest struct {
	// Subject and Since have the same meaning as for a timeline. Limit is the maximum number of
	// attempts.
	TimelineRequest
	// Attempt selects, for each step, the attempt with this number; 0 means all attempts.
	Attempt int
}

// wanted reports whether the attempt a has output, and whether the request selects the number of a.
func (req LogsRequest) wanted(a *store.Record) bool {
	return a.Output != "" && (req.Attempt == 0 || a.Try == req.Attempt)
}

// ReadLogs returns the newest selected attempts that printed something, with their output. The output
// can contain secrets.
func ReadLogs(tx *store.Tx, req LogsRequest) (Timeline, error) {
	req.Limit = max(req.Limit, 1)
	r := timelineReader{tx: tx, req: req.TimelineRequest, unreadable: &unreadable{tx: tx}, perRun: map[uint64]int{}, output: []byte(`"output":"`)}
	r.wanted = req.wanted
	err := r.attempts()
	return r.timeline(), err
}

// LogsText returns the output of attempts below a title for each attempt, oldest first. Layout.Now must be set.
func LogsText(t *Timeline, layout Layout) string {
	if len(t.Entries) == 0 {
		text := "the history has no output"
		if t.Subject != "" {
			text += " of " + strconv.Quote(t.Subject)
		}
		return layout.Item("", text+": the output of a step is stored when the step ends; kubectl logs shows the output of running steps", "")
	}
	var b strings.Builder
	if t.More {
		b.WriteString(layout.paint(grey, "older attempts are left out; -n N shows more") + "\n")
	}
	for i := range t.Entries {
		b.WriteString(t.Entries[i].log(layout))
	}
	return b.String()
}

// FollowedLog returns the output of one attempt, or a note that output was omitted. Layout.Now must
// be set.
func FollowedLog(e *Entry, layout Layout) string {
	if e.What == Omitted {
		return FollowedRow(e, layout)
	}
	return e.log(layout)
}

// log returns the output of an attempt below its title.
func (e *Entry) log(layout Layout) string {
	var b strings.Builder
	b.WriteString(layout.paint(bold, e.logTitle(layout)) + "\n")
	for line := range strings.SplitSeq(e.Output, "\n") {
		line = strings.Map(printable, controls.ReplaceAllString(line, ""))
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
	return b.String()
}

// logTitle returns the lines above the output of an attempt.
func (e *Entry) logTitle(layout Layout) string {
	text := strings.TrimSpace(e.Node+" "+e.Subject) + " " + e.What
	if e.Try > 1 {
		text += ", attempt " + strconv.Itoa(e.Try)
	}
	text += ", run " + id(e.Run) + ", task " + e.Task.String()
	return strings.TrimSuffix(layout.Item(layout.Clock(e.At)+"  ", text, ""), "\n")
}
