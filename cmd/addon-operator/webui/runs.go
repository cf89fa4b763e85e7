package webui

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"addon-operator/cmd/addon-operator/debugapi"
	"addon-operator/workflow/draw"
	"addon-operator/workflow/inspect"
)

// runs is the model of the view of the newest runs. Runs of one binding are grouped, as in the output of
// the command "workflow list".
type runs struct {
	frame

	Limit int
	// All is set if runs are not grouped: each run has its own line.
	All  bool
	Runs []inspect.RunGroup
}

func (p *reader) runs(r *http.Request) (model, error) {
	limit, err := limitOf(r, debugapi.ShownRuns)
	if err != nil {
		return nil, err
	}
	listed, query := command("workflow", "list", "-n", strconv.Itoa(limit)), url.Values{"limit": {strconv.Itoa(limit)}}
	all := r.FormValue("all") == "true"
	if all {
		listed = append(listed, "--all")
	} else {
		query.Set("grouped", "true")
	}
	out := &runs{frame: p.frame(r, "Runs", listed), Limit: limit, All: all}
	if err := p.api.get(r.Context(), "/workflow/list", query, &out.Runs); err != nil || !all {
		return out, err
	}
	for i := range out.Runs {
		out.Runs[i].Count = 1
	}
	return out, nil
}

// What returns the cause of a run, or the common part of the causes of a group of runs.
func (r *runs) What(g inspect.RunGroup) string { return r.Redacted(g.Text(r.layout)) }

// Other returns the path of the same view with the other grouping: without groups if this view has groups, and with
// groups otherwise.
func (r *runs) Other() string {
	if r.All {
		return r.path(r.Limit, false)
	}
	return r.path(r.Limit, true)
}

// path returns the path of the view of runs with this limit. If the argument all is true, the view
// has no groups.
func (r *runs) path(limit int, all bool) string {
	query := map[string]string{"limit": strconv.Itoa(limit)}
	if all {
		query["all"] = "true"
	}
	return at(query, "runs")
}

// More returns the path of the same view with a larger limit. The path is empty if the view has fewer lines than its
// limit, or if the limit is the maximum.
func (r *runs) More() string {
	if len(r.Runs) < r.Limit || r.Limit >= mostEntries {
		return ""
	}
	return r.path(min(r.Limit*4, mostEntries), r.All)
}

// A run is the model of the view of one run: its tree of steps, a chart of its attempts, and its graph.
type run struct {
	frame

	Run   inspect.Run
	Tree  []treeRow
	Chart *attempts
	Graph *rails
	// Outline is the graph as text. Graph is nil if the run has reached at most one node, which would be hard to find
	// in a drawing of the whole graph.
	Outline string
	// All is set if the tree shows all steps of the run.
	All bool

	findings []inspect.Finding // the findings of the command diagnose; nil if the run itself has no problems
}

// shownAttempts is the maximum number of ended attempts in the chart of a run.
const shownAttempts = 200

// shownOfError is the maximum length of an error at a node of the graph.
const shownOfError = 60

func (p *reader) run(r *http.Request) (model, error) {
	id := r.PathValue("run")
	if _, err := strconv.ParseUint(id, 10, 64); err != nil {
		return nil, badRequest("the run must be a number (got %q)", id)
	}
	all := r.FormValue("all") == "true"
	inspected := command("workflow", "inspect", id)
	if all {
		inspected = append(inspected, "--all")
	}
	out := &run{frame: p.frame(r, "Run "+id, inspected, command("timeline", id), command("workflow", "graph", id)), All: all}
	if err := p.api.get(r.Context(), "/workflow/inspect", url.Values{"run": {id}}, &out.Run); err != nil {
		return nil, err
	}
	if len(out.OwnProblems()) > 0 {
		var d inspect.Diagnosis
		if err := p.api.get(r.Context(), "/diagnosis", nil, &d); err != nil {
			return nil, err
		}
		out.findings = d.Findings
	}
	var events inspect.Timeline
	if err := p.api.get(r.Context(), "/workflow/timeline", subjectQuery(id, shownAttempts), &events); err != nil {
		return nil, err
	}
	out.Tree = (&treeBuilder{frame: &out.frame, run: &out.Run, all: all}).rows(nil, out.Run.Steps, out.Run.Ahead)
	markRefused(events.Entries, out.Run.Steps)
	out.Chart = newAttempts(append(events.Entries, running(out.Run.Steps, out.Run.At)...), out.Now)
	for _, g := range p.Graphs {
		if g.Name == out.Run.Graph {
			states := inspect.States(&out.Run, shownOfError)
			out.Outline = draw.Text(g, states)
			if len(states) > 1 {
				out.Graph = newRails(g, states, out.Run.Trigger)
			}
		}
	}
	return out, nil
}

// CauseText describes the cause of the run.
func (r *run) CauseText() string { return r.Redacted(r.Run.CauseText()) }

// Progress returns the numbers of modules and steps that are done and that remain, as text.
func (r *run) Progress() string { return r.Run.ProgressText(r.layout) }

// OwnProblems returns the problems of the run itself.
func (r *run) OwnProblems() (own []inspect.Problem) {
	for _, p := range r.Run.Problems {
		if p.Run == r.Run.ID {
			own = append(own, p)
		}
	}
	return own
}

// Fix returns what a person must do first about a problem of the run; empty if this is not known. If a finding contains
// the problem, Fix returns the fix of the finding.
func (r *run) Fix(p inspect.Problem) string {
	for i := range r.findings {
		f := &r.findings[i]
		if f.Fix != "" && slices.ContainsFunc(f.Evidence, func(c inspect.CauseStep) bool { return c.Run == p.Run && c.Task == p.Task }) {
			return f.Fix
		}
	}
	if p.Fix == "" && p.Meaning != nil {
		return p.Meaning.Fix
	}
	return p.Fix
}

// OtherProblems returns the number of problems that do not belong to this run.
func (r *run) OtherProblems() int { return len(r.Run.Problems) - len(r.OwnProblems()) }

// markRefused sets the state "refused" in the entries of attempts that refused the ConfigMap. The history has the state
// "done" for these attempts.
func markRefused(entries []inspect.Entry, steps []inspect.Step) {
	for i := range steps {
		s := &steps[i]
		markRefused(entries, s.Steps)
		if s.State != inspect.Refused || s.Task.IsZero() {
			continue
		}
		for j := range entries {
			if e := &entries[j]; e.Task == s.Task && e.Node == s.Node {
				e.What = string(inspect.Refused)
			}
		}
	}
}

// running returns an entry for the current attempt of each running step. In the entry, the time now is the end of the
// attempt.
func running(steps []inspect.Step, now time.Time) (out []inspect.Entry) {
	for i := range steps {
		s := &steps[i]
		if len(s.Steps) > 0 {
			out = append(out, running(s.Steps, now)...)
			continue
		}
		if s.State == inspect.Running && !s.Began.IsZero() {
			out = append(out, inspect.Entry{
				At: now, What: string(inspect.Running), Task: s.Task, Node: s.Node, Subject: s.Subject.String(), Queue: s.Queue, Began: s.Began, Try: s.Try,
			})
		}
	}
	return out
}
