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

// A badge is a state as an icon and a word. Its tone is a class of the style sheet.
type badge struct{ Icon, Word, Tone string }

// tones are the classes of the tones of drawings.
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

// moduleBadges maps each state of a module to a state of a step. The badges of both have the same
// icon and tone.
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

// ModuleState returns the badge of the state of a module in the list of modules.
func (f *frame) ModuleState(state string) badge { return f.ModuleBadge(inspect.ModuleState(state)) }

// Redacted returns text with likely secrets masked, because it can quote the output of a hook.
func (*frame) Redacted(text string) string { return redact.Text(inspect.Printable(text)) }

// Cause returns the text of a cause, an advice or evidence.
func (f *frame) Cause(c inspect.CauseStep) template.HTML { return f.Prose(c.Words(f.layout)) }

// repeated finds what failed several times.
var repeated = regexp.MustCompile(` failed \d+ times`)

// Repeated reports whether a cause is several failures. Its time is that of the first one.
func (*frame) Repeated(c inspect.CauseStep) bool { return repeated.MatchString(c.Text) }

// Headline describes a problem in one line.
func (f *frame) Headline(p inspect.Problem) string { return f.Redacted(p.Headline(f.layout)) }

// Description returns the text of an entry of a timeline.
func (f *frame) Description(e inspect.Entry) string { return f.Redacted(e.Description(f.layout)) }

// Waits returns the reason why the task at the head of a queue does not run.
func (f *frame) Waits(q inspect.StatusQueue) string { return f.Redacted(q.Waits(f.layout)) }

// Stamp returns a time with its date.
func (*frame) Stamp(t time.Time) string { return t.UTC().Format(time.DateTime) + "Z" }

// Clock returns a time element for a time, which shows the exact time.
func (f *frame) Clock(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return timeElement(t, f.Stamp(t), "")
}

// Ago returns a time element with the time since t. With JavaScript, its text is updated while the
// page is open.
func (f *frame) Ago(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	return timeElement(t, inspect.Span(f.Now.Sub(t).Truncate(time.Second)), ` data-age`)
}

// timeElement returns a time element. Its parts need no escaping.
func timeElement(t time.Time, text, attribute string) template.HTML {
	stamp := t.UTC().Format(time.RFC3339)
	return template.HTML(`<time datetime="` + stamp + `" title="` + stamp + `"` + attribute + `>` + text + `</time>`) //nolint:gosec // the text has only digits and punctuation
}

// Took returns a duration; "–" if the start or the end is unknown.
func (*frame) Took(began, ended time.Time) string {
	if began.IsZero() || ended.IsZero() {
		return "–"
	}
	return inspect.Span(ended.Sub(began))
}

// Count returns a number with its noun, whose plural ends in s.
func (*frame) Count(n int, what string) string { return counted(n, what) }

func counted(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return strconv.Itoa(n) + " " + what
}
