package debugapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"addon-operator/store"
	"addon-operator/workflow/addons"
	"addon-operator/workflow/graph"
	"addon-operator/workflow/inspect"
	"addon-operator/workflow/lifecycle"
)

// ShownRuns is how many runs are listed when nobody says how many.
const ShownRuns = 20

// workflowRoutes adds what tells of runs.
func (l *API) workflowRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /workflow/{what}", answer(l.workflowRoute))
	mux.HandleFunc("GET /workflow/watch", l.watchRoute)
}

// workflowRoute answers inspect and list.
func (l *API) workflowRoute(r *http.Request, what string) (Page, error) {
	switch what {
	case "inspect":
		id, err := number(r, "run", 0)
		if err != nil {
			return Page{}, err
		}
		run, err := l.inspect(inspect.Request{Run: id})
		return Page{run, func(look inspect.Look) string { look.Now = run.At; return inspect.Text(run, look) }}, err
	case "list":
		limit, err := number(r, "limit", ShownRuns)
		if err != nil {
			return Page{}, err
		}
		runs, err := l.runs(int(min(limit, 100_000))) //nolint:gosec // it is small
		return Page{runs, func(look inspect.Look) string { return inspect.ListText(runs, look) }}, err
	default:
		return Page{}, notFound("there is no /workflow/%s: ask for inspect, list or watch", what)
	}
}

// number returns the parameter name of r.
func number(r *http.Request, name string, otherwise uint64) (uint64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, BadRequest("%s is %q; it has to be a number", name, text)
	}
	return n, nil
}

// Graphs are all graphs of the operator, the first is drawn unless another is asked for.
var Graphs = []*graph.Graph{lifecycle.Graph, addons.Graph}

// reader returns what makes snapshots of runs.
func (l *API) reader() *inspect.Reader {
	r := &inspect.Reader{Graphs: Graphs, Live: l.Engine != nil}
	if l.Changes != nil {
		r.Stalled = l.Changes.standing()
		r.Full = l.DB.Shortage()
	}
	if l.Slow != nil {
		r.Slow = l.Slow.problems()
	}
	return r
}

func (l *API) inspect(req inspect.Request) (run *inspect.Run, err error) {
	err = l.DB.View(func(tx *store.Tx) (err error) {
		run, err = l.reader().Run(tx, req)
		return err
	})
	if l.Standby != nil {
		if run != nil {
			run.Standby = l.Standby()
		} else if waits := l.Standby(); waits != "" && errors.Is(err, inspect.ErrNoRun) {
			err = fmt.Errorf("standby: %s; %w", waits, err)
		}
	}
	if errors.Is(err, inspect.ErrNoRun) {
		err = &routeError{http.StatusNotFound, err}
	}
	return run, err
}

func (l *API) runs(limit int) (runs []inspect.Summary, err error) {
	err = l.DB.View(func(tx *store.Tx) (err error) {
		runs, err = l.reader().Runs(tx, limit)
		return err
	})
	return runs, err
}

// watchRoute writes a snapshot now and after each commit that touched the run,
// one a line. It ends with the run that was asked for; where none was, it
// follows the one that matters. Of a stopped store there is nothing to watch.
func (l *API) watchRoute(w http.ResponseWriter, r *http.Request) {
	id, err := number(r, "run", 0)
	if err != nil {
		Fail(w, err)
		return
	}
	at, stop := l.Changes.watch()
	defer stop()
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	for req := (inspect.Request{Run: id}); ; {
		l.Changes.follow(at, 0) // which run is followed is known after the snapshot; until then no news is missed
		run, err := l.inspect(req)
		if err != nil {
			Fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		err = out.Encode(run)
		if err != nil || flush.Flush() != nil || l.Engine == nil || id != 0 && run.Open == 0 {
			return
		}
		l.Changes.follow(at, followed(run))
		if req.Run = run.ID; id == 0 && run.Open == 0 {
			req.Run = 0
		}
		select {
		case <-at.wake:
		case <-r.Context().Done():
			return
		}
	}
}

// followed returns the run whose news change what is shown: only its own while
// it goes on, any while it waits behind others or another may come.
func followed(run *inspect.Run) uint64 {
	if run.Open == 0 || run.State == inspect.Waiting {
		return 0
	}
	return run.ID
}
