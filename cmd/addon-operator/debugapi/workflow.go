package debugapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"addon-operator/internal/redact"
	"addon-operator/store"
	"addon-operator/workflow"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// ShownRuns is the default number of runs in a list.
const ShownRuns = 20

// runPages serves runs, timelines and explanations. Some routes answer once, and others stream an answer
// after each change.
type runPages struct {
	db      *store.DB
	engine  *workflow.Engine // nil if no operator runs
	changes *ChangeFeed
	slow    *SlowRuns      // nil if no operator runs
	standby func() Standby // nil if no operator runs
	// webhooks returns the problems of webhooks. webhooks is nil if no operator runs.
	webhooks func() []inspect.Problem
	scans    *inspect.ScanCache
}

// workflowRoutes adds the routes about runs.
func (pages runPages) workflowRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /workflow/{what}", answer(pages.workflowRoute))
	mux.HandleFunc("GET /workflow/watch", pages.watchRoute)
	mux.HandleFunc("GET /workflow/timeline/follow", pages.followTimeline)
	mux.HandleFunc("GET /workflow/logs/follow", pages.followLogs)
}

// workflowRoute serves the pages inspect, list, logs, timeline and why.
func (pages runPages) workflowRoute(r *http.Request, what string) (Page, error) {
	switch what {
	case "inspect":
		id, err := number(r, "run", 0)
		if err != nil {
			return Page{}, err
		}
		run, err := pages.inspect(inspect.Request{Run: id})
		return Page{run, func(layout inspect.Layout) string { layout.Now = run.At; return inspect.Text(run, layout) }}, err
	case "list":
		limit, err := number(r, "limit", ShownRuns)
		if err != nil {
			return Page{}, err
		}
		most := int(min(limit, 100_000)) //nolint:gosec // the number is small
		if r.URL.Query().Get("grouped") == "true" {
			groups, err := pages.groups(most)
			return Page{groups, func(layout inspect.Layout) string { return inspect.GroupsText(groups, layout) }}, err
		}
		runs, err := pages.runs(most)
		return Page{runs, func(layout inspect.Layout) string { return inspect.ListText(runs, layout) }}, err
	case "timeline":
		return pages.timeline(r)
	case "why":
		return pages.why(r)
	case "logs":
		return pages.logs(r)
	default:
		return Page{}, notFound("there is no /workflow/%s: ask for inspect, list, logs, timeline, why or watch", what)
	}
}

// ShownEntries is the default number of entries of a timeline.
const ShownEntries = 50

// timelineRequest returns the timeline that r requests. The argument shown is the default number of entries.
func timelineRequest(r *http.Request, shown uint64) (req inspect.TimelineRequest, err error) {
	limit, err := number(r, "limit", shown)
	if err != nil {
		return req, err
	}
	req.Subject, req.Limit = r.URL.Query().Get("subject"), int(min(limit, 100_000)) //nolint:gosec // the number is small
	if since := r.URL.Query().Get("since"); since != "" {
		if req.Since, err = time.Parse(time.RFC3339, since); err != nil {
			return req, BadRequest("since must be a time such as 2006-01-02T15:04:05Z (got %q)", since)
		}
	}
	return req, nil
}

// ShownLogs is the default number of attempts whose output is shown.
const ShownLogs = 10

// logs returns the page with the output of attempts. If r does not ask for secrets, secrets are masked.
func (pages runPages) logs(r *http.Request) (Page, error) {
	req, err := logsRequest(r)
	if err != nil {
		return Page{}, err
	}
	var t inspect.Timeline
	err = pages.db.View(func(tx *store.Tx) (err error) {
		t, err = inspect.ReadLogs(tx, req)
		return err
	})
	redactOutput(r, t.Entries)
	return Page{t, func(layout inspect.Layout) string { return inspect.LogsText(&t, layout) }}, err
}

// logsRequest reads from the query of r which output of attempts is requested.
func logsRequest(r *http.Request) (req inspect.LogsRequest, err error) {
	if req.TimelineRequest, err = timelineRequest(r, ShownLogs); err != nil {
		return req, err
	}
	attempt, err := number(r, "attempt", 0)
	req.Attempt = int(min(attempt, math.MaxInt32)) //nolint:gosec // the number is small
	return req, err
}

// redactOutput masks texts that look like secrets in the output and the results of attempts. redactOutput does nothing
// if r asks for secrets.
func redactOutput(r *http.Request, entries []inspect.Entry) {
	if showSecrets(r) {
		return
	}
	for i := range entries {
		entries[i].Output, entries[i].Text = redact.Text(entries[i].Output), redact.Text(entries[i].Text)
	}
}

// timeline returns the page with the timeline.
func (pages runPages) timeline(r *http.Request) (Page, error) {
	req, err := timelineRequest(r, ShownEntries)
	if err != nil {
		return Page{}, err
	}
	var t inspect.Timeline
	err = pages.db.View(func(tx *store.Tx) (err error) {
		t, err = inspect.ReadTimeline(tx, req)
		return err
	})
	return Page{t, func(layout inspect.Layout) string { return inspect.TimelineText(&t, layout) }}, err
}

