package webui

import (
	"html/template"
	"regexp"
	"strconv"
	"time"

	"addon-operator/internal/redact"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/inspect"
)

// A badge shows a state as an icon and a word. Tone is the CSS class for its color.
type badge struct{ Icon, Word, Tone string }

// tones has the CSS class for each tone that package draw uses.
var tones = map[draw.Tone]string{draw.Done: "good", draw.Active: "busy", draw.Waiting: "wait", draw.Failed: "bad", draw.Plain: "none"}

// Badge returns the badge of the state of a step, a run or an attempt, or of the kind of a timeline
// entry.
func (*frame) Badge(state any) badge {
	var s inspect.State
	switch v := state.(type) {
	case inspect.State:
		s = v
	case string:
		s = inspect.State(v)
	}
	icon, word, tone := s.Badge()
	return badge{icon, word, tones[tone]}
}

// moduleBadges maps each state of a module to the state of a step whose badge has the same icon and the
// same tone.
var moduleBadges = map[inspect.ModuleState]inspect.State{
	inspect.ModuleOn: inspect.Done, inspect.ModuleRunning: inspect.Running, inspect.ModulePending: inspect.Waiting,
	inspect.ModuleDeleting: inspect.Running, inspect.ModulePaused: inspect.Waiting, inspect.ModuleFailing: inspect.Failing,
	inspect.ModuleBlocked: inspect.Failed, inspect.ModuleQuarantined: inspect.Quarantined, inspect.ModuleBroken: inspect.Failed,
	inspect.ModuleOff: inspect.Dropped,
}

// ModuleBadge returns the badge of the state of a module.
func (*frame) ModuleBadge(state inspect.ModuleState) badge {
	icon, _, tone := moduleBadges[state].Badge()
	return badge{icon, string(state), tones[tone]}
}

// ModuleState returns the same badge as ModuleBadge. The argument of ModuleState is a string, because
// lists of modules have states as strings.
func (f *frame) ModuleState(state string) badge { return f.ModuleBadge(inspect.ModuleState(state)) }

// Redacted returns text without control characters, and with likely secrets masked, because the text can
// quote the output of a hook.
func (*frame) Redacted(text string) string { return redact.Text(inspect.Printable(text)) }

// Cause returns the text of a cause, or of a piece of evidence, as HTML.
func (f *frame) Cause(c inspect.CauseStep) template.HTML { return f.Prose(c.Words(f.layout)) }

// repeated matches the text of a cause that consists of several failures.
var repeated = regexp.MustCompile(` failed \d+ times`)

// Repeated reports whether a cause consists of several failures. The time of such a cause is the time of the first
// failure.
func (*frame) Repeated(c inspect.CauseStep) bool { return repeated.MatchString(c.Text) }

// Headline describes a problem in one line.
func (f *frame) Headline(p inspect.Problem) string { return f.Redacted(p.Headline(f.layout)) }

// Description returns the text of a timeline entry, with secrets masked.
func (f *frame) Description(e inspect.Entry) string { return f.Redacted(e.Description(f.layout)) }

// Waits returns the reason why the task at the head of a queue does not run; empty if a task of the queue
// runs.
func (f *frame) Waits(q inspect.StatusQueue) string { return f.Redacted(q.Waits(f.layout)) }

// Stamp returns the date and the time of t, in UTC.
func (*frame) Stamp(t time.Time) string { return t.UTC().Format(time.DateTime) + "Z" }

// Clock returns an HTML element <time> that shows the date and the time of t; "–" if t is zero.
func (f *frame) Clock(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return timeElement(t, f.Stamp(t), "")
}

// Ago returns an HTML element <time> that shows how long ago t was; "–" if t is zero. With JavaScript, the
// text is updated while the page is open.
func (f *frame) Ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return timeElement(t, inspect.Span(f.Now.Sub(t).Truncate(time.Second)), ` data-age`)
}

// timeElement returns an HTML element <time> for t. The arguments text and attribute must be HTML.
func timeElement(t time.Time, text, attribute string) template.HTML {
	stamp := t.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + stamp + `" title="` + stamp + `"` + attribute + `>` + text + `</time>`) //nolint:gosec // the callers pass times and constants, which contain no HTML
}

// Took returns the duration between the times began and ended; "–" if one of them is zero.
func (*frame) Took(began, ended time.Time) string {
	if began.IsZero() || ended.IsZero() {
		return "–"
	}
	return inspect.Span(ended.Sub(began))
}

// Count returns a number with a noun, such as "2 tasks". The plural of the noun must end in s.
func (*frame) Count(n int, what string) string { return counted(n, what) }

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
