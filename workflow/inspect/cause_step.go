package inspect

import (
	"regexp"
	"strings"
	"time"

	"addon-operator/store"
)

// A CauseStep is one cause in a chain, with its evidence: the run, the task and the time of the record that it was read
// from.
type CauseStep struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`
	// Next is when a failed step is tried again, Until when a wait ends that only time ends.
	Next  time.Time `json:"next,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Run   uint64    `json:"run,omitempty"`
	Task  store.ID  `json:"task,omitzero"`
	// Changes are what a change of the ConfigMap changed of values, without secrets.
	Changes *store.ValueChanges `json:"changes,omitempty"`
	// Fix says what to mend, and Advice are commands that mend it, if the cause is a problem.
	Fix    string   `json:"fix,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
}

// Words returns the text of a cause, with the time at which a failed step is tried again or a wait ends.
func (c CauseStep) Words(look Look) string {
	if !c.Next.IsZero() {
		c.Text += ", next try " + look.due(c.Next)
	}
	if !c.Until.IsZero() {
		c.Text += ", until " + look.due(c.Until)
	}
	if changes := changesText(c.Changes, look); changes != "" {
		c.Text += ": " + changes
	}
	return c.Text
}

// versions finds the resourceVersions in the text of a cause, which take a line and say little.
var versions = regexp.MustCompile(` \(resourceVersion \d+\)`)

// mostNearest is how many lines of the nearest cause are shown in a look that cuts off: its error names objects in the middle.
const mostNearest = 5

// causes returns a line or more for each cause with its time. What mends a cause is below it, and is never shortened.
// In a look that cuts off, the first cause takes at most nearest lines.
func (l Look) causes(all []CauseStep, nearest int) string {
	times, widest := make([]string, len(all)), 0
	for i, c := range all {
		if times[i] = "-"; !c.At.IsZero() {
			times[i] = l.Clock(c.At)
		}
		widest = max(widest, columns(times[i]))
	}
	var lines strings.Builder
	for i, c := range all {
		text := c.Words(l)
		if !l.whole() {
			text = versions.ReplaceAllString(text, "")
		}
		most := mostLast
		if i == 0 {
			most = nearest
		}
		lines.WriteString(l.item("  "+fill(times[i], widest)+"  ", text, "", most))
		remedy := page{look: l}
		remedy.remedy(c.Fix, c.Advice)
		for _, line := range remedy.lines {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}
