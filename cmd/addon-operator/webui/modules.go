package webui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/inspect"
)

// modules is the model of the view of all modules.
type modules struct {
	frame

	List debugapi.ModuleList
}

func (p *reader) modules(r *http.Request) (model, error) {
	m := &modules{frame: p.frame(r, "Modules", command("module", "list"))}
	return m, p.api.get(r.Context(), "/module/list", nil, &m.List)
}

// A module is the model of the view of one module.
type module struct {
	frame

	Name   string
	Status inspect.StatusModule
	Hooks  []debugapi.HookLine
	Why    inspect.Why
	Events inspect.Timeline
	Pause  pauseControl
}

// shownEvents is the maximum number of timeline entries in the view of a module.
const shownEvents = 20

func (p *reader) module(r *http.Request) (model, error) {
	name := r.PathValue("module")
	m := &module{
		frame: p.frame(r, "Module "+name, command("why", name), command("timeline", name, "-n", strconv.Itoa(shownEvents))), Name: name,
	}
	var status inspect.Status
	if err := p.api.get(r.Context(), "/status", nil, &status); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(status.Modules, func(s inspect.StatusModule) bool { return s.Name == name })
	if i < 0 {
		return nil, notFound("no module is called %q", name)
	}
	m.Status, m.Pause = status.Modules[i], pauseOf(status.Problems, "module", name)
	return m, together(
		func() error {
			all, err := p.allHooks(r)
			m.Hooks = slices.DeleteFunc(all, func(h debugapi.HookLine) bool { return h.Module != name })
			return err
		},
		func() error { return p.api.get(r.Context(), "/workflow/why", url.Values{"subject": {name}}, &m.Why) },
		func() error {
			return p.api.get(r.Context(), "/workflow/timeline", subjectQuery(name, shownEvents), &m.Events)
		},
	)
}

// subjectQuery returns the query for the newest entries about a subject.
func subjectQuery(subject string, limit int) url.Values {
	return url.Values{"subject": {subject}, "limit": {strconv.Itoa(limit)}}
}
