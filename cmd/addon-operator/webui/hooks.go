package webui

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// hooks is the model of the view of all hooks.
type hooks struct {
	frame

	Hooks []debugapi.HookLine
}

func (p *reader) hooks(r *http.Request) (model, error) {
	all, err := p.allHooks(r)
	return &hooks{frame: p.frame(r, "Hooks", command("hook", "list")), Hooks: all}, err
}

// allHooks returns all hooks, global hooks first.
func (p *reader) allHooks(r *http.Request) (all []debugapi.HookLine, err error) {
	return all, p.api.get(r.Context(), "/hook/list", nil, &all)
}

// Bindings describes the bindings of a hook as text.
func (*frame) Bindings(h debugapi.HookLine) string {
	return strings.Join(debugapi.BindingsOf(h.Config), ", ")
}

// A hook is the model of the view of one hook.
type hook struct {
	frame

	Hook debugapi.HookLine
	// Name is MODULE/HOOK, or HOOK for a global hook.
	Name   string
	Events inspect.Timeline
	Chart  *durations
	Output *inspect.Entry // the last output of the hook; nil if it has printed nothing, or if the viewer has no right to see output
	Pause  pauseControl
}

// shownRuns is the maximum number of attempts in the chart of a hook.
const shownRuns = 60

func (p *reader) hook(r *http.Request) (model, error) {
	name := r.PathValue("hook")
	all, err := p.allHooks(r)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(h debugapi.HookLine) bool { return h.FullName() == name })
	if i < 0 {
		return nil, notFound("no hook is called %q", name)
	}
	h := &hook{frame: p.frame(r, "Hook "+name,
		command("timeline", name, "-n", strconv.Itoa(shownRuns)), command("logs", name, "-n", "1"), command("why", name)), Name: name, Hook: all[i]}
	return h, together(
		func() error {
			err := p.api.get(r.Context(), "/workflow/timeline", subjectQuery(name, shownRuns), &h.Events)
			h.Chart = newDurations(h.Events.Entries)
			return err
		},
		func() error {
			logs, err := p.outputOf(r, name, 1)
			if n := len(logs.Entries); n > 0 {
				h.Output = &logs.Entries[n-1]
			}
			return err
		},
		func() (err error) {
			h.Pause, err = p.pauseOf(r, "hook", name)
			return err
		},
	)
}

// outputOf returns the output of the newest attempts of a subject, at most limit. If the viewer who sent the request r
// has no right to see output, outputOf returns an empty timeline and no error.
func (p *reader) outputOf(r *http.Request, subject string, limit int) (output inspect.Timeline, err error) {
	if err := may(r, viewRight(outputResource)); errors.As(err, new(*answerError)) {
		return output, nil
	} else if err != nil {
		return output, err
	}
	return output, p.api.get(r.Context(), "/workflow/logs", subjectQuery(subject, limit), &output)
}

// pauseOf returns the pause button for the work with the given kind and name.
func (p *reader) pauseOf(r *http.Request, kind, name string) (pauseControl, error) {
	var status inspect.Status
	err := p.api.get(r.Context(), "/status", nil, &status)
	return pauseOf(status.Problems, kind, name), err
}

// logs is the model of the view of the output of attempts.
type logs struct {
	frame

	Subject string
	Limit   int
	Logs    inspect.Timeline
}

func (p *reader) logs(r *http.Request) (model, error) {
	l := &logs{Subject: r.FormValue("subject")}
	var err error
	if l.Limit, err = limitOf(r, debugapi.ShownLogs); err != nil {
		return nil, err
	}
	l.frame = p.frame(r, strings.TrimSpace("Output "+l.Subject), command("logs", l.Subject, "-n", strconv.Itoa(l.Limit)))
	return l, p.api.get(r.Context(), "/workflow/logs", subjectQuery(l.Subject, l.Limit), &l.Logs)
}

// mostEntries is the maximum number of runs or timeline entries that one view shows.
const mostEntries = 500

// limitOf returns the number of entries that r requests. If r does not have the parameter limit,
// limitOf returns the argument otherwise.
func limitOf(r *http.Request, otherwise int) (int, error) {
	text := r.FormValue("limit")
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > mostEntries {
		return 0, badRequest("limit must be a number from 1 to %d (got %q)", mostEntries, text)
	}
	return n, nil
}

// why is the model of the explanation of a subject.
type why struct {
	frame

	Subject string
	Why     inspect.Why
}

func (p *reader) why(r *http.Request) (model, error) {
	w := &why{Subject: strings.TrimSpace(r.FormValue("subject"))}
	w.frame = p.frame(r, strings.TrimSpace("Why "+w.Subject), command("why", w.Subject))
	if w.Subject == "" {
		return w, nil
	}
	return w, p.api.get(r.Context(), "/workflow/why", url.Values{"subject": {w.Subject}}, &w.Why)
}