// why returns the page that explains a subject.
func (pages runPages) why(r *http.Request) (Page, error) {
	subject := strings.TrimSpace(r.URL.Query().Get("subject"))
	if subject == "" {
		return Page{}, BadRequest("subject is missing: name a module, a hook, an addons configuration, a queue, a task or a run")
	}
	var w *inspect.Why
	err := pages.db.View(func(tx *store.Tx) (err error) {
		w, err = pages.reader().Why(tx, subject)
		return err
	})
	if errors.Is(err, inspect.ErrUnknownSubject) {
		err = &routeError{http.StatusNotFound, err}
	}
	return Page{w, func(layout inspect.Layout) string { layout.Now = w.At; return inspect.WhyText(w, layout) }}, err
}

// number returns the value of the query parameter called name. If the request r does not have this parameter, number
// returns the argument otherwise.
func number(r *http.Request, name string, otherwise uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, BadRequest("%s must be a number (got %q)", name, text)
	}
	return n, nil
}

// Graphs has all graphs of the operator. If a command names no graph, the first graph is drawn.
var Graphs = []*graph.Graph{lifecycle.Graph, addons.Graph}

// reader returns a reader for snapshots of runs.
func (pages runPages) reader() *inspect.Reader {
	r := &inspect.Reader{Graphs: Graphs, Live: pages.engine != nil, Scans: pages.scans}
	if pages.changes != nil {
		r.Stalled = pages.changes.standing()
		r.Full = pages.db.Shortage()
	}
	if pages.slow != nil {
		r.Slow = pages.slow.problems()
	}
	if pages.webhooks != nil {
		r.Webhooks = pages.webhooks()
	}
	if pages.engine != nil && pages.waits() == "" {
		r.Missed = missedTicks
	}
	return r
}

// waits returns a text about the wait of this operator for the Lease; empty if this operator does not wait.
func (pages runPages) waits() string {
	if pages.standby == nil {
		return ""
	}
	return pages.standby().Text
}

func (pages runPages) inspect(req inspect.Request) (run *inspect.Run, err error) {
	err = pages.db.View(func(tx *store.Tx) (err error) {
		run, err = pages.reader().Run(tx, req)
		return err
	})
	if waits := pages.waits(); run != nil {
		run.Standby = waits
	} else if waits != "" && errors.Is(err, inspect.ErrNoRun) {
		err = fmt.Errorf("standby: %s; %w", waits, err)
	}
	if errors.Is(err, inspect.ErrNoRun) {
		err = &routeError{http.StatusNotFound, err}
	}
	return run, err
}

func (pages runPages) runs(limit int) (runs []inspect.Summary, err error) {
	err = pages.db.View(func(tx *store.Tx) (err error) {
		runs, err = pages.reader().Runs(tx, limit)
		return err
	})
	return runs, err
}

func (pages runPages) groups(limit int) (groups []inspect.RunGroup, err error) {
	err = pages.db.View(func(tx *store.Tx) (err error) {
		groups, err = pages.reader().RunGroups(tx, limit)
		return err
	})
	return groups, err
}

// watchRoute streams snapshots of a run, one per line. The first snapshot is sent at once. After commits, a new
// snapshot is sent if it differs from the last one. If the request names a run, the stream ends when this run ends.
// Otherwise the stream follows the run that the zero inspect.Request selects, and the next run after the end of that
// run. If no operator runs, the stream ends after one snapshot.
func (pages runPages) watchRoute(w http.ResponseWriter, r *http.Request) {
	id, err := number(r, "run", 0)
	if err != nil {
		Fail(w, err)
		return
	}
	at, stop := pages.changes.watch(false)
	defer stop()
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	var sent []byte
	for req := (inspect.Request{Run: id}); ; {
		began := time.Now()
		run, err := pages.inspect(req)
		if err != nil {
			Fail(w, err)
			return
		}
		shown, err := json.Marshal(undated(run))
		took := time.Since(began)
		if err == nil && !bytes.Equal(shown, sent) {
			w.Header().Set("Content-Type", "application/x-ndjson")
			err = errors.Join(out.Encode(run), flush.Flush())
			sent = shown
		}
		if err != nil || pages.engine == nil || id != 0 && run.Open == 0 {
			return
		}
		if req.Run = run.ID; id == 0 && run.Open == 0 {
			req.Run = 0
		}
		if !at.next(r.Context(), min(restShare*took, mostRest)) {
			return
		}
	}
}

// undated returns a copy of run without the time of the snapshot, for comparisons. If a problem has no time of its own,
// its time is the time of the snapshot, and undated removes it too.
func undated(run *inspect.Run) *inspect.Run {
	u := *run
	u.Problems = slices.Clone(run.Problems)
	for i := range u.Problems {
		if p := &u.Problems[i]; p.At.Equal(run.At) {
			p.At = time.Time{}
		}
	}
	u.At = time.Time{}
	return &u
}

// restShare is the ratio between the pause after a snapshot and the time that the snapshot took. So a watch spends at
// most a fifth of its time on reading snapshots, unless mostRest shortens the pauses.
const restShare = 4

// mostRest is the maximum pause between two snapshots of a watch.
const mostRest = 10 * time.Second

// next waits for the duration rest, and then for the next signal. next returns false if ctx is done first.
func (w *watcher) next(ctx context.Context, rest time.Duration) bool {
	rested := time.NewTimer(rest)
	defer rested.Stop()
	select {
	case <-rested.C:
	case <-ctx.Done():
		return false
	}
	select {
	case <-w.wake:
		return true
	case <-ctx.Done():
		return false
	}
}
