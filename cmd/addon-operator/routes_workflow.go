package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"addon-operator/store"
	"addon-operator/workflow/inspect"
)

// shownWalks is how many walks are listed when nobody says how many.
const shownWalks = 20

// workflowRoutes adds what tells of walks.
func (l *look) workflowRoutes(mux *http.ServeMux) {
	mux.HandleFunc("GET /workflow/{what}", answer(l.workflowRoute))
	mux.HandleFunc("GET /workflow/watch", l.watchRoute)
}

// workflowRoute answers inspect and list.
func (l *look) workflowRoute(r *http.Request, what string) (page, error) {
	switch what {
	case "inspect":
		id, err := number(r, "walk", 0)
		if err != nil {
			return page{}, err
		}
		walk, err := l.inspect(inspect.Request{Walk: id})
		return page{walk, func(look inspect.Look) string { look.Now = walk.At; return inspect.Text(walk, look) }}, err
	case "list":
		limit, err := number(r, "limit", shownWalks)
		if err != nil {
			return page{}, err
		}
		walks, err := l.walks(int(min(limit, 100_000))) //nolint:gosec // it is small
		return page{walks, func(look inspect.Look) string { return inspect.ListText(walks, look) }}, err
	default:
		return page{}, notFound("there is no /workflow/%s: ask for inspect, list or watch", what)
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
		return 0, badRequest("%s is %q; it has to be a number", name, text)
	}
	return n, nil
}

// reader returns what makes snapshots of walks.
func (l *look) reader() *inspect.Reader {
	r := &inspect.Reader{Graphs: graphs, Live: l.engine != nil}
	if l.news != nil {
		r.Stalled = l.news.standing()
		r.Full = l.db.Shortage()
	}
	if l.slow != nil {
		r.Slow = l.slow.problems()
	}
	return r
}

func (l *look) inspect(req inspect.Request) (walk *inspect.Walk, err error) {
	err = l.db.View(func(tx *store.Tx) (err error) {
		walk, err = l.reader().Walk(tx, req)
		return err
	})
	if l.standby != nil {
		if walk != nil {
			walk.Standby = l.standby()
		} else if waits := l.standby(); waits != "" && errors.Is(err, inspect.ErrNoWalk) {
			err = fmt.Errorf("standby: %s; %w", waits, err)
		}
	}
	if errors.Is(err, inspect.ErrNoWalk) {
		err = &routeError{http.StatusNotFound, err}
	}
	return walk, err
}

func (l *look) walks(limit int) (walks []inspect.Summary, err error) {
	err = l.db.View(func(tx *store.Tx) (err error) {
		walks, err = l.reader().Walks(tx, limit)
		return err
	})
	return walks, err
}

// watchRoute writes a snapshot now and after each commit that touched the walk,
// one a line. It ends with the walk that was asked for; where none was, it
// follows the one that matters. Of a stopped store there is nothing to watch.
func (l *look) watchRoute(w http.ResponseWriter, r *http.Request) {
	id, err := number(r, "walk", 0)
	if err != nil {
		fail(w, err)
		return
	}
	at, stop := l.news.watch()
	defer stop()
	out, flush := json.NewEncoder(w), http.NewResponseController(w)
	for req := (inspect.Request{Walk: id}); ; {
		l.news.follow(at, 0) // which walk is followed is known after the snapshot; until then no news is missed
		walk, err := l.inspect(req)
		if err != nil {
			fail(w, err)
			return
		}
		w.Header().Set("Content-Type", "application/x-ndjson")
		err = out.Encode(walk)
		if err != nil || flush.Flush() != nil || l.engine == nil || id != 0 && walk.Open == 0 {
			return
		}
		l.news.follow(at, followed(walk))
		if req.Walk = walk.ID; id == 0 && walk.Open == 0 {
			req.Walk = 0
		}
		select {
		case <-at.wake:
		case <-r.Context().Done():
			return
		}
	}
}

// followed returns the walk whose news change what is shown: only its own while
// it goes on, any while it waits behind others or another may come.
func followed(walk *inspect.Walk) uint64 {
	if walk.Open == 0 || walk.State == inspect.Waiting {
		return 0
	}
	return walk.ID
}
