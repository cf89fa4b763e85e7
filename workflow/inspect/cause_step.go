package inspect

import (
	"regexp"
	"strings"
	"time"

	"addon-operator/store"
)

// A CauseStep is one cause in a chain of causes. At, Run and Task are the time, the run and the
// task of the record that shows the cause.
type CauseStep struct {
	At   time.Time `json:"at,omitzero"`
	Text string    `json:"text"`
	// Next is the time of the next attempt of a failed step. Until is the time at which the step no
	// longer waits, if nobody acts.
	Next  time.Time `json:"next,omitzero"`
	Until time.Time `json:"until,omitzero"`
	Run   uint64    `json:"run,omitempty"`
	Task  store.ID  `json:"task,omitzero"`
	// Changes are the values that a change of the ConfigMap has changed. Marks such as "(redacted)" replace secrets.
	Changes *store.ValueChanges `json:"changes,omitempty"`
	// If the cause is a problem, Fix says what to correct, and Advice has commands for it.
	Fix    string   `json:"fix,omitempty"`
	Advice []Advice `json:"advice,omitempty"`
}

// Words returns the text of a cause, with the time of the next attempt or of the end of a wait, and with the changed
// values.
func (c CauseStep) Words(layout Layout) string {
	if !c.Next.IsZero() {
		c.Text += ", next try " + layout.due(c.Next)
	}
	if !c.Until.IsZero() {
		c.Text += ", until " + layout.due(c.Until)
	}
	if changes := changesText(c.Changes, layout); changes != "" {
		c.Text += ": " + changes
	}
	return c.Text
}

// versions matches the resourceVersions in the text of a cause. If the layout cuts long texts, the
// resourceVersions are removed from the text, because they are long and say little.
var versions = regexp.MustCompile(` \(resourceVersion \d+\)`)

// mostNearest is the maximum number of lines of the nearest cause if long texts are cut. It is greater than mostLast,
// because the error of this cause often names objects in the middle of the text.
const mostNearest = 5

// causes returns one or more lines for each cause, with its time. The fix of a cause is below the cause, and is not
// cut. If long texts are cut, the parameter nearest is the maximum number of lines of the first cause, and each other
// cause has at most mostLast lines.
func (l Layout) causes(all []CauseStep, nearest int) string {
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
		remedy := page{layout: l}
		remedy.remedy(c.Fix, c.Advice)
		for _, line := range remedy.lines {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}
