package inspect

import (
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"addon-operator/store"
)

// A LogsRequest says of which attempts the output is wanted.
type LogsRequest struct {
	// Subject, Since and Limit are those of a timeline. The limit is of attempts.
	TimelineRequest
	// Attempt is the number of the wanted attempt of each step, 0 for any.
	Attempt int
}

// wanted reports whether the output of an attempt is wanted.
func (req LogsRequest) wanted(a *store.Record) bool {
	return a.Output != "" && (req.Attempt == 0 || a.Try == req.Attempt)
}

// ReadLogs returns the newest attempts that printed something, with their output, which can hold secrets.
func ReadLogs(tx *store.Tx, req LogsRequest) (Timeline, error) {
	req.Limit = max(req.Limit, 1)
	r := timelineReader{tx: tx, req: req.TimelineRequest, unreadable: &unreadable{tx: tx}, perRun: map[uint64]int{}, output: []byte(`"output":"`)}
	r.wanted = req.wanted
	err := r.attempts()
	return r.timeline(), err
}

// LogsText returns the output of attempts below a title for each attempt, oldest first. Look.Now must be set.
func LogsText(t *Timeline, look Look) string {
	if len(t.Entries) == 0 {
		text := "the history has no output"
		if t.Subject != "" {
			text += " of " + strconv.Quote(t.Subject)
		}
		return look.Item("", text+": a step that has ended and printed something has one; kubectl logs shows that of running steps", "")
	}
	var b strings.Builder
	if t.More {
		b.WriteString(look.paint(grey, "older attempts are left out; -n N shows more") + "\n")
	}
	for i := range t.Entries {
		b.WriteString(t.Entries[i].log(look))
	}
	return b.String()
}

// FollowedLog returns the output of one attempt, or that output was omitted. Look.Now must be set.
func FollowedLog(e *Entry, look Look) string {
	if e.What == Omitted {
		return FollowedRow(e, look)
	}
	return e.log(look)
}

// log returns the output of an attempt below its title.
func (e *Entry) log(look Look) string {
	var b strings.Builder
	b.WriteString(look.paint(bold, e.logTitle(look)) + "\n")
	for line := range strings.SplitSeq(e.Output, "\n") {
		line = strings.Map(printable, controls.ReplaceAllString(line, ""))
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
	return b.String()
}

// logTitle returns the lines above the output of an attempt.
func (e *Entry) logTitle(look Look) string {
	text := strings.TrimSpace(e.Node+" "+e.Subject) + " " + e.What
	if e.Try > 1 {
		text += ", attempt " + strconv.Itoa(e.Try)
	}
	text += ", run " + id(e.Run) + ", task " + e.Task.String()
	return strings.TrimSuffix(look.Item(look.Clock(e.At)+"  ", text, ""), "\n")
}

// controls are the sequences of ECMA-48 by which programs colour their output and move the cursor.
var controls = regexp.MustCompile("\x1b\\[[0-?]*[ -/]*[@-~]")

// printable returns a blank in place of a character that a terminal would obey.
func printable(r rune) rune {
	if !unicode.IsPrint(r) {
		return ' '
	}
	return r
}
