package webui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// releases is the model of the view of all Helm releases.
type releases struct {
	frame

	// Blocked has the problems of releases whose deletion was blocked or failed. Such a release does not always belong
	// to a module.
	Blocked []inspect.Problem
	Rows    []releaseRow
}

// A releaseRow is the row of one module's release in the table of releases.
type releaseRow struct {
	Module   string
	Revision int
	State    string
	Objects  string // number of objects; empty if it is not known
}

// monitored has the objects of the releases of enabled modules, by module, as the debug API returns them. The value is
// a list of names, or a string if the module has no release.
type monitored map[string]any

// objects returns the names of the objects of a module's release.
func (m monitored) objects(module string) (objects []string) {
	list, _ := m[module].([]any)
	for _, o := range list {
		if name, ok := o.(string); ok {
			objects = append(objects, name)
		}
	}
	return objects
}

// count returns the number of objects of a module's release as text; empty if the module is disabled.
func (m monitored) count(module string) string {
	if _, known := m[module]; !known {
		return ""
	}
	return strconv.Itoa(len(m.objects(module)))
}

func (p *reader) releases(r *http.Request) (model, error) {
	out := &releases{frame: p.frame(r, "Releases", command("module", "list"), command("module", "resource-monitor"))}
	var list debugapi.ModuleList
	if err := p.api.get(r.Context(), "/module/list", nil, &list); err != nil {
		return nil, err
	}
	var objects monitored
	if err := p.api.get(r.Context(), "/module/resource-monitor", nil, &objects); err != nil {
		return nil, err
	}
	out.Blocked = slices.DeleteFunc(list.Problems, func(p inspect.Problem) bool { return p.Kind != inspect.Kind(store.BlockedDeletion) })
	for i := range list.Modules {
		if m := &list.Modules[i]; m.Revision > 0 {
			out.Rows = append(out.Rows, releaseRow{m.Name, m.Revision, m.State, objects.count(m.Name)})
		}
	}
	return out, nil
}

// A release is the model of the view of one release. The view shows the objects of the release. On request, it also
// shows the difference between the release and the chart, rendered with the current values.
type release struct {
	frame

	Module   string
	Revision int
	Objects  []string
	// Unwatched is set if the release has objects that the operator does not watch, because the module is disabled. The
	// page does not know these objects.
	Unwatched bool
	// Compared is set if the difference was requested. Otherwise the chart is not rendered.
	Compared bool
	Diff     []diffLine
}

// A diffLine is a line of a diff, with the CSS class for its color.
type diffLine struct{ Class, Text string }

func (p *reader) release(r *http.Request) (model, error) {
	name := r.PathValue("module")
	out := &release{frame: p.frame(r, "Release "+name, command("module", "render", name, "--diff")), Module: name}
	var list debugapi.ModuleList
	if err := p.api.get(r.Context(), "/module/list", nil, &list); err != nil {
		return nil, err
	}
	known := false
	for i := range list.Modules {
		if m := &list.Modules[i]; m.Name == name {
			known, out.Revision = true, m.Revision
		}
	}
	if !known {
		return nil, notFound("no module is called %q", name)
	}
	var objects monitored
	if err := p.api.get(r.Context(), "/module/resource-monitor", nil, &objects); err != nil {
		return nil, err
	}
	out.Objects, out.Unwatched = objects.objects(name), out.Revision > 0 && objects.count(name) == ""
	if r.FormValue("diff") != "true" {
		return out, nil
	}
	out.Compared, out.Live = true, false // the view is not updated after commits, because each update would render the chart
	text, err := p.api.text(r.Context(), "/module/"+url.PathEscape(name)+"/render", url.Values{"diff": {"true"}})
	if err != nil {
		return nil, err
	}
	out.Diff = diffLines(string(text))
	return out, nil
}

// diffLines returns the lines of a unified diff with their CSS classes. The lines before the first hunk, and the first
// line of each hunk, are headings.
func diffLines(text string) (lines []diffLine) {
	heading := strings.HasPrefix(text, "diff ")
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		class, hunk := "", strings.HasPrefix(line, "@@")
		switch {
		case heading, hunk:
			class, heading = "head", !hunk
		case strings.HasPrefix(line, "+"):
			class = "added"
		case strings.HasPrefix(line, "-"):
			class = "removed"
		}
		lines = append(lines, diffLine{class, line})
	}
	return lines
}
